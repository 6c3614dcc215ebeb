"""Significance tests on a ranking matrix, and the reason where there are too few datasets for one.

One number per dataset enters each test: the mean over its folds. Within one bounded metric the
differences of two models are those of the scores (Demsar 2006); for errors in the target's units,
and where several metrics meet, of the errors relative to their sum, (a - b) / (a + b), which has no
unit and orders the datasets as the ratio a / b does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np
import pandas as pd

from ...common.counting import ordinal
from ..output.tables import decimals_for, fixed
from ..statistics.tests import ALPHA, critical_difference, groups, holm
from ..statistics.wilcoxon import fewest_pairs, wilcoxon_columns
from .ranking_matrix import RankingMatrix

MIN_MODELS_FRIEDMAN = 3
MIN_DATASETS_FRIEDMAN = 5  # with fewer, the F approximation is too coarse
MIN_DATASETS_PAIR = fewest_pairs(ALPHA)

# Columns of the tidy frame `tests`.
COLUMNS = """scope datasets test model_a model_b n_datasets n_models n_zero a_better b_better
    w_plus w_minus statistic df p p_a_better p_b_better p_holm n_pairs note""".split()

Array = np.ndarray


def why_no_friedman(matrix: RankingMatrix) -> str:
    """Empty, or the reason why Friedman's and Nemenyi's tests are not computed."""
    if matrix.why_not:
        return matrix.why_not
    if len(matrix.models) < MIN_MODELS_FRIEDMAN:
        return f"n/a: needs at least {MIN_MODELS_FRIEDMAN} models, has {len(matrix.models)}"
    if len(matrix.datasets) < MIN_DATASETS_FRIEDMAN:
        return (
            f"n/a: needs at least {MIN_DATASETS_FRIEDMAN} complete datasets, "
            f"has {len(matrix.datasets)}"
        )
    return ""


def why_no_pairs(matrix: RankingMatrix) -> str:
    """Empty, or the reason why no pair of models is tested."""
    if matrix.why_not:
        return matrix.why_not
    n = len(matrix.datasets)
    if n < MIN_DATASETS_PAIR:
        return (
            f"n/a: needs at least {MIN_DATASETS_PAIR} complete datasets to reach p = {ALPHA:g} "
            f"two-sided, has {n}"
        )
    return ""


def nemenyi_difference(matrix: RankingMatrix) -> float:
    """The critical difference of two mean ranks by Nemenyi's test."""
    return critical_difference(len(matrix.models), len(matrix.datasets), ALPHA)


def nemenyi_groups(matrix: RankingMatrix) -> list[tuple[int, int]]:
    """(first, last) positions in `matrix.order()` of the largest groups of models whose mean ranks
    do not differ significantly by Nemenyi's test."""
    return groups(matrix.order()[1], nemenyi_difference(matrix))


def verdict(matrix: RankingMatrix, own: Collection[str] = ()) -> str:
    """Which models have the best mean rank, and from how many others they do not differ
    significantly by Nemenyi's test; without a test the reason. Then a sentence on each of `own`
    that is not among them."""
    return " ".join([_of_leaders(matrix), *_of_own(matrix, own)])


def _of_own(matrix: RankingMatrix, own: Collection[str]) -> Iterator[str]:
    if matrix.why_not:
        return
    models, mean = matrix.order()
    for model, rank in zip(models, mean, strict=True):
        if model not in own or rank == mean[0]:
            continue
        place = ordinal(1 + sum(other < rank for other in mean))
        said = f"{model} is {place} of {len(models)}"
        said += f", mean rank {rank:.2f}" if len(matrix.datasets) > 1 else ""
        if not why_no_friedman(matrix):
            difference = nemenyi_difference(matrix)
            better = sum(other <= rank - difference for other in mean)
            more = f" and {better - 1} more" if better > 1 else ""
            verb = "significantly worse than" if better else "not significantly different from"
            said += f", {verb} {models[0]}{more}"
        yield f"{said}."


