"""Columns of any table as numbers and categories, decided on the rows of a fit.

`ColumnReader` stands before a model's own preprocessing, which takes float64 and categorical
columns with gaps. What it changes in a column it says in a notice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from pandas.api import types

from ...common.text import one_line
from .number_texts import PLAIN, Notation, is_missing_word, notation_of, numbers_in

TEXTS = ("hash", "drop")
ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[-+]\d{2}:?\d{2})?)?")
NO_DATE = re.compile(r"0000-00-00([ T]00:00(:00(\.0+)?)?)?")  # a gap, as MySQL writes it
NANOSECONDS = re.compile(r"(\.\d{6})\d+")
N_HASHED, N_COMPONENTS, NGRAMS = 2**14, 16, (1, 2)
WORDS_OF_TEXT = 3.0  # on average, from which on a column of different texts is free text
FEW_TEXTS = 20  # so many different texts are categories whatever they are
ALL_DIFFERENT = 0.95  # share of different texts from which on a column of words is an identifier


class ColumnNotice(UserWarning):
    """What was done to a column that is neither numbers nor categories."""


def texts_of(column: pd.Series) -> list[str | None]:
    """The values as texts, None where missing or blank."""
    values = column.astype(object)
    gaps = values.isna().to_numpy()
    found = [None if gap else str(v) for v, gap in zip(values, gaps, strict=True)]
    return [None if text is not None and not text.strip() else text for text in found]


def floats(column: pd.Series, notation: Notation = PLAIN) -> np.ndarray:  # (N,)
    """Numbers, booleans and texts of numbers as float64, NaN where missing.

    Texts are written plainly or in `notation`, whatever the other rows hold; ValueError for other
    texts and values.
    """
    if types.is_complex_dtype(column.dtype):
        raise ValueError(f"Complex data not supported: column {column.name!r}")
    if types.is_numeric_dtype(column.dtype):  # booleans, too
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    values = column.astype(object)
    written = np.array([isinstance(value, str) for value in values], dtype=bool)
    found = np.empty(len(values))
    try:
        found[~written] = values[~written].to_numpy(dtype=np.float64, na_value=np.nan)
        found[written] = numbers_in(list(values[written]), notation)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"column {column.name!r} was numeric in training: {one_line(error, 120)}; give numbers "
            "as they were then or such as 1234.5, or None for a missing value"
        ) from None
    return found


# -- one class a kind of column -------------------------------------------------------------------


class Kind:
    """How one column is read. `suffixes` name the columns that come out, "" for the same name."""

    word: ClassVar[str] = ""
    suffixes: tuple[str, ...] = ("",)

    def read(self, column: pd.Series) -> list[Any]:
        """One array or series (N,) for each of `suffixes`."""
        raise NotImplementedError


class Numbers(Kind):
    """Numbers and booleans."""

    word = "number"

    def read(self, column: pd.Series) -> list[Any]:
        """The values as float64."""
        return [floats(column)]


class Empty(Kind):
    """A column without a value in training, of which nothing is known."""

    word = "empty"

    def read(self, column: pd.Series) -> list[Any]:
        """NaN, whatever new rows hold."""
        return [np.full(len(column), np.nan)]


class NumberTexts(Kind):
    """Numbers that are written as text, all in one notation."""

    word = "number"

    def __init__(self, notation: Notation) -> None:
        self.notation = notation

    def read(self, column: pd.Series) -> list[Any]:
        """The numbers; ValueError for a text that is none."""
        return [floats(column, self.notation)]


class Dates(Kind):
    """Moments of time: datetimes, dates, periods, or texts as ISO 8601 writes them."""

    word = "date"
    suffixes = (".year", ".month", ".weekday", ".hour", ".total_seconds")

    def read(self, column: pd.Series) -> list[Any]:
        """Year, month (1 to 12), weekday (Monday is 0), hour, and seconds since 1970 (UTC)."""
        when = moments(column)
        gaps = when.isna().to_numpy()
        # In nanoseconds, the unit of pd.Timestamp(0), there is no year before 1677 or after 2262.
        seconds = (
            (when - pd.Timestamp(0).as_unit("s")).dt.total_seconds().to_numpy(dtype=np.float64)
        )
        parts = (when.dt.year, when.dt.month, when.dt.day_of_week, when.dt.hour)
        found = [np.where(gaps, np.nan, p.to_numpy(dtype=np.float64, na_value=0)) for p in parts]
        return [*found, np.where(gaps, np.nan, seconds)]


class Durations(Kind):
    """Lengths of time."""

    word = "duration"
    suffixes = (".total_seconds",)

    def read(self, column: pd.Series) -> list[Any]:
        """Seconds."""
        return [pd.to_timedelta(column).dt.total_seconds().to_numpy(dtype=np.float64)]


class Categories(Kind):
    """Categories, in the order and of the type that they have."""

    word = "category"

    def read(self, column: pd.Series) -> list[Any]:
        """The column itself where it is categorical, but for blank texts, which are no levels;
        else its values with None for gaps."""
        if isinstance(column.dtype, pd.CategoricalDtype):
            levels = [v for v in column.cat.categories if not is_blank(v)]
            if len(levels) < len(column.cat.categories):
                column = column.cat.set_categories(levels)
            return [column]
        values = column.astype(object)
        found = np.empty(len(values), dtype=object)
        for row, (value, gap) in enumerate(zip(values, values.isna(), strict=True)):
            found[row] = None if gap or is_blank(value) else hashable(value)
        return [pd.Series(found, dtype=object, index=column.index)]


class FreeText(Kind):
    """Texts of several words: hashed n-grams of words, weighted by rarity, in few components.

    The counts of words and pairs of words (hashed to 2**14 columns) become tf-idf weights, and
    these at most 16 components of a truncated SVD (latent semantic analysis).
    """

    word = "text"

    def __init__(self, texts: list[str | None]) -> None:
        from sklearn.decomposition import TruncatedSVD
        from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer
        from sklearn.pipeline import make_pipeline

        n = max(1, min(N_COMPONENTS, len(texts) - 1))
        self.pipeline = make_pipeline(
            HashingVectorizer(
                n_features=N_HASHED, ngram_range=NGRAMS, alternate_sign=False, norm=None
            ),
            TfidfTransformer(sublinear_tf=True),
            TruncatedSVD(n_components=n, random_state=0),
        )
        self.pipeline.fit([text or "" for text in texts])
        self.suffixes = tuple(f".text{i}" for i in range(n))

    def read(self, column: pd.Series) -> list[Any]:
        """The components; zeros for a missing text."""
        found = self.pipeline.transform([text or "" for text in texts_of(column)])
        return list(np.ascontiguousarray(found.T))


class Dropped(Kind):
    """A column that is left out."""

    word = "left out"
    suffixes = ()

    def read(self, column: pd.Series) -> list[Any]:
        """Nothing."""
        return []


# -- how kinds are found --------------------------------------------------------------------------


def is_blank(value: Any) -> bool:
    """Whether a value is a text that is empty or holds nothing but white space."""
    return isinstance(value, str) and not value.strip()


def hashable(value: Any) -> Any:
    """The value, or its text where it cannot be a category (a list, a dictionary)."""
    try:
        hash(value)
    except TypeError:
        return str(value)
    return value


def is_no_date(value: Any) -> bool:
    """Whether a value is a text that stands for a missing date."""
    return isinstance(value, str) and (
        is_missing_word(value) or bool(NO_DATE.fullmatch(value.strip()))
    )


def moments(column: pd.Series) -> pd.Series:
    """A column as datetimes in UTC without a zone; ValueError where a value is none."""
    if isinstance(column.dtype, pd.ArrowDtype):
        column = column.array.__arrow_array__().to_pandas().rename(column.name)
    if isinstance(column.dtype, pd.PeriodDtype):
        column = column.dt.to_timestamp()
    elif not types.is_datetime64_any_dtype(column.dtype):
        values = [v.strip() if isinstance(v, str) else v for v in column.astype(object)]
        values = [None if is_no_date(v) else v for v in values]
        try:
            column = parsed_moments(values)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"column {column.name!r} holds dates in training and {one_line(error, 120)!r} now; "
                "write dates as 2024-01-31"
            ) from None
    if getattr(column.dtype, "tz", None) is not None:
        column = column.dt.tz_convert("UTC").dt.tz_localize(None)
    return column.reset_index(drop=True)


def parsed_moments(values: list[Any], errors: str = "raise") -> pd.Series:
    """Moments and texts of them as datetimes in UTC; `errors` as in `pd.to_datetime`."""

    def parsed(values: list[Any], errors: str) -> pd.Series:
        column = pd.Series(values, dtype=object)
        return pd.to_datetime(column, format="ISO8601", utc=True, errors=errors)

    try:
        return parsed(values, "raise")
    except ValueError:  # perhaps for one value in nanoseconds beside another after 2262
        return parsed([to_microseconds(v) for v in values], errors)


def to_microseconds(value: Any) -> Any:
    """A moment, or the text of one, without digits after the microseconds."""
    if isinstance(value, pd.Timestamp):
        return value.as_unit("us")
    return NANOSECONDS.sub(r"\1", value) if isinstance(value, str) else value


def first_no_date(texts: list[str]) -> str | None:
    """The first text, each written as ISO 8601 writes dates, that is no date (2023-02-30)."""
    different = list(dict.fromkeys(texts))
    gaps = parsed_moments([t.strip() for t in different], errors="coerce").isna().to_numpy()
    return different[int(np.argmax(gaps))] if gaps.any() else None


def kind_of(column: pd.Series, text: str) -> tuple[Kind, str]:
    """(how a column is read, a notice, or "" where there is nothing to say)."""
    name, dtype = column.name, column.dtype
    if str(dtype) == "null[pyarrow]":
        return Empty(), ""
    if isinstance(dtype, pd.CategoricalDtype):
        return Categories(), ""
    if types.is_datetime64_any_dtype(dtype) or isinstance(dtype, pd.PeriodDtype):
        return Dates(), ""
    if types.is_timedelta64_dtype(dtype):
        return Durations(), ""
    if types.is_numeric_dtype(dtype) or types.is_bool_dtype(dtype):
        return Numbers(), ""
    inferred = types.infer_dtype(column, skipna=True)
    if inferred == "empty":
        return Empty(), ""
    if inferred in ("boolean", "integer", "floating", "mixed-integer-float", "decimal"):
        return Numbers(), ""
    if inferred in ("datetime", "datetime64", "date"):
        return Dates(), ""
    if inferred in ("timedelta", "timedelta64"):
        return Durations(), ""
    if inferred == "string":
        return kind_of_texts(name, texts_of(column), text)
    if inferred == "complex":
        raise ValueError(f"Complex data not supported: column {name!r}")
    if all(isinstance(v, int | float | np.number | np.bool_ | Decimal) for v in column.dropna()):
        return Numbers(), ""
    odd = sorted({type(v).__name__ for v in column.dropna() if hashable(v) is not v})
    if odd:
        return Categories(), (
            f"column {name!r} holds values of type {', '.join(odd)}; each different text of them "
            "is taken as a category. Make columns of their parts for a model to learn from them"
        )
    return Categories(), ""


def kind_of_texts(name: Any, texts: list[str | None], text: str) -> tuple[Kind, str]:
    """As `kind_of`, for a column of texts; `text`: what becomes of free text."""
    there = [t for t in texts if t is not None]
    notation = notation_of(there)
    if notation is not None:
        example = one_line(next(t for t in there if not is_missing_word(t)), 20)
        how = "" if notation.name == "plain numbers" else f" ({notation.name})"
        return NumberTexts(notation), (
            f"column {name!r} is text that holds numbers, such as {example!r}{how}; "
            "read as numbers. Make it categorical (astype('category')) if they are codes"
        )
    told = [t for t in there if not is_no_date(t)]
    if told and all(ISO_DATE.fullmatch(t.strip()) for t in set(told)):
        odd = first_no_date(told)
        if odd is None:
            return Dates(), (
                f"column {name!r} is text that holds dates, such as {told[0]!r}; read as year, "
                "month, weekday, hour and total seconds"
            )
        kind, notice = kind_of_words(name, texts, text)
        notice = notice or f"column {name!r} is read as categories"
        return kind, (
            f"{notice}. Its texts look like dates, and {odd!r} is none; mend such cells, or leave "
            "them empty, if dates are meant"
        )
    return kind_of_words(name, texts, text)


def kind_of_words(name: Any, texts: list[str | None], text: str) -> tuple[Kind, str]:
    """As `kind_of_texts`, for texts that are neither numbers nor dates."""
    there = [t for t in texts if t is not None]
    different = len(set(there))
    if different <= FEW_TEXTS:
        return Categories(), ""
    words = float(np.mean([len(t.split()) for t in set(there)]))
    if words >= WORDS_OF_TEXT and different > len(there) / 2:
        if text == "drop":
            return Dropped(), f"column {name!r} is free text and is left out (text='drop')"
        return FreeText(texts), (
            f"column {name!r} is free text; read as components of its hashed words and pairs of "
            "words. text='drop' leaves it out"
        )
    if different > ALL_DIFFERENT * len(there):
        return Dropped(), (
            f"column {name!r} has {different} different values in {len(there)} rows, an identifier "
            "that no model can learn from; it is left out. Name it in categorical_features to keep "
            "it"
        )
    return Categories(), ""


class ColumnReader:
    """Reads the columns of a DataFrame as float64 and categorical columns.

    Parameters
    ----------
    text : {"hash", "drop"}
        What becomes of free text.
    categories : iterable
        Names of columns that are categories whatever they hold.

    Attributes
    ----------
    kinds_ : dict
        Column name -> `Kind`.
    notices_ : list of str
        What was done to columns that are neither numbers nor categories.
    """

    def __init__(self, *, text: str = "hash", categories: Iterable[Any] = ()) -> None:
        if text not in TEXTS:
            raise ValueError(f"text must be one of {', '.join(map(repr, TEXTS))}, got {text!r}")
        self.text = text
        self.categories = list(categories)

    def fit(self, frame: pd.DataFrame) -> ColumnReader:
        """Decides how each column is read; ValueError for a name in `categories` that is none."""
        if not frame.columns.is_unique:
            twice = frame.columns[frame.columns.duplicated()][0]
            raise ValueError(f"column names must be unique, {twice!r} appears twice; rename one")
        for name in self.categories:
            if name not in frame.columns:
                raise ValueError(
                    f"categorical_features names {name!r}, which is no column; columns: "
                    f"{', '.join(map(repr, frame.columns[:20]))}"
                )
        self.kinds_: dict[Any, Kind] = {}
        self.notices_: list[str] = []
        for name in frame.columns:
            if name in self.categories:
                self.kinds_[name] = Categories()
                continue
            self.kinds_[name], notice = kind_of(frame[name], self.text)
            if notice:
                self.notices_.append(notice)
        if not any(kind.suffixes for kind in self.kinds_.values()):
            raise ValueError(
                f"no column is left to learn from: {'; '.join(self.notices_)}. Give numbers, "
                "categories or dates"
            )
        return self

    def transform(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The rows with a new index from 0; the columns have the order of `fit`."""
        found: dict[Any, Any] = {}
        frame = frame.reset_index(drop=True)
        for name, kind in self.kinds_.items():
            for suffix, values in zip(kind.suffixes, kind.read(frame[name]), strict=True):
                found[self._free(f"{name}{suffix}" if suffix else name, name, found)] = values
        return pd.DataFrame(found, index=frame.index)

    def _free(self, wanted: Any, name: Any, found: dict[Any, Any]) -> Any:
        """A name that no other column has."""
        while wanted in found or (wanted != name and wanted in self.kinds_):
            wanted = f"{wanted}_"
        return wanted
