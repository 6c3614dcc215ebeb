"""A dataset in memory: features with kinds, a target, stored splits and a hash of its content."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import infer_dtype, is_datetime64_any_dtype

from ..common.columns.encoder import ColumnEncoder, is_date, is_text
from ..common.tasks import TASKS
from .errors import DataError

Masks = tuple[tuple[np.ndarray, np.ndarray], ...]  # (test, validation) of each stored split
Parsed = tuple[pd.DataFrame, np.ndarray, tuple[str, ...], Masks, tuple[str, ...]]
"""What a parser makes of files: features, target, classes, stored splits, warnings."""


def is_categorical(column: pd.Series) -> bool:
    """Whether a column has pandas' categorical dtype."""
    return isinstance(column.dtype, pd.CategoricalDtype)


def kind_of(dtype: Any) -> str:
    """'categorical', 'date', 'text' or 'numeric', by the dtype of a column."""
    if isinstance(dtype, pd.CategoricalDtype):
        return "categorical"
    if isinstance(dtype, pd.StringDtype):
        return "text"
    return "date" if is_datetime64_any_dtype(dtype) else "numeric"


def counted(kinds: Iterable[str]) -> str:
    """How many features of each kind, in words.

    >>> counted(["numeric", "text", "numeric"])
    '2 numeric, 0 categorical features, 1 of text'
    """
    every = list(kinds)
    more = [
        f"{n} of {kind}s" if n > 1 else f"{n} of {kind}"
        for kind in ("date", "text")
        if (n := every.count(kind))
    ]
    first = f"{every.count('numeric')} numeric, {every.count('categorical')} categorical features"
    return ", ".join([first, *more])


def categorical_column(
    values: Iterable[object], *, order: Iterable[str] | None = None
) -> pd.Series:
    """A categorical column whose categories are strings.

    Numbers are written in their shortest form ("2", "0.15") and ordered by value, so that their
    codes are ordinal; strings are ordered alphabetically, or as `order` says. None and NaN are
    missing.
    """
    given = values if isinstance(values, pd.Series) else pd.Series(list(values), dtype=object)
    plain = given.dtype == np.float64 or isinstance(given.dtype, pd.StringDtype)
    series = given if plain else pd.Series(list(given), dtype=object)
    if plain or infer_dtype(series, skipna=True) in ("string", "floating"):
        codes, different = pd.factorize(series)
    else:  # 1, 1.0 and True are equal, and other texts
        missing = series.isna().to_numpy()
        codes, different = np.where(missing, -1, np.cumsum(~missing) - 1), series[~missing]
    found = list(different)
    numeric = all(isinstance(value, (int, float, np.number)) for value in found)
    texts = [number_text(value) if numeric else str(value) for value in found]
    if order is not None:
        categories = list(order)
    elif numeric:
        categories = [number_text(value) for value in sorted(set(map(float, found)))]
    else:
        categories = sorted(set(texts))
    place = {category: code for code, category in enumerate(categories)}
    new = np.array([*(place.get(text, -1) for text in texts), -1], dtype=np.int64)
    dtype = pd.CategoricalDtype(pd.Index(categories, dtype=object))
    return pd.Series(pd.Categorical.from_codes(new[codes], dtype=dtype))


def coded(
    values: np.ndarray | pd.Series, text: Callable[[object], str], marks: Collection[str]
) -> tuple[np.ndarray, list[str], set[str]]:
    """(codes (N,), levels, marks found) of a column of many rows: -1 where a value is missing, or
    its text is a mark. Only distinct values become texts; levels that are all numbers are ordered
    by value."""
    codes, found = pd.factorize(values)
    texts = [text(value) for value in found]
    order = sorted(set(texts) - set(marks))
    try:
        numbers = {level: float(level) for level in order}
    except ValueError:
        pass
    else:
        if not np.isnan(list(numbers.values())).any():  # "NAN" is no mark, and has no place
            order.sort(key=numbers.__getitem__)
    place = {level: code for code, level in enumerate(order)}
    new = np.array([*(place.get(level, -1) for level in texts), -1], dtype=np.int32)
    return new[codes], order, set(texts) & set(marks)  # factorize's -1 is the last entry


def number_text(value: object) -> str:
    """The shortest string that reads back as the same number: 2.0 is "2", 0.150 is "0.15"."""
    number = float(value)  # type: ignore[arg-type]
    return "0" if number == 0 else np.format_float_positional(number, trim="-")


def content_sha256(frame: pd.DataFrame, target: np.ndarray, classes: tuple[str, ...]) -> str:
    """A hash of names, kinds, values and categories that no machine or library version changes."""
    digest = hashlib.sha256()

    def add(part: bytes) -> None:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)

    for name in frame.columns:
        column = frame[name]
        add(str(name).encode())
        if is_categorical(column):
            add(b"categorical")
            for category in column.cat.categories:
                add(str(category).encode())
            add(column.cat.codes.to_numpy().astype("<i8").tobytes())
        elif is_date(column):
            add(b"date" + column.astype("datetime64[us]").to_numpy().astype("<i8").tobytes())
        elif is_text(column):
            add(b"text")
            for text in column.fillna("\0"):
                add(text.encode())
        else:
            add(b"numeric")
            values = column.to_numpy().astype("<f8")
            add(np.where(np.isnan(values), np.nan, values).astype("<f8").tobytes())
    for label in classes:
        add(label.encode())
    add(target.astype("<i8" if classes else "<f8").tobytes())
    return digest.hexdigest()


