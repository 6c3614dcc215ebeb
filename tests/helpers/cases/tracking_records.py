"""A run made of plain ledger records, and what its MLflow store shows of it."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path
from typing import Any

import pytest
import run_records
from tabsweep.benchmark.planning.plan_record import PlannedStudy
from tabsweep.benchmark.tracking.mapping import project
from tabsweep.benchmark.tracking.store import default_uri, opened
from tabsweep.sweeps.store.ledger import Ledger

STUDIES = [("boston", 0, "knn"), ("boston", 0, "svm"), ("wine", 1, "knn")]
SECRET = "s3cr3t-pass"


def plan(n_trials: int = 4, *, nonce: int = 0, seeds: int = 1) -> dict[str, Any]:
    tasks = {"boston": "regression", "wine": "binary"}
    planned = run_records.whole_plan(
        tasks,
        [
            PlannedStudy(dataset, tasks[dataset], fold, model, n_trials, seeds)
            for dataset, fold, model in STUDIES
        ],
        identity={
            "sampler": {"knn on regression data": "random, lag 1", "svm on boston": "grid"},
        },
        spaces=["default"],
        environment={
            "python": "3.11",
            "libraries": {"numpy": "2.0", "ray": "absent"},
            "code": "abc",
            "cores": 2,
            "cpu": "a cpu",
            "memory_mb": 1000,
            "system": "Linux",
        },
    )
    return {**planned.to_record(), "time": f"2026-01-01T00:00:00.{nonce:03d}Z"}


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
    """A run of this plan and these rows."""
    return run_records.make_run(folder, plan(**given), *rows)


def add(run: Path, rows: list[dict[str, Any]]) -> None:
    """More records of a run."""
    run_records.make_run(run, *rows)


def shown(run: Path, *, history: bool = False) -> dict[str, Any]:
    """{key: what MLflow shows} of the active runs of this run folder, without ids and times."""
    found: dict[str, Any] = {}
    with opened(default_uri(run), run) as client:
        experiment = client.get_experiment_by_name("tiny-quick")
        run_id = project(Ledger(run)).run_id
        for item in client.search_runs([experiment.experiment_id]):
            tags = item.data.tags
            if tags.get("tabsweep.run_id") != run_id or tags["tabsweep.key"] == f"{run_id}:":
                continue
            if tags["tabsweep.key"] in found:
                pytest.fail("two runs with one key")
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


def trials_shown(run: Path) -> dict[tuple[str, int], Any]:
    """{(study, index): what MLflow shows} of the runs of single trials, without ids."""
    with opened(default_uri(run), run) as client:
        experiment = client.get_experiment_by_name("tiny-quick").experiment_id
        every = {item.info.run_id: item for item in client.search_runs([experiment])}
    found: dict[tuple[str, int], Any] = {}
    for item in every.values():
        tags = dict(item.data.tags)
        parent = every.get(tags.pop("mlflow.parentRunId", ""))
        if parent is None or parent.data.tags["run"] != run.name:
            continue
        key = parent.info.run_name, int(tags["tabsweep.trial"])
        assert key not in found, "two runs of one trial"
        found[key] = {
            "name": item.info.run_name,
            "status": item.info.status,
            "times": (item.info.start_time, item.info.end_time),
            "user": item.info.user_id,
            "params": item.data.params,
            "metrics": item.data.metrics,
            "tags": tags,
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
