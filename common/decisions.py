"""Decisions between classes: the most probable one, or the cheapest by a cost matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Costs = Sequence[Sequence[float]]
"""(C, C): what a row of the class i costs that is taken for the class j."""


def decisions(proba: Any, costs: Costs = ()) -> Any:
    """(N,) the code of each row's class: the one of the least expected cost (Elkan 2001), or of the
    largest probability where there are no costs. Of equal classes the lower code is taken.

    proba: an array (N, C) of numpy. ValueError for costs of another size.

    >>> import numpy as np
    >>> decisions(np.array([[0.7, 0.3]])), decisions(np.array([[0.7, 0.3]]), [[0, 1], [3, 0]])
    (array([0]), array([1]))
    """
    n_classes = proba.shape[1]
    if not len(costs):
        return proba.argmax(axis=1)
    if [len(row) for row in costs] != [n_classes] * n_classes:
        raise ValueError(f"a matrix of costs of {len(costs)} classes, where {n_classes} are due")
    return (proba @ costs).argmin(axis=1)
