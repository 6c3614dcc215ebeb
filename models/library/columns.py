"""Columns of any DataFrame as numbers and categories, decided on the rows of a fit.

`ColumnReader` stands before a model's own preprocessing, which takes float64 and categorical
columns with gaps. Texts are read as those of a file (`common/columns`). What is done to a column
that is neither numbers nor categories, the reader says in a notice.
"""

from __future__ import annotations

import datetime
import warnings
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types

from ...common.columns.dates import ISO, LOCAL, DateError, NoMoment, readable_moments
from ...common.columns.encoder import ColumnEncoder, text_column
from ...common.columns.kinds import CATEGORY, DATE, EMPTY, ID, MAX_COLUMNS, NUMBER, TEXT, kind_of
from ...common.columns.levels import Levels, level_notes
from ...common.columns.numbers import numbers_in_style
from ...common.text import first_few, one_line
from ..model_spec import ModelSpec

DURATION = "duration"
KINDS = {  # what `infer_dtype` says of columns that need no closer look
    **dict.fromkeys(("boolean", "integer", "floating", "mixed-integer-float", "decimal"), NUMBER),
    **dict.fromkeys(("datetime", "datetime64", "date"), DATE),
    **dict.fromkeys(("timedelta", "timedelta64"), DURATION),
    **{"categorical": CATEGORY, "empty": EMPTY},
}


class ColumnNotice(UserWarning):
    """What was done to a column that is neither numbers nor categories."""


def is_cyclic(spec: ModelSpec) -> bool:
    """Whether a model gets months, weekdays and hours as sines and cosines. Models that scale their
    inputs do; trees get the plain numbers."""
    return spec.preprocessing.numeric not in ("none", "shift")


def one_blank(value: Any) -> str:
    """A value as text on one line, with one blank between words and none around them.

    >>> one_blank("  number of\trooms "), one_blank(3)
    ('number of rooms', '3')
    """
    return " ".join(str(value).split())


def texts_of(column: pd.Series) -> list[str | None]:
    """The values as `one_blank` makes them texts, None where missing or blank."""
    values = column.astype(object)
    gaps = values.isna().to_numpy()
    return [None if gap else one_blank(v) or None for v, gap in zip(values, gaps, strict=True)]


def silent(text: str) -> None:
    """Tells nobody: what is wrong with the rows of a fit is in the notices."""


def floats(
    column: pd.Series, style: str = "", tell: Callable[[str], None] = silent
) -> np.ndarray:  # (N,)
    """Numbers, booleans and texts of numbers as float64, NaN where missing.

    A text is read by itself, as numbers in `style` are ("" for plain). Other values are gaps, of
    which `tell` hears; ValueError where they are more than half of the values.
    """
    if types.is_complex_dtype(column.dtype):
        raise ValueError(f"Complex data not supported: column {column.name!r}")
    if types.is_numeric_dtype(column.dtype):  # booleans, too
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    values = column.astype(object).to_numpy()
    there = column.notna().to_numpy(copy=True)
    written = np.array([isinstance(value, str) for value in values], dtype=bool)
    found, wrong = np.full(len(values), np.nan), np.zeros(len(values), dtype=bool)
    for row in np.flatnonzero(~written & there):
        try:
            found[row] = values[row]
        except (TypeError, ValueError, OverflowError):
            wrong[row] = True
    if written.any():
        cells = pd.Series([text.strip() for text in values[written]], dtype=str)
        read = numbers_in_style(cells, style)
        wrong[written] = ~read.missing & ~np.isfinite(read.values)
        there[written] = ~read.missing
        found[written] = read.values
    if wrong.sum() > there.sum() / 2:
        first = int(np.argmax(wrong))
        value = one_line(repr(values[first]), 80)
        raise ValueError(
            f"column {column.name!r} was numeric in training: {value} in row {first + 1} is no "
            "number; give numbers as they were then or such as 1234.5, or None for a missing value"
        )
    if wrong.any():
        tell(unread_cells(column.name, values, wrong, "numbers as in training"))
    return np.where(wrong, np.nan, found)


