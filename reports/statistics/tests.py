"""Significance tests over datasets and folds, and the correction for many comparisons.

Friedman's test, Nemenyi's critical difference and the sign test compare models over datasets, one
number per dataset; `nadeau_bengio` compares two models over the folds of one dataset; `holm`
corrects the p-values of a family of tests. Wilcoxon's tests are in `wilcoxon.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from . import distributions
from .ranking import differences

ALPHA = 0.05  # significance level across datasets and across folds

Array = np.ndarray


# --- all models at once ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Friedman:
    """Friedman's test, plain and corrected for ties, with Iman and Davenport's F (Demsar 2006)."""

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
    tied = [np.unique(row, return_counts=True)[1].astype(np.float64) for row in rank]
    tie_sum = sum(float((sizes**3 - sizes).sum()) for sizes in tied)
    share = 1.0 - tie_sum / (n * k * (k * k - 1))
    chi2_ties = (
        chi2 / share if share > 1e-12 else 0.0
    )  # if everything ties there is no evidence of a difference
    p, p_ties = distributions.f_sf(f, df), distributions.chi2_sf(chi2_ties, k - 1)
    return Friedman(chi2, f, p, chi2_ties, p_ties, df)


def nemenyi_q(n_models: int, alpha: float = 0.05) -> float:
    """Critical value of Nemenyi's test: the studentised range divided by sqrt 2."""
    return distributions.range_isf(alpha, n_models) / math.sqrt(2.0)


def critical_difference(n_models: int, n_datasets: int, alpha: float = 0.05) -> float:
    """Difference of two mean ranks from which Nemenyi's test calls them different."""
    return nemenyi_q(n_models, alpha) * math.sqrt(n_models * (n_models + 1) / (6.0 * n_datasets))


def groups(mean_ranks: Sequence[float], difference: float) -> list[tuple[int, int]]:
    """(first, last) of every largest run of ascending mean ranks that lies within `difference`.

    Groups of one are left out: such a model differs from all others.

    >>> groups([1.0, 1.5, 2.2, 4.0], 1.0)
    [(0, 1), (1, 2)]
    """
    runs: list[tuple[int, int]] = []
    for first in range(len(mean_ranks)):
        last = first
        while last + 1 < len(mean_ranks) and mean_ranks[last + 1] - mean_ranks[first] < difference:
            last += 1
        if last > first and (not runs or last > runs[-1][1]):
            runs.append((first, last))
    return runs


# --- two models -----------------------------------------------------------------------------------


def relative_changes(a: Array, b: Array) -> Array:  # errors, (n,), (n,) -> (n,)
    """2 (b - a) / (b + a), which orders pairs as |log(b / a)| does; 0 where the errors tie, NaN
    where one is not a number."""
    total = a + b
    return 2.0 * differences(b, a) / np.where(total == 0, 1.0, total)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjusted p-values, in the order given; NaN is no test of the family."""
    p = np.asarray(p_values, dtype=np.float64)
    n = int((~np.isnan(p)).sum())
    order = np.argsort(p, kind="stable")[:n]  # NaN comes last
    adjusted = np.full_like(p, np.nan)
    adjusted[order] = np.maximum.accumulate(np.minimum(1.0, (n - np.arange(n)) * p[order]))
    return adjusted.tolist()


@dataclass(frozen=True)
class PairedT:
    """A t-test of paired differences over resampled splits of one dataset."""

    mean: float
    t: float
    p: float  # two-sided


def nadeau_bengio(differences: Array, test_over_train: float) -> PairedT:  # (n_splits,)
    """Corrected resampled t-test (Nadeau and Bengio 2003): the folds share training rows.

    `test_over_train` is n_test / n_train; 0 gives the naive paired t-test. Without spread there is
    no test: equal differences give p = 1 if they are all zero and NaN otherwise. On few rows equal
    models differ by the same number of them on every fold now and then.
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
            return PairedT(mean, 0.0, 1.0)
        return PairedT(mean, math.nan, math.nan)
    t = mean / math.sqrt((1.0 / n + test_over_train) * variance)
    return PairedT(mean, t, 2.0 * distributions.t_sf(abs(t), n - 1))
