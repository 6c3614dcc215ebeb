"""Runs of single trials, the learning curve of the chosen one, and the report, in MLflow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tabsweep.benchmark.tracking import follower as tracking
from tabsweep.benchmark.tracking import store as tracking_store
from tabsweep.benchmark.tracking import trial_runs
from tabsweep.benchmark.tracking.experiments import KIND, MODEL_TRAINING
from tabsweep.benchmark.tracking.mapping import project
from tabsweep.sweeps.store.ledger import Ledger
from tracking_records import STUDIES, add, make_run, plan, records, result, shown, trials_shown

pytestmark = pytest.mark.xdist_group("mlflow")  # one store is made for all


def test_every_trial_has_a_run_with_all_its_parameters_below_its_study(fresh: Any) -> None:
    rows = records()
    run = fresh("a", rows)
    tracking.sync(run)
    found = trials_shown(run)
    assert len(found) == 12
    for row in rows:
        item = found[row["study"], row["index"]]
        assert item["params"]["depth"] == str(row["config"]["depth"])
        assert set(item["params"]) == {"depth", "kind", "layers"}
        assert item["tags"]["tabsweep.trial_id"] == row["id"]
        failed = row["status"] == "failed"
        assert item["status"] == ("FAILED" if failed else "FINISHED")
        for name, value in row["test"].items():
            assert item["metrics"].get(f"test_{name}") == value
    chosen = [key for key, item in found.items() if item["tags"].get("chosen") == "true"]
    assert sorted(study for study, _ in chosen) == sorted({row["study"] for row in rows})


def test_a_database_shows_the_same_trials_by_rows_as_by_the_calls_of_mlflow(
    fresh: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_rows, by_calls = fresh("a", records()), fresh("b/a", records())
    tracking.sync(by_rows)
    made = trial_runs.Store.__init__

    def as_server(self: Any, client: Any, experiment_id: str, database: bool, **given: Any) -> None:
        made(self, client, experiment_id, False, **given)

    monkeypatch.setattr(trial_runs.Store, "__init__", as_server)
    monkeypatch.setattr(trial_runs, "AT_ONCE", 1)  # SQLite has one writer
    tracking.sync(by_calls)
    monkeypatch.undo()
    assert trials_shown(by_rows) == trials_shown(by_calls)
    with tracking_store.quiet_mlflow():
        from mlflow.tracking import MlflowClient

        shapes = []
        for run in (by_rows, by_calls):
            client = MlflowClient(tracking_store.default_uri(run))
            runs = client.search_runs(
                [client.get_experiment_by_name("tiny-quick").experiment_id],
                "tags.`tabsweep.trial` = '0' and tags.run = 'a' and tags.model = 'svm'",
            )
            item = client.get_run(runs[0].info.run_id)
            shapes.append(item.info.artifact_uri.replace(item.info.run_id, "RUN"))
            assert client.get_metric_history(item.info.run_id, "test_rmse")[0].step == 0
        assert shapes[0] == shapes[1] and shapes[0].endswith("/RUN/artifacts")


def test_trials_that_ended_later_join_those_that_are_shown_and_the_choice_is_marked(
    fresh: Any,
) -> None:
    rows = [result(STUDIES[0], i) for i in range(4)]
    run = fresh("a", rows[:2])
    tracking.sync(run, live=True)
    assert len(trials_shown(run)) == 2
    add(run, rows[2:])
    tracking.sync(run)
    found = trials_shown(run)
    best = min(rows, key=lambda row: row["val"]["rmse"])["index"]
    chosen = [index for (_, index), item in found.items() if "chosen" in item["tags"]]
    assert len(found) == 4 and chosen == [best]


def test_a_study_that_is_replaced_takes_its_trials_with_it(fresh: Any) -> None:
    run = fresh("a", records())
    tracking.sync(run)
    again = result(STUDIES[1], 1, salt=1)
    add(run, [again])
    assert tracking.sync(run).replaced == 1
    found = trials_shown(run)
    assert len(found) == 12 and found["boston/0/svm", 1]["status"] == "FINISHED"


def test_a_sweep_of_too_many_trials_shows_studies_alone_and_says_so(
    fresh: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = fresh("a", records())  # 12 trials
    monkeypatch.setenv("TABSWEEP_TRACKING_TRIALS", "11")
    tracking.sync(run)
    assert trials_shown(run) == {}
    for item in shown(run).values():
        assert "12 trials are planned, more than 11" in item["tags"]["mlflow.note.content"]
        assert "trial/val_rmse" in item["metrics"] or "trial/val_roc_auc" in item["metrics"]
    tracking.sync(run, trials_shown=12)
    assert len(trials_shown(run)) == 12
    monkeypatch.setenv("TABSWEEP_TRACKING_TRIALS", "many")
    with pytest.raises(tracking.TrackingError, match="number of trials"):
        tracking.sync(run)


def test_the_learning_curve_of_the_chosen_fit_stands_by_its_steps(fresh: Any) -> None:
    curve = {"by": "epochs", "points": [[2, 0.75], [4, 0.5], [6, 0.625]]}
    rows = [result(STUDIES[0], i, info={"curve": curve}) for i in range(4)]
    run = fresh("a", rows)
    tracking.sync(run)
    (item,) = shown(run, history=True).values()
    assert [(s, v) for s, v, _ in item["history"]["curve/val_loss"]] == [
        (2, 0.75),
        (4, 0.5),
        (6, 0.625),
    ]
    assert "by epoch" in item["tags"]["mlflow.note.content"]


def test_the_scores_of_the_chosen_trial_come_first(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a", records())
    study = project(Ledger(run), live=False).runs[0]
    assert [point.key for point in study.finals][:2] == ["test_rmse", "val_rmse"]
    running = make_run(tmp_path / "b", records()[:4])
    assert all(item.held for item in project(Ledger(running), live=True).runs)


def test_the_report_is_among_the_artifacts_of_a_run_of_its_own_and_is_copied_when_it_changes(
    fresh: Any,
) -> None:
    from mlflow.tracking import MlflowClient

    run = fresh("a", records())
    (run / "report" / "html").mkdir(parents=True)
    (run / "report" / "scores.md").write_text("first")
    (run / "report" / "html" / "index.html").write_text("<p>page</p>")
    assert tracking.sync(run).report
    assert not tracking.sync(run).report
    (run / "report" / "scores.md").write_text("second")
    assert tracking.sync(run).report
    with tracking_store.quiet_mlflow():
        client = MlflowClient(tracking_store.default_uri(run))
        experiment = client.get_experiment_by_name("tiny-quick")
        (item,) = client.search_runs([experiment.experiment_id], "run_name = 'a (report)'")
        place = Path(item.info.artifact_uri.removeprefix("file://"))
    assert experiment.tags[KIND] == MODEL_TRAINING
    assert (place / "report" / "scores.md").read_text() == "second"
    assert (place / "report" / "html" / "index.html").is_file()
    assert item.data.metrics["n_trials"] == 12


def test_an_older_experiment_gets_the_tag_that_opens_the_view_of_models(fresh: Any) -> None:
    from mlflow.tracking import MlflowClient

    run = fresh("a", records())
    with tracking_store.quiet_mlflow():
        client = MlflowClient(tracking_store.default_uri(run))
        id = client.get_experiment_by_name("tiny-quick").experiment_id
        client.delete_experiment_tag(id, KIND)
        tracking.sync(run)
        assert client.get_experiment(id).tags[KIND] == MODEL_TRAINING


def test_a_study_on_rungs_shows_each_configuration_once_by_its_highest_rung(tmp_path: Path) -> None:
    halved = {**plan(3), "studies": [{**plan(3)["studies"][0], "rungs": [3, 1], "async": None}]}
    low = [result(STUDIES[0], i, stage="rung0") for i in range(3)]
    best = min(low, key=lambda row: row["val"]["rmse"])
    full = result(STUDIES[0], best["index"], salt=1, config=best["config"])
    ledger = Ledger(tmp_path, write=True)
    ledger.append([halved, *low])
    assert project(ledger, live=True).runs[0].children == []
    ledger.append([full])
    ledger.close()
    (run,) = project(Ledger(tmp_path), live=True).runs
    stages = [child.tags["stage"] for child in run.children]
    assert len(stages) == 3 and stages[best["index"]] == "tune"
    assert json.loads(run.children[best["index"]].params["layers"]) == [1, 2]


def test_the_duration_of_a_study_is_what_its_trials_took_though_studies_take_turns(
    tmp_path: Path,
) -> None:
    rows = [
        result(study, i, time=f"2026-01-01T00:{10 * i + at:02d}:00.000Z")
        for i in range(4)
        for at, study in enumerate(STUDIES)
    ]
    runs = project(Ledger(make_run(tmp_path, rows)), live=False).runs
    assert [run.end_ms - run.start_ms for run in runs] == [2400] * 3  # 4 times .5 and .1 s
    assert [run.end_ms - runs[0].end_ms for run in runs] == [0, 60_000, 120_000]
