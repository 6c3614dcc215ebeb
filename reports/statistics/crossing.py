"""Where a difference that grows with the number of rows changes its sign, with an interval."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

RESAMPLES, SEED = 2000, 0


class Crossing(NamedTuple):
    """The number of rows above which the mean gain is positive: 0 if it is positive at all sizes,
    infinite if it is not positive at the largest. low, high: the bounds of 95 % of the resamples of
    datasets."""

    rows: float
    low: float
    high: float


def crossing(sizes: np.ndarray, gains: np.ndarray) -> Crossing:  # (S,), (n_datasets, S)
    """The crossing of the mean over datasets, straight between sizes on a logarithmic axis, with
    percentiles over resamples of the datasets (bootstrap). ValueError without a dataset.

    >>> sizes = np.array([100.0, 1000.0, 10000.0])
    >>> round(crossing(sizes, np.array([[-1.0, 1.0, 2.0]])).rows)
    316
    """
    sizes, gains = np.asarray(sizes, dtype=float), np.asarray(gains, dtype=float)
    if not len(gains):
        raise ValueError("a crossing needs the gains of a dataset, got none")
    rng = np.random.default_rng(SEED)
    drawn = rng.integers(0, len(gains), size=(RESAMPLES, len(gains)))
    found = np.sort([_of_mean(sizes, mean) for mean in gains[drawn].mean(axis=1)])
    low, high = found[round(0.025 * (RESAMPLES - 1))], found[round(0.975 * (RESAMPLES - 1))]
    return Crossing(_of_mean(sizes, gains.mean(axis=0)), float(low), float(high))


def _of_mean(sizes: np.ndarray, mean: np.ndarray) -> float:  # (S,), (S,)
    behind = np.flatnonzero(mean <= 0)
    if not len(behind):
        return 0.0
    last = int(behind[-1])
    if last == len(mean) - 1:
        return math.inf
    share = mean[last] / (mean[last] - mean[last + 1])
    low, high = np.log(sizes[last : last + 2])
    return float(np.exp(low + share * (high - low)))


def resampled(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (n_datasets, k) -> (k,) x 2
    """The ends of 95 % intervals of the means over datasets, by resamples of these (bootstrap)."""
    n = len(values)
    counts = np.random.default_rng(SEED).multinomial(n, np.full(n, 1.0 / n), size=RESAMPLES)
    low, high = np.percentile(counts @ values / n, [2.5, 97.5], axis=0)
    return low, high
