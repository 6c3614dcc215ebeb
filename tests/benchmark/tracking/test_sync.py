"""One pass into an MLflow store: idempotent, resumable, and equal to the ledger."""

from __future__ import annotations

import json
import random
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tabsweep.benchmark.results.evidence_builder import load_results
from tabsweep.benchmark.tracking.experiments import VIEW_TAG
from tabsweep.benchmark.tracking.mapping import project
from tabsweep.benchmark.tracking.store import TrackingError, default_uri, opened
from tabsweep.benchmark.tracking.sync import sync
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
    trials_shown,
)

pytestmark = pytest.mark.xdist_group("mlflow")  # one store is made for all

ONE = [result(STUDIES[0], 0)]


@pytest.fixture(scope="module")
def synced(raced: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of three studies and twelve trials after one pass; nobody changes it."""
    run = make_run(tmp_path_factory.mktemp("synced") / "a", records())
    shutil.copy(raced.database, run / "mlflow.db")
    sync(run)
    return run


def everything(run: Path) -> tuple[dict[str, Any], dict[tuple[str, int], Any]]:
    """What MLflow shows of a run: its studies with their history, and its trials."""
    return shown(run, history=True), trials_shown(run)


def test_syncing_twice_adds_nothing_even_where_the_note_of_the_first_time_is_lost(
    fresh: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    run = fresh("a", records())
    first = sync(run)
    before = rows_in(run)
    again = sync(run)
    shutil.rmtree(run / "tracking")
    once_more = sync(run)
    assert (first.created, first.trials) == (3, 12)
    for report in (again, once_more):
        assert (report.created, report.replaced, report.trials) == (0, 0, 0)
    assert rows_in(run) == before
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("lost", ["the database", "a run"])
def test_what_somebody_deleted_in_mlflow_comes_again(fresh: Any, raced: Any, lost: str) -> None:
    run = fresh("a", records())
    sync(run)
    before = everything(run)
    if lost == "a run":
        with opened(default_uri(run), run) as client:
            experiment = client.get_experiment_by_name("tiny-quick").experiment_id
            mine = "tags.`tabsweep.key` LIKE '%svm' and tags.run = 'a'"
            (svm,) = client.search_runs([experiment], mine)
            client.delete_run(svm.info.run_id)
    else:  # a store that has never heard of this run
        (run / "mlflow.db").unlink()
        shutil.copy(raced.database, run / "mlflow.db")
    report = sync(run)
    assert (report.created, report.replaced) == (1 if lost == "a run" else 3, 0)
    assert everything(run) == before


def test_many_passes_on_the_way_show_what_one_pass_at_the_end_shows(fresh: Any) -> None:
    rows = records()
    random.Random(0).shuffle(rows)  # trials end in any order
    once, run = fresh("a", rows), fresh("b/a", [])
    sync(once)
    for low, high in pairwise([0, 0, 2, 5, 7, 10, 11, len(rows)]):
        add(run, rows[low:high])
        sync(run)
    sync(run)
    assert everything(run) == everything(once)


@pytest.mark.parametrize("answered", [True, False], ids=["undone", "done"])
def test_a_pass_that_dies_in_any_call_is_completed_by_the_next_and_nothing_is_there_twice(
    fresh: Any, answered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call whose answer was lost may have been done all the same, or not."""
    from mlflow.tracking import MlflowClient

    run, once = fresh("a", records()), fresh("b/a", records())
    sync(once)
    left = [0]

    def dying(real: Any) -> Any:
        def call(*args: Any, **given: Any) -> Any:
            left[0] -= 1
            if left[0] == 0 and answered:
                raise RuntimeError("injected")
            made = real(*args, **given)
            if left[0] == 0:
                raise RuntimeError("injected")
            return made

        return call

    with monkeypatch.context() as patch:
        for name in ("create_run", "log_inputs", "log_batch", "set_terminated", "delete_run"):
            patch.setattr(MlflowClient, name, dying(getattr(MlflowClient, name)))
        for dies_at in (1, 2, 3, 5, 16, 20, 31):
            left[0] = dies_at
            with pytest.raises(TrackingError, match="injected"):
                sync(run)
    sync(run)
    assert everything(run) == everything(once)


def test_params_and_scores_are_those_of_the_configuration_that_the_reports_select(
    synced: Path,
) -> None:
    frame = load_results(synced)
    studies = {item["name"]: item for item in shown(synced).values()}
    for row in frame[frame["selected"]].itertuples():
        item = studies[row.study]
        config = json.loads(row.config)
        params = {"depth": str(config["depth"]), "kind": "gb tree", "layers": "[1,2]"}
        assert item["params"] == params
        metric = "roc_auc" if row.task == "binary" else "rmse"
        assert item["metrics"][f"test_{metric}"] == getattr(row, f"test_{metric}")
        assert item["metrics"][f"trial/best_val_{metric}"] == getattr(row, f"val_{metric}")
        assert item["tags"]["tabsweep.trial_id"] == row.id
        assert item["status"] == "FINISHED" and item["datasets"] == [row.dataset]
        for tag in ("suite", "budget", "run", "dataset", "model", "fold", "task", "versions"):
            assert item["tags"][tag]
    samplers = {name: item["tags"].get("sampler") for name, item in studies.items()}
    assert samplers == {
        "boston/0/knn": "random, lag 1",
        "boston/0/svm": "grid",  # a dataset with settings of its own
        "wine/1/knn": None,
    }


def test_every_trial_has_a_run_below_its_study_which_counts_the_failed_ones(synced: Path) -> None:
    rows = records()
    found = trials_shown(synced)
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
    svm = next(v for k, v in shown(synced, history=True).items() if k.endswith("svm"))
    assert svm["metrics"]["n_failed"] == 1
    assert svm["tags"]["failures"] == "timeout 1"
    assert "timeout `took longer than '300' s`" in svm["tags"]["mlflow.note.content"]
    assert "trial/val_rmse" not in svm["history"], "each trial has a run of its own"


@pytest.mark.parametrize(
    ("rows", "planned", "status", "words"),
    [
        (ONE, {}, "", ""),
        (ONE, {"n_trials": 1}, "FINISHED", "done"),
        ([result(STUDIES[0], i, cause="error") for i in range(2)], {"n_trials": 2},
         "FAILED", "failed: every trial"),
        (ONE + evaluations(ONE)[:2], {"n_trials": 1, "seeds": 3}, "", ""),
        (ONE + evaluations(ONE), {"n_trials": 1, "seeds": 3}, "FINISHED", "done"),
    ],
)  # fmt: skip
def test_a_study_comes_when_it_has_ended(
    rows: list[dict[str, Any]], planned: Any, status: str, words: str, tmp_path: Path
) -> None:
    ledger = Ledger(make_run(tmp_path / "a", rows, **planned))
    runs = project(ledger).runs
    assert len(runs) == bool(status)
    if not runs:
        return
    (run,) = runs
    assert (run.status, run.tags["status"]) == (status, words)
    assert bool(run.params) == (status == "FINISHED")
    seeds = [(p.step, p.value) for p in run.points if p.key == "seed/test_rmse"]
    ended = status == "FINISHED" and "seeds" in planned
    assert seeds == ([(0, 0.25), (1, 1.25), (2, 2.25)] if ended else [])
    assert not ended or values_of(run)["test_rmse"] == run.loss == 1.25, "as in the tables"


def test_a_study_that_has_gone_on_is_replaced_with_its_trials(fresh: Any) -> None:
    """It was extended, or a failed trial ran again."""
    study = STUDIES[0]
    rows = [result(study, 0), result(study, 1, cause="error")]
    run = fresh("a", rows, n_trials=2)
    sync(run)
    more = [result(study, i, salt=1) for i in (1, 2)]
    add(run, [plan(3), *more])
    report = sync(run)
    assert (report.replaced, report.created, report.trials) == (1, 1, 3)
    (item,) = shown(run).values()
    scores = [row["val"]["rmse"] for row in (rows[0], *more)]
    assert item["metrics"]["val_rmse"] == min(scores) and item["metrics"]["n_trials"] == 3
    assert item["tags"]["failures"] == "none"
    assert {i: trial["status"] for (_, i), trial in trials_shown(run).items()} == dict.fromkeys(
        range(3), "FINISHED"
    )


def test_a_run_that_a_slow_server_made_after_all_is_deleted_by_the_next_pass(fresh: Any) -> None:
    run = fresh("a", records())
    sync(run)
    before = shown(run, history=True)
    key = next(key for key in before if key.endswith("svm"))
    with opened(default_uri(run), run) as client:
        experiment = client.get_experiment_by_name("tiny-quick").experiment_id
        made = client.create_run(experiment, tags=before[key]["tags"], run_name="boston/0/svm")
        keys = [r.data.tags.get("tabsweep.key") for r in client.search_runs([experiment])]
    assert keys.count(key) == 2, "the fault was not injected"
    assert sync(run).created == 0
    assert shown(run, history=True) == before
    with opened(default_uri(run), run) as client:
        assert client.get_run(made.info.run_id).info.lifecycle_stage == "deleted"


def values_of(run: Any) -> dict[str, float]:
    """{metric: its last value} of a run that is shown."""
    return {point.key: point.value for point in run.points}


def test_only_what_the_plan_in_force_holds_is_projected(tmp_path: Path) -> None:
    rows = [result(STUDIES[0], i) for i in range(12)]
    scores = [row["val"]["rmse"] for row in rows]
    first = next(n for n in range(2, 12) if min(scores[:n]) > min(scores))
    stale = evaluations(rows[:first])
    run = make_run(tmp_path / "a", [*rows[:first], *stale], n_trials=first, seeds=3)
    (before,) = project(Ledger(run)).runs
    assert before.status == "FINISHED"
    assert sum(point.key == "seed/test_rmse" for point in before.points) == 3
    add(run, [plan(12, seeds=3), *rows[first:]])
    assert not project(Ledger(run)).runs, "another configuration is chosen: nobody evaluated it yet"
    add(run, [plan(first, seeds=3, nonce=1)])
    (again,) = project(Ledger(run)).runs
    assert again.points == before.points and again.trials == before.trials


def test_a_study_on_rungs_ends_with_its_highest_and_shows_each_configuration_once(
    tmp_path: Path,
) -> None:
    halved = {**plan(3), "studies": [{**plan(3)["studies"][0], "rungs": [3, 1], "async": None}]}
    low = [result(STUDIES[0], i, stage="rung0") for i in range(3)]
    best = min(low, key=lambda row: row["val"]["rmse"])
    full = result(STUDIES[0], best["index"], salt=1, config=best["config"])
    ledger = Ledger(tmp_path, write=True)
    ledger.append([halved, *low])
    assert project(ledger).runs == []
    ledger.append([full])
    ledger.close()
    (run,) = project(Ledger(tmp_path)).runs
    values = values_of(run)
    assert run.status == "FINISHED" and run.tags["rungs"] == "3, 1"
    assert values["val_rmse"] == full["val"]["rmse"] and values["n_trials"] == 3
    assert values["total_fit_s"] == 2.0, "rungs cost, too"
    assert run.tags["tabsweep.trial_id"] == full["id"]
    stages = [trial.tags["stage"] for trial in run.trials]
    assert len(stages) == 3 and stages[best["index"]] == "tune"


def test_a_sweep_of_too_many_trials_shows_studies_alone_and_says_so(fresh: Any) -> None:
    run = fresh("a", records())  # 12 trials
    sync(run, trials_shown=11)
    assert trials_shown(run) == {}
    for item in shown(run).values():
        assert "12 trials are planned, more than 11" in item["tags"]["mlflow.note.content"]
        assert "trial/val_rmse" in item["metrics"] or "trial/val_roc_auc" in item["metrics"]
    sync(run, trials_shown=12)
    assert len(trials_shown(run)) == 12
    sync(run, trials_shown=11)
    sync(run)  # as bench resume does it: with the limit of the last sync
    assert trials_shown(run) == {}


def test_the_learning_curve_of_the_chosen_fit_stands_by_its_steps(tmp_path: Path) -> None:
    points = [(2, 0.75), (4, 0.5), (6, 0.625)]
    curve = {"by": "epochs", "points": points}
    rows = [result(STUDIES[0], i, info={"curve": curve}) for i in range(4)]
    (run,) = project(Ledger(make_run(tmp_path / "a", rows))).runs
    assert [(p.step, p.value) for p in run.points if p.key == "curve/val_loss"] == points
    assert "by epoch" in run.tags["mlflow.note.content"]


def test_the_first_view_has_dataset_model_score_rank_and_seconds(fresh: Any) -> None:
    rows = records()
    run = fresh("a", [row for row in rows if row["model"] == "knn"])
    sync(run)
    assert all("rank" not in item["metrics"] for item in shown(run).values()), "one model is out"
    add(run, [row for row in rows if row["model"] == "svm"])
    sync(run)
    items = {item["name"]: item for item in shown(run).values()}
    pair = sorted((items["boston/0/knn"], items["boston/0/svm"]),
                  key=lambda item: item["metrics"]["test_rmse"])  # fmt: skip
    assert [item["metrics"]["rank"] for item in pair] == [1.0, 2.0]
    assert "rank" not in items["wine/1/knn"]["metrics"], "nothing to be compared with"
    with opened(default_uri(run), run) as client:
        experiment = client.get_experiment_by_name("tiny-quick")
    columns = json.loads(experiment.tags[VIEW_TAG])["selectedColumns"]
    for column in columns:
        kind, _, name = column.partition(".")
        name = name.strip("`")
        assert any(name in item[kind] for item in items.values()), column
    assert {"tags.`dataset`", "tags.`model`", "metrics.`test_rmse`", "metrics.`test_roc_auc`",
            "metrics.`rank`", "metrics.`total_fit_s`"} <= {*columns}  # fmt: skip
    names = [point.key for point in project(Ledger(run)).runs[0].points]
    assert names[:2] == ["test_rmse", "val_rmse"], "MLflow lists metrics in this order"


def test_the_report_is_among_the_artifacts_of_a_run_of_its_own_and_is_copied_when_it_changes(
    fresh: Any,
) -> None:
    run = fresh("a", records())
    (run / "report" / "html").mkdir(parents=True)
    (run / "report" / "scores.md").write_text("first")
    (run / "report" / "html" / "index.html").write_text("<p>page</p>")
    assert sync(run).report
    assert not sync(run).report
    (run / "report" / "scores.md").write_text("second")
    assert sync(run).report
    with opened(default_uri(run), run) as client:
        experiment = client.get_experiment_by_name("tiny-quick")
        (item,) = client.search_runs([experiment.experiment_id], "run_name = 'a (report)'")
        place = Path(item.info.artifact_uri.removeprefix("file://"))
    assert (place / "report" / "scores.md").read_text() == "second"
    assert (place / "report" / "html" / "index.html").is_file()
    assert item.data.metrics["n_trials"] == 12


def test_the_duration_of_a_study_is_what_its_trials_took_though_studies_take_turns(
    tmp_path: Path,
) -> None:
    rows = [
        result(study, i, time=f"2026-01-01T00:{10 * i + at:02d}:00.000Z")
        for i in range(4)
        for at, study in enumerate(STUDIES)
    ]
    runs = project(Ledger(make_run(tmp_path, rows))).runs
    assert [run.end_ms - run.start_ms for run in runs] == [2400] * 3  # 4 times .5 and .1 s
    assert [run.end_ms - runs[0].end_ms for run in runs] == [0, 60_000, 120_000]
