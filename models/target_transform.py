"""Transforms of a target in regression: models learn the transformed values, predictions are mapped
back to the target's units and stay within the range of the training targets."""

from __future__ import annotations

import numpy as np

TRANSFORMS = ("none", "log", "rank")
RANKS = 1000  # quantiles of the training values that `rank` keeps, at most; `log` keeps the ends


def _levels(n: int) -> np.ndarray:
    return (np.arange(n) + 0.5) / n


def quantiles_of(how: str, values: np.ndarray) -> np.ndarray | None:  # (N,) -> (at most RANKS,)
    """What a transform learns from the training values, None for `none`."""
    if how == "none":
        return None
    n = 2 if how == "log" else min(len(values), RANKS)
    return np.quantile(values, np.linspace(0, 1, n))


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
    """(N,) transformed values mapped back, at most to the ends of the training values."""
    if quantiles is None:
        return values
    if how == "log":
        return np.expm1(np.clip(values, *np.log1p(quantiles)))
    from scipy.special import ndtr

    return np.interp(ndtr(values), _levels(len(quantiles)), quantiles)
