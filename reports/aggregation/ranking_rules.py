"""Ranking rules: the report's own, and others that published tables follow."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..statistics.ranking import TIES, ranks


@dataclass(frozen=True)
class RankingRule:
    """How models are ranked on one dataset.

    ties: 'average' for shared ranks, or 'ordinal' for the order of the columns (models by name).
    missing_last: a missing score ranks last, on every dataset; otherwise only datasets on which all
    models have a score are ranked. available: each dataset ranks the models that have a score
    there, however many, and a model's mean is over its own datasets. description: the rule in a
    sentence, for a table's notes.
    """

    ties: str
    missing_last: bool
    description: str
    available: bool = False


RANKING_RULES = {
    "average": RankingRule("average", False, TIES),
    "ordinal": RankingRule(
        "ordinal",
        True,
        "Equal scores rank in the order of the models' names, without shared ranks; a missing "
        "score ranks last.",
    ),
    "missing-last": RankingRule(
        "average",
        True,
        "Equal scores share their average rank; a missing score ranks last.",
    ),
    "available": RankingRule(
        "average",
        False,
        "Each dataset ranks the models that have a score there, by unrounded means; the mean is "
        "over a model's own datasets, after it in brackets the standard deviation over them (ddof "
        "1). Means over different datasets are not comparable: a model gains where it lacks a "
        "difficult dataset.",
        available=True,
    ),
}


def ranking_rule(name: str) -> RankingRule:
    """The rule of that name; ValueError for an unknown one."""
    if name not in RANKING_RULES:
        raise ValueError(f"unknown ranking {name!r}; known: {', '.join(RANKING_RULES)}")
    return RANKING_RULES[name]


def ranked(scores: np.ndarray, direction: str, name: str) -> np.ndarray:
    """Ranks of a (n_datasets, n_models) matrix by the rule of that name. NaN is a missing score;
    it raises ValueError unless the rule ranks missing scores last, or the available ones (then its
    rank is NaN).

    >>> ranked(np.array([[0.9, 0.9, np.nan]]), "max", "ordinal").tolist()
    [[1.0, 2.0, 3.0]]
    >>> ranked(np.array([[0.9, np.nan, 0.8]]), "max", "available").tolist()
    [[1.0, nan, 2.0]]
    """
    how = ranking_rule(name)
    if how.available:
        found = np.full(scores.shape, np.nan)
        for row, own in zip(found, scores, strict=True):
            there = ~np.isnan(own)
            row[there] = ranks(own[there][None], direction, ties=how.ties)[0]
        return found
    if how.missing_last:
        last = -np.inf if direction == "max" else np.inf
        scores = np.where(np.isnan(scores), last, scores)
    return ranks(scores, direction, ties=how.ties)
