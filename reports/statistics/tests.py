"""Is one model better than another, and how sure can one be? Ranks, tests and their corrections.

Everything takes a matrix `scores` of shape (n_datasets, n_models), one number a dataset, and a
direction; missing cells are the caller's business (`nan` is refused). Three kinds of claim need
three kinds of test: across datasets (Friedman, Wilcoxon), across the folds of one dataset
(`nadeau_bengio`), across seeds on one fixed split (`wilcoxon` on the seeds).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from . import distributions

# Two values are equal when they differ by less than this share of the larger one.
TIE_TOLERANCE = 1e-9

Array = np.ndarray


def _matrix(scores: Array, direction: str) -> Array:
    """The scores as float64, turned so that lower is better."""
    if direction not in ("max", "min"):
        raise ValueError(f"direction must be 'max' or 'min', not {direction!r}")
    matrix = np.asarray(scores, dtype=np.float64)
    if matrix.ndim != 2:
        raise ValueError(f"scores must have shape (n_datasets, n_models), not {matrix.shape}")
    if np.isnan(matrix).any():
        raise ValueError("scores hold a missing cell; drop the dataset or impute it, and say so")
    return -matrix if direction == "max" else matrix


# --- ranks and what follows from them -------------------------------------------------------------


def snap(values: Array, tolerance: float = TIE_TOLERANCE) -> Array:  # (..., n) -> the same shape
    """Values with every run of near-equal neighbours of a row set to the run's smallest.

    Neighbours in sorted order are near-equal when they differ by at most `tolerance` times the
    larger magnitude, so 0.1 + 0.2 and 0.3 tie whatever the digits (plain rounding has edges).
    """
    values = np.asarray(values, dtype=np.float64)
    if values.shape[-1] < 2:
        return values.copy()
    order = np.argsort(values, axis=-1, kind="stable")
    ordered = np.take_along_axis(values, order, axis=-1)
    low, high = ordered[..., :-1], ordered[..., 1:]
    scale = np.maximum(np.abs(low), np.abs(high))
    with np.errstate(invalid="ignore"):  # infinity - infinity: equal
        equal = (np.isfinite(scale) & (high - low <= tolerance * scale)) | (high == low)
    place = np.broadcast_to(np.arange(values.shape[-1]), values.shape).copy()
    place[..., 1:][equal] = 0
    heads = np.take_along_axis(ordered, np.maximum.accumulate(place, axis=-1), axis=-1)
    snapped = np.empty_like(values)
    np.put_along_axis(snapped, order, heads, axis=-1)
    return snapped


def ranks(
    scores: Array,
    direction: str = "max",
    *,
    tolerance: float = TIE_TOLERANCE,
    ties: str = "average",
) -> Array:  # (n_datasets, n_models) -> the same shape
    """Rank of every model on every dataset, 1 = best.

    Near-equal scores share their average rank; `ties` takes the other words of `tails.TIES`
    too, of which 'ordinal' breaks ties in column order (NPT's Table 1 does).

    >>> ranks(np.array([[0.1 + 0.2, 0.3, 0.5]])).tolist()
    [[2.5, 2.5, 1.0]]
    """
    matrix = _matrix(scores, direction)
    if not matrix.size:
        return matrix
    return distributions.rankdata(snap(matrix, tolerance), ties)


def standard_error(values: Array, axis: int = 0, ddof: int = 1) -> Array:
    """s / sqrt(n) along the axis; NaN-free: 0 observations or 1 are refused by ValueError."""
    values = np.asarray(values, dtype=np.float64)
    n = values.shape[axis]
    if n < 2:
        raise ValueError(f"a standard error needs at least 2 values, not {n}")
    return values.std(axis=axis, ddof=ddof) / math.sqrt(n)


def win_rate(rank: Array) -> Array:  # (n_datasets, n_models) -> (n_models,)
    """Share of (opponent, dataset) pairs that a model wins, ties counting one half."""
    n_models = rank.shape[1]
    if n_models < 2:
        raise ValueError("a win rate needs an opponent; there is one model")
    return (n_models - rank.mean(axis=0)) / (n_models - 1)


def normalised(errors: Array) -> Array:  # (n_datasets, n_models) -> the same, in [0, 1]
    """1 for the best error of a dataset, 0 for the worst; 1 for all where all are equal.

    Depends on which models compete.
    """
    errors = _matrix(errors, "min")
    worst, best = errors.max(axis=1, keepdims=True), errors.min(axis=1, keepdims=True)
    span = worst - best
    return np.where(span > 0, (worst - errors) / np.where(span > 0, span, 1.0), 1.0)


def improvability(errors: Array) -> Array:  # (n_datasets, n_models) -> the same, in [0, 1]
    """Share of a model's error that the best model of the dataset does without; 0/0 is 0."""
    errors = _matrix(errors, "min")
    if (errors < 0).any():
        raise ValueError("improvability needs errors of at least 0")
    best = errors.min(axis=1, keepdims=True)
    return np.where(errors > 0, 1.0 - best / np.where(errors > 0, errors, 1.0), 0.0)


def elo(rank: Array, *, centre: float = 0.0) -> Array:  # (n_datasets, n_models) -> (n_models,)
    """Bradley-Terry strengths on Elo's scale (400 log10), their mean at `centre`."""
    n_datasets, n_models = rank.shape
    if n_models < 2:
        raise ValueError("a rating needs an opponent; there is one model")
    return elo_of_wins((n_models - rank).sum(axis=0)[None], n_datasets, centre=centre)[0]


def elo_of_wins(
    wins: Array, n_games: int, *, centre: float = 0.0, start: float | Array = 0.0
) -> Array:  # (S, k) -> (S, k)
    """Elo of S leagues of k models in which every pair met `n_games` times; ties are half wins.

    Where everybody met everybody equally often, the likelihood knows of each model only the number
    of games that it won. Where some models lost no game to the others (`separable`) there is no
    finite strength; then every pair is given half a won and half a lost game more, as if it had
    tied once. Newton's steps from `start` (Elo), cut to a factor of e^2 in a strength.
    """
    n_models = wins.shape[1]
    extra = 1.0 * separable(wins, n_games)[:, None]
    share = (wins + 0.5 * (n_models - 1) * extra) / (n_games + extra)
    found = np.broadcast_to(start, wins.shape) * (math.log(10.0) / 400.0)
    diagonal = np.arange(n_models)
    for _ in range(100):
        strength = np.exp(found)
        chance = strength[:, :, None] / (strength[:, :, None] + strength[:, None, :])
        slope = chance * (chance - 1.0)
        slope[:, diagonal, diagonal] -= slope.sum(axis=2)
        # Strengths are known up to a factor: a constant added to the matrix makes it invertible.
        excess = share - (chance.sum(axis=2) - 0.5)
        step = np.linalg.solve(slope + 1.0 / n_models, excess[:, :, None])[:, :, 0]
        found = found + np.clip(step, -2.0, 2.0)
        if np.abs(step).max() < 1e-5:  # the next would be its square
            break
    return centre + (found - found.mean(axis=1, keepdims=True)) * (400.0 / math.log(10.0))


def separable(wins: Array, n_games: int) -> Array:  # (S, k) -> (S,) bool
    """Whether some models of a league won every game against all the others.

    The m models with the most wins have n_games * (m (m - 1) / 2 + m (k - m)) wins exactly where
    they lost none to the rest (Landau 1953).
    """
    k = wins.shape[1]
    m = np.arange(1, k)
    most = n_games * (m * (m - 1) / 2.0 + m * (k - m))
    best = np.cumsum(-np.sort(-wins, axis=1), axis=1)[:, :-1]
    return (best >= most - 1e-6).any(axis=1)


# --- all models at once ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Friedman:
    """Friedman's test, plain and corrected for ties, with Iman and Davenport's F (Demsar 2006)."""

    n_datasets: int
    n_models: int
    chi2: float  # without tie correction, eq. of Demsar 2006 sec. 3.2.2
    f: float  # Iman-Davenport from the plain chi2; infinity where all datasets rank alike
    p: float  # of f
    chi2_ties: float  # with tie correction, as scipy
    p_ties: float
    df: tuple[int, int]


def friedman(rank: Array) -> Friedman:  # (n_datasets, n_models)
    """Whether all models rank alike. Needs at least 3 models and 2 datasets (ValueError)."""
    n, k = rank.shape
    if k < 3 or n < 2:
        raise ValueError(f"Friedman needs at least 3 models and 2 datasets, not {k} and {n}")
    mean = rank.mean(axis=0)
    chi2 = 12.0 * n / (k * (k + 1)) * (float((mean**2).sum()) - k * (k + 1) ** 2 / 4.0)
    chi2 = max(chi2, 0.0)
    df = (k - 1, (k - 1) * (n - 1))
    rest = n * (k - 1) - chi2
    f = (n - 1) * chi2 / rest if rest > 1e-12 * n * (k - 1) else math.inf
    tie_sum = sum(float((c**3 - c).sum()) for c in (_tie_sizes(row) for row in rank))
    share = 1.0 - tie_sum / (n * k * (k * k - 1))
    chi2_ties = chi2 / share if share > 1e-12 else 0.0  # everything ties: no evidence at all
    return Friedman(
        n,
        k,
        chi2,
        f,
        distributions.f_sf(f, df),
        chi2_ties,
        distributions.chi2_sf(chi2_ties, k - 1),
        df,
    )


def _tie_sizes(row: Array) -> Array:
    return np.unique(row, return_counts=True)[1].astype(np.float64)


def nemenyi_q(n_models: int, alpha: float = 0.05) -> float:
    """Critical value of Nemenyi's test: the studentised range divided by sqrt 2."""
    return distributions.range_isf(alpha, n_models) / math.sqrt(2.0)


def critical_difference(n_models: int, n_datasets: int, alpha: float = 0.05) -> float:
    """Difference of two mean ranks from which Nemenyi's test calls them different."""
    return nemenyi_q(n_models, alpha) * math.sqrt(n_models * (n_models + 1) / (6.0 * n_datasets))


def groups(mean_ranks: Sequence[float], difference: float) -> list[tuple[int, int]]:
    """(first, last) of every largest run of ascending mean ranks that lies within `difference`.

    Runs of one are left out: such a model lies apart from all others.

    >>> groups([1.0, 1.5, 2.2, 4.0], 1.0)
    [(0, 1), (1, 2)]
    """
    found: list[tuple[int, int]] = []
    for first in range(len(mean_ranks)):
        last = first
        while last + 1 < len(mean_ranks) and mean_ranks[last + 1] - mean_ranks[first] < difference:
            last += 1
        if last > first and (not found or last > found[-1][1]):
            found.append((first, last))
    return found


# --- two models -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Wilcoxon:
    """A signed-rank test of paired differences d = a - b.

    `p` is two-sided; `p_greater` is one-sided for 'a is larger', `p_less` for 'a is smaller'.
    """

    n: int  # pairs
    n_zero: int  # pairs without a difference
    w_plus: float  # rank sum of the positive differences (zeros as `zeros` says)
    w_minus: float
    z: float | None  # of the normal approximation; None for the exact test
    p: float
    p_greater: float
    p_less: float

    @property
    def t(self) -> float:
        """The smaller rank sum, Wilcoxon's T."""
        return min(self.w_plus, self.w_minus)


def wilcoxon(
    differences: Array,
    *,
    zeros: str = "pratt",
    method: str = "exact",
    tolerance: float = TIE_TOLERANCE,
) -> Wilcoxon:  # (n,)
    """Wilcoxon's signed-rank test, right for zeros and ties.

    `zeros`: 'wilcox' drops them before ranking, 'pratt' ranks them and drops them then, 'zsplit'
    gives half of their ranks to either side. `method`: 'exact' counts all sign patterns of the
    non-zero differences (with the ties as they are), 'normal' approximates with the variance
    corrected for zeros and ties, as scipy does. Differences near-equal in size tie; a difference
    within `tolerance` of the largest counts as zero. No difference at all gives p = 1.

    DIFF(scipy.stats.wilcoxon, method='exact'): that table ignores zeros and ties.
    """
    if zeros not in ("wilcox", "pratt", "zsplit"):
        raise ValueError(f"zeros must be wilcox, pratt or zsplit, not {zeros!r}")
    if method not in ("exact", "normal"):
        raise ValueError(f"method must be exact or normal, not {method!r}")
    d = np.asarray(differences, dtype=np.float64)
    if d.ndim != 1 or not len(d) or not np.isfinite(d).all():
        raise ValueError("Wilcoxon needs a list of finite differences, at least one")
    d = np.where(np.abs(d) <= tolerance * np.abs(d).max(), 0.0, d)
    zero = d == 0.0
    n, n_zero = len(d), int(zero.sum())
    if n_zero == n:
        half = n * (n + 1) / 4.0 if zeros == "zsplit" else 0.0
        return Wilcoxon(n, n, half, half, None if method == "exact" else 0.0, 1.0, 1.0, 1.0)
    used = d[~zero] if zeros == "wilcox" else d
    rank = distributions.rankdata(snap(np.abs(used), tolerance))
    shared = float(rank[used == 0.0].sum()) / 2.0 if zeros == "zsplit" else 0.0
    w_plus = float(rank[used > 0].sum()) + shared
    w_minus = float(rank[used < 0].sum()) + shared
    if method == "exact":
        two, greater, less = _exact_tails(rank[used != 0.0], float(rank[used > 0].sum()))
        return Wilcoxon(n, n_zero, w_plus, w_minus, None, two, greater, less)
    z = _normal_z(used, rank, w_plus, w_minus, zeros)
    two, greater, less = _normal_tails(z)
    return Wilcoxon(n, n_zero, w_plus, w_minus, -abs(z), two, greater, less)


def _exact_tails(rank: Array, w_plus: float) -> tuple[float, float, float]:
    """(two-sided, P(W+ >= w), P(W+ <= w)) over all 2^n sign patterns of these ranks."""
    doubled = np.rint(2.0 * rank).astype(np.int64)  # average ranks are halves
    weight = np.zeros(int(doubled.sum()) + 1)
    weight[0] = 1.0
    reached = 0
    for r in doubled:
        weight[r : reached + r + 1] = 0.5 * (weight[r : reached + r + 1] + weight[: reached + 1])
        weight[:r] *= 0.5
        reached += int(r)
    at = int(round(2.0 * w_plus))
    less, greater = float(weight[: at + 1].sum()), float(weight[at:].sum())
    return min(1.0, 2.0 * min(less, greater)), min(1.0, greater), min(1.0, less)


def _normal_z(used: Array, rank: Array, w_plus: float, w_minus: float, zeros: str) -> float:
    """Standardised W+ with the variance of the ranks that carry a sign."""
    signed = rank[used != 0.0] if zeros != "zsplit" else rank
    variance = float((signed**2).sum()) / 4.0
    return (w_plus - w_minus) / 2.0 / math.sqrt(variance)


def _normal_tails(z: float) -> tuple[float, float, float]:
    greater, less = distributions.normal_sf(z), distributions.normal_sf(-z)
    return min(1.0, 2.0 * min(greater, less)), greater, less


def sign_test(wins: int, losses: int) -> float:
    """Two-sided exact p-value of wins against losses, ties left out; 1 without any."""
    n = wins + losses
    return distributions.fair_coin(wins, n) if n else 1.0


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjusted p-values, in the order given."""
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    scaled = np.minimum(1.0, (len(p) - np.arange(len(p))) * p[order])
    adjusted = np.empty_like(p)
    adjusted[order] = np.maximum.accumulate(scaled)
    return [float(v) for v in adjusted]


def smallest_p(n: int, sides: int = 2) -> float:
    """The smallest p-value that Wilcoxon's exact test can reach with n pairs."""
    return min(1.0, sides * 0.5**n)


def fewest_pairs(alpha: float, sides: int = 2) -> int:
    """Pairs from which Wilcoxon's exact test can fall to alpha: 6 for .05 two-sided."""
    n = 1
    while smallest_p(n, sides) > alpha:
        n += 1
    return n


@dataclass(frozen=True)
class PairedT:
    """A t-test of paired differences over resampled splits of one dataset."""

    n: int
    mean: float
    t: float
    p: float  # two-sided
    p_greater: float


def nadeau_bengio(differences: Array, test_over_train: float) -> PairedT:  # (n_splits,)
    """Corrected resampled t-test (Nadeau and Bengio 2003): the folds share training rows.

    `test_over_train` is n_test / n_train; 0 gives the naive paired t-test. Equal differences give
    p = 1 if they are all zero and p = 0 otherwise.
    """
    d = np.asarray(differences, dtype=np.float64)
    n = len(d)
    if n < 2:
        raise ValueError(f"a paired t-test needs at least 2 splits, not {n}")
    if not np.isfinite(d).all() or test_over_train < 0:
        raise ValueError("a paired t-test needs finite differences and n_test / n_train >= 0")
    mean, variance = float(d.mean()), float(d.var(ddof=1))
    if variance <= (1e-12 * float(np.abs(d).max())) ** 2:
        if mean == 0.0:
            return PairedT(n, mean, 0.0, 1.0, 0.5)
        return PairedT(n, mean, math.copysign(math.inf, mean), 0.0, 0.0 if mean > 0 else 1.0)
    t = mean / math.sqrt((1.0 / n + test_over_train) * variance)
    two, greater = distributions.t_sf(abs(t), n - 1), distributions.t_sf(t, n - 1)
    return PairedT(n, mean, t, 2.0 * two, greater)
