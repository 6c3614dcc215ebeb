"""How far is a study, what may run next, and which configuration did it choose?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from .trial import DONE, Limits, Result, Trial

Config = dict[str, Any]

TUNE, EVAL = "tune", "eval"


class Sampler(Protocol):
    """What a study needs of a search algorithm (see `samplers.py`)."""

    history_free: bool

    def ask(self, index: int) -> Config: ...

    def tell(self, index: int, config: Config, loss: float | None) -> None: ...


@dataclass(frozen=True)
class Slot:
    """One place in a study: the index-th configuration of its search, or its index-th evaluation
    seed. Several slots may point at one trial."""

    study: str
    stage: str
    index: int

    @property
    def key(self) -> str:
        return f"{self.study}#{self.stage}#{self.index}"

    @staticmethod
    def parse(key: str) -> tuple[str, str, int]:
        study, stage, index = key.rsplit("#", 2)
        return study, stage, int(index)


@dataclass
class Study:
    """Tuning of one model on one fold of one dataset, then the chosen configuration's evaluation.

    `make_trial(config, seed)` freezes a cell. `loss_of(result)` turns a finished trial into the
    value that is minimised on the validation part, None where it has none. `lag` says how many
    results a suggestion may be behind (1: sequential); samplers that use no history run wide open.
    `seeds` holds the evaluation seeds; a single seed equal to the tuning seed adds no work.
    """

    name: str
    sampler: Sampler
    n_trials: int
    make_trial: Callable[[Config, int], Trial]
    loss_of: Callable[[Result], float | None]
    seed: int = 0
    seeds: tuple[int, ...] = ()
    lag: int = 1
    limits: Limits = field(default_factory=Limits)
    threads: int = 1
    data_key: str = ""
    weight: float = 1.0
    meta: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._losses: dict[int, float | None] = {}
        self._configs: dict[int, Config] = {}
        self._told = 0
        self._asked = 0
        self._next_eval = 0
        self._evaluated: set[int] = set()

    # ------------------------------------------------------------------ what may run

    @property
    def tuned(self) -> bool:
        return len(self._losses) >= self.n_trials

    @property
    def finished(self) -> bool:
        return self.tuned and len(self._evaluated) >= len(self._eval_seeds())

    @property
    def n_slots(self) -> int:
        """How many slots the study will have used when it ends, as far as is known now."""
        return self.n_trials + (len(self._eval_seeds()) if self.tuned else len(self.seeds))

    @property
    def n_done(self) -> int:
        return len(self._losses) + len(self._evaluated)

    def _eval_seeds(self) -> tuple[int, ...]:
        # Without a chosen configuration there is nothing to evaluate.
        return self.seeds if self.seeds and self.best() is not None else ()

    def next_slot(self) -> Slot | None:
        """The slot that may be asked for now, or None. Call `open` to take it."""
        if self._asked < self.n_trials:
            if self.sampler.history_free or self._told >= self._asked - self.lag + 1:
                return Slot(self.name, TUNE, self._asked)
            return None
        if self.tuned and self._next_eval < len(self._eval_seeds()):
            return Slot(self.name, EVAL, self._next_eval)
        return None

    def open(self, slot: Slot, config: Config | None = None) -> Trial:
        """Take the next slot and freeze its trial. `config` is what the ledger says the sampler
        suggested there; asking again would give the same, at the price of a suggestion."""
        if slot.stage == TUNE:
            assert slot.index == self._asked
            self._asked += 1
            if config is None:
                config = self.sampler.ask(slot.index)
            self._configs[slot.index] = config
            return self.make_trial(config, self.seed)
        self._next_eval += 1
        best = self.best()
        assert best is not None
        return self.make_trial(self._configs[best], self.seeds[slot.index])

    # ------------------------------------------------------------------ what is known

    def close(self, slot: Slot, result: Result) -> None:
        """A slot's trial has ended and is durable. The sampler is told in index order."""
        if slot.stage == EVAL:
            self._evaluated.add(slot.index)
            return
        self._losses[slot.index] = self.loss_of(result) if result.status == DONE else None
        while self._told in self._losses:
            index = self._told
            self.sampler.tell(index, self._configs[index], self._losses[index])
            self._told += 1

    def best(self) -> int | None:
        """The index of the chosen configuration: least validation loss, ties to the lower index."""
        known = [(loss, index) for index, loss in self._losses.items() if loss is not None]
        return min(known)[1] if known else None

    def best_loss(self) -> float | None:
        best = self.best()
        return None if best is None else self._losses[best]
