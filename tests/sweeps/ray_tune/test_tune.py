"""ASHA and PBT on Ray Tune: rows, faults, and a killed driver."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from chaos import Sweep, kill_all, wait_for
from small_sweeps import write_suite
from tabsweep.benchmark.results.evidence_builder import load_results
from tabsweep.benchmark.results.run_status import status_of
from tabsweep.sweeps.engine import SourceChanged, Stop
from tabsweep.sweeps.events import StudyEnded, TrialEnded, TrialLost
from tabsweep.sweeps.ray_tune import tuner
from tabsweep.sweeps.ray_tune.async_search import Asynchronous
from tabsweep.sweeps.search.halving import Halving
from tabsweep.sweeps.search.samplers import make_sampler
from tabsweep.sweeps.search.space import Space
from tabsweep.sweeps.store.checkpoints import CheckpointFolder
from tabsweep.sweeps.store.ledger import Ledger
from tabsweep.sweeps.study import Study
from tabsweep.sweeps.trial import DONE, FAILED, Limits, Result, Trial
from tabsweep.sweeps.workers.pool import ClusterLost, JobOutcome
from tabsweep.sweeps.workers.ray_cluster import Node

pytestmark = pytest.mark.xdist_group("ray")

SPACE = Space.parse({"params": {"rate": {"kind": "log-uniform", "low": 1e-4, "high": 1.0}}})

# ---------------------------------------------------------------------- a toy study


LENGTH = 15  # with boundaries at 5 and 10, and rungs at 5 and 15


def toy_study(log: Path, n_trials: int, *, source: str = "a", timeout_s: float = 60.0) -> Study:
    def make_trial(config: Any, seed: int, fidelity: Any = None) -> Trial:
        identity = {"source": source, "log": str(log)}
        return Trial("toy", 0, "toy", config, seed, identity, fidelity)

    return Study(
        name="toy/0/toy",
        sampler=make_sampler("random", SPACE, seed=1),
        n_trials=n_trials,
        make_trial=make_trial,
        loss_of=lambda result: result.val["loss"],
        halving=Halving(eta=3, rungs=2),
        length_of=lambda config: LENGTH,
        limits=Limits(timeout_s=timeout_s, memory_mb=2000),
    )


def search_of(study: Study, how: str, ledger: Ledger, **more: Any) -> Asynchronous:
    """With the checkpoints of the ledger's own run."""
    return Asynchronous(
        {study.name: study},
        how,
        ledger=ledger,
        checkpoints=CheckpointFolder(ledger.run / "checkpoints"),
        run_trial=toy_trial,
        load=lambda key: None,
        slots=2,
        **more,
    )


def toy_trial(trial: Trial, data: Any, checkpoints: Any) -> Result:
    """Steps whose loss falls; `source` says what goes wrong in the second piece of the fit."""
    fidelity = trial.fidelity or {}
    number, log = fidelity["index"], trial.identity["log"]
    step, state = checkpoints.get(trial.chain) or (0, b"")
    assert len(state) == step

    def write(word: str) -> None:
        line = f"{word} {number} {fidelity['stop']} {step} {os.getpid()}\n"
        descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(descriptor, line.encode())
        os.close(descriptor)

    write("start")
    print(f"number {number} at {step}")
    if step == 5 and fidelity["stop"] > 5:
        match trial.identity["source"], number:
            case "faults", 1:
                raise ZeroDivisionError("in its second piece")
            case "faults", 2:
                os.kill(os.getpid(), signal.SIGKILL)
            case "faults", 3 if not Path(f"{log}.once").exists():
                Path(f"{log}.once").touch()
                os.kill(os.getpid(), signal.SIGKILL)
            case "faults", 4:
                time.sleep(1000)
            case "slow", 0 if not Path(f"{log}.go").exists():
                time.sleep(1000)
    while step < fidelity["stop"]:
        step += 1
        state += b"x"
    checkpoints.put(trial.chain, step, state)
    write("finish")
    loss = math.nan if (trial.identity["source"], number) == ("faults", 5) else 1.0 / step
    return Result(
        status=DONE,
        val={"loss": loss},
        test={"loss": loss},
        costs={"fit_s": 0.5, "predict_s": 0.25, "peak_ram_mb": 1.0},
        predictions={"val": np.full(3, loss), "test": np.full(2, loss)},
    )


