"""Weights of rows: checks of them, and fits by them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils.validation import check_array, check_consistent_length

OFTEN = 4  # rows that stop a fit are drawn so many times each, by weight


def checked_weights(sample_weight: Any, rows: Any) -> np.ndarray | None:  # (N,)
    """The weights of `rows` as float64; None where there are none or all of them are one.

    A scalar is the weight of every row. ValueError where a weight is negative or no finite number,
    and where all are zero.
    """
    if sample_weight is None:
        return None
    if np.isscalar(sample_weight):
        sample_weight = np.full(len(rows), sample_weight)
    weights = check_array(
        sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight"
    )
    if weights.ndim != 1:
        raise ValueError(f"Sample weights must be 1D array or scalar, got shape {weights.shape}")
    check_consistent_length(rows, weights)
    if (weights < 0).any():
        raise ValueError("Sample weights must not be negative")
    if not weights.any():
        raise ValueError("Sample weights must contain at least one non-zero number.")
    return None if (weights == 1).all() else weights


def drawn_by_weight(weights: np.ndarray, n: int) -> np.ndarray:  # (n,)
    """n row numbers; a row appears in proportion to its weight (systematic resampling).

    Used where a library takes no weights, as for the rows that stop a fit.

    >>> drawn_by_weight(np.array([1.0, 3.0, 0.0]), 4)
    array([0, 1, 1, 1])
    """
    ends = np.cumsum(weights) / weights.sum()
    return np.searchsorted(ends, (np.arange(n) + 0.5) / n, side="right")


def fit_by_weights(
    fit: Callable[..., Any],
    X: Any,
    y: Any,
    *,
    weights: np.ndarray,
    val_weights: np.ndarray | None = None,
    **more: Any,
) -> Any:
    """`fit(X, y, sample_weight=weights, **more)`, with validation rows by weight too.

    X, `X_val`: frames with an index from 0. Rows of weight 0 are left out. Validation rows, which
    stop a fit, are drawn by `val_weights` (N_val,). ValueError where all training rows have weight
    0.
    """
    there = weights > 0
    if not there.any():
        raise ValueError("all training rows of this fold have weight 0: nothing to learn")
    if more.get("X_val") is not None and val_weights is not None and val_weights.any():
        rows = drawn_by_weight(val_weights, OFTEN * len(val_weights))
        more["X_val"] = more["X_val"].iloc[rows].reset_index(drop=True)
        more["y_val"] = more["y_val"][rows]
    X, y = X[there].reset_index(drop=True), y[there]
    return fit(X, y, sample_weight=weights[there], **more)
