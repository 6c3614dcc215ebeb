"""A DataFrame of the user as the Arrow file that a sweep of it reads.

A run's data must be found again by `bench resume`, `report`, `explain` and `fit`; so a sweep of a
DataFrame is a sweep of a file that stands beside the run's folder, with the columns as the library
reads them: numbers, categories, dates and texts. The file has types, so that each category and
label keeps its text.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from ...common.columns.dates import LOCAL
from ...common.columns.kinds import CATEGORY, DATE, TEXT
from ...common.counting import count
from ...common.files import write_atomically
from ...common.text import slug, suggest
from ...datasets.reading.columns import Reading
from ...datasets.reading.names import clean_name
from ...datasets.reading.target import MAX_CLASSES_GUESSED, dates_as_classes
from ...datasets.table import Table, number_text
from ...models.library.columns import ColumnReader, one_blank, texts_of, warn_of_column
from ..errors import SweepError


class FrameColumns(ColumnReader):
    """Reads columns as the library does, and writes categories as text, as a table holds them."""

    levels_: Mapping[str, Collection[str]] = {}  # of columns that a table has already

    @classmethod
    def of_table(cls, table: Table) -> FrameColumns:
        """The reader for further rows of a table: column names and levels are the table's."""
        reader = cls(categories=table.categorical)
        reader.kinds_ = {n: (kind, table.styles.get(n, "")) for n, kind in table.kinds.items()}
        reader.notices_ = []
        levels = {name: table.frame[name].cat.categories for name in table.categorical}
        reader.levels_ = {name: set(known) for name, known in levels.items()}
        return reader

    def decide(self, frame: pd.DataFrame) -> None:
        """As `ColumnReader.decide`; SweepError for two columns whose names differ in blanks
        alone."""
        self.categories = [clean_name(str(name)) for name in self.categories]
        super().decide(named_cleanly(frame))

    def of_kind(self, kind: str) -> list[str]:
        """The columns of a kind."""
        return [name for name, (word, _) in self.kinds_.items() if word == kind]

    def read(
        self, frame: pd.DataFrame, tell: Callable[[str], None] = warn_of_column
    ) -> pd.DataFrame:
        """The rows; names of columns are text, and texts and categories are on one line."""
        frame = frame if set(self.kinds_) <= set(frame.columns) else named_cleanly(frame)
        found = super().read(frame, tell)
        for name in self.of_kind(CATEGORY):
            known = self.levels_.get(name, ())
            texts = [
                value if value in known else text
                for value, text in zip(found[name], category_texts(found[name]), strict=True)
            ]
            found[name] = pd.Series(texts, dtype=object)
        return found

    def arrow(self, frame: pd.DataFrame) -> dict[str, pa.Array]:
        """The columns of the rows as a file holds them: `read`, and dates with hours of the place
        as texts with their offsets to UTC, by which the file is read so, too. SweepError for an
        infinite number."""
        named, columns = named_cleanly(frame), dict[str, pa.Array]()
        for name, values in self.read(frame).items():
            kind, style = self.kinds_[str(name)]
            if style == LOCAL:
                values = texts_of(named[name])
            elif values.dtype == np.float64 and np.isinf(values.to_numpy()).any():
                raise SweepError(f"column {name!r} holds an infinite value; give a number or NaN")
            column = pa.array(values, from_pandas=True)
            columns[str(name)] = column.dictionary_encode() if kind == CATEGORY else column
        return columns


def category_texts(column: pd.Series) -> list[str | None]:
    """Values as text on one line, numbers in their shortest form, None where missing."""
    texts = [number_text(v) if is_number(v) and float(v) == v else v for v in column]
    return texts_of(pd.Series(texts, dtype=object))


