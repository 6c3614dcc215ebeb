"""Successive halving: rungs and promotion, studies on rungs, and whole sweeps in any order."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_cases import ScriptedPool, make_study, run
from hypothesis import given
from hypothesis import strategies as st
from run_records import whole_plan
from small_sweeps import write_suite
from tabsweep.benchmark.outcome.run_report import make_report
from tabsweep.benchmark.planning import suite as suites
from tabsweep.benchmark.planning.plan import Options
from tabsweep.benchmark.planning.plan_record import PlannedStudy
from tabsweep.benchmark.results.evidence_builder import evidence_of, load_results, promises_of
from tabsweep.benchmark.results.run_status import status_of
from tabsweep.benchmark.running import sweep
from tabsweep.sweeps.events import TrialEnded
from tabsweep.sweeps.search.halving import Halving
from tabsweep.sweeps.store.ledger import Ledger
from tabsweep.sweeps.study_state import EVAL, TUNE

# ---------------------------------------------------------------------- the arithmetic


@given(st.integers(1, 100_000), st.integers(2, 5), st.integers(2, 6))
def test_every_rung_stops_at_a_boundary_of_the_higher_ones(length, eta, rungs):
    found = Halving(eta, rungs).fidelities(length)
    stops = [rung["stop"] for rung in found]
    assert len(found) == rungs and stops == sorted(stops) and stops[-1] == length
    assert {rung["length"] for rung in found} == {length}
    assert len({rung["every"] for rung in found}) == 1
    assert all(stop % found[0]["every"] == 0 for stop in stops if stop < length)


# ---------------------------------------------------------------------- a study


@pytest.mark.usefixtures("unsynced")
@pytest.mark.parametrize("sampler", ["random", "tpe", "hyperopt"])
def test_the_order_in_which_trials_end_decides_nothing(tmp_path, sampler):
    """Of nine configurations on three rungs of 10, 30 and 90 steps."""
    rungs = {"halving": Halving(eta=3, rungs=3), "length_of": lambda config: 90}
    found = []
    for seed in range(5):
        study = make_study(sampler=sampler, n_trials=9, seeds=(0, 1), **rungs)
        pool = ScriptedPool(seed=seed, slots=1 + 2 * seed)
        found.append((run(tmp_path / str(seed), [study], pool), study.state.best))
    assert found == found[:1] * 5
    stages = Counter(key.split("#")[1] for key in found[0][0])
    assert stages == {"rung0": 9, "rung1": 3, TUNE: 1, EVAL: 2}
    stops = {r["stage"]: r["fidelity"]["stop"] for r in Ledger(tmp_path / "0").records("result")}
    assert stops == {"rung0": 10, "rung1": 30, TUNE: 90, EVAL: 90}


# ---------------------------------------------------------------------- a sweep


def request(folder: Path, **more: Any) -> sweep.Request:
    folder.mkdir(exist_ok=True)
    boosted = {"fixed": {"n_estimators": 27}}
    path = write_suite(
        folder / "suite.json", "halved", ["wine"], ["lightgbm", "xgboost", "linear"], folds=2,
        trials=9, sampler="random", seeds=2, halving={"eta": 3, "rungs": 3}, timeout_s=300,
        model={"lightgbm": boosted, "xgboost": boosted, "linear": {"trials": 2}},
    )  # fmt: skip
    options = Options(**{"runs": folder / "runs", "name": "run", "workers": 0, **more})
    return sweep.Request(suites.load(str(path)), options)


def tables(run: Path) -> dict[str, bytes]:
    make_report([run], None)
    names = [
        f"{name}.{kind}" for name in ("scores", "leaderboard", "tests") for kind in ("tex", "csv")
    ]
    return {name: (run / "report" / name).read_bytes() for name in names}


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = request(tmp_path_factory.mktemp("halved") / "a")
    sweep.run(made)
    return made.folder


def test_a_halved_sweep_reports_what_ran_to_the_end(done):
    rows = load_results(done)
    counts = Counter(zip(rows["model"], rows["stage"], strict=True))
    for model in ("lightgbm", "xgboost"):
        expected = {"rung0": 18, "rung1": 6, "tune": 2, "eval": 4}
        assert {s: n for (m, s), n in counts.items() if m == model} == expected
    assert counts["linear", "tune"] == 4 and counts["linear", "rung0"] == 0
    assert (rows["status"] == "done").all()
    chosen = rows[rows["selected"]]
    assert len(chosen) == 6 and set(chosen["stage"]) == {"tune"}
    found = status_of(done)
    assert found.finished and found.done == found.planned == 2 * (2 * (9 + 3 + 1 + 2) + 2 + 2)
    evidence_of([done])  # holds its own laws


def test_a_higher_rung_went_on_from_the_lower_one_and_no_checkpoint_is_left(done):
    begun = {
        record["stage"]: record["info"]["resumed_from"]
        for record in Ledger(done).records("result")
        if record["model"] == "xgboost" and record["stage"] != EVAL
    }
    assert begun == {"rung0": 0, "rung1": 3, "tune": 9}
    assert not list((done / "checkpoints").glob("*"))


def test_a_resumed_sweep_with_lost_checkpoints_gives_the_same_bytes(done, tmp_path):
    made = request(tmp_path / "b")
    seen = {"n": 0}
    stop = sweep.Stop()

    def listener(event: Any) -> None:
        seen["n"] += isinstance(event, TrialEnded) and not event.reused
        if seen["n"] >= 20:
            stop.soon = True

    assert sweep.run(made, listener=listener, stop=stop).tally.interrupted
    left = list((made.folder / "checkpoints").glob("*.checkpoint"))
    assert left  # of configurations that may go on
    for path in left:
        path.write_bytes(path.read_bytes()[:-1])
    tally = sweep.run(request(tmp_path / "b")).tally
    assert not tally.interrupted and not tally.failed
    assert tables(made.folder) == tables(done)
    mine, theirs = (
        load_results(run).set_index(["study", "stage", "index"]) for run in (made.folder, done)
    )
    assert mine["id"].sort_index().equals(theirs["id"].sort_index())
    assert np.array_equal(mine.sort_index()["test_accuracy"], theirs.sort_index()["test_accuracy"])


def test_an_extended_sweep_forgets_whom_the_smaller_one_promoted(tmp_path):
    few, many = ({"models": ("xgboost", "linear"), "folds": 1, "trials": n} for n in (4, 9))
    small = request(tmp_path / "c", **few)
    sweep.run(small)
    sweep.run(request(tmp_path / "c", **many))
    fresh = request(tmp_path / "d", **many)
    sweep.run(fresh)
    assert tables(small.folder) == tables(fresh.folder)
    assert status_of(small.folder).finished


@pytest.mark.nightly
@pytest.mark.xdist_group("ray")
@pytest.mark.parametrize("workers", [1, 2])
def test_workers_on_a_cluster_give_the_same_bytes_as_one_process(done, tmp_path, workers):
    made = request(tmp_path / str(workers), workers=workers)
    sweep.run(made)
    assert tables(made.folder) == tables(done)
    begun = [r["info"].get("resumed_from") for r in Ledger(made.folder).records("result")]
    assert max(filter(None, begun)) == 9  # checkpoints travelled through the keeper


# ---------------------------------------------------------------------- what is not promised


def test_the_report_says_where_another_sweep_may_give_other_bytes():
    whole = PlannedStudy("wine", "multiclass", 0, "knn", 1, 1)
    asha = replace(whole, model="xgboost", asynchronous="asha")
    first, second = promises_of([whole_plan({}, [asha, whole])], ["wine/0/svm"])
    assert "xgboost" in first and "ASHA" in first and "knn" not in first
    assert "wine/0/svm" in second
    assert promises_of([whole_plan({}, [whole])], []) == []
