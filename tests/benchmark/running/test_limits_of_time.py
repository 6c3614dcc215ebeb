"""Runs with limits of time after they have ended: resumes, estimates, fits, commands to trace."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from calls import bench, working_in
from tabsweep.benchmark.outcome.chosen_fit import read_run
from tabsweep.benchmark.running.progress import Pace
from tabsweep.benchmark.running.resume import all_ended
from tabsweep.sweeps.store.ledger import Ledger
from tabsweep.sweeps.trial import FAILED

FAST = ("--suite", "smoke", "--dataset", "iris", "--folds", 1, "--workers", 0,
        "--tracking-uri", "none", "--runs", "runs")  # fmt: skip
SECONDS = ("--study-s", 1e-6, "--trials", 40)  # less than any fit takes
BROKEN = """
class Broken:
    def __init__(self, task="", c=1.0):
        self.task, self.c = task, c

    @staticmethod
    def spaces():
        return {"default": {"params": {"c": {"kind": "uniform", "low": 0.0, "high": 1.0}}}}

    def fit(self, X, y):
        sum(i * i for i in range(300_000))
        raise RuntimeError("never works")

    def predict(self, X):
        return X

    predict_proba = predict
"""


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A run whose searches ended by CPU seconds, and one with a limit for every fit."""
    with working_in(tmp_path_factory.mktemp("limits")) as folder:
        found = bench("sweep", *FAST, *SECONDS, "--model", "knn", "--name", "timed")
        assert found.code == 0, found.err
        limited = ("--model", "mlp", "--trials", 1, "--time-limit-s", 0.2, "--name", "limited")
        found = bench("sweep", *FAST, *limited)
        assert found.code == 0, found.err
        yield folder


def test_a_finished_search_by_seconds_has_nothing_left_to_run(work):
    ledger = Ledger("runs/timed")
    slots = [end["n_slots"] for end in ledger.records("study")]
    assert slots and max(slots) < 40
    assert all_ended(ledger)  # so a resume starts no Ray
    again = bench("sweep", *FAST, *SECONDS, "--model", "knn", "--name", "timed", "--dry-run")
    assert again.code == 0 and "time: nothing to run" in again.out, again
    more = ("--study-s", 1e-6, "--trials", 41, "--model", "knn", "--name", "timed", "--dry-run")
    assert "time: nothing to run" not in bench("sweep", *FAST, *more).out
    before = len(list(ledger.records("result")))
    resumed = bench("resume", "runs/timed", "--tracking-uri", "none")
    assert resumed.code == 0 and len(list(Ledger("runs/timed").records("result"))) == before


def test_a_model_that_always_fails_ends_its_search_by_seconds_too(work):
    Path("broken.py").write_text(BROKEN)
    words = ("--study-s", 1e-6, "--trials", 40, "--model", "broken:Broken", "--name", "broken")
    assert bench("sweep", *FAST, *words).code == 1
    records = list(Ledger("runs/broken").records("result"))
    assert {record["status"] for record in records} == {FAILED}
    assert len(records) == 1 and records[0]["costs"]["cpu_s"] >= 0.0


def test_a_fit_of_a_chosen_network_has_the_limit_of_its_run(work):
    assert read_run(Path("runs/limited"), None).time_limit_s == 0.2
    assert read_run(Path("runs/timed"), None).time_limit_s is None
    found = bench("fit", "runs/limited")
    assert found.code == 0 and "for at most 0.2 s" in found.out + found.err, found


def test_the_command_behind_a_number_has_the_limits_of_time_of_its_run(work):
    for run, model, words in (("timed", "knn", "--study-s"), ("limited", "mlp", "-limit-s 0.2")):
        said = bench("explain", "scores", "iris", model, "--run", f"runs/{run}", "--json")
        assert words in json.loads(said.out)["command"]


def test_the_time_left_of_a_search_by_seconds_does_not_grow_with_its_trials():
    pace = Pace({"a": 0.04, "b": 1.0}, workers=2, rest={"a": 3600.0})
    assert pace.seconds("a") == 0.0 and pace.left_s(10.0) == (3600.0 + 10.0) / 2
    for _ in range(1800):
        pace.observe("a", 1.0)
    assert pace.left_s(10.0) == (1800.0 + 10.0) / 2
    pace.end("a")
    assert pace.left_s(10.0) == 5.0
