"""Rows of asynchronous searches whose predictions are lost: computed again, decisions kept."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from async_searches import async_search
from tabsweep.sweeps.ray_tune.async_search import Asynchronous
from tabsweep.sweeps.ray_tune.trial_state import Track
from tabsweep.sweeps.search.halving import Halving
from tabsweep.sweeps.search.samplers import make_sampler
from tabsweep.sweeps.search.space import Space
from tabsweep.sweeps.store.ledger import Ledger
from tabsweep.sweeps.study import Study
from tabsweep.sweeps.trial import DONE, FAILED, Limits, Result, Trial, canonical, failure

pytestmark = [pytest.mark.xdist_group("ray"), pytest.mark.fault(40)]

LENGTH, N = 18, 6  # boundaries at 2, 4, ..., rungs at 2, 6 and 18
SPACE = Space.parse({"params": {"rate": {"kind": "uniform", "low": 0.0, "high": 1.0}}})


def study_of(log: Path) -> Study:
    def make_trial(config: Any, seed: int, fidelity: Any = None) -> Trial:
        return Trial("toy", 0, "toy", config, seed, {"log": str(log)}, fidelity)

    return Study(
        name="toy/0/toy",
        sampler=make_sampler("random", SPACE, seed=1),
        n_trials=N,
        make_trial=make_trial,
        loss_of=lambda result: result.val["loss"],
        halving=Halving(eta=3, rungs=3),
        length_of=lambda config: LENGTH,
        limits=Limits(timeout_s=60.0, memory_mb=2000),
    )


def searched(how: str, ledger: Ledger, log: Path, **more: Any) -> Asynchronous:
    return async_search(study_of(log), how, ledger, chained, **more)


def chained(trial: Trial, data: Any, checkpoints: Any) -> Result:
    """Steps whose state depends on every configuration that it went through, and on their order."""
    fidelity = trial.fidelity or {}
    step, state = checkpoints.get(trial.chain) or (0, b"")
    with open(trial.identity["log"], "a") as log:
        log.write(f"{fidelity['index']} {fidelity['stop']}\n")
    while step < fidelity["stop"]:
        step += 1
        state = hashlib.sha256(state + canonical(trial.config).encode()).digest()
    checkpoints.put(trial.chain, step, state)
    loss = trial.config["rate"] + 1.0 / step
    return Result(
        status=DONE,
        val={"loss": loss},
        test={"loss": loss},
        costs={"fit_s": 0.5},
        predictions=dict.fromkeys(("val", "test"), np.frombuffer(state, dtype=np.uint8)),
    )


def content(ledger: Ledger, row: dict[str, Any]) -> tuple[Any, ...]:
    """All of a row that does not depend on when it ran."""
    kept = [row[name] for name in ("id", "stage", "index", "config", "fidelity", "status", "val")]
    info = [row["info"].get(name) for name in ("history", "rung_losses")]
    return *kept, *info, ledger.get_predictions(row["predictions"])["test"].tolist()


@pytest.fixture(scope="module")
def a_ray() -> Iterator[None]:
    import ray
    from tabsweep.sweeps.workers.ray_cluster import start_ray, stop_ray

    start_ray(slots=2)
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield
    ray.cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    stop_ray()


@pytest.mark.parametrize("how", ["asha", "pbt"])
def test_lost_rows_are_computed_again_to_the_same_predictions_and_alone(tmp_path, a_ray, how):
    log, ledger = tmp_path / "log", Ledger(tmp_path / "run", write=True)
    searched(how, ledger, log).run()
    rows = sorted(ledger.records("result"), key=lambda row: row["index"])
    assert [row["index"] for row in rows] == [*range(N)]
    if how == "asha":
        lost = [next(row for row in rows if row["stage"] == stage) for stage in ("rung0", "tune")]
    else:
        lost = [row for row in rows if row["info"]["history"]][: N - 1]
    assert lost
    (ledger.run / "tune" / "run.json").unlink()  # as `bench clean` may have done

    log.unlink()
    search = searched(how, ledger, log, lost={row["id"] for row in lost})
    tally = search.run()
    assert (tally.ran, tally.done, tally.interrupted) == (len(lost), len(lost), False)
    again = sorted(list(ledger.records("result"))[N:], key=lambda row: row["index"])
    by_index = sorted(lost, key=lambda row: row["index"])
    assert [content(ledger, row) for row in again] == [content(ledger, row) for row in by_index]
    pieces = {tuple(map(int, line.split())) for line in log.read_text().splitlines()}
    assert pieces == {
        (row["index"], stop) for row in lost for stop in range(2, row["fidelity"]["stop"] + 1, 2)
    }
    assert not list((ledger.run / "checkpoints").glob("*.checkpoint"))
    assert search.studies["toy/0/toy"].finished


def rows_by_hand(tmp_path: Path, how: str) -> tuple[Ledger, Asynchronous, list[dict[str, Any]]]:
    """A ledger with a row of each configuration, written without Ray; 1 went through copies. Its
    row is lost."""
    log, ledger = tmp_path / "log", Ledger(tmp_path / "run", write=True)
    search = searched(how, ledger, log)
    study = search.studies["toy/0/toy"]
    for index in range(N):
        track = search.records.track(study, index)
        if how == "pbt" and index == 1:
            for step, rate in ((4, 0.25), (10, 0.5)):
                donor = replace(track, index=3, step=step)
                track = donor.copied_to(1, {"rate": rate}, track)
        track.step = LENGTH if how == "pbt" or index == 0 else 6
        done = Result(DONE, val={"loss": 1.0}, predictions={"val": np.ones(2), "test": np.ones(2)})
        search.records.write(study, track, done, "by hand")
    rows = list(ledger.records("result"))
    search = searched(how, ledger, log, lost={rows[1]["id"], "of another search"})
    search.replay()
    assert search.left(search.studies["toy/0/toy"]) == [1]
    return ledger, search, rows


def test_a_lost_row_goes_through_its_copies_and_on_from_its_own_checkpoint_only(tmp_path):
    ledger, search, rows = rows_by_hand(tmp_path, "pbt")
    records, study = search.records, search.studies["toy/0/toy"]
    began = study.sampler.ask(1)["rate"]
    track = records.track(study, 1)
    rates = [replace(track, step=step).config_here["rate"] for step in (0, 2, 4, 8, 10, 18)]
    assert track.step == 0 and rates == [began, began, 0.25, 0.25, 0.5, 0.5]
    chain = records.lease(study, 1).chain
    for foreign in (Track(1, {"rate": began}, LENGTH, 2, 6), replace(track, step=6, history=[])):
        records.checkpoints.put(chain, 6, foreign.pack())
        assert records.track(study, 1) == track and records.checkpoints.get(chain) is None
    own = replace(track, step=6, state=b"x")
    records.checkpoints.put(chain, 6, own.pack())
    assert records.track(study, 1) == own


@pytest.mark.parametrize("how", ["asha", "pbt"])
def test_a_lost_row_that_fails_when_it_runs_again_fails_in_its_place(tmp_path, how):
    ledger, search, rows = rows_by_hand(tmp_path, how)
    study = search.studies["toy/0/toy"]
    track = replace(search.records.track(study, 1), step=2)
    search.records.checkpoints.put(search.records.lease(study, 1).chain, 2, track.pack())
    search.records.write(study, track, failure("killed", "its worker died"), "by hand")
    row = list(ledger.records("result"))[-1]
    assert [row[name] for name in ("id", "stage", "status")] == [
        *(rows[1][name] for name in ("id", "stage")),
        FAILED,
    ]
    assert not list((ledger.run / "checkpoints").glob("*.checkpoint"))  # a retry begins anew
    again = searched(how, ledger, tmp_path / "log")
    again.replay()
    assert again.finished


SUITE = """
name = "reduced"
title = "A reduced suite for asynchronous searches"
datasets = ["wine"]

