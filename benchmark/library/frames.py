"""A DataFrame of the user as the CSV file that a sweep of it reads.

A run's data must be found again by `bench resume`, `report`, `explain` and `fit`; so a sweep of a
DataFrame is a sweep of a file that stands beside the run's folder, with the columns as the library
reads them: numbers and categories.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ...common.files import write_atomically
from ...datasets.infer import MISSING
from ...datasets.table import number_text
from ...models.library.columns import Categories, ColumnReader
from ..errors import SweepError

CLASSIFICATION = ("binary", "multiclass", "classification")


class CsvColumns(ColumnReader):
    """Reads columns as the library does, with categories as a CSV file can hold them: as text.

    A category whose text could be taken for a number or a gap gets the column's name before it
    ("rooms=3").
    """

    def fit(self, frame: pd.DataFrame) -> CsvColumns:
        """As `ColumnReader.fit`; decides which columns' categories get their name."""
        super().fit(frame)
        self.named_ = {
            str(name)
            for name, kind in self.kinds_.items()
            if isinstance(kind, Categories)
            and any(text and doubtful(text) for text in set(category_texts(frame[name])))
        }
        return self

    def transform(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The rows; names of columns are text, numbers float64, categories text or None."""
        found = super().transform(frame)
        found.columns = [" ".join(str(name).split()) for name in found.columns]
        for name in found.columns[[not is_float(d) for d in found.dtypes]]:
            texts = category_texts(found[name])
            if name in self.named_:
                texts = [None if text is None else f"{name}={text}" for text in texts]
            found[name] = pd.Series(texts, dtype=object)
        return found


def is_float(dtype: Any) -> bool:
    """Whether a column that a `ColumnReader` gave holds numbers."""
    return dtype == np.float64


def category_texts(column: pd.Series) -> list[str | None]:
    """Values as text on one line, None where missing."""
    values = column.astype(object)
    return [
        None if gap else " ".join(str(value).split()) or None
        for value, gap in zip(values, values.isna(), strict=True)
    ]


def doubtful(text: str) -> bool:
    """Whether the reader of CSV files could take a category for a number or a gap.

    >>> doubtful("12"), doubtful("NA"), doubtful("red")
    (True, True, False)
    """
    try:
        float(text)
    except ValueError:
        return text in MISSING
    return True


def label_text(label: Any) -> str:
    """The name that a class has in a CSV file and in a run.

    >>> label_text(True), label_text(2.0), label_text(" yes ")
    ('True', '2', 'yes')
    """
    number = isinstance(label, int | float | np.number) and not isinstance(label, bool | np.bool_)
    return number_text(label) if number else " ".join(str(label).split())


class FrameData:
    """A DataFrame made ready for a sweep.

    Attributes
    ----------
    features : DataFrame
        The frame without its target.
    target, task : str
        The name of the target; "classification", "regression" or None for a guess.
    labels : dict
        {name of a class in the run: the label in the frame}.
    columns : CsvColumns
        How the features are read.
    """

    def __init__(
        self,
        frame: pd.DataFrame,
        target: Any,
        *,
        task: str | None = None,
        categorical_features: Any = (),
        text: str = "hash",
    ) -> None:
        if target not in frame.columns:
            raise SweepError(
                f"the DataFrame has no column {target!r} to predict; columns: "
                f"{', '.join(map(repr, frame.columns[:20]))}"
            )
        if frame[target].isna().any():
            n = int(frame[target].isna().sum())
            raise SweepError(f"target {target!r} is missing in {n} rows; leave them out")
        self.target = " ".join(str(target).split())
        self.features = frame.drop(columns=target).reset_index(drop=True)
        self._y = frame[target].reset_index(drop=True)
        dtype = self._y.dtype
        self.task = task
        if task is None and (
            isinstance(dtype, pd.CategoricalDtype) or not pd.api.types.is_numeric_dtype(dtype)
        ):
            self.task = "classification"
        if task is None and pd.api.types.is_bool_dtype(dtype):
            self.task = "classification"
        self.labels = {label_text(label): label for label in self._y.unique()}
        self.columns = CsvColumns(text=text, categories=categorical_features or ()).fit(
            self.features
        )

    def csv(self) -> bytes:
        """The CSV file: UTF-8, the target as the last column."""
        table = self.columns.transform(self.features)
        if self.target in table.columns:
            raise SweepError(f"a feature is called {self.target!r} as the target is; rename one")
        infinite = [
            name
            for name in table.columns
            if is_float(table[name].dtype) and np.isinf(table[name].to_numpy()).any()
        ]
        if infinite:
            raise SweepError(
                f"column {infinite[0]!r} holds an infinite value; give a number or NaN"
            )
        table[self.target] = [label_text(label) for label in self._y]
        return table.to_csv(index=False, lineterminator="\n").encode()

    def write(self, runs: Path, name: str | None) -> tuple[Path, str]:
        """(the file, the name of the run). The file stands in `runs` under the run's name; without
        one the name is the target's and a hash of the content. SweepError where another content has
        the name."""
        content = self.csv()
        slug = "".join(c if c.isalnum() else "-" for c in self.target.lower()).strip("-")[:40]
        name = name or f"{slug or 'frame'}-{hashlib.sha256(content).hexdigest()[:8]}"
        path = runs / f"{name}.csv"
        if path.exists() and path.read_bytes() != content:
            raise SweepError(
                f"{path} holds other data: a run keeps its table. Choose another name, or remove "
                f"{path} and {runs / name}"
            )
        if not path.exists():
            runs.mkdir(parents=True, exist_ok=True)
            write_atomically(path, content)
        return path, name
