"""Samplers: grid, random, Optuna's TPE and hyperopt's TPE.

A suggestion is a pure function of (space, history, index, seed). A `Sampler` keeps the history in
memory, so that it is not replayed for each suggestion.

A history is rows (index, configuration, loss): lower is better, None stands for a failed trial.
The suggestion for an index sees the results of the indices up to index - lag, in index order,
whatever the order in which they arrived. Of a finite space it also avoids the configurations of
all lower indices: no point is tried twice before every point was tried once.
"""

from __future__ import annotations

import copy
import hashlib
import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...common import text as messages
from ..trial import canonical
from .json_values import plain
from .space import Space

if TYPE_CHECKING:
    from .hyperopt_tpe import HyperoptTPE
    from .optuna_tpe import OptunaTPE

Config = dict[str, Any]

REDRAWS = 5  # of a point that was tried before; then any untried point is taken


def make_sampler(
    name: str,
    space: Space,
    *,
    seed: int,
    first: Sequence[Mapping[str, Any]] = (),
    lag: int = 1,
    startup: int | None = None,
) -> Sampler:
    """A sampler of SAMPLERS for one study.

    first: configurations for the first indices. One outside the space is tried like the others
        but is left out of the sampler's history; one that is a grid point is not tried again.
    lag: the suggestion for an index uses the results up to index - lag. With 1 a study is
        sequential.
    startup: trials that TPE draws at random first; None: as many as the library's default.
    """
    if name not in SAMPLERS:
        raise ValueError(f"unknown sampler {name!r}; {messages.suggest(name, SAMPLERS)}")
    return SAMPLERS[name](name, space, seed=seed, first=first, lag=lag, startup=startup)


def n_distinct(space: Space, first: Sequence[Mapping[str, Any]] = ()) -> int | None:
    """How many different configurations a study can try at most, None if infinitely many.

    A grid ends there; the other samplers repeat configurations from there on.
    """
    if space.size is None:
        return None
    configs = [plain(config) for config in first]
    return len(configs) + space.size - len({_key(space, c) for c in configs if c in space})


class Sampler:
    """Base of the samplers: suggests the given first configurations, then calls `_propose`.

    history_free: suggestions do not depend on results, so `tell` may be left out.
    """

    history_free = True

    def __init__(
        self,
        name: str,
        space: Space,
        *,
        seed: int,
        first: Sequence[Mapping[str, Any]],
        lag: int,
        startup: int | None,
    ) -> None:
        self.name, self.space, self.seed, self.lag, self.startup = name, space, seed, lag, startup
        self.first: tuple[Config, ...] = tuple(plain(config) for config in first)
        self._points = self._walk()
        self._walked: list[Config] = []
        self._tried: dict[str, int] = {}  # of each point that was tried: its lowest index
        self._known: set[int] = set()  # indices whose configuration is known,
        self._below = 0  # among them all below this one
        for index, config in enumerate(self.first):
            self.take(index, config)

    def ask(self, index: int) -> Config:
        """The configuration of trial `index`."""
        if index < len(self.first):
            return copy.deepcopy(self.first[index])
        if self.space.size is None:
            return self._propose(index)
        while self._below < index:
            if self._below not in self._known:
                self.ask(self._below)
            self._below += 1
        config = self._new_point(index)
        self.take(index, config)
        return config

    def take(self, index: int, config: Mapping[str, Any]) -> None:
        """Note that trial `index` has this configuration, which need not have been asked for."""
        self._known.add(index)
        if self.space.size is not None and config in self.space:
            key = _key(self.space, plain(config))
            self._tried[key] = min(index, self._tried.get(key, index))

    def tell(self, index: int, config: Mapping[str, Any], loss: float | None) -> None:
        """Report a trial's end, in any order."""

    def _propose(self, index: int, redraw: int = 0) -> Config:
        raise NotImplementedError

    def _new_point(self, index: int) -> Config:
        """A point of a finite space that no lower index has; any point once all were tried."""
        proposals = (self._propose(index, redraw) for redraw in range(REDRAWS + 1))
        first = next(proposals)
        for config in itertools.chain([first], proposals, self._grid_order()):
            if self._tried.get(_key(self.space, config), index) >= index:
                return copy.deepcopy(config)
        return first

    def _grid_order(self) -> Iterator[Config]:
        """The points in the order in which a grid tries them."""
        return map(self._point, range((n_distinct(self.space, self.first) or 0) - len(self.first)))

    def _point(self, position: int) -> Config:
        while len(self._walked) <= position:
            self._walked.append(next(self._points))
        return self._walked[position]

    def _walk(self) -> Iterator[Config]:
        """Each point but the given first ones, in a seeded random order."""
        done = {_key(self.space, config) for config in self.first if config in self.space}
        for i in _shuffled(self.space.size or 0, _hash(self.seed, "grid")):
            point = self.space.grid_point(i)
            if not done or canonical(point) not in done:
                yield point


