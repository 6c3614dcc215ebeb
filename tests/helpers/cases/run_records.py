"""A run made of plain ledger records, without a sweep."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tabsweep.sweeps.store.ledger import Ledger

NAME = "iris/0/knn"


def plan(*, n_trials: int = 4, seeds: int = 1, second: int = 0, **more: Any) -> dict[str, Any]:
    study = {"dataset": "iris", "task": "multiclass", "fold": 0, "model": "knn"}
    return {
        "kind": "plan",
        "suite": {"name": "tiny"},
        "options": {"budget": "quick"},
        "metric": {"multiclass": "accuracy"},
        "datasets": {"iris": {"task": "multiclass"}},
        "studies": [{**study, "n_trials": n_trials, "n_seeds": seeds, "reason": "", **more}],
        "left_out": {},
        "time": f"2030-01-01T00:00:{second:02d}.000Z",
    }


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
