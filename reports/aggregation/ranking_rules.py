"""Ranking rules that published tables follow, beside the report's own."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..statistics.ranking import ranks


@dataclass(frozen=True)
class RankingRule:
    """How models are ranked on one dataset.

    ties: 'average' for shared ranks, or 'ordinal' for the order of the columns (models by name).
    missing_last: a missing score ranks last, on every dataset; otherwise only datasets on which all
    models have a score are ranked. available: each dataset ranks the models that have a score
    there, however many, and a model's mean is over its own datasets.
    """

    ties: str
    missing_last: bool
    available: bool = False


RANKING_RULES = {
    "average": RankingRule("average", False),
    "ordinal": RankingRule("ordinal", True),
    "missing-last": RankingRule("average", True),
    "available": RankingRule("average", False, available=True),
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
        all_ranks = np.full(scores.shape, np.nan)
        for row, own in zip(all_ranks, scores, strict=True):
            there = ~np.isnan(own)
            row[there] = ranks(own[there][None], direction, ties=how.ties)[0]
        return all_ranks
    if how.missing_last:
        last = -np.inf if direction == "max" else np.inf
        scores = np.where(np.isnan(scores), last, scores)
    return ranks(scores, direction, ties=how.ties)


def rank_figures(losses: pd.DataFrame, ranking: str) -> pd.DataFrame:
    """Of each model (column) with a score: mean_rank, std (over its datasets, ddof 1; NaN for one),
    median_rank, n_best and n_ranked, the number of its datasets. losses: datasets x models, lower
    is better, NaN for a missing score.

    >>> losses = pd.DataFrame({"a": [1.0, 2.0], "b": [2.0, np.nan]})
    >>> rank_figures(losses, "available").loc["b"].tolist()
    [2.0, nan, 2.0, 0.0, 1.0]
    """
    rank = pd.DataFrame(
        ranked(losses.to_numpy(dtype=float), "min", ranking), losses.index, losses.columns
    )
    lowest = rank.min(axis=1)
    figures = pd.DataFrame(
        {
            "mean_rank": rank.mean(),
            "std": rank.std(ddof=1),
            "median_rank": rank.median(),
            "n_best": rank.eq(lowest, axis=0).sum(),
            "n_ranked": rank.notna().sum(),
        }
    )
    return figures[figures["n_ranked"] > 0]


def in_brackets(mean: float, std: float) -> str:
    """A mean rank as RTDL prints it: '1.8 (1.2)'."""
    return f"{mean:.1f}" if math.isnan(std) else f"{mean:.1f} ({std:.1f})"