def _of_leaders(matrix: RankingMatrix) -> str:
    if matrix.why_not:
        return f"No ranking over {matrix.scope.title}: {matrix.why_not.removeprefix('n/a: ')}."
    models, mean = matrix.order()
    first = [m for m, rank in zip(models, mean, strict=True) if rank == mean[0]]
    several = len(first) > 1
    who = f"{', '.join(first[:-1])} and {first[-1]}" if several else first[0]
    of = f"of {len(models)}{' ranked' * bool(matrix.thin)} models"
    if len(matrix.datasets) == 1:
        metric = matrix.metric_of(0)
        best = metric.factor * metric.loss(float(matrix.losses.min()))
        number = fixed(best, decimals_for([best], 4))
        verb = "share" if several else "has"
        what = f"the best test {metric.label}, {number}{' %' * metric.percent},"
        return f"{who} {verb} {what} {of} on {matrix.datasets[0]}."
    what = f"mean rank {mean[0]:.2f} {of} on {len(matrix.datasets)} datasets"
    lead = f"{who} lead together with {what}" if several else f"{who} leads with {what}"
    reason = why_no_friedman(matrix)
    if reason:
        return f"{lead}. No test across datasets: {reason.removeprefix('n/a: ')}."
    if len(first) == len(models):
        return f"{lead}."
    difference = nemenyi_difference(matrix)
    near = sum(rank - mean[0] < difference for rank in mean) - len(first)
    if not near:
        return f"{lead}, significantly better than every other (Nemenyi's test, 5 % level)."
    others = "the next model" if near == 1 else f"the next {near} models"
    return f"{lead}; not significantly different from {others} (Nemenyi's test, 5 % level)."


def uses_relative_errors(matrix: RankingMatrix) -> bool:
    """Whether differences are relative: errors in the target's units, or several metrics."""
    return len(set(matrix.scope.metrics)) > 1 or not matrix.metric_of(0).bounded


def advantages(matrix: RankingMatrix) -> Array:  # -> (n_datasets, n_models, n_models)
    """[i, a, b] > 0 where model a does better than model b on dataset i, 0 where they share a
    rank."""
    rank = matrix.ranks()
    differ = rank[:, None, :] != rank[:, :, None]
    if not uses_relative_errors(matrix):
        losses = matrix.losses
        return np.where(differ, losses[:, None, :] - losses[:, :, None], 0.0)
    errors = matrix.errors
    difference = errors[:, None, :] - errors[:, :, None]
    total = np.abs(errors[:, None, :]) + np.abs(errors[:, :, None])
    return np.where(differ & (total > 0), difference / np.where(total > 0, total, 1.0), 0.0)


# --- rows of the tidy frame -----------------------------------------------------------------------


def row(matrix: RankingMatrix, **values: object) -> list[object]:
    """A row of the frame `tests` in the order of COLUMNS, None where there is no value."""
    known: dict[str, object] = {
        "scope": matrix.scope.name,
        "datasets": matrix.scope.selection,
        "n_datasets": len(matrix.datasets),
        "n_models": len(matrix.models),
        **values,
    }
    return [known.get(name) for name in COLUMNS]


def pair_rows(
    matrix: RankingMatrix, pairs: Sequence[tuple[int, int]], test: str, note: str | None = None
) -> list[list[object]]:
    """Wilcoxon's test of each pair (a, b) of model numbers, with Holm's correction over all of
    them; `test` and `note` are the frame's columns of that name."""
    rank = matrix.ranks()
    first, second = np.array(pairs).T
    tests = wilcoxon_columns(advantages(matrix)[:, first, second])
    adjusted = holm([t.p for t in tests])
    return [
        row(
            matrix,
            test=test,
            model_a=matrix.models[a],
            model_b=matrix.models[b],
            n_zero=t.n_zero,
            a_better=int((rank[:, a] < rank[:, b]).sum()),
            b_better=int((rank[:, a] > rank[:, b]).sum()),
            w_plus=t.w_plus,
            w_minus=t.w_minus,
            statistic=t.t,
            p=t.p,
            p_a_better=t.p_greater,
            p_b_better=t.p_less,
            p_holm=p_holm,
            n_pairs=len(pairs),
            note=note,
        )
        for (a, b), t, p_holm in zip(pairs, tests, adjusted, strict=True)
    ]


def rows_of(matrix: RankingMatrix, frame: pd.DataFrame, test: str = "wilcoxon") -> pd.DataFrame:
    """The rows of the frame `tests` that are of this matrix and test."""
    scope = matrix.scope
    same = (frame["scope"] == scope.name) & (frame["datasets"] == scope.selection)
    return frame[same & (frame["test"] == test)]
