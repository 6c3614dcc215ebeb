"""The progress of a run, counted from its ledger alone, without data or models."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from ...sweeps.store.ledger import Head, Ledger, Record
from ...sweeps.store.run_lock import owner_of
from ...sweeps.study_state import TUNE, Shape, StudyState
from ...sweeps.trial import DONE, FAILED
from ..planning.plan_record import checked, no_plan, study_name

RECENT = 200  # results whose times give the pace

Read = Callable[[], Record]  # decodes one record
Place = tuple[str, str, int]  # study, stage and index of a slot


@dataclass
class RunStatus:
    """The slots of a run by state. `eta_s` (seconds to go) and `per_minute` (results) are None
    while the pace is unknown; `owner` is the process that runs it, None where none does."""

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
    per_minute: float | None = None

    def to_data(self) -> dict[str, Any]:
        """The fields by name, for JSON."""
        return asdict(self)

    @property
    def finished(self) -> bool:
        """Whether no slot is left."""
        return self.left == 0


class RunCounts:
    """Counts of a run's slots, from its records in the order of the ledger. Adding records a second
    time, in their order, changes nothing.
    """

    def __init__(self) -> None:
        self.plan: Record | None = None
        self._shapes: dict[str, Shape] = {}  # study -> its slots in the plan in force
        self._selective = False  # whether a study of the plan is
        self._results: dict[str, tuple[str, str]] = {}  # trial id -> (status, cause)
        # Trial id -> (loss, CPU seconds), where a study of the plan needs them (`selective`).
        self._ranked: dict[str, tuple[float, float]] = {}
        self._slots: dict[Place, str] = {}  # ended, with its trial
        self._open: set[Place] = set()  # sent to a worker, not ended
        self._ended: dict[str, int] = {}  # study -> slots that it had when it ended
        self._recent: dict[str, Read] = {}  # results, by trial id

    def add_all(self, ledger: Ledger) -> RunCounts:
        """Add every record of a ledger; returns self."""
        for position in ledger.positions():
            self.add(ledger.head(position), partial(ledger.at, position))
        return self

    def add(self, head: Head, read: Read) -> None:
        """Add one record by its head; `read` decodes the record where more is needed."""
        if head.kind == "plan":
            self._replan(read())
        elif head.kind == "study":
            n_slots = read().get("n_slots")
            if n_slots is not None:
                self._ended[head.study] = n_slots
        elif head.kind in ("lease", "result", "slot"):
            key = head.study, head.stage, head.index
            self._ended.pop(head.study, None)  # a study that continues ends once more
            if head.kind == "lease":
                self._open.add(key)
                return
            for stage in (head.stage, *([TUNE] if head.stage.startswith("rung") else [])):
                self._open.discard((head.study, stage, head.index))
            self._slots[key] = head.id
            if head.kind == "result":
                cause = read()["cause"] if head.status == FAILED else ""
                self._results[head.id] = head.status, cause
                if self._selective:
                    self._ranked[head.id] = self._rank(read())
                self._recent.pop(head.id, None)
                self._recent[head.id] = read
                if len(self._recent) > RECENT:
                    del self._recent[next(iter(self._recent))]

    def _replan(self, plan: Record) -> None:
        before, self.plan = self._shapes, checked(plan)
        self._shapes = {study_name(study): Shape.of(study) for study in plan["studies"]}
        self._selective = any(shape.selective for shape in self._shapes.values())
        for study in [s for s in self._ended if self._shapes.get(s) != before.get(s)]:
            del self._ended[study]  # it has been extended

    def _rank(self, record: Record) -> tuple[float, float]:
        """(validation loss, NaN where it has none, CPU seconds) of a result."""
        from ...reports.metrics import METRICS

        loss = math.nan
        if self.plan is not None and record["status"] == DONE:
            metric = self.plan["metric"][self.plan["datasets"][record["dataset"]]["task"]]
            value = record["val"].get(metric)
            loss = math.nan if value is None else METRICS[metric].loss(value)
        return loss, (record.get("costs") or {}).get("cpu_s") or 0.0

    def status(self, run: Path, owner: dict[str, Any] | None, *, torn_bytes: int = 0) -> RunStatus:
        """The status from the records so far. Raises LedgerError before the first plan."""
        plan = self.plan
        if plan is None:
            raise no_plan(run, len(self._results))
        statuses: Counter[str] = Counter()
        causes: Counter[str] = Counter()
        states = self._states()
        for study, state in states.items():
            for stage, index in state.slots():
                status, cause = self._results[self._slots[study, stage, index]]
                statuses[status] += 1
                if status == FAILED:
                    causes[cause] += 1
        planned = {
            study: self._ended.get(study, shape.n_slots) for study, shape in self._shapes.items()
        }
        ended = {study: state.n_done for study, state in states.items()}
        left = sum(max(0, n - ended.get(study, 0)) for study, n in planned.items())
        recent = [read() for read in self._recent.values()]
        pace = pace_of([record["time"] for record in recent if not record.get("origin")])
        return RunStatus(
            run=str(run),
            suite=plan["suite"]["name"],
            budget=plan["options"]["budget"],
            planned=sum(planned.values()),
            done=statuses[DONE],
            failed=dict(sorted(causes.items())),
            unsupported=statuses["unsupported"],
            running=len(self._open) if owner else 0,
            left=left,
            eta_s=0.0 if not left else round(left / pace, 1) if pace else None,
            owner=owner,
            datasets=len(plan["datasets"]),
            models=len({study["model"] for study in plan["studies"]}),
            left_out=plan["left_out"],
            unsupported_studies=sum(bool(study["reason"]) for study in plan["studies"]),
            quarantined_bytes=torn_bytes,
            per_minute=round(60 * pace, 2) if pace else None,
        )

    def _states(self) -> dict[str, StudyState]:
        """{study: where it stands} of the planned studies in which a slot has ended."""
        unknown = math.nan, 0.0  # not needed, or of a result from before the plan
        stages: dict[tuple[str, str], list[tuple[int, float, float]]] = defaultdict(list)
        for (study, stage, index), id in self._slots.items():
            if study in self._shapes and id in self._results:
                stages[study, stage].append((index, *self._ranked.get(id, unknown)))
        states: dict[str, StudyState] = {}
        for (study, stage), slots in stages.items():
            state = states.setdefault(study, StudyState(self._shapes[study]))
            state.add_all(stage, *zip(*slots, strict=True))
        return states


def pace_of(times: Sequence[str]) -> float | None:
    """Events per second, from their times in order; None where the times do not tell.

    A run that paused overnight, or a clock that jumped, leaves one gap that is longer than all the
    others together: that one does not count, nor does a step backwards.

    >>> pace_of([f"2030-01-01T00:00:{second:02d}Z" for second in range(0, 60, 10)])
    0.1
    """
    moments = [datetime.fromisoformat(text).timestamp() for text in times]
    gaps = sorted(b - a for a, b in pairwise(moments) if b >= a)
    while len(gaps) > 10 and gaps[-1] > sum(gaps[:-1]):
        gaps.pop()
    return len(gaps) / sum(gaps) if sum(gaps) > 0 else None


def status_of(run: Path) -> RunStatus:
    """The status of a run. Raises LedgerError where `run` is not the folder of one."""
    ledger = Ledger(run)
    return RunCounts().add_all(ledger).status(run, owner_of(run), torn_bytes=ledger.torn_bytes)
