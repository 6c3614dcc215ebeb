"""Finished trials as a black box: a configuration is answered by the nearest one that ran.

Samplers are compared on it without a fit. What is not exactly among the trials is answered by the
least distance in the scaled space, which is told with the answer: how far such an answer can be
trusted is for the caller to say.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .json_values import identity, plain
from .samplers import make_sampler
from .space import Axis, Space

Config = Mapping[str, Any]


class BlackBox:
    """The trials of one study: `configs` in their order, `losses` with None for a failed one.

    Configurations outside the space (a default, say) answer for themselves alone. `distance` of two
    configurations is the root mean square over the axes of the space: the difference of two numbers
    as a share of the axis (of its logarithm where it is one), 1 between two different choices
    and between a number and none. `weights` may give the axes unequal shares of it, (axes,), from
    the scaled points and the losses (NaN: failed) of the trials in the space; without it they
    are equal. ValueError where no configuration is in the space.
    """

    def __init__(
        self,
        space: Space,
        configs: Sequence[Config],
        losses: Sequence[float | None],
        weights: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None,
    ) -> None:
        if len(configs) != len(losses):
            raise ValueError(f"{len(configs)} configurations with {len(losses)} losses")
        self.space, self.losses = space, list(losses)
        self._exact: dict[str, int] = {}
        for row, config in enumerate(configs):
            self._exact.setdefault(identity(plain(dict(config))), row)
        self._rows = np.array([r for r, config in enumerate(configs) if config in space], dtype=int)
        if not len(self._rows):
            raise ValueError("none of the trials' configurations lies in the space")
        self._choices = np.array([axis.kind == "index" for axis in space.axes], dtype=bool)
        self._points = np.array([self._point(configs[r]) for r in self._rows])  # (n, axes)
        self._shares = np.full(len(space.axes), 1.0 / max(1, len(space.axes)))  # (axes,), sum 1
        if weights is not None and space.axes:
            known = [losses[r] for r in self._rows]
            found = weights(self._points, np.array([np.nan if v is None else v for v in known]))
            self._shares = found / found.sum()

    def _point(self, config: Config) -> np.ndarray:  # (axes,), NaN for what does not exist
        numbers = self.space.encode(config)
        return np.array([_scaled(axis, numbers.get(axis.label)) for axis in self.space.axes])

    def _distances(self, point: np.ndarray) -> np.ndarray:  # (n,)
        if not len(point):
            return np.zeros(len(self._points))
        apart = np.abs(self._points - point)
        apart[:, self._choices] = apart[:, self._choices] > 0
        apart = np.where(np.isnan(self._points) & np.isnan(point), 0.0, apart)
        apart = np.where(np.isnan(self._points) != np.isnan(point), 1.0, apart)
        return np.sqrt(apart**2 @ self._shares)

    def answer(self, config: Config) -> tuple[int, float]:
        """(the trial that answers, its distance): 0 for the configuration itself; of equally near
        ones the first. ValueError for one outside the space that is none of the trials."""
        row = self._exact.get(identity(plain(dict(config))))
        if row is not None:
            return row, 0.0
        if config not in self.space:
            raise ValueError(f"neither a trial nor in the space: {dict(config)!r}")
        distances = self._distances(self._point(config))
        nearest = int(np.argmin(distances))
        return int(self._rows[nearest]), float(distances[nearest])

    def neighbours(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(trials in the space, of each the nearest other one, their distance), each (n,): what the
        box would have said of each had it not run. Empty with fewer than two trials."""
        rows, others, apart = [], [], []
        for i in range(len(self._rows) if len(self._rows) > 1 else 0):
            distances = self._distances(self._points[i])
            distances[i] = np.inf
            nearest = int(np.argmin(distances))
            rows.append(self._rows[i])
            others.append(self._rows[nearest])
            apart.append(distances[nearest])
        return np.array(rows, dtype=int), np.array(others, dtype=int), np.array(apart)


def _scaled(axis: Axis, number: float | None) -> float:
    if number is None:
        return math.nan
    if axis.kind == "index":
        return float(number)
    low, high = float(axis.low), float(axis.high)
    if axis.log:
        low, high, number = math.log(low), math.log(high), math.log(number)
    return (number - low) / (high - low) if high > low else 0.0


def replayed(
    box: BlackBox, sampler: str, *, n_trials: int, seed: int, first: Sequence[Config] = ()
) -> list[tuple[int, float]]:
    """The answers (trial, distance) to `n_trials` suggestions of a sampler (a name of
    `samplers.SAMPLERS`) that is told them, one after the other. ValueError where it cannot search
    the space, as a grid a continuous one."""
    search = make_sampler(sampler, box.space, seed=seed, first=first)
    found = []
    for index in range(n_trials):
        config = search.ask(index)
        row, distance = box.answer(config)
        search.tell(index, config, box.losses[row])
        found.append((row, distance))
    return found