def unread_cells(name: Any, values: Any, wrong: np.ndarray, what: str) -> str:
    """What is said of cells (N,) that are not `what` and count as missing."""
    shown = first_few(dict.fromkeys(repr(one_line(v, 30)) for v in values[wrong]), 3)
    return (
        f"column {name!r}: {wrong.sum()} of {len(wrong)} cells are no {what} ({shown}); they count "
        "as missing"
    )


def dates_of(column: pd.Series, style: str, tell: Callable[[str], None]) -> pd.Series:
    """Datetimes, as `moments` reads them; other values are gaps, of which `tell` hears; NoMoment
    where they are more than half of the values."""
    found, wrong = readable_moments(column, style)
    if wrong.sum() > (found.notna().sum() + wrong.sum()) / 2:
        raise NoMoment(column.reset_index(drop=True), int(np.argmax(wrong)))
    if wrong.any():
        tell(unread_cells(column.name, column.to_numpy(dtype=object), wrong, "dates"))
    return found


def seconds(column: pd.Series) -> np.ndarray:  # (N,)
    """Durations and texts of them as float64, NaN where missing; ValueError for other values, also
    for numbers, which may be of any unit."""
    there = column.notna().to_numpy(copy=True)
    present, found = column[there].astype(object), np.full(len(column), np.nan)
    kind = types.infer_dtype(present)
    try:
        if kind not in ("string", "empty") and KINDS.get(kind) != DURATION:
            raise ValueError(kind)
        found[there] = pd.to_timedelta(present).dt.total_seconds()
    except ValueError:
        raise ValueError(
            f"column {column.name!r} holds durations in training and {kind} values now; make them "
            "durations (pd.to_timedelta)"
        ) from None
    return found


def categories(column: pd.Series) -> pd.Series:
    """Categories, in the order and of the type that they have: the column itself where it is
    categorical, but for blank texts, which are no levels; else its values with None for gaps."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        levels = [v for v in column.cat.categories if not is_blank(v)]
        kept = len(levels) == len(column.cat.categories)
        return column if kept else column.cat.set_categories(levels)
    values = column.astype(object)
    found = np.empty(len(values), dtype=object)
    for row, (value, gap) in enumerate(zip(values, values.isna(), strict=True)):
        found[row] = None if gap or is_blank(value) else hashable(value)
    return pd.Series(found, dtype=object, index=column.index)


def values_of(column: pd.Series) -> np.ndarray:  # (N,)
    """The values of a column of categories, None where missing."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        levels = np.empty(len(column.cat.categories) + 1, dtype=object)
        levels[:-1], levels[-1] = column.cat.categories.tolist(), None
        return levels[column.cat.codes]
    values = column.astype(object).where(column.notna(), None).to_numpy()
    return np.array([*map(hashable, values), None], dtype=object)[:-1]


