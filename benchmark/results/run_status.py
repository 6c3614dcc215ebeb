"""The progress of a run, counted from its ledger alone, without data or models."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from ...sweeps.store.ledger import Ledger, Record
from ...sweeps.store.records import latest_results
from ...sweeps.store.run_lock import owner_of
from ...sweeps.study_state import TUNE, Shape, StudyState
from ...sweeps.trial import DONE, FAILED
from ..planning.plan_record import RunPlan, no_plan

RECENT = 200  # results whose times give the pace

Place = tuple[str, str, int]  # study, stage and index of a slot
NO_RANK = math.nan, 0.0  # of a result in a study whose slots count by their number alone


@dataclass
class RunStatus:
    """The slots of a run by state. `eta_s` (seconds to go) and `per_minute` (results) are None
    while the pace is unknown; `fits`: what scores are of, single fits or bags; `owner` is the
    process that runs it, None where none does."""

    run: str
    suite: str
    budget: str
    fits: str
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
    per_minute: float | None = None

    def to_data(self) -> dict[str, Any]:
        """The fields by name, for JSON."""
        return asdict(self)

    @property
    def finished(self) -> bool:
        """Whether no slot is left."""
        return self.left == 0


def status_of(run: Path) -> RunStatus:
    """The status of a run. Raises LedgerError where `run` is not the folder of one, or holds no
    plan."""
    owner = owner_of(run)  # first: what it wrote before it ended is then seen below
    return status_in(Ledger(run), owner)


def status_in(ledger: Ledger, owner: dict[str, Any] | None = None) -> RunStatus:
    """The status of a run from its records, which `owner` is adding to. Raises LedgerError where
    there is no plan."""
    plan: RunPlan | None = None
    shapes: dict[str, Shape] = {}  # study -> its slots in the plan in force
    results: dict[str, tuple[int, str]] = {}  # trial id -> place and status of its last result
    slots: dict[Place, str] = {}  # ended, with its trial
    running: set[Place] = set()  # sent to a worker, not ended
    ended: dict[str, int] = {}  # study -> slots that it had when it ended
    for position, head in ledger.heads():
        key = head.study, head.stage, head.index
        if head.kind == "plan":
            before, plan = shapes, RunPlan.of(ledger.at(position))
            shapes = {study.name: study.shape for study in plan.studies}
            for study in [s for s in ended if shapes.get(s) != before.get(s)]:
                del ended[study]  # it has been extended
        elif head.kind == "study":
            n_slots = ledger.at(position).get("n_slots")
            if n_slots is not None:
                ended[head.study] = n_slots
        elif head.kind in ("lease", "result", "slot"):
            ended.pop(head.study, None)  # a study that continues ends once more
            if head.kind == "lease":
                running.add(key)
                continue
            for stage in (head.stage, *([TUNE] if head.stage.startswith("rung") else [])):
                running.discard((head.study, stage, head.index))
            slots[key] = head.id
            if head.kind == "result":
                results.pop(head.id, None)
                results[head.id] = position, head.status
    if plan is None:
        raise no_plan(ledger.run, len(results))
    states = _states(ledger, plan, shapes, slots, results)
    statuses: Counter[str] = Counter()
    causes: Counter[str] = Counter()
    for study, state in states.items():
        for slot in state.slots():
            position, status = results[slots[study, *slot]]
            statuses[status] += 1
            if status == FAILED:
                causes[ledger.at(position)["cause"]] += 1
    planned = {study: ended.get(study, shape.n_slots) for study, shape in shapes.items()}
    done = {study: state.n_done for study, state in states.items()}
    left = sum(max(0, n - done.get(study, 0)) for study, n in planned.items())
    recent = [ledger.at(position) for position, _ in [*results.values()][-RECENT:]]
    pace = pace_of([record["time"] for record in recent if not record.get("origin")])
    return RunStatus(
        run=str(ledger.run),
        suite=plan.suite.name,
        budget=str(plan.options.budget),
        fits=" and ".join(sorted(set(plan.fits.values()))),
        planned=sum(planned.values()),
        done=statuses[DONE],
        failed=dict(sorted(causes.items())),
        unsupported=statuses["unsupported"],
        running=len(running) if owner else 0,
        left=left,
        eta_s=0.0 if not left else round(left / pace, 1) if pace else None,
        owner=owner,
        datasets=len(plan.datasets),
        models=len(plan.models),
        left_out=dict(plan.left_out),
        unsupported_studies=sum(bool(study.reason) for study in plan.studies),
        quarantined_bytes=ledger.torn_bytes,
        per_minute=round(60 * pace, 2) if pace else None,
    )


def _states(
    ledger: Ledger,
    plan: RunPlan,
    shapes: Mapping[str, Shape],
    slots: Mapping[Place, str],
    results: Mapping[str, tuple[int, str]],
) -> dict[str, StudyState]:
    """{study: where it stands} of the planned studies in which a slot has ended."""
    stages: dict[tuple[str, str], list[tuple[int, float, float]]] = defaultdict(list)
    for (study, stage, index), id in slots.items():
        if study in shapes and id in results:
            ranked = _rank(plan, ledger.at(results[id][0])) if shapes[study].selective else NO_RANK
            stages[study, stage].append((index, *ranked))
    states: dict[str, StudyState] = {}
    for (study, stage), of_stage in stages.items():
        state = states.setdefault(study, StudyState(shapes[study]))
        state.add_all(stage, *zip(*of_stage, strict=True))
    return states


def results_in(run: Path) -> tuple[dict[str, int], set[str]]:
    """({other run: results of this run that were copied from it}, studies with a score)."""
    ledger, origins, done = Ledger(run), Counter[str](), set[str]()
    for record in (ledger.at(position) for position in latest_results(ledger).values()):
        origins.update([record["origin"]] if record.get("origin") else [])
        done.update([record["study"]] if record["status"] == DONE else [])
    return dict(sorted(origins.items())), done


def _rank(plan: RunPlan, record: Record) -> tuple[float, float]:
    """(validation loss, NaN where it has none, CPU seconds) of a result."""
    from ...reports.metrics import METRICS

    metric = plan.metric[plan.datasets[record["dataset"]].task]
    value = record["val"].get(metric) if record["status"] == DONE else None
    loss = math.nan if value is None else METRICS[metric].loss(value)
    return loss, (record.get("costs") or {}).get("cpu_s") or 0.0


def pace_of(times: Sequence[str]) -> float | None:
    """Events per second, from their times in order; None where the times do not tell.

    A gap that is longer than all others together does not count: the run paused, or the clock
    jumped. A step backwards does not count either.

    >>> pace_of([f"2030-01-01T00:00:{second:02d}Z" for second in range(0, 60, 10)])
    0.1
    """
    moments = [datetime.fromisoformat(text).timestamp() for text in times]
    gaps = sorted(b - a for a, b in pairwise(moments) if b >= a)
    while len(gaps) > 10 and gaps[-1] > sum(gaps[:-1]):
        gaps.pop()
    return len(gaps) / sum(gaps) if sum(gaps) > 0 else None
