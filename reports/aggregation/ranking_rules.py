"""Ranking rules that published tables follow, beside the report's own."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from ..statistics.distributions import rankdata
from ..statistics.ranking import ranks, snap

RANKINGS = ("average", "ordinal", "missing-last", "available")


def ranked(losses: np.ndarray, ranking: str) -> np.ndarray:
    """Ranks of (n_datasets, n_models) losses by one of RANKINGS; NaN is a missing score.

    'average': equal losses share their average rank, and a missing one raises ValueError.
    'missing-last': a missing score ranks last. 'ordinal': likewise, and equal losses have the order
    of the columns, as in NPT's Table 1. 'available': each dataset ranks the models that have a
    score there; the rank of the others is NaN. ValueError for another word.

    >>> ranked(np.array([[0.1, 0.1, np.nan]]), "ordinal").tolist()
    [[1.0, 2.0, 3.0]]
    >>> ranked(np.array([[0.1, np.nan, 0.2]]), "available").tolist()
    [[1.0, nan, 2.0]]
    """
    if ranking not in RANKINGS:
        raise ValueError(f"unknown ranking {ranking!r}; known: {', '.join(RANKINGS)}")
    if ranking == "available":
        return rankdata(snap(losses))
    if ranking != "average":
        losses = np.where(np.isnan(losses), np.inf, losses)
    return ranks(losses, ties="first" if ranking == "ordinal" else "average")


def rank_figures(losses: pd.DataFrame, ranking: str) -> pd.DataFrame:
    """A row for each model with a score: mean_rank, std (over its datasets, ddof 1; NaN for one),
    se (standard error of the mean), median_rank, and n_datasets, the datasets on which it is
    ranked. losses: datasets x models, lower is better, NaN for a missing score.

    >>> losses = pd.DataFrame({"a": [1.0, 2.0], "b": [2.0, np.nan]})
    >>> rank_figures(losses, "available").loc["b"].tolist()
    [2.0, nan, nan, 2.0, 1.0]
    """
    rank = pd.DataFrame(ranked(losses.to_numpy(dtype=float), ranking), losses.index, losses.columns)
    figures = pd.DataFrame(
        {
            "mean_rank": rank.mean(),
            "std": rank.std(ddof=1),
            "se": rank.sem(ddof=1),
            "median_rank": rank.median(),
            "n_datasets": rank.notna().sum(),
        }
    )
    return figures[figures["n_datasets"] > 0]


def in_brackets(mean: float, std: float) -> str:
    """A mean rank as RTDL prints it: '1.8 (1.2)'."""
    return f"{mean:.1f}" if math.isnan(std) else f"{mean:.1f} ({std:.1f})"
