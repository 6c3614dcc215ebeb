"""Verdicts on two versions of a model: worse, harmless or undecided, from paired test errors.

A change of an error is 2 (b - a) / (b + a): nearly log(b / a), and finite where an error is 0.
A pair is of the same model on the same fold, or with one fold under the same seed. The mean over
datasets of their mean changes is tested with the spread within datasets: the verdict is about
these datasets.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from ..statistics.distributions import t_isf, t_sf
from ..statistics.tests import holm, relative_changes

EQUAL, WORSE, HARMLESS, UNDECIDED = "equal", "worse", "harmless", "undecided"
ALPHA = 0.01  # one-sided, over all models that are judged together
SAME = 1e-9  # changes that vary by less than this share of the largest are all the same
BOUND = 0.05  # the upper bound of the change holds with probability 1 - BOUND

Array = np.ndarray


@dataclass(frozen=True)
class Change:
    """The mean relative change of a model's error; positive is worse.

    n: pairs of runs. p: one-sided, for worse; upper: its one-sided 95 % bound; NaN where no dataset
    has two pairs. Without any spread within datasets both are those of the sign test. equal: every
    pair is equal to the last bit.
    """

    n: int
    mean: float
    p: float
    upper: float
    equal: bool


def as_log_ratio(change: float) -> float:
    """log(b / a) of a change 2 (b - a) / (b + a); infinite where one error is 0.

    >>> math.isclose(as_log_ratio(2 * (3 - 1) / (3 + 1)), math.log(3))
    True
    """
    if abs(change) >= 2.0:
        return math.copysign(math.inf, change)
    return 2.0 * math.atanh(change / 2.0)


def change_of(pairs: Mapping[str, tuple[Array, Array]]) -> Change:
    """The mean change over datasets of {dataset: (errors before, errors after)}, in pairs.

    The variance of a change is taken to be the same within all datasets. Raises ValueError without
    a pair.

    >>> one = change_of({"glass": (np.array([0.2, 0.3]), np.array([0.2, 0.3]))})
    >>> one.mean, one.equal
    (0.0, True)
    """
    changes = [relative_changes(a, b) for a, b in pairs.values() if len(a)]
    if not changes:
        raise ValueError("no pair of errors to compare")
    sizes = np.array([len(values) for values in changes])
    n, df = int(sizes.sum()), int((sizes - 1).sum())
    mean = float(np.mean([values.mean() for values in changes]))
    if all(bool((a == b).all()) for a, b in pairs.values()):
        return Change(n, 0.0, 1.0, 0.0, True)
    if df == 0:
        return Change(n, mean, math.nan, math.nan, False)
    variance = sum(float(((v - v.mean()) ** 2).sum()) for v in changes) / df
    same = SAME * max(float(np.abs(v).max()) for v in changes)
    if variance <= same**2:  # not 0: the mean of equal floats is often a bit off
        # the same change in every pair, which a few small folds have by chance
        up, down = (sum(int((sign * v > same).sum()) for v in changes) for sign in (1, -1))
        by_chance = float(special.bdtr(min(up, down), up + down, 0.5))  # the sign test
        agrees = (up > down) == (mean > 0)
        upper = mean if by_chance <= BOUND and agrees else math.nan
        p = by_chance if mean > 0 and agrees else 1.0
        return Change(n, mean, p, upper, False)
    se = math.sqrt(variance * float((1.0 / sizes).sum())) / len(changes)
    return Change(n, mean, t_sf(mean / se, df), mean + t_isf(BOUND, df) * se, False)


def verdicts(
    changes: Sequence[Change], *, min_effect: float = 0.01, alpha: float = ALPHA
) -> list[str]:
    """The verdict of each model, judged together.

    worse: p < alpha after Holm over the models that changed, and a mean change above `min_effect`.
    harmless: the upper bound of the change is below `min_effect`. undecided: neither. equal: no
    change at all.
    """
    adjusted = holm([math.nan if c.equal else c.p for c in changes])
    verdict_of_each = []
    for change, p_holm in zip(changes, adjusted, strict=True):
        if change.equal:
            verdict_of_each.append(EQUAL)
        elif p_holm < alpha and change.mean > min_effect:
            verdict_of_each.append(WORSE)
        elif change.upper < min_effect:
            verdict_of_each.append(HARMLESS)
        else:
            verdict_of_each.append(UNDECIDED)
    return verdict_of_each
