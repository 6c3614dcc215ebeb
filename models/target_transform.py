"""Transforms of a target in regression: models learn the transformed values, predictions are mapped
back to the target's units."""

from __future__ import annotations

import numpy as np

TRANSFORMS = ("none", "log", "rank")
RANKS = 1000  # quantiles of the training values that `rank` keeps, at most


def _levels(n: int) -> np.ndarray:
    return (np.arange(n) + 0.5) / n


def quantiles_of(values: np.ndarray) -> np.ndarray:  # (N,) -> (at most RANKS,)
    """What `rank` learns from the training values."""
    return np.quantile(values, np.linspace(0, 1, min(len(values), RANKS)))


def transformed(how: str, values: np.ndarray, quantiles: np.ndarray | None) -> np.ndarray:
    """(N,) values as the model sees them. ValueError where `log` meets a value below 0."""
    if how == "log":
        if len(values) and values.min() < 0:
            raise ValueError(
                f"the logarithm of 1 + y needs values of 0 or more, y holds {values.min():g}; use "
                "target_transform='rank'"
            )
        return np.log1p(values)
    if how == "rank" and quantiles is not None:
        from scipy.special import ndtri

        levels = _levels(len(quantiles))
        up = np.interp(values, quantiles, levels)
        down = -np.interp(-values, -quantiles[::-1], -levels[::-1])
        return ndtri((up + down) / 2)  # equal values get the middle of their ranks
    return values


def in_units(how: str, values: np.ndarray, quantiles: np.ndarray | None) -> np.ndarray:
    """(N,) transformed values mapped back; `rank` never leaves the range of the training values."""
    if how == "log":
        return np.expm1(values)
    if how == "rank" and quantiles is not None:
        from scipy.special import ndtr

        return np.interp(ndtr(values), _levels(len(quantiles)), quantiles)
    return values