class Step(NamedTuple):
    word: str
    number: int
    stop: int
    step: int
    pid: int


def steps(log: Path) -> list[Step]:
    if not log.exists():
        return []
    found = [line.split() for line in log.read_text().splitlines()]
    return [Step(line[0], *map(int, line[1:])) for line in found]


@pytest.fixture(scope="module")
def a_ray():
    import ray
    from tabsweep.sweeps.workers.ray_cluster import start_ray, stop_ray

    start_ray(slots=2)
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield
    ray.cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    stop_ray()


# ---------------------------------------------------------------------- rows without Ray


def rows_by_hand(tmp_path: Path, source: str = "a") -> tuple[Ledger, list[tuple[str, Any]]]:
    """A ledger of two configurations that ended, written without Ray."""
    ledger = Ledger(tmp_path / "run", write=True)
    heard: list[Any] = []
    study = toy_study(tmp_path / "log", 2, source=source)
    search = search_of(study, "asha", ledger, listener=heard.append)
    for index, step in ((0, 15), (1, 5)):
        track = search.track(study, index)
        track.step, track.curve = step, [(5, 1.0), (step, 1.0 / step)]
        arrays = {"val": np.ones(2), "test": np.zeros(2)}
        info = {"curve": {"by": "steps", "points": [[step, 1.0 / step]]}}
        result = Result(status=DONE, val={"loss": 1.0 / step}, predictions=arrays, info=info)
        search.write(study, track, result, "by hand")
    return ledger, heard


def test_a_search_that_ended_is_settled_from_its_rows_without_ray(tmp_path):
    ledger, heard = rows_by_hand(tmp_path)
    assert [event.slot.stage for event in heard] == ["tune", "rung0"]
    study = replace(toy_study(tmp_path / "log", 2), seeds=(0, 1))
    search = search_of(study, "asha", ledger)
    search.replay()
    assert search.finished and study.tuned and not study.finished
    assert (study.state.best, study.state.best_loss, study.state.n_slots) == (0, 1 / 15, 4)
    slot = study.next_slot()
    assert slot is not None and (slot.stage, slot.index) == ("eval", 0)
    evaluated = study.open(slot)
    assert evaluated.fidelity == {"length": 15, "stop": 15, "every": 5}  # a cell as any other
    assert evaluated.id not in {record["id"] for record in ledger.records("result")}


def test_losses_at_rungs_leave_the_learning_curve_of_the_fit_where_it_is(tmp_path):
    ledger, _ = rows_by_hand(tmp_path)
    rows = [record["info"] for record in ledger.records("result")]
    assert [info["curve"]["points"] for info in rows] == [[[15, 1 / 15]], [[5, 1 / 5]]]
    search = search_of(toy_study(tmp_path / "log", 2), "asha", ledger)
    search.replay()
    at_rungs = {i: ended.curve for i, ended in search.ended["toy/0/toy"].items()}
    assert at_rungs == {0: [(5, 1.0), (15, 1 / 15)], 1: [(5, 1.0), (5, 1 / 5)]}


def test_rows_of_other_code_are_refused_or_run_again(tmp_path):
    ledger, _ = rows_by_hand(tmp_path)
    changed = toy_study(tmp_path / "log", 2, source="b")
    with pytest.raises(SourceChanged) as caught:
        search_of(changed, "asha", ledger).replay()
    assert caught.value.count == 2
    search = search_of(changed, "asha", ledger, allow_code_change=True)
    search.replay()
    assert search.left(changed) == [0, 1]


