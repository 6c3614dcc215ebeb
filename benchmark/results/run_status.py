"""How far is a run? An answer from its ledger alone, without loading data or models."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from ...sweeps.store.ledger import Head, Ledger, LedgerError, Record
from ...sweeps.store.run_lock import owner_of
from ...sweeps.study import EVAL, TUNE
from ...sweeps.trial import DONE, FAILED

RECENT = 200  # results whose times say how fast it goes

Read = Callable[[], Record]  # decodes one record


@dataclass
class Status:
    """Slots of a run by their state; `eta_s` and `per_minute` (results) are None where nothing says
    how fast it goes."""

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
    """{stage: how many slots a planned study has in it}, in the order in which they run.

    An asynchronous search ends each configuration on the rung where it is stopped: one slot each,
    counted under the last stage.
    """
    if study["reason"]:
        return {TUNE: 0, EVAL: 0}
    rungs = study.get("rungs") if not study.get("async") else None
    *lower, full = rungs or [study["n_trials"]]
    return {
        **{f"rung{number}": size for number, size in enumerate(lower)},
        TUNE: full,
        EVAL: study["n_seeds"] if study["n_seeds"] > 1 else 0,
    }


def planned_slots(study: dict[str, Any]) -> int:
    """How many trials a planned study stands for, evaluation seeds included."""
    return sum(stages_of(study).values())


def study_name(study: dict[str, Any]) -> str:
    return f"{study['dataset']}/{study['fold']}/{study['model']}"


def slots_of(plan: Record) -> dict[tuple[str, str], int]:
    """{(study, stage): the index below which a slot is the plan's}; one beyond is of an older plan.

    On every rung a configuration keeps the index that the search gave it.
    """
    found = {}
    for study in plan["studies"]:
        name, stages = study_name(study), stages_of(study)
        search = 0 if study["reason"] else study["n_trials"]
        for stage in (*(f"rung{n}" for n in range(len(study.get("rungs") or [0]) - 1)), TUNE):
            found[name, stage] = search
        found[name, EVAL] = stages[EVAL]
    return found


class Count:
    """What the records of a run add up to. They come in the order of the ledger; records that are
    given once more, in their order, change nothing. With `best`, what scored best is known too.
    """

    def __init__(self, *, best: bool = False) -> None:
        self.plan: Record | None = None
        self._planned: dict[str, dict[str, int]] = {}  # study -> its stages in the plan in force
        self._results: dict[str, tuple[str, str]] = {}  # trial id -> (status, cause)
        self._slots: dict[tuple[str, str, int], str] = {}  # ended, with the trial that counts
        self.open: dict[tuple[str, str, int], str] = {}  # sent to a worker, not ended
        self._ended: dict[str, int] = {}  # study -> how many slots it had in the end
        self._recent: dict[str, Read] = {}  # results, by trial id
        self._best: dict[str, float] | None = {} if best else None  # study -> least loss

    def add_all(self, ledger: Ledger) -> Count:
        for position in ledger.positions():
            self.add(ledger.head(position), partial(ledger.at, position))
        return self

    def add(self, head: Head, read: Read) -> None:
        """One record by its head; `read` decodes it where the rest is needed."""
        if head.kind == "plan":
            self._replan(read())
        elif head.kind == "study":
            n_slots = read().get("n_slots")
            if n_slots is not None:
                self._ended[head.study] = n_slots
        elif head.kind in ("lease", "result", "slot"):
            key = head.study, head.stage, head.index
            self._ended.pop(head.study, None)  # a study that goes on says anew when it ends
            if head.kind == "lease":
                self.open[key] = head.id
                return
            for stage in (head.stage, *([TUNE] if head.stage.startswith("rung") else [])):
                self.open.pop((head.study, stage, head.index), None)
            self._slots[key] = head.id
            if head.kind == "result":
                cause = read()["cause"] if head.status == FAILED else ""
                self._results[head.id] = head.status, cause
                self._recent.pop(head.id, None)
                self._recent[head.id] = read
                if len(self._recent) > RECENT:
                    del self._recent[next(iter(self._recent))]
                if self._best is not None and head.stage == TUNE and head.status == DONE:
                    self._score(head.study, read())

    def _replan(self, plan: Record) -> None:
        before, self.plan = self._planned, plan
        self._planned = {study_name(study): stages_of(study) for study in plan["studies"]}
        for study in [s for s in self._ended if self._planned.get(s) != before.get(s)]:
            del self._ended[study]  # it has been extended

    def _score(self, study: str, record: Record) -> None:
        if self.plan is None or self._best is None:
            return
        metric = self.plan["metric"][self.plan["datasets"][record["dataset"]]["task"]]
        value = record["val"].get(metric)
        if value is not None:
            loss = -value if maximised(metric) else value
            self._best[study] = min(loss, self._best.get(study, loss))

    def leaders(self) -> dict[str, tuple[str, str, float, int]]:
        """{dataset: (model, metric, mean over folds of its best validation scores, folds)}.

        Of the models that have a score on most folds so far.
        """
        if self.plan is None or self._best is None:
            return {}
        losses: dict[tuple[str, str], list[float]] = defaultdict(list)
        for study in self.plan["studies"]:
            loss = self._best.get(study_name(study))
            if loss is not None:
                losses[study["dataset"], study["model"]].append(loss)
        found: dict[str, tuple[int, float, str]] = {}
        for (dataset, model), those in losses.items():
            rank = (-len(those), sum(those) / len(those), model)
            found[dataset] = min(rank, found.get(dataset, rank))
        answer = {}
        for dataset, (n, loss, model) in sorted(found.items()):
            metric = self.plan["metric"][self.plan["datasets"][dataset]["task"]]
            answer[dataset] = (model, metric, -loss if maximised(metric) else loss, -n)
        return answer

    def status(self, run: Path, owner: dict[str, Any] | None, *, torn_bytes: int = 0) -> Status:
        """Raises LedgerError where no plan has been seen."""
        plan = self.plan
        if plan is None:
            raise LedgerError(f"{run} holds no plan yet: nothing was started in it")
        bounds = slots_of(plan)
        states: Counter[str] = Counter()
        causes: Counter[str] = Counter()
        ended: Counter[str] = Counter()
        once = {study_name(study) for study in plan["studies"] if study.get("async")}
        seen: set[tuple[str, int]] = set()
        for (study, stage, index), id in self._slots.items():
            if index >= bounds.get((study, stage), 0) or id not in self._results:
                continue
            if study in once and stage != EVAL:  # run again, it may have ended on another rung
                if (study, index) in seen:
                    continue
                seen.add((study, index))
            status, cause = self._results[id]
            states[status] += 1
            ended[study] += 1
            if status == FAILED:
                causes[cause] += 1
        planned = {
            study: self._ended.get(study, sum(stages.values()))
            for study, stages in self._planned.items()
        }
        left = sum(max(0, n - ended[study]) for study, n in planned.items())
        pace = self._per_second()
        return Status(
            run=str(run),
            suite=plan["suite"]["name"],
            budget=plan["options"]["budget"],
            planned=sum(planned.values()),
            done=states[DONE],
            failed=dict(sorted(causes.items())),
            unsupported=states["unsupported"],
            running=len(self.open) if owner else 0,
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

    def _per_second(self) -> float | None:
        """Results a second, from the recent ones."""
        records = [read() for read in self._recent.values()]
        return pace_of([record["time"] for record in records if not record.get("origin")])


def pace_of(times: Sequence[str]) -> float | None:
    """Events a second, from their times in the order in which they were; None if nothing says.

    A run that lay still for a night, or a clock that jumped, leaves one gap as long as all the
    others together: that one does not count, nor does one backwards.

    >>> pace_of([f"2030-01-01T00:00:{second:02d}Z" for second in range(0, 60, 10)])
    0.1
    """
    moments = [datetime.fromisoformat(text).timestamp() for text in times]
    gaps = sorted(b - a for a, b in pairwise(moments) if b >= a)
    while len(gaps) > 10 and gaps[-1] > sum(gaps[:-1]):
        gaps.pop()
    return len(gaps) / sum(gaps) if sum(gaps) > 0 else None


def maximised(metric: str) -> bool:
    from ...reports.metrics import METRICS

    return METRICS[metric].direction == "max"


def status_of(run: Path) -> Status:
    """Raises LedgerError where `run` is not the folder of a run."""
    ledger = Ledger(run)
    return Count().add_all(ledger).status(run, owner_of(run), torn_bytes=ledger.torn_bytes)
