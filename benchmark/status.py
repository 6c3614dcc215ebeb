"""How far is a run? An answer from its ledger alone, without loading data or models."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from ..sweeps.engine import latest_results, slot_places
from ..sweeps.ledger import Ledger, LedgerError, Record
from ..sweeps.lock import owner_of
from ..sweeps.study import EVAL, TUNE, Slot
from ..sweeps.trial import DONE, FAILED


@dataclass
class Status:
    """Slots of a run by their state; `eta_s` is None where nothing says how fast it goes."""

    run: str
    suite: str
    budget: str
    planned: int
    done: int
    failed: dict[str, int]
    unsupported: int
    running: int
    left: int
    eta_s: float | None
    owner: dict[str, Any] | None
    datasets: int
    models: int
    left_out: dict[str, str] = field(default_factory=dict)
    unsupported_studies: int = 0
    quarantined_bytes: int = 0

    def to_data(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def finished(self) -> bool:
        return self.left == 0


def last_plan(ledger: Ledger) -> Record | None:
    """The plan in force: the last one written."""
    positions = list(ledger.positions("plan"))
    return ledger.at(positions[-1]) if positions else None


def plan_in(ledger: Ledger) -> Record:
    """The plan in force. Raises LedgerError where none was written yet."""
    plan = last_plan(ledger)
    if plan is None:
        raise LedgerError(f"{ledger.run} holds no plan yet: nothing was started in it")
    return plan


def stages_of(study: dict[str, Any]) -> dict[str, int]:
    """{stage: how many slots a planned study has in it}."""
    if study["reason"]:
        return {TUNE: 0, EVAL: 0}
    return {TUNE: study["n_trials"], EVAL: study["n_seeds"] if study["n_seeds"] > 1 else 0}


def planned_slots(study: dict[str, Any]) -> int:
    """How many trials a planned study stands for, evaluation seeds included."""
    return sum(stages_of(study).values())


def slots_of(plan: Record) -> dict[tuple[str, str], int]:
    """{(study, stage): how many slots the plan has there}; an index beyond is of an older plan."""
    return {
        (f"{study['dataset']}/{study['fold']}/{study['model']}", stage): n
        for study in plan["studies"]
        for stage, n in stages_of(study).items()
    }


def status_of(run: Path) -> Status:
    """Raises LedgerError where `run` is not the folder of a run."""
    ledger = Ledger(run)
    plan = plan_in(ledger)
    planned_in = slots_of(plan)
    results = latest_results(ledger)
    states: Counter[str] = Counter()
    causes: Counter[str] = Counter()
    ended = []
    places = slot_places(ledger)
    for key, (id, _) in places.items():
        study, stage, index = Slot.parse(key)
        if index >= planned_in.get((study, stage), 0) or id not in results:
            continue
        record = ledger.at(results[id])
        states[record["status"]] += 1
        if record["status"] == FAILED:
            causes[record["cause"]] += 1
        if not record.get("origin"):
            ended.append(record["time"])
    planned = sum(map(planned_slots, plan["studies"]))
    left = max(0, planned - sum(states.values()))
    owner = owner_of(run)
    leases = {}
    for at in ledger.positions("lease"):
        record = ledger.at(at)
        leases[Slot(record["study"], record["stage"], record["index"]).key] = (record["id"], at)
    running = sum(
        id not in results and at > places.get(key, ("", -1))[1] for key, (id, at) in leases.items()
    )
    return Status(
        run=str(run),
        suite=plan["suite"]["name"],
        budget=plan["options"]["budget"],
        planned=planned,
        done=states[DONE],
        failed=dict(sorted(causes.items())),
        unsupported=states["unsupported"],
        running=running if owner else 0,
        left=left,
        eta_s=_eta(ended, left) if left else 0.0,
        owner=owner,
        datasets=len(plan["datasets"]),
        models=len({study["model"] for study in plan["studies"]}),
        left_out=plan["left_out"],
        unsupported_studies=sum(bool(study["reason"]) for study in plan["studies"]),
        quarantined_bytes=ledger.torn_bytes,
    )


def _eta(times: list[str], left: int) -> float | None:
    """Seconds to go at the pace of the last 200 results."""
    recent = sorted(times)[-200:]
    if len(recent) < 2:
        return None
    first, last = (datetime.fromisoformat(text) for text in (recent[0], recent[-1]))
    seconds = (last - first).total_seconds()
    return round(left * seconds / (len(recent) - 1), 1) if seconds > 0 else None