class RandomSampler(Sampler):
    """Draws each configuration from the whole space, independently of the others."""

    def _propose(self, index: int, redraw: int = 0) -> Config:
        import numpy as np

        return self.space.sample(np.random.default_rng(_hash(self.seed, _draw(index, redraw))))


class GridSampler(Sampler):
    """Each point once, in a seeded random order: a smaller number of trials is a random subset of
    the grid, and a larger number extends it."""

    def __init__(self, name: str, space: Space, **options: Any) -> None:
        super().__init__(name, space, **options)
        space.grid_point(0)  # a continuous space is refused here, not at the first suggestion
        self._end = n_distinct(space, self.first) or 0

    def ask(self, index: int) -> Config:
        """The configuration of trial `index`. Raises ValueError after the last point."""
        if index < len(self.first):
            return super().ask(index)
        if index >= self._end:
            raise ValueError(
                f"the grid has {self._end} points, index {index} does not exist;"
                " ask for fewer trials, or use random or tpe"
            )
        return copy.deepcopy(self._point(index - len(self.first)))


class TPESampler(Sampler):
    """Optuna's (`tpe`) or hyperopt's (`hyperopt`) TPE on a history kept in memory."""

    history_free = False

    def __init__(self, name: str, space: Space, **options: Any) -> None:
        super().__init__(name, space, **options)
        self._results: dict[int, tuple[Config, float | None]] = {}
        self._backend: OptunaTPE | HyperoptTPE | None = None
        self._n_added = 0  # results that the backend knows, those of the first indices

    def tell(self, index: int, config: Mapping[str, Any], loss: float | None) -> None:
        """Report a trial's end, once; raises ValueError for a loss that is no finite number or
        None."""
        self._results[index] = plain(config), None if loss is None else float(plain(loss))
        self.take(index, config)

    def _propose(self, index: int, redraw: int = 0) -> Config:
        if not self.space.axes:  # nothing to draw
            return self.space.decode(lambda axis: 0)
        if self._backend is None:
            self._backend = _backend(self.name, self.space, self.startup)
        n_visible = max(0, index - self.lag + 1)
        assert n_visible >= self._n_added, "a study asks for its suggestions in order"
        for i in range(self._n_added, n_visible):
            config, loss = self._results[i]  # a study waits for them
            if config in self.space:
                self._backend.add(i, config, loss)
            self._n_added += 1
        return self._backend.propose(index, _hash(self.seed, _draw(index, redraw)))


# TPE, first trials and failures: Optuna draws at random until 10 trials have succeeded, and ignores
# failed ones; hyperopt until 20 trials have ended, and counts failed ones as the worst. `startup`
# replaces these numbers.
SAMPLERS: dict[str, type[Sampler]] = {
    "grid": GridSampler,
    "hyperopt": TPESampler,
    "random": RandomSampler,
    "tpe": TPESampler,
}


def _backend(name: str, space: Space, startup: int | None) -> OptunaTPE | HyperoptTPE:
    if name == "tpe":
        from .optuna_tpe import OptunaTPE

        return OptunaTPE(space, 10 if startup is None else startup)
    from .hyperopt_tpe import HyperoptTPE

    return HyperoptTPE(space, 20 if startup is None else startup)


def _key(space: Space, config: Config) -> str:
    """A grid point's identity: 1 and 1.0 are one real number."""
    numbers = space.encode(config)
    return canonical(space.decode(lambda axis: numbers[axis.label]))


def _draw(index: int, redraw: int) -> int | str:
    return f"{index}/{redraw}" if redraw else index


def _hash(seed: int, index: int | str) -> int:
    """A seed below 2**32 that differs between the indices of a study and between studies."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{index}".encode()).digest()[:4], "big")


def _shuffled(n: int, seed: int) -> Iterator[int]:
    """range(n) in a random order (Fisher-Yates), keeping only what has been moved."""
    rng = random.Random(seed)
    moved: dict[int, int] = {}
    for i in range(n):
        j = rng.randrange(i, n)
        yield moved.get(j, j)
        moved[j] = moved.pop(i, i)