def levels_of(column: pd.Series) -> list[Any]:
    """The categories of a column: those that its dtype names, else those that occur."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return column.cat.categories.tolist()
    return [value for value in dict.fromkeys(values_of(column)) if value is not None]


def unknown_levels(name: Any, unknown: np.ndarray, new: list[Any]) -> str:
    """What is said of categories (N,) that training did not know."""
    shown = ", ".join(repr(v)[:30] for v in new[:5]) + (", ..." if len(new) > 5 else "")
    return (
        f"column {name!r}: {unknown.sum()} of {len(unknown)} rows hold a category that training "
        f"did not know ({shown}); the model has learnt nothing about it"
    )


def is_blank(value: Any) -> bool:
    """Whether a value is a text that is empty or holds nothing but white space.

    >>> is_blank("  "), is_blank("red"), is_blank(None)
    (True, False, False)
    """
    return isinstance(value, str) and not value.strip()


def hashable(value: Any) -> Any:
    """The value, or its text where it cannot be a category (a list, a dictionary)."""
    try:
        hash(value)
    except TypeError:
        return str(value)
    return value


READABLE = (str, int, float, np.number, np.bool_, Decimal, datetime.date)


def date_style(column: pd.Series) -> str:
    """How a column of datetimes is read: in local time where its offsets to UTC vary."""
    zoned = isinstance(column.dtype, pd.DatetimeTZDtype)
    offsets = column.dropna().map(lambda moment: moment.utcoffset()).nunique() if zoned else 0
    return LOCAL if offsets > 1 else ISO


def kind_of_column(column: pd.Series) -> tuple[str, str, str]:
    """(the kind of a column, how its texts are written, a notice, "" for none)."""
    name, inferred = column.name, types.infer_dtype(column, skipna=True)
    if isinstance(column.dtype, pd.PeriodDtype):
        inferred = "datetime"
    elif str(column.dtype) == "null[pyarrow]":
        inferred = "empty"
    elif inferred != "complex" and types.is_numeric_dtype(column.dtype):
        inferred = "floating"
    if inferred == "string":
        return kind_of_texts(column)
    if inferred == "complex":
        raise ValueError(f"Complex data not supported: column {name!r}")
    if inferred in KINDS:
        return KINDS[inferred], date_style(column) if KINDS[inferred] == DATE else "", ""
    if all(isinstance(v, int | float | np.number | np.bool_ | Decimal) for v in column.dropna()):
        return NUMBER, "", ""
    if all(isinstance(v, READABLE) for v in column.dropna()):  # numbers and texts, as Excel's
        return kind_of_texts(column)
    odd = sorted({type(v).__name__ for v in column.dropna() if hashable(v) is not v})
    notice = (
        f"column {name!r} holds values of type {', '.join(odd)}; each different text of them is "
        "taken as a category. Make columns of their parts for a model to learn from them"
    )
    return CATEGORY, "", notice if odd else ""


def kind_of_texts(column: pd.Series) -> tuple[str, str, str]:
    """As `kind_of_column`, for a column of texts."""
    name = column.name
    texts = [text or "" for text in texts_of(column)]
    try:
        kind = kind_of(pd.Series(texts, dtype=str, name=name))
    except DateError as error:
        raise ValueError(
            f"column {name!r}: {error}; or make it datetimes (pd.to_datetime) or categorical "
            "(astype('category'))"
        ) from None
    doubts = list(kind.notes)
    present = [text for text, gap in zip(texts, kind.missing, strict=True) if not gap]
    example = repr(one_line(next(iter(present), ""), 30))
    if kind.word == NUMBER:
        how = f" ({kind.style})" if kind.style else ""
        doubts.insert(
            0,
            f"column {name!r} is text that holds numbers, such as {example}{how}; read as numbers. "
            "Make it categorical (astype('category')) if they are codes",
        )
    elif kind.word == DATE:
        doubts.insert(
            0, f"column {name!r} is text that holds dates, such as {example}; read as dates"
        )
    elif kind.word == CATEGORY:
        doubts += level_notes(f"column {name!r}", sorted(set(present)), "categories")
    elif kind.word == TEXT and not doubts:
        doubts = [f"column {name!r} is free text; read by the n-grams of its letters"]
    return kind.word, kind.style, "" if kind.word == EMPTY else " ".join(doubts)


def read_column(
    column: pd.Series, word: str, style: str, tell: Callable[[str], None] = silent
) -> Any:
    """(N,) the values of a column with an index from 0, read as one of the kind `word`: float64,
    categories (in their own type), datetimes, or texts as `text_column` makes them. `tell` hears of
    values that are none of the kind and count as missing."""
    if EMPTY in (word, style):  # nothing is known of it, whatever new rows hold
        return np.full(len(column), np.nan)
    if word == NUMBER:
        return floats(column, style, tell)
    if word == DATE:
        return dates_of(column, style, tell)
    if word == DURATION:
        return seconds(column)
    return text_column(texts_of(column)) if word == TEXT else categories(column)


class ColumnReader:
    """Reads the columns of a DataFrame as float64 and categorical columns.

    Parameters
    ----------
    categories : iterable
        Names of columns that are categories whatever they hold.
    cyclic : bool
        Whether parts of dates are sines and cosines (`DateEncoder`).

    Attributes
    ----------
    kinds_ : dict
        Column name -> (kind, how its texts are written).
    encoder_ : ColumnEncoder
        Makes numbers of dates and texts, by the rows of the fit.
    notices_ : list of str
        What was done to columns that are neither numbers nor categories.
    levels_ : dict
        Column name -> the categories of the fit, which new values are looked for among (`Levels`).
    """

    levels_: Mapping[Any, Iterable[Any]] = {}

    def __init__(self, *, categories: Iterable[Any] = (), cyclic: bool = False) -> None:
        self.categories = list(categories)
        self.cyclic = cyclic

    def fit(self, frame: pd.DataFrame) -> ColumnReader:
        """Decides how each column is read, and learns from its dates and texts; ValueError for a
        name in `categories` that is none."""
        self.decide(frame)
        self.levels_ = {}
        table = self.read(frame)
        self.levels_ = {
            name: levels_of(table[name])
            for name, (word, _) in self.kinds_.items()
            if word == CATEGORY
        }
        self.encoder_ = ColumnEncoder(cyclic=self.cyclic).fit(table)
        return self

    def decide(self, frame: pd.DataFrame) -> None:
        """Decides how each column is read."""
        if len(frame.columns) > MAX_COLUMNS:
            raise ValueError(
                f"{len(frame.columns):,} columns; at most {MAX_COLUMNS:,} are read: leave some "
                "out, or turn the table if its rows are columns"
            )
        if not frame.columns.is_unique:
            twice = frame.columns[frame.columns.duplicated()][0]
            raise ValueError(f"column names must be unique, {twice!r} appears twice; rename one")
        for name in self.categories:
            if name not in frame.columns:
                raise ValueError(
                    f"categorical_features names {name!r}, which is no column; columns: "
                    f"{', '.join(map(repr, frame.columns[:20]))}"
                )
        self.kinds_: dict[Any, tuple[str, str]] = {}
        self.notices_: list[str] = []
        for name in frame.columns:
            word, style, notice = CATEGORY, "", ""
            if name not in self.categories:
                word, style, notice = kind_of_column(frame[name])
            self.kinds_[name] = (word, style)
            self.notices_ += [notice] if notice else []
        if all(word == ID for word, _ in self.kinds_.values()):
            raise ValueError(
                f"no column is left to learn from: {'; '.join(self.notices_)}. Give numbers, "
                "categories or dates"
            )

    def read(self, frame: pd.DataFrame, tell: Callable[[str], None] = silent) -> pd.DataFrame:
        """The rows with a new index from 0 and the columns in the order of `fit`, as `read_column`
        reads them; categories as those of the fit. `tell` hears of values that count as missing,
        and of columns with MANY_UNKNOWN categories."""
        frame = frame.reset_index(drop=True)
        read = {
            n: read_column(frame[n], *kind, tell)
            for n, kind in self.kinds_.items()
            if kind[0] != ID
        }
        for name, known in self.levels_.items():
            read[name] = known_levels(read[name], list(known), tell)
        return pd.DataFrame(read, index=frame.index)

    def transform(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The rows as numbers and categories, see `read`; a ColumnNotice says what counts as
        missing in them."""
        return self.encoder_.transform(self.read(frame, warn_of_column))


MANY_UNKNOWN = 0.2  # of the rows


def warn_of_column(text: str) -> None:
    """A ColumnNotice."""
    warnings.warn(text, ColumnNotice, stacklevel=6)


def known_levels(
    column: pd.Series, known: list[Any], tell: Callable[[str], None]
) -> pd.Series:  # (N,)
    """Categories, each as the one of training that it is."""
    if isinstance(column.dtype, pd.CategoricalDtype) and set(column.cat.categories) <= set(known):
        return column
    values, unknown = Levels(known).matched(values_of(column))
    if unknown.sum() > MANY_UNKNOWN * len(unknown):
        tell(unknown_levels(column.name, unknown, list(dict.fromkeys(values[unknown]))))
    return pd.Series(values, dtype=object, index=column.index)
