"""Studies: the slots of a search and its evaluation, what may run next, and the best so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from .search.halving import Fidelity, Halving, stages
from .trial import DONE, Limits, Result, Trial

Config = dict[str, Any]

TUNE, EVAL = "tune", "eval"


class Sampler(Protocol):
    """A search algorithm as a study uses it (see `search/samplers.py`)."""

    history_free: bool

    def ask(self, index: int) -> Config:
        """The configuration of the trial with this index."""
        ...

    def tell(self, index: int, config: Config, loss: float | None) -> None:
        """Report a validation loss, None for a failed trial."""
        ...


@dataclass(frozen=True)
class Slot:
    """A trial's place in its study.

    stage: "tune", "rung<k>" (the search on a lower rung) or "eval".
    index: number of the configuration in the search, or of the evaluation seed.

    Several slots may be filled by one trial.
    """

    study: str
    stage: str
    index: int

    @property
    def key(self) -> str:
        """ "<study>#<stage>#<index>"."""
        return f"{self.study}#{self.stage}#{self.index}"

    @staticmethod
    def parse(key: str) -> tuple[str, str, int]:
        """(study, stage, index) of a key."""
        study, stage, index = key.rsplit("#", 2)
        return study, stage, int(index)


@dataclass(frozen=True)
class Needs:
    """What a trial needs of its machine: CPUs, memory in MB, and memory of one GPU in MB (0: no
    GPU). They decide where it runs, never its result.
    """

    threads: int = 1
    memory_mb: float = 0.0
    gpu_mb: float = 0.0


@dataclass
class Study:
    """Tuning of one model on one fold of one dataset, then the chosen configuration's evaluation.

    `make_trial(config, seed)` makes a trial, `make_trial(config, seed, fidelity)` one on a rung.
    `loss_of(result)` is the validation loss of a finished trial, None where it has none. The
    suggestion for an index uses the results up to index - `lag` (1: sequential); samplers that use
    no history do not wait. `seeds` holds the evaluation seeds; a single seed equal to the tuning
    seed adds no work. `data_key` names the data of its trials, `weight` their relative duration.

    With `halving` the search runs on the lowest rung (the sampler is told the losses there), and a
    rung's best go on once all of it has ended; `length_of(config)` is the number of steps of a
    configuration's whole schedule. The last rung is the stage "tune", from which one is chosen.
    With `save_every` every trial runs its whole schedule and stores a checkpoint at every so many
    steps; with both, the rungs are the boundaries.

    With `study_s` (without halving) the search ends with the first trial at which the CPU seconds
    of the trials up to it, in the order of their index, reach `study_s`, if `n_trials` does not end
    it before. The seconds are those in the results, so a replay of these ends it at the same trial.
    What ran beyond that trial, as several run at once, does not belong to the search. No trial is
    opened that by the mean of those so far would begin after the end.
    """

    name: str
    sampler: Sampler
    n_trials: int
    make_trial: Callable[..., Trial]
    loss_of: Callable[[Result], float | None]
    seed: int = 0
    seeds: tuple[int, ...] = ()
    lag: int = 1
    limits: Limits = field(default_factory=Limits)
    needs: Needs = field(default_factory=Needs)
    data_key: str = ""
    weight: float = 1.0
    meta: Mapping[str, Any] = field(default_factory=dict)
    halving: Halving | None = None
    save_every: int | None = None
    study_s: float | None = None
    length_of: Callable[[Config], int] = lambda config: 1

    def __post_init__(self) -> None:
        if self.study_s is not None and self.halving is not None:
            raise ValueError(f"study {self.name}: study_s does not go with halving")
        self.stages = stages(self.halving, TUNE)
        self._sizes = self.halving.sizes(self.n_trials) if self.halving else [self.n_trials]
        # The configurations on each rung; a higher rung is known when the one below has ended.
        self._members: list[list[int]] = [list(range(self.n_trials))]
        self._losses: list[dict[int, float | None]] = [{} for _ in self.stages]
        self._configs: dict[int, Config] = {}
        self._told = 0
        self._opened = 0  # slots of the highest rung that is known
        self._next_eval = 0
        self._evaluated: set[int] = set()
        self._seconds: dict[int, float] = {}  # CPU seconds of the trials that have ended
        self._spent_s = 0.0  # of those that the sampler was told of

    # ------------------------------------------------------------------ what may run

    @property
    def tuned(self) -> bool:
        """Whether the search has ended."""
        return len(self._members) == len(self.stages) and self._ended(-1)

    def _ended(self, rung: int) -> bool:
        if self.study_s is not None and len(self._seconds) < self._opened:
            return False  # a trial beyond the end of the search still runs
        return len(self._losses[rung]) >= len(self._members[rung])

    @property
    def finished(self) -> bool:
        """Whether search and evaluation have ended."""
        return self.tuned and len(self._evaluated) >= len(self._eval_seeds())

    @property
    def n_slots(self) -> int:
        """How many slots the study will have used when it ends, as far as is known now."""
        known = sum(map(len, self._members)) + sum(self._sizes[len(self._members) :])
        return known + (len(self._eval_seeds()) if self.tuned else len(self.seeds))

    @property
    def n_done(self) -> int:
        """How many slots have ended."""
        return sum(map(len, self._losses)) + len(self._evaluated)

    def _eval_seeds(self) -> tuple[int, ...]:
        # Without a chosen configuration there is nothing to evaluate.
        return self.seeds if self.seeds and self.best() is not None else ()

    def next_slot(self) -> Slot | None:
        """The slot that may be opened now (see `open`), or None."""
        rung = len(self._members) - 1
        if self._opened < len(self._members[rung]):
            index = self._members[rung][self._opened]
            waits = not self.sampler.history_free and self._told < index - self.lag + 1
            if rung == 0 and (waits or self._may_be_spent()):
                return None
            return Slot(self.name, self.stages[rung], index)
        if self.tuned and self._next_eval < len(self._eval_seeds()):
            return Slot(self.name, EVAL, self._next_eval)
        return None

    def _may_be_spent(self) -> bool:
        """Whether the trials that run will probably use up `study_s`; the first runs alone."""
        running = self._opened - len(self._seconds)
        if self.study_s is None or not running:
            return False
        if not self._seconds:
            return True
        ended = sum(self._seconds.values())
        return ended + running * ended / len(self._seconds) >= self.study_s

    def fidelities(self, config: Config) -> list[Fidelity]:
        """The rungs of a configuration, lowest first; none for a fit in one piece."""
        if self.halving:
            return self.halving.fidelities(self.length_of(config))
        if self.save_every:
            length = self.length_of(config)
            return [{"length": length, "stop": length, "every": self.save_every}]
        return []

    def open(self, slot: Slot, config: Config | None = None) -> Trial:
        """Take the next slot and make its trial. `config` is the sampler's suggestion where the
        ledger has it, which saves asking for it again."""
        if slot.stage == EVAL:
            self._next_eval += 1
            best = self.best()
            assert best is not None
            return self.trial_of(slot, self._configs[best])
        rung = self.stages.index(slot.stage)
        assert rung == len(self._members) - 1 and slot.index == self._members[rung][self._opened]
        self._opened += 1
        if rung == 0:
            self._configs[slot.index] = self.sampler.ask(slot.index) if config is None else config
        return self.trial_of(slot, self._configs[slot.index])

    def trial_of(self, slot: Slot, config: Config) -> Trial:
        """The trial of a slot with a configuration."""
        if slot.stage == EVAL:
            return self._trial(config, self.seeds[slot.index], -1)
        return self._trial(config, self.seed, self.stages.index(slot.stage))

    def _trial(self, config: Config, seed: int, rung: int) -> Trial:
        rungs = self.fidelities(config)
        return self.make_trial(config, seed, *([rungs[rung]] if rungs else []))

    def chains(self) -> set[str]:
        """The keys under which trials of this study may have left checkpoints."""
        if not (self.halving or self.save_every):
            return set()
        fits = [(config, self.seed) for config in self._configs.values()]
        best = self.best()
        if best is not None:
            fits += [(self._configs[best], seed) for seed in self.seeds]
        return {self._trial(config, seed, 0).chain for config, seed in fits}

    # ------------------------------------------------------------------ what is known

    def close(self, slot: Slot, result: Result) -> None:
        """Report that a slot's trial has ended and is durable. Samplers are told in index order."""
        if slot.stage == EVAL:
            self._evaluated.add(slot.index)
            return
        rung = self.stages.index(slot.stage)
        self._seconds[slot.index] = result.costs.get("cpu_s", 0.0)
        if rung == 0 and slot.index >= len(self._members[0]):
            return  # it ran beyond the end of the search
        self._losses[rung][slot.index] = self.loss_of(result) if result.status == DONE else None
        lowest = self._losses[0]
        while self._told in lowest:
            index = self._told
            self.sampler.tell(index, self._configs[index], lowest[index])
            self._told += 1
            self._spent_s += self._seconds[index]
            # to the microsecond, so that whoever adds the seconds up finds the same trial
            if self.study_s is not None and round(self._spent_s, 6) >= self.study_s:
                self._end_search()
                break  # the sampler learns of no trial beyond the end
        while len(self._members) < len(self.stages) and self._ended(len(self._members) - 1):
            assert self.halving is not None
            above = len(self._members)
            self._members.append(self.halving.promote(self._losses[above - 1], self._sizes[above]))
            self._opened = 0

    def _end_search(self) -> None:
        """End the search with the last trial that the sampler was told of."""
        self._members[0] = self._members[0][: self._told]
        self._losses[0] = {i: loss for i, loss in self._losses[0].items() if i < self._told}

    def settle(self, ended: Mapping[int, tuple[str, Config, float | None]]) -> None:
        """Take over a search that was done elsewhere (`ray_tune`), so that only the evaluation is
        left. `ended`: {index: (the stage that it ended on, configuration, loss)}."""
        for rung, stage in enumerate(self.stages):
            self._losses[rung] = {i: loss for i, (at, _, loss) in ended.items() if at == stage}
        self._members = [sorted(losses) for losses in self._losses]
        self._configs = {index: config for index, (_, config, _) in ended.items()}
        self._opened = len(self._members[-1])

    def best(self) -> int | None:
        """The index of the chosen configuration: least validation loss, ties to the lower index."""
        known = [(loss, index) for index, loss in self._losses[-1].items() if loss is not None]
        return min(known)[1] if known else None

    def best_loss(self) -> float | None:
        """The validation loss of the chosen configuration, None without one."""
        best = self.best()
        return None if best is None else self._losses[-1][best]
