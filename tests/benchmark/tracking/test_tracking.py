"""Does MLflow show what the ledger holds, whatever happened on the way there?"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tabsweep.benchmark.results.evidence_builder import load_results
from tabsweep.benchmark.tracking import follower as tracking
from tabsweep.benchmark.tracking import store as tracking_store
from tabsweep.benchmark.tracking import sync
from tabsweep.benchmark.tracking.mapping import project
from tabsweep.sweeps.store.ledger import Ledger

STUDIES = [("boston", 0, "knn"), ("boston", 0, "svm"), ("wine", 1, "knn")]
SECRET = "s3cr3t-pass"


# ---------------------------------------------------------------------- a run without a sweep


def plan(n_trials: int = 4, *, nonce: int = 0, seeds: int = 1) -> dict[str, Any]:
    studies = [
        {
            "dataset": dataset,
            "fold": fold,
            "model": model,
            "task": "binary" if dataset == "wine" else "regression",
            "n_trials": n_trials,
            "n_seeds": seeds,
            "reason": "",
        }
        for dataset, fold, model in STUDIES
    ]
    return {
        "kind": "plan",
        "suite": {"name": "tiny", "title": "Tiny tables", "note": "for tests"},
        "options": {"budget": "quick", "seed": 0},
        "identity": {"sampler": {"knn on regression data": "random, lag 1"}},
        "metric": {"binary": "roc_auc", "regression": "rmse"},
        "datasets": {"boston": {"sha256": "ab" * 32, "protocol": "kfold", "n_rows": 506}},
        "studies": studies,
        "spaces": ["default"],
        "environment": {
            "python": "3.11",
            "libraries": {"numpy": "2.0", "ray": "absent"},
            "code": "abc",
            "cores": 2,
            "cpu": "a cpu",
            "memory_mb": 1000,
            "system": "Linux",
        },
        "time": f"2026-01-01T00:00:00.{nonce:03d}Z",
    }


def result(
    study: tuple[str, int, str], index: int, *, cause: str | None = None, salt: int = 0, **more: Any
) -> dict[str, Any]:
    dataset, fold, model = study
    draw = random.Random(f"{study}{index}{salt}")
    metric = "roc_auc" if dataset == "wine" else "rmse"
    scores = {metric: draw.random(), "other": draw.random(), "undefined": None}
    return {
        "kind": "result",
        "id": f"{draw.getrandbits(128):032x}",
        "study": f"{dataset}/{fold}/{model}",
        "stage": "tune",
        "index": index,
        "dataset": dataset,
        "fold": fold,
        "model": model,
        "config": {"depth": draw.randint(1, 1000), "kind": "gb tree", "layers": [1, 2]},
        "seed": 0,
        "status": "failed" if cause else "done",
        "cause": cause,
        "info": {},
        "message": "took longer\nthan `300` s" if cause else "",
        "val": {} if cause else scores,
        "test": {} if cause else {name: v and v / 2 for name, v in scores.items()},
        "costs": {}
        if cause
        else {"fit_s": 0.5, "predict_s": 0.1, "cpu_s": 0.4, "peak_ram_mb": 9.0},
        "time": f"2026-01-01T00:01:{index % 60:02d}.000Z",
        **more,
    }


def records(n_trials: int = 4) -> list[dict[str, Any]]:
    """Three studies turn by turn; the second trial of the SVM fails."""
    return [
        result(study, i, cause="timeout" if study[2] == "svm" and i == 1 else None)
        for i in range(n_trials)
        for study in STUDIES
    ]


def evaluations(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Three seeds of the configuration that these trials of the first study choose."""
    config = min(rows, key=lambda row: row["val"]["rmse"])["config"]
    return [
        result(
            STUDIES[0],
            i,
            salt=7,
            stage="eval",
            seed=i,
            config=config,
            val={},
            test={"rmse": 0.25 + i},
        )
        for i in range(3)
    ]


def make_run(folder: Path, rows: list[dict[str, Any]], **given: Any) -> Path:
    ledger = Ledger(folder, write=True)
    ledger.append([plan(**given), *rows])
    ledger.close()
    return folder


def add(run: Path, rows: list[dict[str, Any]]) -> None:
    ledger = Ledger(run, write=True)
    ledger.append(rows)
    ledger.close()


# ---------------------------------------------------------------------- what a store shows


