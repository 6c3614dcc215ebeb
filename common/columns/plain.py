"""Columns of plain numbers: told from the others many at once, and kept without their texts."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from .kinds import FEW_SPELLINGS, FEW_TEXTS, NUMBER, Kind, doubts
from .notations import MISSING
from .numbers import SHORT, Numbers, as_float

CELLS = 1 << 20  # of the columns that are looked at together
PLAIN = r"^-?(0|[1-9]\d*)(\.\d+)?$"  # of at most SHORT characters: no code, and exact as a float64
HEAD = 64  # rows that tell of most columns that `doubts` has nothing to say of them
DAYS, MONTHS = 1e5, (10, 13)  # the least number of days and seconds; the numbers of 12.2024
TEXTS = pd.StringDtype(na_value=math.nan)
PART = 1 << 16  # numbers that become texts at once
LONG = 4096  # texts from which on codes of them take less time and memory
NO_GAP = 1 << 20  # the place of a text that is no gap


@dataclass(frozen=True)
class PlainTexts:
    """A column of plain numbers and missing cells, which can restore the texts of a CSV file.

    values: (N,), NaN where missing. places: (N,) the number of decimals, or -1 - i for the text
    MISSING[i].
    """

    values: np.ndarray
    places: np.ndarray

    def __len__(self) -> int:
        return len(self.values)

    def rows(self, at: np.ndarray) -> PlainTexts:
        """The column of the rows `at`."""
        return PlainTexts(self.values[at], self.places[at])

    def texts(self) -> pa.ChunkedArray:
        """The texts (N,) of the file."""
        parts = []
        for at in range(0, len(self), PART):
            numbers, places = (a[at : at + PART].tolist() for a in (self.values, self.places))
            pairs = zip(numbers, places, strict=True)
            parts.append([f"{x:.{n}f}" if n >= 0 else MISSING[-1 - n] for x, n in pairs])
        return pa.chunked_array(parts, pa.large_string())

    def __contains__(self, text: str) -> bool:
        """Whether some cell has this text, which is no number."""
        return text in MISSING and bool((self.places == -1 - MISSING.index(text)).any())


Column: TypeAlias = "pd.Series | PlainTexts"
Columns: TypeAlias = "Mapping[str, Column] | pd.DataFrame"


def cells_of(column: Column, name: str) -> pd.Series:
    """A column of texts or of float64, whose texts may be held as such, as categories or as
    `PlainTexts`."""
    if isinstance(column, PlainTexts):
        texts = column.texts()
    elif isinstance(column.dtype, pd.CategoricalDtype):
        texts = pa.array(column.array).cast(pa.large_string())
    else:
        return column.rename(name)
    return pd.Series(pd.array(texts, dtype=TEXTS), name=name)


def packed(texts: pa.Array) -> pa.Array:
    """Texts (N,), as codes into the different ones if these are few beside many."""
    if len(texts) < LONG:
        return texts
    coded = texts.dictionary_encode()
    return coded if 2 * len(coded.dictionary) < len(texts) else texts


def text_cells(chunks: list[pa.Array]) -> pd.Series:
    """A column of texts; a categorical one where its first chunk is codes."""
    if chunks and pa.types.is_dictionary(chunks[0].type):
        every = [c if pa.types.is_dictionary(c.type) else c.dictionary_encode() for c in chunks]
        return pd.Series(pa.chunked_array(every).unify_dictionaries().combine_chunks().to_pandas())
    whole = [chunk.cast(pa.large_string()) for chunk in chunks]
    texts = pa.chunked_array(whole, pa.large_string())
    return pd.Series(pd.array(texts, dtype=TEXTS))


def plain_columns(
    columns: Sequence[pa.Array], gaps: Sequence[str] = MISSING
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(values (F, N) and places (F, N) as in `PlainTexts`, which columns are plain (F,)) of columns
    of texts. gaps: the texts of missing cells."""
    texts = pa.concat_arrays(columns)
    length, point = pc.binary_length(texts), pc.find_substring(texts, ".")
    plain = pc.and_(pc.less_equal(length, SHORT), pc.match_substring_regex(texts, PLAIN))
    numeric = pc.fill_null(plain, False)
    is_number = numeric.to_numpy(zero_copy_only=False)
    values = np.full(len(texts), np.nan)
    values[is_number] = pc.cast(texts.filter(numeric), pa.float64()).to_numpy()
    after = pc.if_else(pc.less(point, 0), 0, pc.subtract(pc.subtract(length, point), 1))
    places = np.array(pc.fill_null(after, 0), np.int32)
    others = texts.filter(pc.invert(numeric))
    found = pc.index_in(others, value_set=pa.array(gaps, others.type))
    places[~is_number] = -1 - np.array(pc.fill_null(found, NO_GAP), np.int32)
    shape = len(columns), len(texts) // len(columns)
    places = places.reshape(shape)
    return values.reshape(shape), places, places.min(axis=1, initial=0) > -1 - NO_GAP