def test_a_retry_that_ends_on_another_rung_leaves_no_old_failure(tmp_path):
    ledger, _ = rows_by_hand(tmp_path)
    row = list(ledger.records("result"))[1]
    ledger.append([{**row, "status": FAILED, "cause": "error", "predictions": {}}])
    study = toy_study(tmp_path / "log", 2)
    search = search_of(study, "asha", ledger, retry=lambda record: record["index"] == 1)
    search.replay()
    assert search.left(study) == [1]
    track = search.track(study, 1)
    track.step = 15
    search.write(study, track, Result(status=DONE, val={"loss": 0.1}), "by hand")
    last = {(r["stage"], r["index"]): r["id"] for r in ledger.records() if r["kind"] != "lease"}
    assert last["rung0", 1] == last["tune", 1]


@pytest.mark.parametrize(
    ("deaths", "cause"),
    [
        (["killed", "killed", "killed"], "killed"),
        (["oom", "lost", "oom"], "oom"),
        (["killed", "oom", "killed", "lost", "lost", "killed"], "killed"),
    ],
)
def test_deaths_count_by_cause_over_drivers_and_the_last_one_gives_a_row(tmp_path, deaths, cause):
    ledger = Ledger(tmp_path / "run", write=True)
    study, heard = toy_study(tmp_path / "log", 1), list[Any]()

    def driver(**more: Any) -> Asynchronous:
        search = search_of(study, "pbt", ledger, listener=heard.append, **more)
        search.replay()
        return search

    for death in deaths:
        search = driver()
        lease = search.lease(study, 0)
        expected = search.attempts.next_may_be_last(lease)
        search.judge(study, 0, JobOutcome(search.job(study, 0), None, death, "by hand"))
        assert expected or search.left(study) == [0]  # Tune starts no trial again that has its row
    counted = [death for death in deaths if death != "lost"]
    assert [record["cause"] for record in ledger.records("death")] == counted
    (row,) = ledger.records("result")
    assert (row["cause"], row["attempt"]) == (cause, len(counted) + 1)
    assert [*map(type, heard)] == [TrialLost] * (len(counted) - 1) + [TrialEnded]
    retried = driver(retry=lambda record: True)
    assert retried.left(study) == [0] and retried.attempts.number(lease) == 1


# ---------------------------------------------------------------------- faults


def test_a_trial_fails_alone_and_a_dead_worker_is_replaced_where_it_stood(tmp_path, a_ray, capfd):
    log = tmp_path / "log"
    study = toy_study(log, 6, source="faults", timeout_s=2.0)
    heard: list[Any] = []
    ledger = Ledger(tmp_path / "run", write=True)
    search = search_of(study, "asha", ledger, listener=heard.append)
    tuner.run(search)
    assert capfd.readouterr().out == ""

    found = steps(log)
    struck = Counter(s.number for s in found if (s.word, s.step, s.stop) == ("start", 5, 10))
    assert (struck[2], struck[3], struck[4]) == (3, 2, 1), "the faults did not strike"
    rows = {record["index"]: record for record in ledger.records("result")}
    assert {i: (row["status"], row["cause"], row["stage"]) for i, row in rows.items()} == {
        0: (DONE, None, "tune"),
        1: (FAILED, "error", "tune"),
        2: (FAILED, "killed", "tune"),
        3: (DONE, None, "tune"),
        4: (FAILED, "timeout", "tune"),
        5: (FAILED, "nonfinite", "rung0"),
    }
    assert "ZeroDivisionError" in rows[1]["message"] and "3 times" in rows[2]["message"]
    assert (rows[2]["attempt"], rows[3]["attempt"]) == (4, 2)
    begun = Counter(s.stop for s in found if (s.word, s.number, s.step) == ("finish", 3, s.stop))
    assert begun[15] == 1 and 0 not in {s.step for s in found if s.number == 3 and s.stop > 5}
    # the events that log and progress bar show
    assert [event.cause for event in heard if isinstance(event, TrialLost)] == ["killed"] * 3
    kinds = [*map(type, heard)]
    assert kinds.count(TrialEnded) == 6 and kinds[-1] is StudyEnded
    ended = (event for event in heard if isinstance(event, TrialEnded))
    done = next(event.result for event in ended if event.slot.index == 0)
    assert done.output == "number 0 at 10\n" and done.costs["fit_s"] == 1.5
    assert done.info["rung_losses"] == [(5, 1 / 5), (10, 1 / 10), (15, 1 / 15)]
    tally = search.tally
    assert (tally.ran, tally.done, tally.failed, tally.interrupted) == (6, 2, 4, False)
    arrays = ledger.predictions.get(rows[0]["predictions"])
    assert arrays["val"].tolist() == [1 / 15] * 3


