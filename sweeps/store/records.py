"""Records of the ledger about trials, slots and studies: their keys, written and read."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from ..study import Slot, Study
from ..trial import Result, Trial
from .ledger import Ledger, Record


def utc_now() -> str:
    """The time of day in UTC, to the millisecond: "2030-01-01T00:00:00.000Z"."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def result_record(
    slot: Slot, trial: Trial, result: Result, *, predictions: Mapping[str, Any], **more: Any
) -> Record:
    """The record of a trial that has ended: all that a report needs, predictions by reference."""
    return {
        "kind": "result",
        "id": trial.id,
        "study": slot.study,
        "stage": slot.stage,
        "index": slot.index,
        "dataset": trial.dataset,
        "fold": trial.fold,
        "model": trial.model,
        "config": dict(trial.config),
        "seed": trial.seed,
        "fidelity": trial.fidelity,
        "status": result.status,
        "cause": result.cause,
        "message": result.message,
        "val": dict(result.val),
        "test": dict(result.test),
        "costs": dict(result.costs),
        "info": dict(result.info),
        "log": result.log,
        "predictions": dict(predictions),
        "time": utc_now(),
        **more,
    }


def link_record(slot: Slot, trial: Trial) -> Record:
    """The record of a slot that is filled by a trial whose result another slot's record holds."""
    return {
        "kind": "slot",
        "id": trial.id,
        "study": slot.study,
        "stage": slot.stage,
        "index": slot.index,
        "config": dict(trial.config),
        "seed": trial.seed,
        "dataset": trial.dataset,
        "fold": trial.fold,
        "model": trial.model,
        "time": utc_now(),
    }


def study_record(study: Study) -> Record:
    """The record of a study that has ended: index and validation loss of its best configuration."""
    return {
        "kind": "study",
        "study": study.name,
        "best": study.state.best,
        "loss": study.state.best_loss,
        "n_trials": study.n_trials,
        "n_slots": study.state.n_slots,
        "time": utc_now(),
    }


def same_end(one: Record, other: Record) -> bool:
    """Whether two records of a study's end say the same, whenever they were written."""
    return {**one, "time": ""} == {**other, "time": ""}


def current_ends(ledger: Ledger) -> dict[str, int]:
    """{study: position of the last record of its end}, where no trial of it was recorded since."""
    ends: dict[str, int] = {}
    for at, head in ledger.heads("study", "lease", "result", "slot"):
        if head.kind == "study":
            ends[head.study] = at
        else:
            ends.pop(head.study, None)
    return ends


def result_of(record: Mapping[str, Any]) -> Result:
    """The result in a record, without its predictions."""
    return Result(
        status=record["status"],
        cause=record["cause"],
        message=record["message"],
        val=record["val"],
        test=record["test"],
        costs=record["costs"],
        info=record["info"],
    )


def latest_results(ledger: Ledger) -> dict[str, int]:
    """{trial id: position of its last result}; a retry's record replaces the failure before it."""
    return {head.id: at for at, head in ledger.heads("result")}


def slot_places(ledger: Ledger) -> dict[Slot, tuple[str, int]]:
    """{slot: (trial id, position of its record)} of slots that ended, the last counting."""
    places: dict[Slot, tuple[str, int]] = {}
    for at, head in ledger.heads("result", "slot"):
        places[Slot(head.study, head.stage, head.index)] = (head.id, at)
    return places