def shown(run: Path, *, history: bool = False) -> dict[str, Any]:
    """{key: what MLflow shows} of the active runs of this run folder, without ids and times."""
    from mlflow.tracking import MlflowClient

    found: dict[str, Any] = {}
    with tracking_store.quiet_mlflow():
        client = MlflowClient(tracking_store.default_uri(run))
        experiment = client.get_experiment_by_name("tiny-quick")
        run_id = project(Ledger(run), live=False).run_id
        for item in client.search_runs([experiment.experiment_id]):
            tags = {k: v for k, v in item.data.tags.items() if k != "tabsweep.synced"}
            if tags["tabsweep.run_id"] != run_id:
                continue
            assert tags["tabsweep.key"] not in found, "two runs with one key"
            found[tags["tabsweep.key"]] = {
                "name": item.info.run_name,
                "status": item.info.status,
                "tags": tags,
                "params": item.data.params,
                "metrics": item.data.metrics,
                "datasets": [d.dataset.name for d in item.inputs.dataset_inputs],
            }
            if history:
                found[tags["tabsweep.key"]]["history"] = {
                    name: sorted(
                        (m.step, m.value, m.timestamp)
                        for m in client.get_metric_history(item.info.run_id, name)
                    )
                    for name in item.data.metrics
                }
    return found


def rows_in(run: Path) -> dict[str, list[Any]]:
    """Every row of every table of the SQLite store."""
    with sqlite3.connect(run / "mlflow.db") as database:
        names = database.execute("select name from sqlite_master where type = 'table'").fetchall()
        return {
            name: sorted(map(repr, database.execute(f'select * from "{name}"')))
            for (name,) in names
        }


def _first_use(run: Path, uri: str, barrier: Any, answers: Any) -> None:
    try:
        path = tracking_store.sqlite_path(uri)
        existed = path is not None and path.exists()
        barrier.wait(60)
        answers.put((existed, tracking.sync(run, uri=uri).created))
    except BaseException as error:  # it is the answer
        answers.put((None, repr(error)))


