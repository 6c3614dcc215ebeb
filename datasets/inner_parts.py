"""Inner parts: the development rows of a fold (training and validation), cut for bags and inner
cross-validation. Member k of a bag is fitted without part k, and predicts it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from ..common.tasks import REGRESSION
from .protocols import Fold, group_cuts
from .table import Table


def member_folds(table: Table, fold: Fold, n_parts: int, *, seed: int) -> list[Fold]:
    """The folds of a bag's members on a fold: `val` of member k is part k of the development rows,
    `train` the rest of them, `test` the test part of all.

    Classes are spread evenly. Groups stay whole. With a time column, part k is predicted by a model
    of earlier rows alone: the earlier half of the development rows only trains, the later half is
    cut in the order of time, and rows of one time stay together. There are fewer than `n_parts`
    members where there are fewer groups or times, or where the second most frequent class has
    fewer rows, so that every part has two classes.
    """
    rows = np.sort(np.concatenate([fold.train, fold.val]))
    if table.times is not None:
        cuts = _by_time(table.times, rows, n_parts)
    elif table.groups is not None:
        n_groups = len(np.unique(table.groups[rows]))
        cuts = group_cuts(table, rows, min(n_parts, n_groups), seed)
    else:
        cuts = _at_random(table, rows, n_parts, seed)
    return [Fold(fold.index, train, val, fold.test) for train, val in cuts]


def out_of_fold(fold: Fold, members: Sequence[Fold]) -> Fold:
    """The fold as a bag is scored on it: `val` has the rows that some member predicted without
    having seen them; all development rows, but for the earlier half of those with times."""
    return Fold(
        fold.index, fold.train, np.sort(np.concatenate([m.val for m in members])), fold.test
    )


def parts_sha256(members: Sequence[Fold]) -> str:
    """A hash of the parts of all members and of the rows that each trains on, as 64 hex digits."""
    return hashlib.sha256("".join(member.sha256 for member in members).encode()).hexdigest()


Cuts = list[tuple[np.ndarray, np.ndarray]]  # [(training rows, rows of the part)], all ascending


def _at_random(table: Table, rows: np.ndarray, n_parts: int, seed: int) -> Cuts:
    import warnings

    from sklearn.model_selection import KFold, StratifiedKFold

    n_parts = min(n_parts, len(rows))
    splitter: KFold | StratifiedKFold = KFold(n_parts, shuffle=True, random_state=seed)
    if table.task != REGRESSION:
        counts = np.sort(np.bincount(table.target[rows]))
        second = int(counts[-2]) if len(counts) > 1 else 0
        if second > 1:
            n_parts = min(n_parts, second)
            splitter = StratifiedKFold(n_parts, shuffle=True, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of classes with fewer rows than parts
        return [(rows[a], rows[b]) for a, b in splitter.split(rows, table.target[rows])]


def _by_time(times: np.ndarray, rows: np.ndarray, n_parts: int) -> Cuts:
    ordered = np.sort(times[rows])
    later = ordered[len(ordered) // 2 :]
    later = later[later > ordered[0]]  # some row is earlier than every part
    begins = later[np.arange(n_parts) * len(later) // n_parts]
    while len(np.unique(begins)) < n_parts:  # parts that would begin at the same time are one
        n_parts = len(np.unique(begins))
        begins = later[np.arange(n_parts) * len(later) // n_parts]
    ends = [*begins[1:], None]
    return [
        (rows[times[rows] < begin], rows[_between(times[rows], begin, end)])
        for begin, end in zip(begins, ends, strict=True)
    ]


def _between(times: np.ndarray, begin: object, end: object | None) -> np.ndarray:
    return (times >= begin) & (True if end is None else times < end)  # type: ignore[operator]
