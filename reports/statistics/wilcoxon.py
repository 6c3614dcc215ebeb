"""Which of many pairs differ? Wilcoxon's exact signed-rank test of all of them at once.

The numbers are those of `statistics.wilcoxon`, one pair after the other. There the sign patterns of
each pair are counted afresh; here pairs that share their ranks (those without zeros and ties all
do) are counted once, the others side by side, and no further than the smaller rank sum.
"""

from __future__ import annotations

import numpy as np

from .distributions import rankdata
from .tests import TIE_TOLERANCE, Wilcoxon, snap, wilcoxon

Array = np.ndarray

# DIFF(Wilcoxon 1945): with more pairs than this the normal approximation, corrected for zeros and
# ties, stands for the count, which costs the cube of their number.
EXACT_UP_TO = 100


def wilcoxons(differences: Array, tolerance: float = TIE_TOLERANCE) -> list[Wilcoxon]:
    """The signed-rank test of every column of (n, P) differences, zeros ranked and dropped (Pratt).

    Exact up to EXACT_UP_TO pairs. Raises ValueError as `statistics.wilcoxon` does.
    """
    d = np.asarray(differences, dtype=np.float64).T  # (P, n)
    if d.ndim != 2 or not d.shape[1] or not np.isfinite(d).all():
        raise ValueError("Wilcoxon needs lists of finite differences, at least one in each")
    n = d.shape[1]
    if n > EXACT_UP_TO:
        return [wilcoxon(row, method="normal", tolerance=tolerance) for row in d]
    if not len(d):
        return []
    size = np.abs(d)
    zero = size <= tolerance * size.max(axis=1, keepdims=True)
    size = snap(np.where(zero, 0.0, size), tolerance)
    doubled = np.rint(2.0 * rankdata(size)).astype(np.int64)  # averages are halves
    doubled[zero] = 0
    plus = np.where(d > 0, doubled, 0).sum(axis=1)
    total = doubled.sum(axis=1)
    below, at = _lower_tail(np.sort(doubled, axis=1), np.minimum(plus, total - plus))
    low, high = below + at, 1.0 - below
    return [
        Wilcoxon(n, n_zero, w / 2.0, (s - w) / 2.0, None, min(1.0, 2.0 * lo), greater, less)
        for n_zero, w, s, lo, greater, less in zip(
            zero.sum(axis=1).tolist(),
            plus.tolist(),
            total.tolist(),
            low.tolist(),
            np.where(2 * plus > total, low, high).tolist(),
            np.where(2 * plus > total, high, low).tolist(),
            strict=True,
        )
    ]


def _lower_tail(ranks: Array, sums: Array) -> tuple[Array, Array]:  # (P, n) ascending, (P,)
    """(P(S < s), P(S = s)) for the sum S of the ranks that a fair coin picks, all whole numbers."""
    kinds, kind = np.unique(ranks, axis=0, return_inverse=True)
    width = int(sums.max()) + 1
    ways = np.zeros((len(kinds), 2 * width))  # left of the middle: nothing, where a shift looks
    ways[:, width] = 1.0
    rows = np.arange(len(kinds))[:, None] * (2 * width)
    reached = 0
    for rank in kinds.T:
        reached = min(width - 1, reached + int(rank.max()))
        here = rows + width + np.arange(reached + 1)
        shifted = ways.ravel().take(here - np.minimum(rank, width)[:, None])
        now = ways[:, width : width + reached + 1]
        now += shifted
        now *= 0.5
    chance = ways[kind, width + sums]
    return ways[:, width:].cumsum(axis=1)[kind, sums] - chance, chance