@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """One dataset in memory.

    `frame` (N rows) holds the features alone: float64 columns, where NaN means missing,
    categorical columns, whose categories are strings, and columns of datetimes and texts, which a
    model gets as numbers (`encoded`). `target` (N,) holds codes 0..C-1 into
    `classes` (int64), or numbers (float64) for regression. `masks` are stored splits as pairs of
    boolean arrays (test, validation), each (N,). `sha256` identifies the source's bytes, the fields
    of the card that decide how they are parsed, and the content. `warnings` are sentences that a
    report should show; one that begins with a fault's id and a colon becomes a flag of the
    passport. `groups` (N,; int64) and `times` (N,; float64) are what the protocols 'grouped' and
    'temporal' split by. `weights` (N,; float64, 0 or more) say how much each row counts in fits and
    scores; None: all alike. `styles` say how the numbers of a column were written, where they were
    not plain ("decimal commas"), and its dates. `left_out` are columns that are identifiers.
    `metric` is what a sweep selects by, "" for the usual one; `costs` (C, C) what a row of the
    class i costs that is taken for the class j, () for 1 where they differ. DataError where these
    do not fit together.
    """

    name: str
    frame: pd.DataFrame
    target: np.ndarray
    task: str
    classes: tuple[str, ...]
    sha256: str
    masks: Masks = ()
    warnings: tuple[str, ...] = ()
    groups: np.ndarray | None = None
    times: np.ndarray | None = None
    weights: np.ndarray | None = None
    styles: Mapping[str, str] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    metric: str = ""
    costs: tuple[tuple[float, ...], ...] = ()

    def __post_init__(self) -> None:
        if self.task not in TASKS:
            raise DataError(f"{self.name}: task {self.task!r} is none of {', '.join(TASKS)}")
        if len(self.frame) != len(self.target):
            raise DataError(
                f"{self.name}: {len(self.frame)} rows of features, {len(self.target)} targets"
            )
        if (self.task == "regression") != (not self.classes):
            raise DataError(f"{self.name}: {self.task} with {len(self.classes)} classes")
        if self.target.dtype != (np.float64 if self.task == "regression" else np.int64):
            raise DataError(f"{self.name}: a {self.task} target of dtype {self.target.dtype}")
        if not np.isfinite(self.target).all():
            raise DataError(f"{self.name}: the target has missing or infinite values")
        if self.classes and len(self.target):
            low, high = int(self.target.min()), int(self.target.max())
            if low < 0 or high >= len(self.classes):
                raise DataError(f"{self.name}: class codes {low}..{high}, {self.n_classes} classes")
        for name, dtype in self.frame.dtypes.items():
            if kind_of(dtype) == "numeric" and dtype != np.float64:
                raise DataError(
                    f"{self.name}: column {name!r} is {dtype}, not float64, categorical, datetimes "
                    "or texts"
                )
        for what in ("groups", "times", "weights"):
            values = getattr(self, what)
            if values is not None and values.shape != self.target.shape:
                raise DataError(f"{self.name}: {what} of {values.shape} rows")
        for test, val in self.masks:
            if test.shape != self.target.shape or val.shape != self.target.shape:
                raise DataError(f"{self.name}: a stored split of {test.shape} rows")
            if (test & val).any():
                raise DataError(f"{self.name}: a stored split has a row in two parts")

    def __repr__(self) -> str:
        kinds = list(self.kinds.values())
        classes = f", {self.n_classes} classes" if self.classes else ""
        return f"<Table {self.name}: {self.task}{classes}, {self.n_rows} rows, {counted(kinds)}>"

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.frame)

    @property
    def n_features(self) -> int:
        """Number of features; the target is none of them."""
        return self.frame.shape[1]

    @property
    def n_classes(self) -> int:
        """Number of classes; 0 for regression."""
        return len(self.classes)

    @property
    def numeric(self) -> list[str]:
        """Names of the numeric columns, in the frame's order."""
        return [name for name, kind in self.kinds.items() if kind == "numeric"]

    @property
    def categorical(self) -> list[str]:
        """Names of the categorical columns, in the frame's order."""
        return [name for name, kind in self.kinds.items() if kind == "categorical"]

    @cached_property
    def kinds(self) -> dict[str, str]:
        """Column name -> 'numeric', 'categorical', 'date' or 'text', in the frame's order."""
        dtypes = zip(self.frame.columns, self.frame.dtypes.array, strict=True)
        return {str(name): kind_of(dtype) for name, dtype in dtypes}

    @property
    def has_texts_or_dates(self) -> bool:
        """Whether models get other columns than those of `frame`."""
        return not {"date", "text"}.isdisjoint(self.kinds.values())

    def encoded(self, train: np.ndarray, *, cyclic: bool) -> tuple[Table, ColumnEncoder]:
        """(this table with its dates and texts as numbers, the encoder that made them). The
        encoder learns from the rows `train` alone. cyclic: see `DateEncoder`."""
        encoder = ColumnEncoder(cyclic=cyclic).fit(self.rows(train))
        return replace(self, frame=encoder.transform(self.frame)), encoder

    def rows(self, index: np.ndarray) -> pd.DataFrame:
        """The features of the rows `index`, with a new index from 0; categories are kept."""
        return self.frame.iloc[index].reset_index(drop=True)

    def weights_of(self, index: np.ndarray) -> np.ndarray | None:
        """The weights of the rows `index`; None where all rows count alike."""
        return None if self.weights is None else self.weights[index]
