"""The expected cost of a sweep: number of trials, and hours from the times of earlier runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ...sweeps.store.ledger import Ledger, LedgerError
from ...sweeps.store.records import slot_places
from ...sweeps.study import Slot
from ...sweeps.trial import DONE
from .plan import Plan
from .plan_record import planned_slots


@dataclass
class Estimate:
    """What a sweep would do: `cells` trials, of which `finished` are in the run and `cached` in
    other runs. Times are None where no earlier run tells them; `basis` says what they rest on."""

    cells: int
    finished: int
    cached: int
    to_run: int
    studies: int
    unsupported: dict[str, str]
    cpu_hours: float | None
    cpu_hours_high: float | None
    wall_hours: float | None
    basis: str
    memory_mb_limit: float
    disk_mb: float

    def to_data(self) -> dict[str, Any]:
        """The fields by name, for JSON."""
        return asdict(self)


def estimate(plan: Plan, *, own: Ledger | None, others: Iterable[Path], workers: int) -> Estimate:
    """Count the trials of a plan. Configurations of a sampler that learns from results are unknown
    before it suggests them, so only those of grid and random search are counted as cached."""
    seconds: dict[tuple[str, str], list[float]] = {}
    ids: set[str] = set()
    finished_slots = slot_places(own) if own is not None else {}
    for ledger in [*([own] if own is not None else []), *_readable(others)]:
        for record in ledger.records("result"):
            if record["status"] == DONE:
                ids.add(record["id"])
                cost = record["costs"].get("fit_s", 0.0) + record["costs"].get("predict_s", 0.0)
                seconds.setdefault((record["dataset"], record["model"]), []).append(cost)
    cells = finished = cached = 0
    low = high = 0.0
    unknown = 0
    ended = Counter(Slot.parse(key)[0] for key in finished_slots)
    for study in plan.build():
        n = planned_slots(study.meta)
        already = min(n, ended[study.name])
        left = n - already
        cells += n
        finished += already
        while already < n and (slot := study.next_slot()) is not None:
            id = study.open(slot).id
            if slot.key not in finished_slots and id in ids:
                cached += 1
                left -= 1
            if not study.sampler.history_free:
                break
        known = seconds.get((study.meta["dataset"], study.meta["model"]))
        if known:
            low += left * sum(known) / len(known)
            high += left * max(known)
        else:
            unknown += left
    to_run = cells - finished - cached
    basis = f"{len(seconds)} (dataset, model) pairs of earlier runs"
    if unknown:
        basis = f"unknown for {unknown} of {to_run} trials, which no earlier run has" + (
            f"; the rest from {basis}" if seconds else ""
        )
    known_all = not unknown
    return Estimate(
        cells=cells,
        finished=finished,
        cached=cached,
        to_run=to_run,
        studies=len(plan.studies),
        unsupported={s.name: s.reason for s in plan.studies if s.reason},
        cpu_hours=round(low / 3600, 3) if known_all else None,
        cpu_hours_high=round(high / 3600, 3) if known_all else None,
        wall_hours=round(low / 3600 / max(1, workers), 3) if known_all else None,
        basis=basis if to_run else "nothing to run",
        memory_mb_limit=plan.limits.memory_mb,
        disk_mb=round(to_run * 0.02, 1),
    )


def _readable(folders: Iterable[Path]) -> Iterable[Ledger]:
    for folder in folders:
        try:
            yield Ledger(folder)
        except LedgerError:
            continue
