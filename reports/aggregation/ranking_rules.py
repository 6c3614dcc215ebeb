"""By whose rules are methods ranked? Ours, and those that make the papers' tables come out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..output.footnotes import TIES
from ..statistics.tests import ranks


@dataclass(frozen=True)
class Convention:
    """ties: 'average' for shared ranks, or 'ordinal' for the order of the columns (models by name).
    missing_last: a missing score ranks last, on every dataset; otherwise only datasets on which all
    have a score are ranked. said: the rule in a sentence."""

    ties: str
    missing_last: bool
    said: str


CONVENTIONS = {
    "average": Convention("average", False, TIES),
    # Kossen et al. 2021, Table 1 follows from Tables 8, 10 and 11 by no other rule.
    "npt": Convention(
        "ordinal",
        True,
        "Ranked as in NPT's Table 1: equal scores in the order of the models' names, without "
        "shared ranks; a missing score ranks last.",
    ),
    # Schäfl et al. 2022, Table 2: the printed medians hold with its illegible value last.
    "hopular": Convention(
        "average",
        True,
        "Ranked as in Hopular's Table 2, whose figure is the median: equal scores share their "
        "average rank; a missing score ranks last.",
    ),
}


def convention(name: str) -> Convention:
    """The convention of that name; ValueError for an unknown one."""
    if name not in CONVENTIONS:
        raise ValueError(f"unknown ranking {name!r}; known: {', '.join(CONVENTIONS)}")
    return CONVENTIONS[name]


def ranked(scores: np.ndarray, direction: str, name: str) -> np.ndarray:
    """Ranks of a (n_datasets, n_models) matrix by the convention; NaN is a missing score, which
    raises ValueError where the convention has no place for it.

    >>> ranked(np.array([[0.9, 0.9, np.nan]]), "max", "npt").tolist()
    [[1.0, 2.0, 3.0]]
    """
    how = convention(name)
    if how.missing_last:
        last = -np.inf if direction == "max" else np.inf
        scores = np.where(np.isnan(scores), last, scores)
    return ranks(scores, direction, ties=how.ties)
