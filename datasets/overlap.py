"""Search for rows that two tables share, whatever their order, coding and scaling."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pandas as pd

from .table import Table

MAX_LEVELS = 200  # with more distinct values, gaps between rounded numbers are no evidence
LEAST_SHARE = 0.5  # of the smaller table's rows


@dataclass(frozen=True)
class Overlap:
    """`n_shared` rows of the smaller table are in the other.

    `share`: n_shared over the smaller table's rows. `other_target`: a feature of the first table
    that equals the second table's target on all rows that match one to one, or None. It is None as
    well if the first table's own target equals that target.
    """

    n_shared: int
    share: float
    other_target: str | None


def column_codes(table: Table) -> dict[str, np.ndarray]:
    """Feature name -> (N,) float64: numbers, codes of categories and texts, seconds of dates; NaN
    where missing."""
    codes = {}
    for name, kind in table.kinds.items():
        column = table.frame[name]
        if kind == "categorical":
            values = column.cat.codes.to_numpy().astype(np.float64)
            codes[name] = np.where(values < 0, np.nan, values)
        elif kind == "text":
            values = pd.factorize(column)[0].astype(np.float64)
            codes[name] = np.where(values < 0, np.nan, values)
        elif kind == "date":
            seconds = column.to_numpy().astype("datetime64[us]").astype(np.float64) / 1e6
            codes[name] = np.where(column.isna(), np.nan, seconds)
        else:
            codes[name] = column.to_numpy()
    return codes


def levels(values: np.ndarray) -> tuple[np.ndarray, tuple[int, ...]]:
    """(a code for each value, counts of the codes) that rescaling or re-coding does not change.

    Where all distinct values differ in frequency, the code is the rank of the frequency, so that
    the order of the values does not matter; else it is the rank of the value.
    """
    _, ranks, counts = np.unique(values, return_inverse=True, return_counts=True)
    if len(set(counts)) == len(counts):
        ranks, counts = np.argsort(np.argsort(counts))[ranks.reshape(-1)], np.sort(counts)
    return ranks.reshape(-1), tuple(int(c) for c in counts)


def steps(values: np.ndarray) -> np.ndarray | None:
    """Values as multiples of their smallest gap, counted from the minimum; None where they are no
    such multiples.

    Undoes any scaling of a column of whole numbers, provided that its minimum and two neighbours at
    its smallest gap still occur.
    """
    distinct = np.unique(values)
    if not 2 <= len(distinct) <= MAX_LEVELS:
        return None
    scaled = (values - distinct[0]) / np.diff(distinct).min()
    whole = np.round(scaled)
    return whole if np.abs(scaled - whole).max() < 0.1 else None


def matched_columns(a: Table, b: Table) -> list[tuple[str, str, np.ndarray, np.ndarray]]:
    """(name in a, name in b, codes in a, codes in b) of columns that are equal up to scaling.

    For tables of equal size: columns whose values have the same frequencies. Otherwise: columns of
    the same name or position with nearly the same set of `steps`.
    """
    codes_a, codes_b = column_codes(a), column_codes(b)
    pairs = []
    free = dict(codes_b)
    for place, (name, x) in enumerate(codes_a.items()):
        if np.isnan(x).any():
            continue
        for other, y in free.items():
            if np.isnan(y).any():
                continue
            if a.n_rows == b.n_rows:
                (ranks_x, counts_x), (ranks_y, counts_y) = levels(x), levels(y)
                if counts_x == counts_y and len(counts_x) > 1:
                    pairs.append((name, other, ranks_x, ranks_y))
                    break
            elif name == other or (a.n_features == b.n_features and list(codes_b)[place] == other):
                steps_x, steps_y = steps(x), steps(y)
                if steps_x is None or steps_y is None:
                    continue
                least, most = sorted((set(steps_x), set(steps_y)), key=len)
                if len(least & most) >= 0.9 * len(least):
                    pairs.append((name, other, steps_x, steps_y))
                    break
        if pairs and pairs[-1][0] == name:
            del free[pairs[-1][1]]
    return pairs


def shared(keys: list[tuple[np.ndarray, np.ndarray]]) -> tuple[Counter, Counter, int]:
    """(counts of rows in a, counts of rows in b, number of shared rows), by the columns `keys`."""
    counts_a = Counter(zip(*(a.tolist() for a, _ in keys), strict=True))
    counts_b = Counter(zip(*(b.tolist() for _, b in keys), strict=True))
    return counts_a, counts_b, sum((counts_a & counts_b).values())


def find_overlap(a: Table, b: Table) -> Overlap | None:
    """The rows that `a` and `b` share, found from the values alone, or None if there are few.

    Rows are compared on matching columns. These must be at least half of the narrower table's
    columns and tell at least half of its rows apart: tables with few possible rows would overlap by
    chance. A matching column on which most shared rows differ (its codes were
    shifted) is left out.
    """
    pairs = matched_columns(a, b)
    least_columns, smaller = max(2, min(a.n_features, b.n_features) / 2), min(a.n_rows, b.n_rows)
    if len(pairs) < least_columns:
        return None
    pairs.sort(key=lambda pair: -len(np.unique(pair[2])))
    kept, before = pairs[:1], smaller
    for pair in pairs[1:]:
        n_shared = shared([p[2:] for p in [*kept, pair]])[2]
        if n_shared >= 0.8 * before:
            kept, before = [*kept, pair], n_shared
    keys = [p[2:] for p in kept]
    count_a, count_b, n_shared = shared(keys)
    told_apart = min(len(count_a), len(count_b))
    if len(kept) < least_columns or min(told_apart, n_shared) < LEAST_SHARE * smaller:
        return None
    rows_a = list(zip(*(key[0].tolist() for key in keys), strict=True))
    rows_b = list(zip(*(key[1].tolist() for key in keys), strict=True))
    once = {row for row in count_a if count_a[row] == 1 and count_b.get(row) == 1}
    index_a = [i for i, row in enumerate(rows_a) if row in once]
    place_b = {row: i for i, row in enumerate(rows_b) if row in once}
    index_b = [place_b[rows_a[i]] for i in index_a]
    named = None
    if b.classes and a.classes and len(index_a) >= 20:
        theirs = b.target[index_b]
        if not same_classes(a.target[index_a], theirs):
            for name, column in column_codes(a).items():
                values = column[index_a]
                if not np.isnan(values).any() and same_classes(values, theirs):
                    named = name
    return Overlap(n_shared, n_shared / smaller, named)


def same_classes(x: np.ndarray, y: np.ndarray) -> bool:
    """Whether the values of two columns correspond one to one (the same classes, renamed).

    >>> same_classes(np.array([0, 0, 1]), np.array([5, 5, 2]))
    True
    """
    codes_x = np.unique(x, return_inverse=True)[1].reshape(-1)
    codes_y = np.unique(y, return_inverse=True)[1].reshape(-1)
    n_pairs = len(np.unique(np.stack([codes_x, codes_y]), axis=1).T)
    return bool(1 < n_pairs == codes_x.max() + 1 == codes_y.max() + 1)
