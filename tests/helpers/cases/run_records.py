"""A run made of plain ledger records, without a sweep."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tabsweep.benchmark.planning import suite as suites
from tabsweep.benchmark.planning.options import Options
from tabsweep.benchmark.planning.plan_record import PlannedDataset, PlannedStudy, RunPlan
from tabsweep.sweeps.store.ledger import Ledger

NAME = "iris/0/knn"


def whole_plan(tasks: dict[str, str], studies: list[PlannedStudy], **more: Any) -> RunPlan:
    """A plan of these studies on datasets {name: task}; the suite has the budgets of `smoke`."""
    suite = suites.load("smoke").model_copy(update={"name": "tiny", "title": "Tiny tables"})
    given: dict[str, Any] = {
        "suite_data": suite.model_dump(mode="json"),
        "options": Options(budget="quick"),
        "identity": {"sampler": {}},
        "metric": {"binary": "roc_auc", "multiclass": "accuracy", "regression": "rmse"},
        "datasets": {
            name: PlannedDataset(task, 150, 4, "ab" * 32, "kfold") for name, task in tasks.items()
        },
        "studies": studies,
        **{"left_out": {}, "notes": [], "samplers": [], "spaces": [], "environment": {}},
    }
    return RunPlan(**given | more)


def plan(*, n_trials: int = 4, seeds: int = 1, second: int = 0, **more: Any) -> dict[str, Any]:
    study = PlannedStudy("iris", "multiclass", 0, "knn", n_trials, seeds, **more)
    record = whole_plan({"iris": "multiclass"}, [study]).to_record()
    return {**record, "time": f"2030-01-01T00:00:{second:02d}.000Z"}


def result(index: int, *, stage: str = "tune", cause: str | None = None, **more: Any) -> dict:
    return {
        "kind": "result",
        "id": f"{stage}-{index}",
        "study": NAME,
        "stage": stage,
        "index": index,
        "dataset": "iris",
        "status": "failed" if cause else "done",
        "cause": cause,
        "val": {} if cause else {"accuracy": 0.5 + index / 100},
        "time": f"2030-01-01T00:01:{index % 60:02d}.000Z",
        **more,
    }


def lease(index: int, *, stage: str = "tune") -> dict[str, Any]:
    place = {"study": NAME, "stage": stage, "index": index}
    return {"kind": "lease", "id": f"{stage}-{index}", **place}


def end(n_slots: int, *, n_trials: int = 4) -> dict[str, Any]:
    return {"kind": "study", "study": NAME, "n_trials": n_trials, "n_slots": n_slots}


def make_run(folder: Path, *records: dict[str, Any]) -> Path:
    ledger = Ledger(folder, write=True)
    ledger.append(records)
    ledger.close()
    return folder