def plain_kinds(
    columns: Columns, names: Sequence[str], marks: Collection[str] = ()
) -> Iterator[tuple[str, Kind | None]]:
    """(name, what `kind_of` says of it) of each of the columns `names` that holds plain numbers,
    (name, None) of the others.

    A column is plain if its cells are float64, or texts of at most SHORT characters such as -12.50,
    or missing by MISSING or `marks`. It is not plain without a number, with an infinite number, or
    with -0 among whole numbers. Where a mark is a number, no column is plain.
    """
    size = max(1, CELLS // max(1, len(columns[names[0]]))) if names else 1
    for start in range(0, len(names), size):
        some = {name: columns[name] for name in names[start : start + size]}
        found = {} if any(np.isfinite(as_float(m)) for m in marks) else _told(some, marks)
        for name in some:
            yield name, found.pop(name, None)


def _told(columns: Columns, marks: Collection[str]) -> dict[str, Kind]:
    """{name: kind} of the columns that are plain."""
    plain = {name: c.values for name, c in columns.items() if isinstance(c, PlainTexts)}
    series = {name: c for name, c in columns.items() if isinstance(c, pd.Series)}
    floats = {name: c.to_numpy() for name, c in series.items() if c.dtype == np.float64}
    texts = {  # a column of categories has other texts than MISSING; they may all be marks
        name: cells_of(c, name)
        for name, c in series.items()
        if name not in floats and (marks or not isinstance(c.dtype, pd.CategoricalDtype))
    }
    plain |= _of_texts(texts, marks) if texts else {}
    found = {}
    for group in (floats, plain):
        values = np.stack(list(group.values())) if group else np.empty((0, 1))
        missing, doubtful = np.isnan(values), _doubtful(values, texts=group is plain)
        unusable = np.asarray(np.isinf(values).any(axis=1) | missing.all(axis=1))
        if group is plain:  # pandas has no -0 among whole numbers
            signed = (np.signbit(values) & (values == 0)).any(axis=1)
            unusable |= signed & _all(values, values == np.round(values))
        for at, (name, own) in enumerate(group.items()):
            if unusable[at]:
                continue
            numbers, notes = Numbers(own, missing[at]), list[str]()
            if doubtful[at]:
                notes = doubts(cells_of(columns[name], name)[~missing[at]], numbers)
            found[name] = Kind(NUMBER, "", numbers, missing[at], tuple(notes))
    return found


def _of_texts(columns: Mapping[str, pd.Series], marks: Collection[str]) -> dict[str, np.ndarray]:
    """{name: values (N,), NaN where missing} of those columns of texts that are plain."""
    parts = [pa.array(c.array, pa.large_string(), from_pandas=True) for c in columns.values()]
    joined = [p.combine_chunks() if isinstance(p, pa.ChunkedArray) else p for p in parts]
    values, _, plain = plain_columns(joined, (*MISSING, *marks))
    return {name: values[at] for at, name in enumerate(columns) if plain[at]}


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