def named_cleanly(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with its columns' names as a CSV file has them; SweepError where two are alike."""
    names = [clean_name(str(name)) for name in frame.columns]
    known: dict[str, object] = {}
    for name, given in zip(names, frame.columns, strict=True):
        if name in known:
            raise SweepError(
                f"columns {known[name]!r} and {given!r} are both called {name!r} in a file, which "
                "keeps one blank between words; rename one"
            )
        known[name] = given
    return frame.set_axis(names, axis=1)


def is_number(value: object) -> bool:
    """Whether a label is a number and no boolean."""
    known = isinstance(value, int | float | np.number | Decimal)
    return known and not isinstance(value, bool | np.bool_)


def label_text(label: object) -> str:
    """The name that a class has in a file and in a run, where its text is that of no other.

    >>> label_text(True), label_text(2.0), label_text(" yes ")
    ('True', '2', 'yes')
    """
    return number_text(label) if is_number(label) else one_blank(label)


def label_texts(labels: Collection[object], target: str, task: str | None) -> dict[object, str]:
    """{label: its text in a file}, such that each class is read back as itself.

    Texts are quoted, with the target's name before all of them, where one is blank or two differ
    only in blanks or in their type. task: None where numbers may be amounts or classes. SweepError
    for labels with one text.

    >>> label_texts(["a b", "a  b"], "y", "classification")
    {'a b': "y='a b'", 'a  b': "y='a  b'"}
    """
    found = {label: label_text(label) for label in labels}
    alike = len(set(found.values())) < len(labels)
    if task is None:  # numbers, which stay numbers
        if alike and len(set(found.values())) <= MAX_CLASSES_GUESSED:
            raise SweepError(
                f"target {target!r} has different values that are the same as float64; say "
                "task='classification' for classes, task='regression' for amounts"
            )
        return found
    if task == "regression" or not (alike or "" in found.values()):
        return found
    found = {k: f"{target}={repr(k) if isinstance(k, str) else one_blank(k)}" for k in labels}
    twice = [text for text, n in Counter(found.values()).items() if n > 1]
    if twice:
        raise SweepError(
            f"target {target!r} has different labels with the same text, {twice[0]!r}; make the "
            "labels different texts"
        )
    return found


def holds_numbers(column: pd.Series) -> bool:
    """Whether a target holds numbers, which may be classes or amounts, in any type."""
    return not isinstance(column.dtype, pd.CategoricalDtype) and all(map(is_number, column))


class FrameData:
    """A DataFrame made ready for a sweep.

    Attributes
    ----------
    features : DataFrame
        The frame without its target and its columns with a role.
    roles : dict
        {"group", "time" or "weight": the name of its column in the file}.
    target, task : str
        The name of the target; "classification", "regression" or None for a guess.
    labels : dict
        {name of a class in the run: the label in the frame}, see `label_texts`.
    columns : FrameColumns
        How the features are read.
    """

    def __init__(
        self,
        frame: pd.DataFrame,
        target: Any,
        *,
        task: str | None = None,
        categorical_features: Iterable[object] = (),
        roles: Mapping[str, object] | None = None,
    ) -> None:
        if isinstance(target, Collection) and not isinstance(target, (str, bytes, tuple)):
            raise SweepError(
                "target is the name of a column, not its values: "
                "tabsweep.sweep(X.assign(target=y), 'target')"
            )
        if len({isinstance(name, str) for name in frame.columns}) > 1:  # scikit-learn refuses it
            kinds = ", ".join(sorted({type(name).__name__ for name in frame.columns}))
            raise SweepError(
                f"the columns' names are of several types ({kinds}); make them text: "
                "frame.columns = frame.columns.astype(str)"
            )
        named = {
            "predict": target,
            **{f"take as {role}": name for role, name in (roles or {}).items()},
        }
        for use, name in named.items():
            if name not in frame.columns:
                raise SweepError(
                    f"the DataFrame has no column {name!r} to {use}; {suggest(name, frame.columns)}"
                )
        if (n := list(frame.columns).count(target)) > 1:
            raise SweepError(
                f"{n} columns of the DataFrame are called {target!r}; rename the others"
            )
        if frame[target].isna().any():
            n = int(frame[target].isna().sum())
            raise SweepError(
                f"target {target!r} is missing in {count(n, 'row')}; leave them out: "
                f"frame.dropna(subset=[{target!r}])"
            )
        named_cleanly(frame)  # refuses two that a file would call the same
        self.target = clean_name(str(target))
        aside = dict.fromkeys((roles or {}).values())
        self.roles = {role: clean_name(str(name)) for role, name in (roles or {}).items()}
        self.features = frame.drop(columns=[target, *aside]).reset_index(drop=True)
        self._aside = frame[list(aside)].reset_index(drop=True)
        self._y = frame[target].reset_index(drop=True)
        try:
            n_distinct = self._y.nunique()
        except TypeError:
            raise SweepError(
                f"target {target!r} holds values that are neither numbers nor labels, such as lists"
            ) from None
        self.task = task or (None if holds_numbers(self._y) else "classification")
        guessed = pd.Series(self._y.unique() if task is None and self.task else []).astype(str)
        self.notes = dates_as_classes(guessed, str(target))
        if task is None and self.task and n_distinct > max(MAX_CLASSES_GUESSED, len(frame) / 2):
            raise SweepError(
                f"target {target!r} has {n_distinct} different labels in {len(frame)} rows; say "
                "task='regression' for numbers that are written as text, or task='classification'"
            )
        self._texts = label_texts(list(self._y.unique()), self.target, self.task)
        self.labels = {text: label for label, text in self._texts.items()}
        self.columns = FrameColumns(categories=categorical_features or ())
        self.columns.decide(self.features)

    def reading(self, positive: object = None, costs: Mapping[Any, float] | None = None) -> Reading:
        """How the file is read. positive: a label; costs: those of labels and of pairs of them.
        SweepError for a label that the target does not hold."""

        def text(label: object) -> str:
            if label not in self._texts:
                raise SweepError(f"target {self.target!r} has no label {label!r}")
            return self._texts[label]

        def named(key: object) -> str:
            if key in self._texts or not isinstance(key, tuple) or len(key) != 2:
                return text(key)
            pair = [text(label) for label in key]
            plain = ":".join(pair)
            return json.dumps(pair) if plain.count(":") > 1 or plain in self.labels else plain

        said = {
            "target": self.target,
            "task": self.task,
            "date": self.columns.of_kind(DATE),
            "text": self.columns.of_kind(TEXT),
            "positive": None if positive is None else text(positive),
            "costs": [f"{named(key)}={float(v)!r}" for key, v in (costs or {}).items()],
        }
        return Reading.of(said | self.roles)

    def arrow(self) -> bytes:
        """The Arrow file: the columns with a role after the features, the target last."""
        columns = self.columns.arrow(self.features)
        if self.roles:
            reader = FrameColumns(categories=[self.roles[r] for r in ("group",) if r in self.roles])
            reader.decide(self._aside)
            columns |= reader.arrow(self._aside)
        labels = pa.array([self._texts[label] for label in self._y])
        amounts = self.task in (None, "regression")
        columns[self.target] = labels if amounts else labels.dictionary_encode()
        table, sink = pa.table(columns), io.BytesIO()
        with pa.ipc.new_file(sink, table.schema) as file:
            file.write_table(table)
        return sink.getvalue()

    def write(self, runs: Path, name: str | None) -> tuple[Path, str]:
        """(the file, the name of the run). The file stands in `runs` under the run's name; without
        one the name is the target's and a hash of the content. SweepError where another content has
        the name."""
        content = self.arrow()
        of = slug(self.target)[:40] or "frame"
        name = name or f"{of}-{hashlib.sha256(content).hexdigest()[:8]}"
        path = runs / f"{name}.arrow"
        if path.exists() and path.read_bytes() != content:
            raise SweepError(
                f"{path} holds other data: a run keeps its table. Choose another name, or remove "
                f"{path} and {runs / name}"
            )
        if not path.exists():
            runs.mkdir(parents=True, exist_ok=True)
            write_atomically(path, content)
        return path, name