def test_a_stop_ends_a_population_within_seconds_and_leaves_it_to_be_resumed(tmp_path, a_ray):
    log, stop = tmp_path / "log", Stop()
    ledger = Ledger(tmp_path / "run", write=True)
    search = search_of(toy_study(log, 3, source="slow"), "pbt", ledger, stop=stop)
    stopped: list[float] = []

    def end() -> None:
        wait_for(lambda: any(s.number == 0 and s.stop == 10 for s in steps(log)), "a long step")
        stopped.append(time.monotonic())
        stop.soon = True

    ending = threading.Thread(target=end)
    ending.start()
    tuner.run(search)
    ending.join()
    assert time.monotonic() - stopped[0] < 20.0  # of a step of 1000 s
    assert search.tally.interrupted
    assert 0 not in {record["index"] for record in ledger.records("result")}
    before = steps(log)
    assert ("finish", 0, 10) not in {line[:3] for line in before}

    Path(f"{log}.go").touch()
    study = toy_study(log, 3, source="slow")
    tuner.run(search := search_of(study, "pbt", ledger))
    assert not search.tally.interrupted and study.finished
    rows = list(ledger.records("result"))
    assert sorted(row["index"] for row in rows) == [0, 1, 2]
    assert {(row["stage"], row["fidelity"]["stop"]) for row in rows} == {("tune", 15)}
    assert len({row["id"] for row in rows}) == 3
    assert 0 not in {line.step for line in steps(log)[len(before) :] if line.stop > 5}
    for row in rows:
        for event in row["info"]["history"]:
            assert set(event) == {"step", "from", "changes"} and event["from"] != row["index"]
    assert not list((ledger.run / "checkpoints").glob("*.checkpoint"))


def test_a_population_on_a_machine_that_does_not_see_the_runs_folder_is_refused(
    tmp_path, monkeypatch
):
    machines = {name: Node(name, f"host {name}", 1, 0, 1000.0) for name in "ab"}
    monkeypatch.setattr(tuner, "nodes", lambda: dict(machines))
    monkeypatch.setattr(tuner, "sees", lambda id, path: path.exists() and id not in blind)
    blind = {"b"}
    ledger = Ledger(tmp_path / "run", write=True)
    study = toy_study(tmp_path / "log", 2)
    search = search_of(study, "pbt", ledger)
    with pytest.raises(ClusterLost, match="host b does not see .*: PBT on several machines needs"):
        tuner.fit(search, study, [0, 1], None)
    ledger.close()
    assert [*search.folder.iterdir()] == []
    blind.clear()
    tuner.check_shared(search.folder)
    assert [*search.folder.iterdir()] == []


@pytest.mark.nightly
def test_workers_that_cannot_begin_are_the_clusters_trouble_and_no_trials(tmp_path, a_ray):
    ledger = Ledger(tmp_path / "run", write=True)
    study = toy_study(tmp_path / "log", 1)
    here = os.getpid()

    def common() -> dict[str, str]:
        return {"numpy": "2.0" if os.getpid() == here else "1.0"}

    with pytest.raises(ClusterLost, match="numpy 1.0 instead of 2.0"):
        tuner.run(search_of(study, "asha", ledger, common=common))
    assert not list(ledger.records("result"))


# ---------------------------------------------------------------------- the product, killed


