"""Dates and texts of a table as numbers, by what the training rows alone hold.

A frame has float64, categorical, datetime and text columns; a model takes the first two. Dates
become the calendar parts that vary, and days; texts become the components of their n-grams of
characters (the idea of skrub's `StringEncoder`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types

PARTS = ("year", "month", "day", "weekday", "hour", "minute")
PERIODS = {"month": 12, "day": 31, "weekday": 7, "hour": 24, "minute": 60}
TWICE = ("month", "hour")  # parts in whose period something may rise and fall twice
NGRAMS = (3, 4)
N_COMPONENTS = 30
N_TERMS = 20_000  # n-grams that count, the most frequent ones


def is_date(column: pd.Series) -> bool:
    """Whether a column holds datetimes."""
    return types.is_datetime64_any_dtype(column.dtype)


def is_text(column: pd.Series) -> bool:
    """Whether a column holds texts to be read; categories are none."""
    return isinstance(column.dtype, pd.StringDtype)


def text_column(texts: Any) -> pd.Series:
    """A column of texts, in the dtype by which `is_text` knows it; None where missing."""
    return pd.Series(texts, dtype=pd.StringDtype(na_value=np.nan))


def has_texts_or_dates(frame: pd.DataFrame) -> bool:
    """Whether a frame has a column that must be encoded."""
    return any(is_date(frame[name]) or is_text(frame[name]) for name in frame.columns)


class DateEncoder:
    """Calendar parts of a date that vary over the training rows, and the days since their first.

    cyclic: whether parts that come round again (month, weekday, hour, ...) are a sine and a cosine
    each, and of half the period for TWICE, for models to which December and January are near; trees
    take them as they are.
    """

    def __init__(self, *, cyclic: bool = False) -> None:
        self.cyclic = cyclic

    def fit(self, column: pd.Series) -> DateEncoder:
        """Learns the first moment and which parts vary."""
        there = column.dropna()
        self.first_ = there.min().isoformat() if len(there) else "1970-01-01"
        self.parts_ = [part for part, values in _parts(there).items() if values.nunique() > 1]
        return self

    def transform(self, column: pd.Series) -> dict[str, np.ndarray]:
        """{suffix: (N,) float64}, NaN where the date is missing."""
        known = _parts(column)
        found: dict[str, np.ndarray] = {}
        for part in self.parts_:
            values = known[part].to_numpy(dtype=np.float64, na_value=np.nan)
            if not self.cyclic or part not in PERIODS:
                found[part] = values
                continue
            angle = 2 * np.pi * values / PERIODS[part]
            found |= {f"{part}_sin": np.sin(angle), f"{part}_cos": np.cos(angle)}
            if part in TWICE:
                found |= {f"{part}_sin2": np.sin(2 * angle), f"{part}_cos2": np.cos(2 * angle)}
        days = (column - pd.Timestamp(self.first_).as_unit("us")) / pd.Timedelta(days=1)
        return {**found, "days": days.to_numpy(dtype=np.float64, na_value=np.nan)}


def _parts(column: pd.Series) -> dict[str, pd.Series]:
    return {p: getattr(column.dt, "day_of_week" if p == "weekday" else p) for p in PARTS}


class TextEncoder:
    """Texts as at most N_COMPONENTS numbers each: a truncated SVD of tf-idf weights of the n-grams
    of characters within words, all of it learned from the training rows."""

    def fit(self, column: pd.Series) -> TextEncoder:
        """Learns n-grams, their weights (idf) and the components."""
        from sklearn.decomposition import TruncatedSVD
        from threadpoolctl import threadpool_limits

        texts = column.fillna("").tolist()
        counter = _counter(None)
        try:
            weights = counter.fit_transform(texts)
        except ValueError:  # no text has a letter
            self.terms_, self.idf_, self.components_ = [], np.empty(0), np.empty((0, 0))
            return self
        n = min(N_COMPONENTS, len(texts) - 1, weights.shape[1] - 1)
        self.terms_ = counter.get_feature_names_out().tolist()
        self.idf_ = counter.idf_
        if n < 1:
            self.components_ = np.ones((1, len(self.terms_)))
            return self
        with threadpool_limits(1):  # the same bits whatever the threads
            self.components_ = TruncatedSVD(n, random_state=0).fit(weights).components_
        return self

    def transform(self, column: pd.Series) -> dict[str, np.ndarray]:
        """{suffix: (N,) float64}; zeros for a missing text."""
        if not self.terms_:
            return {}
        counter = _counter({term: i for i, term in enumerate(self.terms_)})
        counter.idf_ = self.idf_
        found = counter.transform(column.fillna("").tolist()) @ self.components_.T
        return {f"text{i}": np.ascontiguousarray(values) for i, values in enumerate(found.T)}


def _counter(vocabulary: Mapping[str, int] | None) -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer

    most = N_TERMS if vocabulary is None else None
    return TfidfVectorizer(
        analyzer="char_wb", ngram_range=NGRAMS, vocabulary=vocabulary, max_features=most
    )


class ColumnEncoder:
    """A frame as a model takes it: dates and texts as numbers, all other columns as they are.

    After `fit`: `encoders_` {name of a column: `DateEncoder` or `TextEncoder`}.
    """

    def __init__(self, *, cyclic: bool = False) -> None:
        self.cyclic = cyclic

    def fit(self, frame: pd.DataFrame) -> ColumnEncoder:
        """Learns from the training rows."""
        self.encoders_: dict[Any, DateEncoder | TextEncoder] = {}
        for name in frame.columns:
            if is_date(frame[name]):
                self.encoders_[name] = DateEncoder(cyclic=self.cyclic).fit(frame[name])
            elif is_text(frame[name]):
                self.encoders_[name] = TextEncoder().fit(frame[name])
        return self

    def transform(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The rows, in their order; a made column takes no name that is there."""
        if not self.encoders_:
            return frame
        found: dict[Any, Any] = {}
        for name in frame.columns:
            if name not in self.encoders_:
                found[name] = frame[name]
                continue
            for suffix, values in self.encoders_[name].transform(frame[name]).items():
                wanted = f"{name}.{suffix}"
                while wanted in found or wanted in frame.columns:
                    wanted = f"{wanted}_"
                found[wanted] = values
        return pd.DataFrame(found, index=frame.index)

    def to_data(self) -> list[Any]:
        """What was learned, as plain data and arrays, which `of_data` reads."""
        return [
            (name, {"cyclic": e.cyclic, "first": e.first_, "parts": list(e.parts_)})
            if isinstance(e, DateEncoder)
            else (name, {"terms": list(e.terms_), "idf": e.idf_, "components": e.components_})
            for name, e in self.encoders_.items()
        ]

    @classmethod
    def of_data(cls, data: list[Any]) -> ColumnEncoder:
        """The encoder of such data; ValueError, KeyError or TypeError where it is none."""
        made = cls()
        made.encoders_ = {}
        for name, learned in data:
            if "first" in learned:
                date = DateEncoder(cyclic=bool(learned["cyclic"]))
                date.first_ = pd.Timestamp(learned["first"]).isoformat()
                date.parts_ = [PARTS[PARTS.index(part)] for part in learned["parts"]]
                made.encoders_[name] = date
                continue
            text = TextEncoder()
            text.terms_ = [str(term) for term in learned["terms"]]
            text.idf_ = np.asarray(learned["idf"], dtype=np.float64)
            text.components_ = np.asarray(learned["components"], dtype=np.float64)
            if not text.idf_.shape == text.components_.shape[1:] == (len(text.terms_),):
                raise ValueError("weights of texts of another size than their terms")
            made.encoders_[name] = text
        return made
