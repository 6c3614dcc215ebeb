"""Welch's interval of the difference of two means."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .distributions import t_isf

ROUNDING = 1e-12  # of the means: differences below it are those of the order of a sum


class Difference(NamedTuple):
    """Difference of two means, and the ends of its interval."""

    mean: float
    low: float
    high: float

    @property
    def is_separable(self) -> bool:
        """Whether the interval leaves out zero."""
        return self.low > 0.0 or self.high < 0.0


def welch(one: np.ndarray, other: np.ndarray, *, level: float = 0.95) -> Difference:
    """mean(one) - mean(other) of independent samples that may differ in variance (Welch 1947).

    Infinite ends where a sample has fewer than two values; a point where no value varies. Values
    that are not finite are left out.

    >>> welch(np.array([1.0, 2.0, 3.0]), np.array([2.0, 3.0, 4.0])).is_separable
    False
    """
    samples = [values[np.isfinite(values)] for values in (one, other)]
    if min(map(len, samples)) < 2:
        mean = float(samples[0].mean() - samples[1].mean()) if all(map(len, samples)) else math.nan
        return Difference(mean, -math.inf, math.inf)
    means = [float(values.mean()) for values in samples]
    mean = means[0] - means[1]
    if abs(mean) <= ROUNDING * max(map(abs, means)):
        mean = 0.0
    parts = [
        float(values.var(ddof=1)) / len(values) if np.ptp(values) else 0.0 for values in samples
    ]
    if not any(parts):
        return Difference(mean, mean, mean)
    total = sum(parts)
    # as shares of the sum: the squares of variances below 1e-162 are 0 in floating point
    freedom = 1.0 / sum(
        (part / total) ** 2 / (len(values) - 1) for part, values in zip(parts, samples, strict=True)
    )
    half = t_isf((1.0 - level) / 2.0, freedom) * math.sqrt(total)
    return Difference(mean, mean - half, mean + half)