def boosting_on_rungs(folder: Path, rungs: int, trials: int) -> Path:
    return write_suite(
        folder / "suite.json", "reduced", ["wine"], ["xgboost"], trials=trials, seeds=2,
        sampler="random", timeout_s=120, halving={"eta": 3, "rungs": rungs},
        model={"xgboost": {"fixed": {"n_estimators": 18}}},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("how", "rungs", "trials"),
    [("asha", 3, 3), pytest.param("pbt", 2, 2, marks=pytest.mark.nightly)],
)
def test_a_killed_search_on_boosting_rounds_goes_on_and_has_nothing_twice(
    tmp_path, how, rungs, trials
):
    options = ["--suite", boosting_on_rungs(tmp_path, rungs, trials), "--async", how]
    options += ["--workers", 2, "--tracking-uri", "none"]
    sweep = Sweep(tmp_path / "sweep", *options, env={"HOLD_LAST_PIECE": "yes"})
    run, held = sweep.run, Path(f"{sweep.log}.held")

    def rows() -> list[dict[str, Any]]:
        return [record for record in sweep.results() if record["stage"] != "eval"]

    driver = sweep.start()
    sweep.wait(lambda: rows() and held.exists(), "a row, and a trial in its last piece")
    kill_all(driver)
    hit, before, known = sweep.running(), len(sweep.lines()), rows()
    assert "18" in {line.stop for line in hit} and known, "the kill hit no trial"

    sweep.finish()
    found = rows()
    assert sorted(row["index"] for row in found) == [*range(trials)]  # nothing lost, nothing twice
    assert found[: len(known)] == known
    first, after = sweep.lines()[:before], sweep.lines()[before:]
    finished, began = {str(row["index"]) for row in known}, {line.index for line in after}
    assert {line.index for line in hit} <= began
    assert not finished & began  # no step of a trial that had ended
    if how == "asha":  # a trial went on where it stood; PBT may go back, to another's state
        length, every = 18, 2
        for index in began - {"-"}:
            ended = [line for line in first if (line.word, line.index) == ("finish", index)]
            again = min(int(line.stop) for line in after if line.index == index)
            stood = max((int(line.stop) for line in ended), default=every)
            assert stood - every <= again <= length

    marks = {(row["fidelity"]["async"], row["fidelity"]["run"]) for row in found}
    assert len(marks) == 1 and len({row["id"] for row in found}) == trials
    evaluated = [record for record in sweep.results() if record["stage"] == "eval"]
    assert len(evaluated) == 2  # by the engine: cells like any other
    assert {frozenset(row) for row in found} == {frozenset(row) for row in evaluated}
    table = load_results(run)
    assert Counter(table["stage"]) == Counter(row["stage"] for row in [*found, *evaluated])
    assert table["selected"].sum() == 1 and table["val_accuracy"].notna().all()
    status = status_of(run)
    assert (status.planned, status.done, status.left) == (trials + 2, trials + 2, 0)
    report = (run / "report" / "scores.md").read_text()
    assert "xgboost" in report


@pytest.mark.fault(40)
def test_a_resume_searches_again_for_configurations_whose_predictions_are_lost(tmp_path):
    run = tmp_path / "runs" / "run"
    suite = boosting_on_rungs(tmp_path, rungs=3, trials=4)

    def bench(*words: object, code: int = 0) -> dict[str, Any]:
        command = [sys.executable, "-m", "tabsweep.benchmark.cli", *map(str, words), "--json"]
        env = {**os.environ, "TABSWEEP_TRACKING_URI": "none"}
        found = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
        assert found.returncode == code, found.stderr
        return json.loads(found.stdout)

    named = ("--suite", suite, "--name", run.name, "--runs", run.parent)
    bench("sweep", *named, "--async", "asha", "--workers", 2)
    (run / "predictions" / "000000.bin").unlink()
    assert bench("verify", run, code=3)["runs_again"] == 4 + 2
    resumed = bench("resume", run, "--workers", 2)
    assert resumed["ran"] == 4 + 2 and "6 finished trials" in str(resumed["warnings"])
    status = status_of(run)
    assert (status.planned, status.done, status.left) == (4 + 2, 4 + 2, 0)
    assert bench("verify", run)["sound"]
