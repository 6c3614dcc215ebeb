"""Studies: a search and the evaluation of its choice, which trial may run next, and its sampler."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from .search.halving import Halving
from .search.samplers import Config as Config
from .search.samplers import Sampler
from .study_state import EVAL, Shape, StudyState
from .trial import DONE, Limits, Result, Trial


@dataclass(frozen=True, slots=True)
class Slot:
    """A trial's place in its study; as text "<study>#<stage>#<index>".

    stage: "tune", "rung<k>" (the search on a lower rung) or "eval".
    index: number of the configuration in the search, or of the evaluation seed.

    Several slots may be filled by one trial.
    """

    study: str
    stage: str
    index: int

    def __str__(self) -> str:
        return f"{self.study}#{self.stage}#{self.index}"


@dataclass(frozen=True)
class Needs:
    """What a trial needs of its machine: CPUs, memory in MB, and memory of one GPU in MB (0: no
    GPU). They decide where it runs, never its result.

    outside: the name of the model's class if it is not tabsweep's. A worker runs trials of one such
    class only, so what foreign code changes in its process reaches no other model.
    """

    threads: int = 1
    memory_mb: float = 0.0
    gpu_mb: float = 0.0
    outside: str = ""


@dataclass
class Study:
    """Tuning of one model on one fold of one dataset, then the chosen configuration's evaluation.

    `close` hands each result to `state`, which says what counts and which configuration is chosen.

    sampler: suggests configurations; of one that uses results at most `lag` trials run at once.
    make_trial: `make_trial(config, seed)` makes a trial, `make_trial(config, seed, fidelity)` one
        on a rung.
    loss_of: the validation loss of a finished trial, None where it has none.
    seeds: the evaluation seeds. A single seed equal to the tuning seed adds no work.
    limit_follows: its time limit comes from an estimate, which finished trials correct.
    data_key: names the data of its trials.
    weight: the relative duration of its trials.
    model, metric: the names of the model and of the metric behind `loss_of`, for messages; trials
        of one model are expected to take the same time, in proportion to `weight`.
    judged_by: the rows behind `judged_loss`, in words.
    halving: the search runs on the lowest rung, where the sampler is told the losses. The best of a
        rung go on once all of it has ended. The choice is made on the last rung, the stage "tune".
    save_every: every trial runs its whole schedule and stores a checkpoint at every so many steps.
        With `halving`, the rungs are the boundaries.
    bag: the fidelity of a bag. The evaluation of the chosen configuration is one bag, under the
        first of `seeds`; with `cv`, the trials of the search are bags, and nothing is evaluated.
    study_s: CPU seconds after which the search ends (see `Shape`); not with `halving`. No trial is
        opened that, by the mean of the finished ones, would begin after the end.
    length_of: the number of steps of a configuration's whole schedule.
    """

    name: str
    sampler: Sampler
    n_trials: int
    make_trial: Callable[..., Trial]
    loss_of: Callable[[Result], float | None]
    seed: int = 0
    seeds: tuple[int, ...] = ()
    limits: Limits = field(default_factory=Limits)
    limit_follows: bool = False
    needs: Needs = field(default_factory=Needs)
    data_key: str = ""
    weight: float = 1.0
    model: str = ""
    metric: str = "loss"
    judged_by: str = ""
    halving: Halving | None = None
    save_every: int | None = None
    bag: Mapping[str, Any] | None = None
    cv: bool = False
    study_s: float | None = None
    length_of: Callable[[Config], int] = lambda config: 1

    def __post_init__(self) -> None:
        rungs = tuple(self.halving.sizes(self.n_trials)) if self.halving else ()
        self._start(Shape(self.n_trials, len(self.seeds), rungs, self.study_s))
        self._configs: dict[int, Config] = {}
        self._told = 0  # results that the sampler knows
        self._opened = dict.fromkeys(self.stages, 0)
        self._n_running = 0  # trials of the search that were opened and have not ended
        self._next_eval = 0

    def _start(self, shape: Shape) -> None:
        self.state, self.stages = StudyState(shape), shape.stages

    # ------------------------------------------------------------------ what may run

    @property
    def tuned(self) -> bool:
        """Whether the search has ended, with the trials that still ran beyond its end."""
        return self.state.tuned and not (self.study_s is not None and self._n_running)

    @property
    def finished(self) -> bool:
        """Whether search and evaluation have ended."""
        return self.tuned and self.state.finished

    def next_slot(self) -> Slot | None:
        """The slot that may be opened now (see `open`), or None."""
        if self.tuned:
            more = self._next_eval < self.state.n_evaluations
            return Slot(self.name, EVAL, self._next_eval) if more else None
        rungs = self.state.rungs
        stage, members = self.stages[len(rungs) - 1], rungs[-1]
        if self._opened[stage] >= len(members):
            return None
        index = members[self._opened[stage]]
        waits = not self.sampler.history_free and self._told < index - self.sampler.lag + 1
        if len(rungs) == 1 and (waits or self._may_be_spent()):
            return None
        return Slot(self.name, stage, index)

    def _may_be_spent(self) -> bool:
        """Whether the trials that run will probably use up `study_s`; the first runs alone."""
        if self.study_s is None or not self._n_running:
            return False
        n_ended, spent_s = self.state.spent
        if not n_ended:
            return True
        return spent_s + self._n_running * spent_s / n_ended >= self.study_s

    def fidelities(self, config: Config) -> list[Mapping[str, Any]]:
        """The rungs of a configuration, lowest first; none for a fit in one piece."""
        if self.cv and self.bag is not None:
            return [self.bag]
        if self.halving:
            return list(self.halving.fidelities(self.length_of(config)))
        if self.save_every:
            length = self.length_of(config)
            return [{"length": length, "stop": length, "every": self.save_every}]
        return []

    def open(self, slot: Slot, config: Config | None = None) -> Trial:
        """Take the next slot and make its trial. `config` is the sampler's suggestion if the ledger
        has it already; otherwise the sampler is asked."""
        if slot.stage == EVAL:
            self._next_eval += 1
            best = self.state.best
            assert best is not None
            return self.trial_of(slot, self._configs[best])
        rungs = self.state.rungs
        assert slot.stage == self.stages[len(rungs) - 1]
        assert slot.index == rungs[-1][self._opened[slot.stage]]
        self._opened[slot.stage] += 1
        self._n_running += 1
        if slot.stage == self.stages[0]:
            if config is None:
                config = self.sampler.ask(slot.index)
            else:
                self.sampler.take(slot.index, config)
            self._configs[slot.index] = config
        return self.trial_of(slot, self._configs[slot.index])

    def trial_of(self, slot: Slot, config: Config) -> Trial:
        """The trial of a slot with a configuration."""
        if slot.stage == EVAL and self.bag is not None:
            return self.make_trial(config, self.seeds[slot.index], self.bag)
        if slot.stage == EVAL:
            return self._trial(config, self.seeds[slot.index], -1)
        return self._trial(config, self.seed, self.stages.index(slot.stage))

    def _trial(self, config: Config, seed: int, rung: int) -> Trial:
        rungs = self.fidelities(config)
        return self.make_trial(config, seed, *([rungs[rung]] if rungs else []))

    def chains(self) -> set[str]:
        """The keys under which trials of this study may have left checkpoints."""
        chains = set()
        if self.halving or self.save_every or self.cv:
            chains = {self._trial(c, self.seed, 0).chain for c in self._configs.values()}
        best = self.state.best
        if best is not None and (self.halving or self.save_every or self.bag):
            evaluations = range(len(self.seeds))
            slots = [Slot(self.name, EVAL, index) for index in evaluations]
            chains |= {self.trial_of(slot, self._configs[best]).chain for slot in slots}
        return chains

    # ------------------------------------------------------------------ what is known

    def close(self, slot: Slot, result: Result) -> None:
        """Report that a slot's trial has ended and is durable. The sampler is told in the order of
        the indices, and learns of no trial beyond the end of its search."""
        self.state.add(slot.stage, slot.index, self.loss(result), result.costs.get("cpu_s", 0.0))
        if slot.stage == EVAL:
            return
        self._n_running -= 1
        while self.state.has(self.stages[0], self._told):
            index = self._told
            self.sampler.tell(index, self._configs[index], self.state.loss(self.stages[0], index))
            self._told += 1

    @property
    def judged_loss(self) -> float | None:
        """The validation loss by which the study compares with others: of the bag of the chosen
        configuration, else of the configuration itself."""
        if self.bag is not None and not self.cv:
            return self.state.loss(EVAL, 0) if self.state.has(EVAL, 0) else None
        return self.state.best_loss

    def loss(self, result: Result) -> float | None:
        """The validation loss of a result, None where it failed or has no score."""
        return self.loss_of(result) if result.status == DONE else None

    def settle(self, ended: Mapping[int, tuple[str, Config, float | None]]) -> None:
        """Take over an asynchronous search (`ray_tune`), so that only the evaluation is left.

        ended: {index: (the stage that it ended on, configuration, loss)}.
        """
        self._start(replace(self.state.shape, asynchronous=True))
        for index, (stage, config, loss) in ended.items():
            self.state.add(stage, index, loss)
            self._configs[index] = config
