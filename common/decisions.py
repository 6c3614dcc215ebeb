"""Decisions between classes: the most probable one, or the cheapest by a cost matrix."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Costs = Sequence[Sequence[float]]
"""(C, C): what a row of the class i costs that is taken for the class j."""


def decisions(proba: np.ndarray, costs: Costs = ()) -> np.ndarray:  # (N, C) -> (N,)
    """The code of the class of the least expected cost (Elkan 2001); without costs of the largest
    probability. The lower code is taken of equal ones. ValueError for costs of another size.

    >>> decisions(np.array([[0.7, 0.3]])), decisions(np.array([[0.7, 0.3]]), [[0, 1], [3, 0]])
    (array([0]), array([1]))
    """
    if not len(costs):
        return proba.argmax(axis=1)
    matrix, n_classes = np.asarray(costs, dtype=np.float64), proba.shape[1]
    if matrix.shape != (n_classes, n_classes):
        raise ValueError(f"costs of shape {matrix.shape} for {n_classes} classes")
    return np.einsum("ni,ij->nj", proba, matrix).argmin(axis=1)
