"""Columns of plain numbers, told from the others many at once."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from .kinds import FEW_SPELLINGS, FEW_TEXTS, NUMBER, Kind, doubts
from .notations import MISSING
from .numbers import SHORT, Numbers, as_float

CELLS = 1 << 20  # of the columns that are looked at together
PLAIN = r"^-?(0|[1-9]\d*)(\.\d*)?$"  # of at most SHORT characters: no code, and exact as a float64
HEAD = 64  # rows that tell of most columns that `doubts` has nothing to say of them
DAYS, MONTHS = 1e5, (10, 13)  # the least number of days and seconds; the numbers of 12.2024


def plain_kinds(
    frame: pd.DataFrame, names: Sequence[str], marks: Collection[str] = ()
) -> Iterator[tuple[str, Kind | None]]:
    """(name, what `kind_of` says of it) of each of the columns `names` that holds plain numbers,
    (name, None) of the others.

    A column is plain if its cells are float64, or texts of at most SHORT characters such as -12.50,
    or missing by MISSING or `marks`. It is not plain without a number, with an infinite number, or
    with -0 among whole numbers. Where a mark is a number, no column is plain.
    """
    size = max(1, CELLS // max(1, len(frame)))
    for start in range(0, len(names), size):
        some = names[start : start + size]
        found = {} if any(np.isfinite(as_float(m)) for m in marks) else _told(frame, some, marks)
        for name in some:
            yield name, found.pop(name, None)


def _told(frame: pd.DataFrame, names: Sequence[str], marks: Collection[str]) -> dict[str, Kind]:
    """{name: kind} of the columns that are plain."""
    columns = {name: frame[name] for name in names}
    floats = {name: one for name, one in columns.items() if one.dtype == np.float64}
    texts = {name: one for name, one in columns.items() if name not in floats}
    found = {}
    for group, values_of in ((floats, _of_floats), (texts, _of_texts)):
        if not group:
            continue
        values, plain = values_of(list(group.values()), marks)
        missing, doubtful = np.isnan(values), _doubtful(values, texts=group is texts)
        for at, (name, cells) in enumerate(group.items()):
            if plain[at] and not missing[at].all():
                numbers, there = Numbers(values[at], missing[at]), ~missing[at]
                notes = doubts(cells[there], numbers) if doubtful[at] else ()
                found[name] = Kind(NUMBER, "", numbers, missing[at], tuple(notes))
    return found


def _of_floats(
    columns: Sequence[pd.Series], marks: Collection[str]
) -> tuple[np.ndarray, np.ndarray]:
    """(values (F, N), NaN where missing; which columns are plain (F,)) of columns of float64."""
    values = np.stack([cells.to_numpy() for cells in columns])
    return values, ~np.isinf(values).any(axis=1)


def _of_texts(
    columns: Sequence[pd.Series], marks: Collection[str]
) -> tuple[np.ndarray, np.ndarray]:
    """As `_of_floats`, of columns of texts."""
    parts = [pa.array(cells.array, pa.large_string(), from_pandas=True) for cells in columns]
    chunked = (one.chunks if isinstance(one, pa.ChunkedArray) else [one] for one in parts)
    texts = pa.concat_arrays([chunk for chunks in chunked for chunk in chunks])
    short = pc.less_equal(pc.binary_length(texts), SHORT)
    numeric = pc.fill_null(pc.and_(short, pc.match_substring_regex(texts, PLAIN)), False)
    is_number = numeric.to_numpy(zero_copy_only=False)
    numbers = np.full(len(texts), np.nan)
    numbers[is_number] = pc.cast(texts.filter(numeric), pa.float64()).to_numpy()
    others = texts.filter(pc.invert(numeric))
    gaps = pc.is_in(others, value_set=pa.array([*MISSING, *marks], others.type))
    read = is_number  # or missing
    read[~is_number] = gaps.to_numpy(zero_copy_only=False)
    values, plain = numbers.reshape(len(columns), -1), read.reshape(len(columns), -1).all(axis=1)
    signed = (np.signbit(values) & (values == 0)).any(axis=1)
    return values, plain & ~(signed & _all(values, values == np.round(values)))  # pandas has no -0


def _doubtful(values: np.ndarray, *, texts: bool) -> np.ndarray:  # (F, N) -> (F,)
    """Whether `doubts` may have something to say of a column, by its first rows: different whole
    numbers, numbers that may be dates, and for texts few different numbers."""
    head = np.sort(values[:, :HEAD], axis=1)
    first, there = values[:, :FEW_TEXTS], ~np.isnan(head)
    n_different = (head[:, 1:] > head[:, :-1]).sum(axis=1) + there.any(axis=1)
    ids = (n_different == there.sum(axis=1)) & _all(head, head == np.round(head))
    days = _all(first, (first == np.round(first)) & (first >= DAYS))
    months = _all(first, (first >= MONTHS[0]) & (first < MONTHS[1]))
    return ids | days | months | (texts & (n_different <= FEW_SPELLINGS))


def _all(values: np.ndarray, true: np.ndarray) -> np.ndarray:  # (F, N), (F, N) -> (F,)
    """Whether it is true of all values of a row that are there."""
    return (true | np.isnan(values)).all(axis=1)
