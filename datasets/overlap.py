"""Do two tables hold the same rows, whatever their order and scaling?"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from .table import Table

MAX_LEVELS = 200  # above, the gaps between rounded numbers say nothing
LEAST_SHARE = 0.5  # of the smaller table's rows


@dataclass(frozen=True)
class Overlap:
    """`n_shared` rows of the smaller table are in the other, judged by pairs of `columns`.

    `other_target` is the feature of the first table that is the second's target on all rows that
    could be matched one to one, while the first's own target is not.
    """

    n_shared: int
    share: float
    columns: tuple[tuple[str, str], ...]
    other_target: str | None


def column_codes(table: Table) -> dict[str, np.ndarray]:
    """Each feature as numbers: categories by their code, missing as NaN."""
    codes = {}
    for name, kind in table.kinds.items():
        column = table.frame[name]
        if kind == "categorical":
            values = column.cat.codes.to_numpy().astype(np.float64)
            codes[name] = np.where(values < 0, np.nan, values)
        else:
            codes[name] = column.to_numpy()
    return codes


def levels(values: np.ndarray) -> tuple[np.ndarray, tuple[int, ...]]:
    """Each value as a number that no scaling or re-coding of its column changes, and how often.

    The place of its frequency where all values of the column differ in frequency, so that the
    order of the codes does not matter; else the rank among the distinct values.
    """
    _, ranks, counts = np.unique(values, return_inverse=True, return_counts=True)
    if len(set(counts)) == len(counts):
        ranks, counts = np.argsort(np.argsort(counts))[ranks.reshape(-1)], np.sort(counts)
    return ranks.reshape(-1), tuple(int(c) for c in counts)


def steps(values: np.ndarray) -> np.ndarray | None:
    """Values as whole steps of their smallest gap from the least one; None where that fails.

    Undoes any scaling of a column that held whole numbers, as long as its least value and its
    smallest gap are still there.
    """
    distinct = np.unique(values)
    if not 2 <= len(distinct) <= MAX_LEVELS:
        return None
    scaled = (values - distinct[0]) / np.diff(distinct).min()
    whole = np.round(scaled)
    return whole if np.abs(scaled - whole).max() < 0.1 else None


def matched_columns(a: Table, b: Table) -> list[tuple[str, str, np.ndarray, np.ndarray]]:
    """Pairs of columns that hold the same values up to scaling, as comparable whole numbers.

    For tables of one size: the same frequencies of values. Otherwise: the same name or place, and
    nearly the same set of steps.
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
    """How often each row occurs in both tables, seen on some columns; and how many they share."""
    counts_a = Counter(zip(*(a.tolist() for a, _ in keys), strict=True))
    counts_b = Counter(zip(*(b.tolist() for _, b in keys), strict=True))
    return counts_a, counts_b, sum((counts_a & counts_b).values())


def find_overlap(a: Table, b: Table) -> Overlap | None:
    """The rows that `a` and `b` share, or None: found from the values alone.

    Rows are compared on the columns that match; those must be half of the narrower table's and
    tell at least half of its rows apart, so that tables with few possible rows do not 'overlap'.
    A matching column that parts most of the rows again (its codes were shifted) is left out.
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
    columns = tuple((p[0], p[1]) for p in kept)
    return Overlap(n_shared, n_shared / smaller, columns, named)


def same_classes(x: np.ndarray, y: np.ndarray) -> bool:
    """Whether two columns say the same by other names: their values go together one to one.

    >>> same_classes(np.array([0, 0, 1]), np.array([5, 5, 2]))
    True
    """
    codes_x = np.unique(x, return_inverse=True)[1].reshape(-1)
    codes_y = np.unique(y, return_inverse=True)[1].reshape(-1)
    n_pairs = len(np.unique(np.stack([codes_x, codes_y]), axis=1).T)
    return bool(1 < n_pairs == codes_x.max() + 1 == codes_y.max() + 1)
