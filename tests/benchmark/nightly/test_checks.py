"""The steps of a night around the models: reports and kills."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from repo import ROOT
from tabsweep.benchmark.nightly.checks import golden_reports, sweep_path
from tabsweep.benchmark.nightly.context import NightContext
from tabsweep.benchmark.nightly.step_result import OK, REGRESSION
from tabsweep.benchmark.nightly.steps import step


@pytest.fixture
def context(tmp_path) -> NightContext:
    """A tiny night of this checkout."""
    return NightContext(
        root=ROOT,
        commit="77aa001" + 33 * "0",
        night=tmp_path / "2026-11-22-77aa001",
        store=tmp_path / "store",
        python=Path(sys.executable),
        date="2026-11-22",
        size="tiny",
    )


# ---------------------------------------------------------------------- golden reports


def test_the_report_of_the_stored_run_is_what_was_stored_and_a_changed_file_is_named(context):
    found = step("golden-reports")(context)
    assert found.verdict == OK, (
        f"{found.headline}: if the change is wanted, run {golden_reports.AGAIN} --accept"
    )
    report = context.night / "golden-reports" / "report"
    stored = golden_reports.stored_digests()
    assert stored == golden_reports.digests(report) and len(stored) >= 25
    with open(report / "scores.tex", "ab") as file:
        file.write(b"%")
    (report / "ranks.md").unlink()
    (report / "new.csv").write_text("x")
    rows = golden_reports.differences(stored, golden_reports.digests(report))
    assert [row["subject"] for row in rows] == ["new.csv", "ranks.md", "scores.tex"]


# ---------------------------------------------------------------------- kill and resume


def test_tables_that_differ_are_named_with_their_first_other_line():
    a = {"scores.csv": b"a\n1\n", "same.csv": b"x", "gone.csv": b"x", "more.csv": b"1\n"}
    b = {"scores.csv": b"a\n2\n", "same.csv": b"x", "new.csv": b"x", "more.csv": b"1\n2\n"}
    assert sweep_path.differences(a, b) == [
        ("gone.csv", "there", "no such file"),
        ("more.csv", "", "2"),
        ("new.csv", "no such file", "there"),
        ("scores.csv", "1", "2"),
    ]


def judged(**given):
    """The verdict on a killed sweep of four trials in which nothing went wrong, but for `given`."""
    tables = {"scores.csv": b"a\n1\n"}
    fine = {
        **{"planned": {"a", "b", "c", "d"}, "before": {"a": 1}, "after": dict.fromkeys("abcd", 1)},
        **{"serial": tables, "resumed": dict(tables)},
    }
    return sweep_path.judged(**{**fine, **given})


def test_a_killed_sweep_is_judged_by_its_trials_and_tables():
    assert judged().verdict == OK and "killed after 1 of 4" in judged().headline
    lost = judged(after=dict.fromkeys("abc", 1))
    twice = judged(after={**dict.fromkeys("abcd", 1), "a": 2})
    for found, verdict in ((lost, "lost"), (twice, "ran twice")):
        assert found.verdict == REGRESSION
        (row,) = found.findings
        assert row["verdict"] == verdict and row["note"] == "killed after 1 of 4 trials"
    assert judged(resumed={}).findings[0]["subject"] == "scores.csv"


def test_the_subject_of_a_killed_sweep_is_the_same_in_every_night():
    nights = [judged(before=dict.fromkeys("abcd"[:n], 1), after={"a": 1}) for n in (1, 3)]
    assert {row["subject"] for night in nights for row in night.findings} == {"trials"}


def test_sweeps_that_write_no_table_at_all_are_a_regression():
    found = judged(serial={}, resumed={})
    assert found.verdict == REGRESSION and "neither sweep wrote a table" in found.headline
    assert [row["subject"] for row in found.findings] == ["tables"]


@pytest.mark.nightly
@pytest.mark.xdist_group("ray-faults")
def test_a_killed_and_resumed_sweep_has_the_tables_of_a_serial_one(context):
    found = step("sweep-path")(context)
    assert found.verdict == OK, found
    assert "killed after" in found.headline and "tables equal" in found.headline
