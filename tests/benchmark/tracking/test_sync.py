"""One pass into an MLflow store: idempotent, resumable, and equal to the ledger."""

from __future__ import annotations

import json
import os
import random
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tabsweep.benchmark.results.evidence_builder import load_results
from tabsweep.benchmark.tracking import follower as tracking
from tabsweep.benchmark.tracking import store as tracking_store
from tabsweep.benchmark.tracking import sync
from tabsweep.benchmark.tracking.mapping import project
from tabsweep.benchmark.tracking.trial_runs import Store
from tabsweep.sweeps.store.ledger import Ledger
from tracking_records import (
    STUDIES,
    add,
    evaluations,
    make_run,
    plan,
    records,
    result,
    rows_in,
    shown,
)

pytestmark = pytest.mark.xdist_group("mlflow")  # one store is made for all


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
    assert "trial/val_rmse" not in svm["history"], "each trial has a run of its own"
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
        mine = "tags.`tabsweep.key` LIKE '%svm' and tags.run = 'a'"
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


def test_a_study_on_rungs_is_shown_by_its_lowest_and_ends_with_its_highest(
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
    ledger.append([full])
    ledger.close()
    (run,) = project(Ledger(tmp_path), live=True).runs
    values = {point.key: point.value for point in run.finals}
    assert run.status == "FINISHED" and run.tags["rungs"] == "3, 1"
    assert values["val_rmse"] == full["val"]["rmse"] and values["n_trials"] == 3
    assert values["total_fit_s"] == 2.0, "rungs cost, too"
    assert run.tags["tabsweep.trial_id"] == full["id"]


def test_a_study_that_its_seconds_ended_is_finished_with_fewer_trials(tmp_path: Path) -> None:
    timed = {**plan(9), "studies": [{**plan(9)["studies"][0], "study_s": 5.0}]}
    done, last = (
        result(STUDIES[0], i, cause=cause, costs={"fit_s": 0.5, "cpu_s": 4.0})
        for i, cause in enumerate([None, "error"])
    )
    ledger = Ledger(tmp_path, write=True)
    ledger.append([timed, done])
    (run,) = project(ledger, live=False).runs
    assert (run.status, run.finals) == ("KILLED", [])
    ledger.append([last])
    ledger.close()
    (run,) = project(Ledger(tmp_path), live=False).runs
    assert run.status == "FINISHED" and run.tags["tabsweep.trial_id"] == done["id"]


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
    store = Store(Client(), "1", database=False)
    assert sync._fill(Client(), entity({}), want, store, fresh=True) == (True, 1201)
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
        keys = [r.data.tags.get("tabsweep.key") for r in client.search_runs([experiment])]
    assert keys.count(key) == 2, "the fault was not injected"
    report = tracking.sync(run)
    assert (report.doubles, report.created, report.updated) == (1, 0, 0)
    assert "made twice" in str(report)
    assert shown(run, history=True) == before
    with tracking_store.quiet_mlflow():
        assert client.get_run(made.info.run_id).info.lifecycle_stage == "deleted"
    assert tracking.sync(run).doubles == 0
