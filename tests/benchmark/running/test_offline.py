"""Sweeps without a network: what is left out, what joins, and what is refused."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from calls import bench
from small_sweeps import FAST, answer
from tabsweep.benchmark.planning import suite as suites

pytestmark = pytest.mark.usefixtures("work")


def test_offline_the_left_out_datasets_are_named_and_the_offline_list_joins(offline):
    start = time.monotonic()
    document = answer("sweep", "--suite", "uci-small", "--dry-run", *FAST)
    assert time.monotonic() - start < 20
    assert not Path("runs").exists()
    suite = suites.load("uci-small")
    missing = [name for name in suite.datasets if name != "breast-cancer-wdbc"]
    assert set(document["left_out"]) == set(missing)
    assert all("cannot be reached" in reason for reason in document["left_out"].values())
    (note,) = document["notes"]
    assert f": {', '.join(suite.offline)}." in note
    assert document["cells"] == 5 * 2 * (7 * 4 + 5)


def test_offline_a_suite_of_files_alone_is_refused_with_every_reason(offline):
    found = bench("sweep", "--suite", "npt-small", "--dataset", "yacht", *FAST)
    assert found.code == 3 and "BENCH-E012" in found.err and "yacht: " in found.err
    assert not Path("runs").exists()


GONE = """
name = "gone"
title = "Files, and what ships with scikit-learn"
datasets = ["glass", "statlog-heart"]
offline = ["iris"]
offline_below = 2
[budgets.quick]
models = ["constant"]
folds = 1
trials = 1
"""


def test_a_run_is_not_resumed_with_other_datasets_where_its_own_are_out_of_reach(
    offline, mirror, tmp_path
):
    Path("gone.toml").write_text(GONE)
    found = answer("sweep", "--suite", "gone.toml", "--mirror", mirror, *FAST)
    assert (found["planned"], found["done"]) == (2, 2)
    tables = Path("runs/gone-quick/report/scores.csv").read_bytes()
    for call in (("resume", "runs/gone-quick"), ("sweep", "--suite", "gone.toml", *FAST[:-2])):
        again = bench(*call, "--cache", tmp_path / "empty", "--tracking-uri", "none")
        assert again.code == 3 and "glass" in again.err and "Traceback" not in again.err, again
    assert Path("runs/gone-quick/report/scores.csv").read_bytes() == tables


def test_what_joined_offline_stays_in_the_run_when_the_others_come(offline, mirror):
    Path("gone.toml").write_text(GONE)
    call = ("sweep", "--suite", "gone.toml", *FAST)
    assert answer(*call)["planned"] == 1
    report = Path("runs/gone-quick/report")
    assert "iris" in (report / "about.md").read_text()
    assert "cannot be reached" in (report / "coverage.md").read_text()
    later = answer(*call, "--mirror", mirror)
    assert (later["planned"], later["ran"], later["reused"]) == (3, 2, 0)
