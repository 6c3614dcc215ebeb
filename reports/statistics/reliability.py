"""How reliable a ranking is: whether halves of the datasets agree on the order of the models."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .distributions import rankdata

HALVES, SEED = 2000, 0


class Agreement(NamedTuple):
    """Spearman's correlation of the mean ranks on two random halves of the datasets: mean over
    random halvings, and its 2.5 and 97.5 percentiles."""

    mean: float
    low: float
    high: float


def split_half(ranks: np.ndarray) -> Agreement:  # (n_datasets, n_models)
    """The agreement of halves of the datasets; of an odd number one dataset, drawn anew each time,
    is left out. ValueError for fewer than four datasets or three models.

    >>> split_half(np.tile([1.0, 2.0, 3.0], (4, 1))).mean
    1.0
    """
    n, k = ranks.shape
    if n < 4 or k < 3:
        raise ValueError(f"halves need 4 datasets and 3 models at least, got {n} and {k}")
    rng = np.random.default_rng(SEED)
    order = rng.permuted(np.tile(np.arange(n), (HALVES, 1)), axis=1)
    halves = order[:, : n // 2], order[:, n // 2 : 2 * (n // 2)]
    places = [rankdata(ranks[rows].mean(axis=1), "average") for rows in halves]
    one, other = (place - place.mean(axis=1, keepdims=True) for place in places)
    scale = np.sqrt((one**2).sum(axis=1) * (other**2).sum(axis=1))
    found = np.divide((one * other).sum(axis=1), scale, out=np.zeros(HALVES), where=scale > 0)
    low, high = np.percentile(found, [2.5, 97.5])
    return Agreement(float(found.mean()), float(low), float(high))
