"""What counts in a study: its slots, the end of its search, its rungs and the chosen trial.

The rules stand here alone. The engine, a merge, the status, the tables and MLflow all hand the
results of a study to a `StudyState` and ask it; nothing here reads, writes or runs anything.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from .search.halving import Halving

TUNE, EVAL = "tune", "eval"  # the stage of the search that a choice is made from; its evaluation
HOLDOUT, CV = (
    "holdout",
    "cv",
)  # what a search validates by: one part of the rows; bags of all trials


@dataclass(frozen=True)
class Shape:
    """The slots that a study is planned with.

    n_trials: configurations of the search. A configuration has the same index on every rung.
    n_seeds: evaluations of the chosen configuration.
    rungs: how many configurations each rung holds if none fails, the lowest rung first; empty for
        a search without rungs.
    study_s: the search ends with the first trial at which the CPU seconds of the trials up to it,
        in the order of their index, reach this number.
    asynchronous: each configuration fills one slot, on the rung where it was stopped.
    """

    n_trials: int
    n_seeds: int = 0
    rungs: tuple[int, ...] = ()
    study_s: float | None = None
    asynchronous: bool = False

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The number of configurations on each rung, one rung for a search without."""
        return self.rungs or (self.n_trials,)

    @cached_property
    def stages(self) -> tuple[str, ...]:
        """The names of the rungs, the lowest first: "rung0", "rung1", ..., "tune"."""
        return (*(f"rung{number}" for number in range(len(self.sizes) - 1)), TUNE)

    @property
    def n_slots(self) -> int:
        """How many slots the study has if nothing fails and no seconds end its search."""
        return (self.n_trials if self.asynchronous else sum(self.sizes)) + self.n_seeds

    @cached_property
    def bounds(self) -> dict[str, int]:
        """{stage: bound}: a slot belongs to the plan if its index is below the bound. The others
        were made by an older, larger plan."""
        return {**dict.fromkeys(self.stages, self.n_trials), EVAL: self.n_seeds}

    @property
    def selective(self) -> bool:
        """Whether slots within the bounds may not count, as the results of others decide."""
        return self.study_s is not None or (bool(self.rungs) and not self.asynchronous)