[budgets.quick]
models = ["xgboost"]
folds = 1
trials = 4
seeds = 2
sampler = "random"
timeout_s = 120
halving = {eta = 3, rungs = 3}

[budgets.quick.model.xgboost]
fixed = {n_estimators = 18}
"""


def test_a_resume_of_an_asynchronous_run_brings_lost_predictions_back(tmp_path):
    (tmp_path / "suite.toml").write_text(SUITE)
    run = tmp_path / "runs" / "run"

    def bench(*words: object, code: int = 0) -> dict[str, Any]:
        command = [sys.executable, "-m", "tabsweep.benchmark.cli", *map(str, words), "--json"]
        env = {**os.environ, "TABSWEEP_TRACKING_URI": "none"}
        found = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
        assert found.returncode == code, found.stderr
        return json.loads(found.stdout)

    def results() -> dict[str, list[Any]]:
        found: dict[str, list[Any]] = {}
        for row in Ledger(run).records("result"):
            found.setdefault(row["id"], []).append([row["stage"], row["val"], row["test"]])
        return found

    named = ("--suite", "suite.toml", "--name", run.name, "--runs", run.parent)
    bench("sweep", *named, "--async", "asha", "--workers", 2)
    before = results()
    (run / "predictions" / "000000.bin").unlink()
    assert bench("verify", run, code=3)["runs_again"] == len(before) == 4 + 2
    resumed = bench("resume", run, "--workers", 2)
    assert resumed["ran"] == len(before)
    (said,) = [text for text in resumed["warnings"] if "run again" in text]
    assert "6 finished trials" in said
    assert results() == {id: rows * 2 for id, rows in before.items()}
    assert bench("verify", run)["sound"]