@pytest.fixture(scope="module")
def raced(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """A store whose first use was by four processes at once, and what these processes said."""
    import mlflow.tracking  # noqa: F401  (imported once, before the processes split)

    folder = tmp_path_factory.mktemp("raced")
    uri = f"sqlite:///{folder}/mlflow.db"
    runs = [make_run(folder / f"run{i}", records(2), n_trials=2, nonce=i + 1) for i in range(4)]
    context = multiprocessing.get_context("fork")
    barrier, answers = context.Barrier(4), context.SimpleQueue()
    processes = [
        context.Process(target=_first_use, args=(run, uri, barrier, answers)) for run in runs
    ]
    for process in processes:
        process.start()
    said = [answers.get() for _ in processes]
    for process in processes:
        process.join()
    return SimpleNamespace(database=folder / "mlflow.db", said=said, folder=folder)


@pytest.fixture
def fresh(tmp_path: Path, raced: SimpleNamespace) -> Any:
    """A maker of run folders whose store is there already (making one takes seconds)."""

    def make(name: str, rows: list[dict[str, Any]], **given: Any) -> Path:
        run = make_run(tmp_path / name, rows, **given)
        shutil.copy(raced.database, run / "mlflow.db")
        return run

    return make


# ---------------------------------------------------------------------- laws


def test_four_first_users_of_a_fresh_store_all_succeed_and_leave_it_whole(
    raced: SimpleNamespace,
) -> None:
    assert raced.said == [(False, 3)] * 4  # nobody found a store there, everybody made three runs
    with sqlite3.connect(raced.database) as database:
        assert database.execute("pragma integrity_check").fetchall() == [("ok",)]
        keys = database.execute("select value from tags where key = 'tabsweep.key'").fetchall()
        names = database.execute("select name from experiments").fetchall()
    assert len(keys) == len(set(keys)) == 12
    assert names.count(("tiny-quick",)) == 1
    left = [path.name for path in raced.folder.iterdir() if ".fresh" in path.name]
    assert left == []


def test_syncing_twice_adds_nothing(fresh: Any) -> None:
    run = fresh("a", records())
    first = tracking.sync(run)
    before = rows_in(run)
    again = tracking.sync(run)
    assert (first.created, first.trials) == (3, 12)
    assert (again.created, again.updated, again.replaced, again.trials) == (0, 0, 0, 0)
    assert rows_in(run) == before


def test_a_lost_cursor_adds_nothing_either(fresh: Any) -> None:
    run = fresh("a", records())
    tracking.sync(run)
    before = rows_in(run)
    shutil.rmtree(run / "tracking")
    tracking.sync(run)
    assert rows_in(run) == before


def test_a_deleted_database_is_rebuilt_with_the_same_runs(fresh: Any, raced: Any) -> None:
    run = fresh("a", records())
    tracking.sync(run)
    before = shown(run, history=True)
    (run / "mlflow.db").unlink()
    shutil.copy(raced.database, run / "mlflow.db")  # a store that has never heard of this run
    report = tracking.sync(run)
    assert report.created == 3
    assert shown(run, history=True) == before


@pytest.mark.parametrize("cuts", [[1, 4, 5, 9], [0, 2, 7, 10, 11]])
def test_many_passes_on_the_way_show_what_one_pass_at_the_end_shows(
    fresh: Any, cuts: list[int]
) -> None:
    rows = records()
    random.Random(0).shuffle(rows)  # trials end in any order
    once = fresh("a", rows)
    tracking.sync(once)
    (once.parent / "b").mkdir()
    run = fresh("b/a", [])
    for low, high in zip([0, *cuts], [*cuts, len(rows)], strict=True):
        add(run, rows[low:high])
        tracking.sync(run, live=True)
    assert shown(run, history=True) == shown(once, history=True)


def test_a_pass_that_died_half_way_is_completed_by_the_next(
    fresh: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow.tracking import MlflowClient

    run, once = fresh("a", records()), fresh("b/a", records())
    tracking.sync(once)
    real = MlflowClient.log_batch
    left = [0]

    def log_batch(self: Any, *args: Any, **given: Any) -> Any:
        left[0] -= 1
        if left[0] == 0:
            real(self, args[0], metrics=given["metrics"][:3])
            raise RuntimeError("injected")
        return real(self, *args, **given)

    monkeypatch.setattr(MlflowClient, "log_batch", log_batch)
    for dies_at in (1, 2, 2):  # the first study's call, the second's, the third's
        left[0] = dies_at
        with pytest.raises(tracking.TrackingError, match="injected"):
            tracking.sync(run)
    monkeypatch.undo()
    tracking.sync(run)
    assert shown(run, history=True) == shown(once, history=True)


def test_params_and_scores_are_those_of_the_configuration_that_the_reports_select(
    fresh: Any,
) -> None:
    run = fresh("a", records())
    tracking.sync(run)
    frame = load_results(run)
    for row in frame[frame["selected"]].itertuples():
        item = next(v for v in shown(run).values() if v["name"] == row.study)
        config = json.loads(row.config)
        assert item["params"] == {
            "depth": str(config["depth"]),
            "kind": "gb tree",
            "layers": "[1,2]",
        }
        metric = "roc_auc" if row.task == "binary" else "rmse"
        assert item["metrics"][f"test_{metric}"] == getattr(row, f"test_{metric}")
        assert item["metrics"][f"trial/best_val_{metric}"] == getattr(row, f"val_{metric}")
        assert item["tags"]["tabsweep.trial_id"] == row.id
        assert item["status"] == "FINISHED" and item["datasets"] == [row.dataset]
        for tag in ("suite", "budget", "run", "dataset", "model", "fold", "task", "versions"):
            assert item["tags"][tag]


def test_failed_trials_are_counted_by_cause_and_leave_no_score(fresh: Any) -> None:
    run = fresh("a", records())
    tracking.sync(run)
    svm = next(v for k, v in shown(run, history=True).items() if k.endswith("svm"))
    assert svm["metrics"]["n_failed"] == svm["metrics"]["n_failed_timeout"] == 1
    assert svm["tags"]["failures"] == "timeout 1"
    assert "timeout `took longer than '300' s`" in svm["tags"]["mlflow.note.content"]
    assert [step for step, _, _ in svm["history"]["trial/val_rmse"]] == [0, 2, 3]
    assert [step for step, _, _ in svm["history"]["trial/failures"]] == [1]


def test_a_study_in_which_everything_failed_is_shown_as_failed(fresh: Any) -> None:
    run = fresh("a", [result(STUDIES[0], i, cause="error") for i in range(2)], n_trials=2)
    tracking.sync(run)
    (item,) = shown(run).values()
    assert (item["status"], item["params"]) == ("FAILED", {})
    assert item["tags"]["status"] == "failed: every trial"


def test_an_unfinished_study_is_running_or_killed_and_has_no_params_yet(fresh: Any) -> None:
    run = fresh("a", [result(STUDIES[0], 0)])
    tracking.sync(run, live=True)
    (item,) = shown(run).values()
    assert (item["status"], item["tags"]["status"]) == ("RUNNING", "running: 1 of 4 trials")
    tracking.sync(run)  # nobody holds the lock of this run
    (item,) = shown(run).values()
    assert (item["status"], item["tags"]["status"]) == ("KILLED", "stopped: 1 of 4 trials")
    assert item["params"] == {}


def test_an_extended_study_goes_on_in_its_run_and_is_replaced_if_another_trial_wins(
    fresh: Any,
) -> None:
    study = STUDIES[0]
    rows = [result(study, i) for i in range(12)]
    scores = [row["val"]["rmse"] for row in rows]
    first = next(n for n in range(2, 12) if min(scores[:n]) > min(scores))
    run = fresh("a", rows[:first], n_trials=first)
    tracking.sync(run)
    add(run, [plan(12), *rows[first:]])
    report = tracking.sync(run)
    assert (report.replaced, report.created) == (1, 1)
    (item,) = shown(run).values()
    assert item["metrics"]["val_rmse"] == min(scores)
    assert tracking.sync(run).updated == 0
    add(run, [plan(13), result(study, 12, val={"rmse": 9.0}, test={"rmse": 9.0})])
    report = tracking.sync(run)
    assert (report.replaced, report.created, report.updated, report.trials) == (0, 0, 1, 1)
    (item,) = shown(run).values()
    assert item["metrics"]["n_trials"] == 13


def test_a_trial_that_was_run_again_replaces_what_was_shown(fresh: Any) -> None:
    run = fresh("a", records())
    tracking.sync(run)
    add(run, [result(STUDIES[1], 1, salt=1)])
    report = tracking.sync(run)
    assert (report.replaced, report.created) == (1, 1)
    svm = next(v for k, v in shown(run).items() if k.endswith("svm"))
    assert svm["tags"]["failures"] == "none"


def test_a_run_that_somebody_deleted_in_mlflow_stays_deleted(fresh: Any) -> None:
    from mlflow.tracking import MlflowClient

    run = fresh("a", records())
    tracking.sync(run)
    with tracking_store.quiet_mlflow():
        client = MlflowClient(tracking_store.default_uri(run))
        experiment = client.get_experiment_by_name("tiny-quick")
        mine = "tags.`run` = 'a' and tags.model = 'svm'"
        client.delete_run(client.search_runs([experiment.experiment_id], mine)[0].info.run_id)
    report = tracking.sync(run)
    assert (report.deleted, report.created) == (1, 0)
    assert len(shown(run)) == 2


def test_evaluation_seeds_stand_as_steps_of_the_chosen_configuration(fresh: Any) -> None:
    rows = [result(STUDIES[0], i) for i in range(2)]
    evals = evaluations(rows)
    run = fresh("a", rows + evals[:2], n_trials=2, seeds=3)
    tracking.sync(run)
    (item,) = shown(run).values()
    assert item["status"] == "KILLED"
    add(run, evals[2:])
    tracking.sync(run)
    (item,) = shown(run, history=True).values()
    assert item["status"] == "FINISHED"
    assert [(s, v) for s, v, _ in item["history"]["seed/test_rmse"]] == [
        (0, 0.25),
        (1, 1.25),
        (2, 2.25),
    ]


def test_only_what_the_plan_in_force_holds_is_projected(tmp_path: Path) -> None:
    rows = [result(STUDIES[0], i) for i in range(12)]
    scores = [row["val"]["rmse"] for row in rows]
    first = next(n for n in range(2, 12) if min(scores[:n]) > min(scores))
    stale = evaluations(rows[:first])
    run = make_run(tmp_path / "a", [*rows[:first], *stale], n_trials=first, seeds=3)
    (before,) = project(Ledger(run), live=False).runs
    assert before.status == "FINISHED"
    assert sum(point.key == "seed/test_rmse" for point in before.finals) == 3
    add(run, [plan(12, seeds=3), *rows[first:]])
    (now,) = project(Ledger(run), live=False).runs
    assert now.status == "KILLED", "another configuration is chosen: nobody evaluated it yet"
    assert not now.finals and len(now.trials) == 12
    add(run, [plan(first, seeds=3, nonce=1)])
    (again,) = project(Ledger(run), live=False).runs
    assert len(again.trials) == first and again.finals == before.finals


def test_a_study_on_rungs_is_shown_by_its_lowest_and_ends_when_its_record_says_so(
    tmp_path: Path,
) -> None:
    halved = {**plan(3), "studies": [{**plan(3)["studies"][0], "rungs": [3, 1], "async": None}]}
    low = [result(STUDIES[0], i, stage="rung0") for i in range(3)]
    best = min(low, key=lambda row: row["val"]["rmse"])
    full = result(STUDIES[0], best["index"], salt=1, config=best["config"])
    ledger = Ledger(tmp_path, write=True)
    ledger.append([halved, *low])
    (run,) = project(ledger, live=True).runs
    assert (run.status, len(run.trials), run.finals) == ("RUNNING", 3, [])
    end = {"kind": "study", "study": "boston/0/knn", "n_trials": 3, "n_slots": 4}
    ledger.append([full, {**end, "best": best["index"], "loss": 0.1, "time": "2026-01-01"}])
    ledger.close()
    (run,) = project(Ledger(tmp_path), live=True).runs
    values = {point.key: point.value for point in run.finals}
    assert run.status == "FINISHED" and run.tags["rungs"] == "3, 1"
    assert values["val_rmse"] == full["val"]["rmse"] and values["n_trials"] == 3
    assert values["total_fit_s"] == 2.0, "rungs cost, too"
    assert run.tags["tabsweep.trial_id"] == full["id"]


def test_no_call_holds_more_than_mlflow_takes() -> None:
    calls: list[int] = []

    class Client:
        def log_batch(self, id: str, metrics: Any = (), params: Any = (), tags: Any = ()) -> None:
            assert len(metrics) <= 1000 and len(params) <= 100 and len(tags) <= 100
            assert len(metrics) + len(params) + len(tags) <= 1000
            calls.append(len(metrics))

        def __getattr__(self, name: str) -> Any:
            return lambda *args, **given: None

    def entity(tags: dict[str, str]) -> Any:
        data = SimpleNamespace(tags=tags, params={})
        return SimpleNamespace(info=SimpleNamespace(run_id="x", status="RUNNING"), data=data)

    from tabsweep.benchmark.tracking.mapping import Point, StudyRun

    want = StudyRun("s", "k", "FINISHED", 0, 1, {"t": "1"}, dict.fromkeys(DATASET, ""))
    want.params = {f"p{i}": "1" for i in range(250)}
    want.trials = [[Point(f"m{j}", 1.0, i, i) for j in range(4)] for i in range(1201)]
    want.finals = [Point("f", 1.0, 1, 1)]
    assert sync._fill(Client(), entity({}), want) == (True, 1201)
    assert sum(calls) == 4 * 1201 + 1


DATASET = ("name", "digest", "source_type", "source")


def test_a_sync_prints_nothing_and_leaves_the_environment_as_it_was(
    fresh: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    run = fresh("a", records())
    before = dict(os.environ)
    tracking.sync(run)
    assert capfd.readouterr().out == ""
    assert dict(os.environ) == before


def test_a_ledger_sealed_while_it_is_read_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "a", records())
    reads = []

    class Sealing(Ledger):
        def _read_segment(self, segment: Any) -> Any:
            return super()._read_segment(segment)

        def _manifest(self) -> Any:
            found = super()._manifest()
            if not self.writable and not reads:
                writer = Ledger(run, write=True)
                writer.seal()  # the tail that this reader is about to open is gone
                writer.close()
            reads.append(1)
            return found

    monkeypatch.setattr(sync, "Ledger", Sealing)
    assert len(sync.read_ledger(run)) == 13
    assert len(reads) > 1


# ---------------------------------------------------------------------- servers and addresses


@pytest.fixture
def closed_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@pytest.mark.fault(18)
def test_a_server_that_is_down_is_one_error_without_credentials(
    tmp_path: Path, closed_port: int
) -> None:
    run = make_run(tmp_path / "a", records())
    with pytest.raises(tracking.Unreachable) as caught:
        tracking.sync(run, uri=f"http://me:{SECRET}@127.0.0.1:{closed_port}")
    assert f"***@127.0.0.1:{closed_port}" in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.fault(18)
def test_a_follower_of_a_dead_server_ends_with_one_warning_and_never_loads_mlflow(
    tmp_path: Path, closed_port: int
) -> None:
    run = make_run(tmp_path / "a", records())
    uri = f"http://me:{SECRET}@127.0.0.1:{closed_port}"
    syncer = tracking.Syncer(run, uri=uri, interval_s=0.1).start()
    assert syncer._process is not None
    command = Path(f"/proc/{syncer._process.pid}/cmdline").read_bytes()
    warning = syncer.stop(timeout=120)
    assert warning is not None and "\n" not in warning
    assert f"bench track sync {run}" in warning and "safe in the ledger" in warning
    log = (run / "tracking" / "log.txt").read_text()
    for text in (command.decode(), warning, log):
        assert SECRET not in text
    assert syncer.stop() is None  # twice is once


@pytest.fixture
def silent() -> Any:
    """A port where everybody is let in and nobody is answered; `heard` is what they said."""
    heard: list[bytes] = []
    held: list[socket.socket] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def listen(link: socket.socket) -> None:
        with suppress(OSError):
            heard.append(link.recv(1000))

    def let_in() -> None:
        with suppress(OSError):
            while True:
                link, _ = listener.accept()
                held.append(link)
                threading.Thread(target=listen, args=(link,), daemon=True).start()

    threading.Thread(target=let_in, daemon=True).start()
    yield SimpleNamespace(uri=f"127.0.0.1:{listener.getsockname()[1]}", heard=heard)
    listener.close()
    for link in held:
        link.close()


@pytest.mark.fault(18)
@pytest.mark.parametrize("scheme", ["http", "postgresql+psycopg2"])
def test_a_silent_server_is_given_up_without_loading_mlflow(
    tmp_path: Path, silent: Any, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracking_store, "ANSWER_S", 0.5)
    monkeypatch.setattr(sync, "open_store", None)  # nobody comes that far
    run = make_run(tmp_path / "a", records())
    with pytest.raises(tracking.Unreachable, match="timed out") as caught:
        tracking.sync(run, uri=f"{scheme}://me:{SECRET}@{silent.uri}/path")
    assert len(silent.heard) == 1 and silent.heard[0], "the server was never spoken to"
    assert SECRET not in str(caught.value) and SECRET.encode() not in silent.heard[0]


@pytest.mark.fault(18)
def test_a_silent_server_never_holds_the_end_of_a_sweep_beyond_the_time_given(
    tmp_path: Path, silent: Any
) -> None:
    run = make_run(tmp_path / "a", records())
    syncer = tracking.Syncer(run, uri=f"http://{silent.uri}", interval_s=0.1).start()
    until = time.monotonic() + 120
    while not silent.heard and time.monotonic() < until:
        time.sleep(0.05)
    assert silent.heard, "the follower never spoke to the server"
    started = time.monotonic()
    warning = syncer.stop(timeout=1.0)
    assert time.monotonic() - started < 1.0 + 10.0  # a kill on a busy machine
    assert warning is not None and "took longer than 1 s" in warning and "\n" not in warning
    assert f"bench track sync {run} --tracking-uri http://{silent.uri}" in warning


def test_a_run_whose_creation_was_never_answered_is_made_once(
    fresh: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow.exceptions import MlflowException
    from mlflow.tracking import MlflowClient

    run = fresh("a", records())
    real, calls = MlflowClient.create_run, []

    def create_run(self: Any, *args: Any, **given: Any) -> Any:
        calls.append(os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"])
        if len(calls) == 1:  # lost on the way there
            raise MlflowException("injected")
        made = real(self, *args, **given)
        if len(calls) == 3:  # lost on the way back
            raise MlflowException("injected")
        return made

    monkeypatch.setattr(MlflowClient, "create_run", create_run)
    assert tracking.sync(run).created == 3
    assert calls == ["0"] * 4  # MLflow itself tries none of them again
    monkeypatch.undo()
    assert len(shown(run)) == 3
    again = tracking.sync(run)
    assert (again.created, again.updated, again.doubles) == (0, 0, 0)


def test_a_run_that_a_slow_server_made_after_all_is_deleted_by_the_next_pass(fresh: Any) -> None:
    from mlflow.tracking import MlflowClient

    run = fresh("a", records())
    tracking.sync(run)
    before = shown(run, history=True)
    with tracking_store.quiet_mlflow():
        client = MlflowClient(tracking_store.default_uri(run))
        experiment = client.get_experiment_by_name("tiny-quick").experiment_id
        key = next(key for key in before if key.endswith("svm"))
        tags = {**before[key]["tags"]}
        made = client.create_run(experiment, tags=tags, run_name="boston/0/svm")
        keys = [r.data.tags["tabsweep.key"] for r in client.search_runs([experiment])]
    assert keys.count(key) == 2, "the fault was not injected"
    report = tracking.sync(run)
    assert (report.doubles, report.created, report.updated) == (1, 0, 0)
    assert "made twice" in str(report)
    assert shown(run, history=True) == before
    with tracking_store.quiet_mlflow():
        assert client.get_run(made.info.run_id).info.lifecycle_stage == "deleted"
    assert tracking.sync(run).doubles == 0


def test_a_follower_shows_the_sweep_and_says_nothing_when_all_is_well(fresh: Any) -> None:
    rows = records()
    run = fresh("a", rows[:5])
    syncer = tracking.Syncer(run, interval_s=0.2).start()
    add(run, rows[5:])
    assert syncer.stop(timeout=240) is None
    assert {item["status"] for item in shown(run).values()} == {"FINISHED"}
    known = tracking.last_sync(run)
    assert known is not None and known["complete"] and known["records"] == 13


def test_a_follower_whose_driver_was_killed_makes_one_last_pass_and_ends(fresh: Any) -> None:
    run = fresh("a", [result(STUDIES[0], 0)])
    code = (
        "import sys, time; from pathlib import Path; from tabsweep.benchmark import tracking\n"
        "s = tracking.Syncer(Path(sys.argv[1]), interval_s=600).start()\n"
        "print(s._process.pid, flush=True); time.sleep(600)"
    )
    driver = subprocess.Popen([sys.executable, "-c", code, str(run)], stdout=subprocess.PIPE)
    assert driver.stdout is not None
    follower = int(driver.stdout.readline())
    assert Path(f"/proc/{follower}").exists()  # it lives, and its driver is about to die
    add(run, [result(STUDIES[0], i) for i in range(1, 4)])
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline and not (tracking.last_sync(run) or {}).get("complete"):
        time.sleep(0.2)
    (item,) = shown(run).values()
    assert item["status"] == "FINISHED"
    while time.monotonic() < deadline and _alive(follower):
        time.sleep(0.1)
    assert not _alive(follower)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize(
    "uri",
    [
        "http://mlflow.example.org:5000",
        "http://10.0.0.7:5000",
        "http://localhost.example.org",
        "file:///tmp/mlruns",
        "/tmp/mlruns",
        "mlruns",
        "databricks",
        "sqlite://",
        "sqlite:///:memory:",
        "ftp://host/x",
        "https://",
    ],
)
def test_addresses_that_are_unsafe_or_unsupported_are_refused(uri: str) -> None:
    with pytest.raises(tracking.TrackingError):
        tracking_store.check(uri)


@pytest.mark.parametrize(
    "uri",
    [
        "http://127.0.0.1:5000",
        "http://localhost:5000",
        "http://[::1]:5000",
        "https://mlflow.example.org",
        "postgresql+psycopg2://u:p@db/mlflow",
        "sqlite:////tmp/mlflow.db",
    ],
)
def test_addresses_that_are_safe_are_taken(uri: str) -> None:
    assert tracking_store.check(uri) == uri


def test_plain_http_is_taken_where_the_user_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(tracking_store.INSECURE, "1")
    assert tracking_store.check("http://mlflow:5000")


@pytest.mark.parametrize(
    "uri",
    [
        f"https://me:{SECRET}@host:5000/x",
        f"https://me:{SECRET.replace('-', '%2D')}@host",
        f"postgresql://me@host/db?password={SECRET}",
    ],
)
def test_nothing_secret_survives_redaction(uri: str) -> None:
    message = f"request to {uri}/api failed: {SECRET} refused, see {uri}"
    for text in (tracking_store.redact(uri), tracking_store.scrub(message, uri)):
        assert SECRET not in text and SECRET.replace("-", "%2D") not in text
        assert "host" in text


def test_the_interface_is_served_on_this_machine_only_and_secrets_stay_off_its_command(
    tmp_path: Path,
) -> None:
    run = make_run(tmp_path / "a", records())
    with pytest.raises(tracking.TrackingError, match="bench track sync"):
        tracking.ui_command(run)
    (run / "mlflow.db").touch()
    command = tracking.ui_command(run, port=5001)
    assert command[command.index("--host") + 1] == "127.0.0.1"
    assert command[command.index("--backend-store-uri") + 1] == tracking.default_uri(run)
    uri = f"postgresql://me:{SECRET}@host/db"
    assert SECRET not in " ".join(tracking.ui_command(run, uri))
    assert tracking.ui_environment(run, uri)["MLFLOW_BACKEND_STORE_URI"] == uri
    with pytest.raises(tracking.TrackingError, match="own page"):
        tracking.ui_command(run, "https://host")


def test_the_driver_can_start_a_follower_without_loading_mlflow_or_pandas() -> None:
    code = (
        "import sys, tabsweep.benchmark.tracking.follower\n"
        "print([m for m in ('mlflow', 'pandas', 'torch', 'ray', 'sqlalchemy') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


@pytest.mark.fault(18)
@pytest.mark.nightly
def test_a_server_that_was_down_for_a_while_ends_up_with_every_run_once(
    fresh: Any, closed_port: int
) -> None:
    store, run = fresh("server", []), fresh("a", records()[:6])
    uri = f"http://127.0.0.1:{closed_port}"

    def serve() -> subprocess.Popen[bytes]:
        server = subprocess.Popen(
            tracking.ui_command(store, port=closed_port),
            env=tracking.ui_environment(store),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            try:
                tracking_store.probe(uri)
                return server
            except tracking.Unreachable:
                time.sleep(0.5)
        server.kill()
        raise AssertionError("the server did not start")

    server = serve()
    try:
        assert tracking.sync(run, uri=uri).created == 3
    finally:
        server.terminate()
        server.wait()
    add(run, records()[6:])
    with pytest.raises(tracking.TrackingError):
        tracking.sync(run, uri=uri)
    server = serve()
    try:
        report = tracking.sync(run, uri=uri)
        assert (report.created, report.updated) == (0, 3)
        again = tracking.sync(run, uri=uri)
        assert (again.created, again.updated) == (0, 0)
    finally:
        server.terminate()
        server.wait()
    tracking.sync(run)  # beside it, the store of its own
    (store / "ledger").rename(store / "ledger.old")
    shutil.copytree(run / "ledger", store / "ledger")
    own, served = shown(run), shown(store)
    assert own.keys() == served.keys()
    for key, item in own.items():
        assert item == served[key]


@pytest.mark.fault(18)
@pytest.mark.nightly
def test_a_database_that_freezes_or_dies_in_mid_sync_costs_one_warning_and_no_run(
    fresh: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import psutil
    from mlflow.tracking import MlflowClient
    from mlflow_server import MLflowServer
    from postgres import Postgres, missing

    if reason := missing():
        pytest.skip(reason)
    run = fresh("a", records())
    real_create, real_batch = MlflowClient.create_run, MlflowClient.log_batch
    struck: list[str] = []
    with Postgres() as database, MLflowServer(database.uri()) as server:
        assert database._process is not None
        master = psutil.Process(database._process.pid)

        def all_of_it() -> list[psutil.Process]:
            return [master, *master.children(recursive=True)]

        def freeze(self: Any, *args: Any, **given: Any) -> Any:
            for process in all_of_it():
                process.suspend()
            struck.append("frozen")
            return real_create(self, *args, **given)

        def die(self: Any, *args: Any, **given: Any) -> Any:
            made = real_batch(self, *args, **given)
            database.stop(signal.SIGQUIT)
            struck.append("dead")
            return made

        def fails() -> str:
            began = time.monotonic()
            with pytest.raises(tracking.TrackingError) as caught:
                tracking.sync(run, uri=server.uri, retries=0)
            assert time.monotonic() - began < 4 * tracking_store.ANSWER_S
            assert "\n" not in str(caught.value) and database.password not in str(caught.value)
            return str(caught.value)

        monkeypatch.setattr(MlflowClient, "create_run", freeze)
        fails()
        monkeypatch.undo()
        for process in all_of_it():
            process.resume()  # and what was asked of it is done, with nobody waiting for it
        monkeypatch.setattr(MlflowClient, "log_batch", die)
        fails()
        monkeypatch.undo()
        assert struck[0] == "frozen" and struck[-1] == "dead"
        fails()  # it is still down
        database.start()
        for _ in range(5):  # the server's own connections are dead, and it learns that one by one
            with suppress(tracking.TrackingError):
                tracking.sync(run, uri=server.uri)
                break
        again = tracking.sync(run, uri=server.uri)
        assert (again.created, again.updated, again.doubles) == (0, 0, 0)
        keys = database.query(
            "SELECT value, count(*) FROM tags JOIN runs USING (run_uuid) "
            "WHERE key = 'tabsweep.key' AND lifecycle_stage = 'active' GROUP BY value"
        )
        assert sorted(line.split("|")[1] for line in keys.splitlines()) == ["1", "1", "1"]
        points = int(database.query("SELECT count(*) FROM metrics"))
    tracking.sync(run)
    assert points == len(rows_in(run)["metrics"]) - other_metrics(run)


def other_metrics(run: Path) -> int:
    """Points in the run's own store that belong to the runs of the store it was copied from."""
    with sqlite3.connect(run / "mlflow.db") as database:
        return database.execute(
            "select count(*) from metrics where run_uuid not in "
            "(select run_uuid from tags where key = 'run' and value = 'a')"
        ).fetchone()[0]