class StudyState:
    """Where a study stands, given the results of its slots. Their order does not matter.

    >>> state = StudyState(Shape(n_trials=3, rungs=(3, 1)))
    >>> for index, loss in enumerate([0.2, None, 0.1]):
    ...     state.add("rung0", index, loss)
    >>> state.rungs, state.tuned
    ([range(0, 3), [2]], False)
    >>> state.add("tune", 2, 0.1)
    >>> state.best, state.tuned, state.n_slots
    (2, True, 4)
    """

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self._losses: dict[str, dict[int, float | None]] = {stage: {} for stage in shape.bounds}
        self._seconds: dict[int, float] = {}  # of the lowest rung, where they may end the search
        self._counted: list[dict[int, float | None]] | None = None  # of each known rung
        self._rungs: list[Sequence[int]] = []

    def add(self, stage: str, index: int, loss: float | None, cpu_s: float = 0.0) -> None:
        """Take in the result of a slot: its validation loss (None or NaN: it has none) and its CPU
        seconds. A later result of the slot replaces an earlier one."""
        self.add_all(stage, [index], [loss], [cpu_s])

    def add_all(
        self,
        stage: str,
        indices: Sequence[int],
        losses: Iterable[float | None],
        cpu_s: Iterable[float] = (),
    ) -> None:
        """`add` for many slots of one stage."""
        there = self._losses.get(stage)
        if there is None:
            return
        if self.shape.asynchronous and stage != EVAL:
            for index in indices:  # run again, a configuration may have ended on another rung
                for rung in self.shape.stages:
                    self._losses[rung].pop(index, None)
        bound, known = self.shape.bounds[stage], zip(indices, losses, strict=True)
        there |= {i: (x if x == x else None) for i, x in known if 0 <= i < bound}  # NaN: None
        if self.shape.study_s is not None and stage == TUNE:
            self._seconds.update(zip(indices, cpu_s, strict=True))
        self._counted = None

    # ------------------------------------------------------------------ the search

    @property
    def rungs(self) -> list[Sequence[int]]:
        """The configurations on each rung that is known. A rung is known when all of the one below
        has ended. Those of an asynchronous search are known when the search has ended."""
        self._count()
        return self._rungs

    def _count(self) -> list[dict[int, float | None]]:
        """[{configuration: loss} of the results that count] of each known rung."""
        if self._counted is None:
            below = [self._losses[stage] for stage in self.shape.stages]
            if self.shape.asynchronous:
                self._counted, self._rungs = below, [sorted(losses) for losses in below]
                return self._counted
            self._counted, self._rungs = [], [range(self._end())]
            for losses, size in zip(below, [*self.shape.sizes[1:], None], strict=True):
                members = self._rungs[-1]
                if len(members) < self.shape.n_trials:  # else all there is is of members
                    losses = {index: losses[index] for index in members if index in losses}
                self._counted.append(losses)
                if size is None or len(losses) < len(members):
                    break
                self._rungs.append(Halving.promote(losses, size))
        return self._counted

    def _end(self) -> int:
        """How many trials the search has. Trials that have not ended may make it end earlier."""
        spent = 0.0
        if self.shape.study_s is not None:
            for index in sorted(self._seconds):
                spent += self._seconds[index]
                # to the microsecond: sums in another order must find the same trial
                if round(spent, 6) >= self.shape.study_s:
                    return min(index + 1, self.shape.n_trials)
        return self.shape.n_trials

    @property
    def spent(self) -> tuple[int, float]:
        """(number of trials that have ended, their CPU seconds) of a search that seconds end."""
        return len(self._seconds), sum(self._seconds.values())

    @property
    def tuned(self) -> bool:
        """Whether every trial of the search has ended."""
        counted = self._count()
        if self.shape.asynchronous:
            return sum(map(len, counted)) >= self.shape.n_trials
        ended = len(counted[-1]) >= len(self._rungs[-1])
        return ended and len(self._rungs) == len(self.shape.stages)

    @property
    def best(self) -> int | None:
        """The chosen configuration: of those that ran to the end the one with the least validation
        loss, ties to the lower index. None where none has a loss."""
        counted = self._count()
        if len(counted) < len(self.shape.stages):
            return None
        known = [(loss, index) for index, loss in counted[-1].items() if loss is not None]
        return min(known)[1] if known else None

    @property
    def best_loss(self) -> float | None:
        """The validation loss of the chosen configuration, None without one."""
        best = self.best
        return None if best is None else self._losses[TUNE][best]

    def loss(self, stage: str, index: int) -> float | None:
        """The validation loss of a slot that has ended, None where it has none."""
        return self._losses[stage][index]

    def has(self, stage: str, index: int) -> bool:
        """Whether a slot has ended, and counts."""
        if stage == EVAL:
            return index in self._losses[EVAL]
        at, counted = self.shape.stages.index(stage), self._count()
        return at < len(counted) and index in counted[at]

    # ------------------------------------------------------------------ the whole study

    @property
    def n_evaluations(self) -> int:
        """How many evaluations the study has: none where nothing could be chosen."""
        return self.shape.n_seeds if not self.tuned or self.best is not None else 0

    @property
    def finished(self) -> bool:
        """Whether search and evaluation have ended."""
        return self.tuned and len(self._losses[EVAL]) >= self.n_evaluations

    @property
    def n_slots(self) -> int:
        """How many slots the study will have used when it ends, as far as is known now."""
        known = sum(map(len, self.rungs)) + sum(self.shape.sizes[len(self.rungs) :])
        return known + self.n_evaluations

    @property
    def n_done(self) -> int:
        """How many slots have ended, and count."""
        return sum(map(len, self._count())) + len(self._losses[EVAL])

    def slots(self) -> Iterator[tuple[str, int]]:
        """(stage, index) of every slot that has ended, and counts."""
        for stage, losses in zip(self.shape.stages, self._count(), strict=False):
            yield from ((stage, index) for index in losses)
        yield from ((EVAL, index) for index in self._losses[EVAL])


class History:
    """The results of a search in the order of their index, to tell which suggestions they led to.

    A sampler that learns suggests trial `index` after the results up to `index - lag`. Where one of
    these was recorded after the suggestion, as its trial was run again, the sampler would suggest
    another trial by now.
    """

    def __init__(self, lag: int) -> None:
        self._lag = lag
        self._newest: list[float] = []  # up to each index: the position of the newest record on it
        self._parts = math.inf  # the first result that is not the one that counts

    def add(self, position: float | None, *, counts: bool = True) -> None:
        """The position of the newest record on the next index, None where it has none; counts:
        whether the result of the search is this one."""
        newest = self._newest[-1] if self._newest else -1
        self._newest.append(newest if position is None else max(position, newest))
        if not counts:
            self._parts = min(self._parts, len(self._newest) - 1)

    def led_to(self, index: int, position: float) -> bool:
        """Whether the results that count led to the trial of an index that was recorded at this
        position."""
        learnt = index - self._lag
        return learnt < 0 or (learnt < self._parts and self._newest[learnt] <= position)
