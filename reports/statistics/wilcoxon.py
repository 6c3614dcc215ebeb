"""Wilcoxon's signed-rank and rank-sum tests, exact with ties and zeros (Pratt).

Pairs of models that have the same ranks of absolute differences (all pairs without zeros and ties
do) share one null distribution, so the signed-rank tests of all pairs are computed together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from .distributions import rankdata
from .ranking import snap

Array = np.ndarray

# DIFF(Wilcoxon 1945): with more pairs than this the normal approximation, corrected for zeros and
# ties, replaces the exact distribution, whose cost grows with the cube of the number of pairs.
EXACT_UP_TO = 100


@dataclass(frozen=True)
class Wilcoxon:
    """A signed-rank test of paired differences d = a - b.

    `p` is two-sided; `p_greater` is one-sided for 'a is larger', `p_less` for 'a is smaller'.
    """

    n: int  # pairs
    n_zero: int  # pairs without a difference
    w_plus: float  # rank sum of the positive differences
    w_minus: float
    p: float
    p_greater: float
    p_less: float

    @property
    def t(self) -> float:
        """The smaller rank sum, Wilcoxon's T."""
        return min(self.w_plus, self.w_minus)


def wilcoxon(differences: Array) -> Wilcoxon:  # (n,)
    """Wilcoxon's exact signed-rank test of one list of differences; see `wilcoxon_columns`."""
    d = np.asarray(differences, dtype=np.float64)
    if d.ndim != 1:
        raise ValueError("Wilcoxon needs a list of finite differences, at least one")
    return wilcoxon_columns(d[:, None], exact_up_to=len(d))[0]


def wilcoxon_columns(
    differences: Array, *, exact_up_to: int = EXACT_UP_TO
) -> list[Wilcoxon]:  # (n, P)
    """Wilcoxon's signed-rank test of each of P columns of n paired differences.

    Zero differences are ranked and then dropped (Pratt 1959). For up to `exact_up_to` pairs all
    sign patterns of the others are counted, with the ties as they are; for more the p-values are
    normal approximations with the variance corrected for zeros and ties, as in scipy.
    Near-equal sizes of differences tie. A difference is zero where it is 0: which scores tie, their
    own size says (`ranking.differences`), not the other pairs. A column of zeros has p = 1. Raises
    ValueError for no rows, and for differences that are not finite.

    DIFF(scipy.stats.wilcoxon, method='exact'): that table ignores zeros and ties.
    """
    d = np.asarray(differences, dtype=np.float64).T  # (P, n)
    if d.ndim != 2 or not d.shape[1] or not np.isfinite(d).all():
        raise ValueError("Wilcoxon needs lists of finite differences, at least one in each")
    if not len(d):
        return []
    n = d.shape[1]
    size = np.abs(d)
    zero = size == 0.0
    n_zero = zero.sum(axis=1)
    doubled = np.rint(2.0 * rankdata(snap(size))).astype(np.int64)
    doubled[zero] = 0
    plus = np.where(d > 0, doubled, 0).sum(axis=1)
    total = doubled.sum(axis=1)
    w_plus, w_minus = plus / 2.0, (total - plus) / 2.0
    if n <= exact_up_to:
        p = _exact_p(doubled, plus, total)
    else:
        some = n_zero < n
        spread = np.sqrt(((doubled / 2.0) ** 2).sum(axis=1), out=np.ones(len(d)), where=some)
        standard = np.where(some, (w_plus - w_minus) / spread, 0.0)
        greater, less = special.ndtr(-standard), special.ndtr(standard)
        p = np.column_stack([np.minimum(1.0, 2.0 * np.minimum(greater, less)), greater, less])
        p[~some] = 1.0
    return [
        Wilcoxon(n, *figures)
        for figures in zip(
            n_zero.tolist(), w_plus.tolist(), w_minus.tolist(), *p.T.tolist(), strict=True
        )
    ]


def _exact_p(doubled: Array, plus: Array, total: Array) -> Array:  # (P, n), (P,), (P,) -> (P, 3)
    """(two-sided, greater, less) from twice the ranks of the non-zero differences, 0 for zeros."""
    below, at = _lower_tail(np.sort(doubled, axis=1), np.minimum(plus, total - plus))
    low, high = below + at, 1.0 - below
    upper = 2 * plus > total
    greater, less = np.where(upper, low, high), np.where(upper, high, low)
    return np.column_stack([np.minimum(1.0, 2.0 * low), greater, less])


def _lower_tail(ranks: Array, sums: Array) -> tuple[Array, Array]:  # (P, n) ascending, (P,)
    """(P(S < s), P(S = s)) of the sum S of the ranks, each kept with probability 1/2; all are whole
    numbers. Distributions are computed up to the largest of `sums`."""
    kinds, kind = np.unique(ranks, axis=0, return_inverse=True)
    width = int(sums.max()) + 1
    ways = np.zeros((len(kinds), 2 * width))  # the left half stays 0: what a shift reads there
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


def smallest_p(n: int) -> float:
    """The smallest two-sided p-value that the exact signed-rank test can reach with n pairs."""
    return min(1.0, 2 * 0.5**n)


def fewest_pairs(alpha: float) -> int:
    """Pairs from which the exact signed-rank test can reach a two-sided p <= alpha: 6 for .05."""
    n = 1
    while smallest_p(n) > alpha:
        n += 1
    return n


# --- two independent samples ----------------------------------------------------------------------


def rank_sum(worse: Array, better: Array) -> float:  # (n,), (m,) losses
    """One-sided p-value that the first losses are larger (Wilcoxon 1945, rank sum).

    Exact up to EXACT_UP_TO values in all: the probability of a rank sum at least as large, over all
    ways to choose n of the n + m values as the first group; near-equal values share their average
    rank. Beyond, scipy's normal approximation, corrected for ties and continuity. The
    groups are not paired. Raises ValueError for an empty group and for values that are not finite.

    DIFF(scipy.stats.mannwhitneyu, method='exact'): that table holds without ties alone.

    >>> rank_sum(np.array([4.0, 5.0, 6.0]), np.array([1.0, 2.0, 3.0]))
    0.05
    """
    both = np.concatenate([worse, better]).astype(np.float64)
    if not len(worse) or not len(better) or not np.isfinite(both).all():
        raise ValueError("a rank-sum test needs finite values on both sides")
    doubled = np.rint(2.0 * rankdata(snap(both))).astype(np.int64)
    n, top = len(worse), int(doubled.sum())
    if len(both) > EXACT_UP_TO:
        from scipy.stats import mannwhitneyu  # imported late, see `distributions`

        test = mannwhitneyu(doubled[:n], doubled[n:], alternative="greater", method="asymptotic")
        return float(test.pvalue)
    ways = np.zeros((n + 1, top + 1))  # ways to choose k values whose doubled ranks sum to s
    ways[0, 0] = 1.0
    for rank in doubled:
        ways[1:, rank:] += ways[:-1, : top + 1 - rank].copy()
    own = int(doubled[:n].sum())
    return min(1.0, float(ways[n, own:].sum()) / math.comb(len(both), n))


def smallest_rank_sum_p(n: int, m: int) -> float:
    """The smallest p-value that `rank_sum` can reach: 1/20 for 3 against 3, 1/252 for 5."""
    return 1.0 / math.comb(n + m, n)
