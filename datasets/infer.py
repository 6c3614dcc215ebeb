"""Tables from a user's file: kinds of columns, task and classes are inferred."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..common.text import one_line, suggest
from .errors import DataError
from .reading.cells import Cells, read_file
from .reading.numbers import (
    GROUPED_BY_POINT,
    LEADING_ZERO,
    MISSING,
    Numbers,
    exact_as_floats,
    read_numbers,
    two_spellings,
)
from .reading.times import read_times
from .table import Table, categorical_column, content_sha256

__all__ = ["MISSING", "DataError", "Reading", "table_from_csv", "table_from_file"]

MAX_CLASSES_GUESSED = 20
SMALL_CLASS = 10  # rows; fewer than the folds of the usual protocol
USUAL_WEIGHTS = 0.1, 10.0  # mean weight of a row from and to which nothing is said of the scale
LARGEST, SMALLEST = 1e30, 1e-30  # of a numeric target: size at most, spread at least
SAME_TO_TREES = 1e-7  # they make a leaf where the variance is below 2.2e-16
GROUP_OR_TIME = "a group and a time column exclude each other: a split keeps to one"
TASKS = ("binary", "multiclass", "classification", "regression")


@dataclass(frozen=True)
class Reading:
    """How the columns of a file become a table.

    target: the column to predict. task: 'binary', 'multiclass', 'classification' or 'regression';
    None: from the target's values. group: rows with the same value here stay in one part of a
    split. time: the rows' times; training rows come before the tested ones. weight: how much each
    row counts, in fits and in scores. None of the three is a feature, nor is a column in `drop`.
    missing: texts that mark a missing value, besides MISSING.
    categorical, numeric: columns whose kind is not to be guessed.
    """

    target: str
    task: str | None = None
    group: str | None = None
    time: str | None = None
    weight: str | None = None
    drop: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    numeric: tuple[str, ...] = ()

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Reading:
        """From a mapping, which may hold more; an absent field has its default."""
        given = {f.name: data[f.name] for f in fields(cls) if data.get(f.name) is not None}
        plain: Any = {k: tuple(v) if isinstance(v, list) else v for k, v in given.items()}
        return cls(**plain)

    def to_data(self) -> dict[str, Any]:
        """The fields that are set, lists for tuples, for JSON and TOML."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items() if v}

    @property
    def protocol(self) -> str:
        """The usual protocol of such a table."""
        return "grouped" if self.group else "temporal" if self.time else "kfold"


@dataclass
class Notes:
    """What is said about a table's reading: sentences, and columns of numbers that are written in
    some style ({style: {column: Numbers}})."""

    sentences: list[str] = field(default_factory=list)
    styles: dict[str, dict[str, Numbers]] = field(default_factory=dict)

    def all(self) -> list[str]:
        """The sentences, with one for each style."""
        found = list(self.sentences)
        for style, columns in self.styles.items():
            name, numbers = next(iter(columns.items()))
            names = list(map(repr, columns))
            shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if names[5:] else "")
            text, value = numbers.example
            found.append(
                f"{style} in column{'s' if names[1:] else ''} {shown}: {text!r} is read as "
                f"{value:.15g}" + (f" ({name!r})" if names[1:] else "")
            )
        return found


def leading_zeros(cells: pd.Series) -> bool:
    """Whether a cell is a number such as 01234 (a postal code), so that all are texts."""
    return cells.dtype != np.float64 and bool(cells.str.fullmatch(LEADING_ZERO).any())


def feature(name: str, cells: Cells, reading: Reading, notes: Notes) -> pd.Series | np.ndarray:
    """A column: float64 where every present cell is a number, else categorical, unless `reading` or
    the file itself states its kind.

    Numbers with a leading zero (postal codes) are categories. A column without any value is kept as
    missing numbers, and infinite numbers count as missing; both are noted. DataError for a text
    among the cells of a column that is stated to be numeric.
    """
    column, sentences = cells.frame[name], notes.sentences
    found = read_numbers(column, cells.delimiter, reading.missing)
    present = column[~found.missing]
    stated = "numeric" if name in reading.numeric else cells.kinds.get(name, "")
    stated = "categorical" if name in reading.categorical else stated
    if found.n_present == 0:
        sentences.append(f"column {name!r} has no value in any row; kept as missing numbers")
        return found.values
    numbers = found.n_numbers == found.n_present
    coded = numbers and leading_zeros(present)
    if stated == "numeric" and not numbers:
        first = int(np.argmax(np.isnan(found.values) & ~found.missing))
        raise DataError(
            f"column {name!r}: {one_line(column.iloc[first], 40)!r} on {cells.where(first)} is no "
            "number, and the column is said to be numeric; say that it is categorical, or that "
            "this text marks a missing value"
        )
    if numbers and stated != "categorical" and (not coded or stated == "numeric"):
        if found.style:
            notes.styles.setdefault(found.style, {})[name] = found
        pair = two_spellings(present) if present.nunique() <= MAX_CLASSES_GUESSED else None
        if pair and not stated:
            sentences.append(
                f"column {name!r}: {pair[0]!r} and {pair[1]!r} are read as one number; "
                "--categorical keeps them apart"
            )
        infinite = np.isinf(found.values)
        if infinite.any():
            sentences.append(f"column {name!r}: {infinite.sum()} infinite values count as missing")
        return np.where(infinite, np.nan, found.values)
    if coded and not stated:
        sentences.append(f"column {name!r} has numbers with leading zeros; read as categories")
    elif not stated and found.n_numbers > found.n_present / 2:
        texts = present[np.isnan(found.values[~found.missing])]
        shown = ", ".join(repr(one_line(text, 20)) for text in sorted(set(texts))[:3])
        sentences.append(
            f"column {name!r} mixes {found.n_numbers} numbers and {len(texts)} texts ({shown}); "
            "read as categories: empty those cells to have numbers, or name them by --missing"
        )
    n_distinct = present.nunique()
    if n_distinct > max(50, found.n_present / 2):
        sentences.append(
            f"column {name!r} has {n_distinct} categories in {found.n_present} rows: an "
            "identifier, a date or free text? A model can learn little from it; --drop leaves it "
            "out, --group keeps its rows together, --time splits by it"
        )
    coded = coded or two_spellings(present) is not None
    if numbers and not coded and not found.style and exact_as_floats(column, found.values):
        return categorical_column(pd.Series(found.values, dtype=object).where(~found.missing, None))
    return categorical_column(column.where(~found.missing, None).tolist())


def doubtful_points(cells: Cells, notes: Notes) -> None:
    """Note columns whose points may stand between thousands: all their points are followed by three
    digits, and other columns have decimal commas."""
    if "decimal commas" not in notes.styles:
        return
    for name in cells.frame.columns:
        column = cells.frame[name]
        if column.dtype == np.float64 or name in notes.styles["decimal commas"]:
            continue
        pointed = column[column.str.contains(".", regex=False)]
        if len(pointed) and pointed.str.fullmatch(GROUPED_BY_POINT).all():
            text = one_line(pointed.iloc[0], 20)
            notes.sentences.append(
                f"column {name!r}: {text!r} is read as {float(text):.15g}, but other columns have "
                f"decimal commas; write {text.replace('.', '')} if that is meant"
            )


def guess_task(cells: pd.Series, numbers: np.ndarray, name: str, warnings: list[str]) -> str:
    """'regression' for fractions and for many distinct whole numbers, else 'classification'.
    Numbers with leading zeros are classes where texts would be; so are few fractions of which one
    is written in two ways.

    DataError where most of the texts differ, so that they are no classes.
    """
    n_distinct = cells.nunique()
    few = n_distinct <= max(MAX_CLASSES_GUESSED, len(cells) / 2)
    if np.isnan(numbers).any():
        if not few:
            raise DataError(
                f"target {name!r} has {n_distinct} different texts in {len(cells)} rows: it is"
                " neither a class nor a number"
            )
        return "classification"
    whole = (numbers == np.round(numbers)).all()
    if whole and few and leading_zeros(cells):
        warnings.append(
            f"target {name!r} has numbers with leading zeros; taken as classes: say task"
            " 'regression' if they are amounts"
        )
        return "classification"
    if n_distinct > min(MAX_CLASSES_GUESSED, max(2, len(cells) // 5)):
        return "regression"
    if not whole:
        return "classification" if two_spellings(cells) else "regression"
    if n_distinct > 2:
        warnings.append(
            f"target {name!r} has {n_distinct} whole numbers; taken as classes: say task"
            " 'regression' if they are amounts"
        )
    return "classification"


def encode_target(
    cells: Cells, reading: Reading, notes: Notes
) -> tuple[np.ndarray, str, tuple[str, ...]]:
    """(target (N,), task, classes); DataError where cells are missing or do not fit the task, and
    for numbers that are too large or too close together for their squares to be numbers."""
    name, task = reading.target, reading.task
    column = cells.frame[name]
    found = read_numbers(column, cells.delimiter, reading.missing)
    numbers = found.values
    bad = found.missing | np.isinf(numbers)
    if bad.any():
        first = int(np.argmax(bad))
        mark = found.missing[first] and column.dtype != np.float64 and column.iloc[first]
        said = f" ({mark!r} counts as missing; a class of this name needs another)" if mark else ""
        raise DataError(
            f"target {name!r} is missing or infinite in {bad.sum()} rows, first on"
            f" {cells.where(first)}{said}; remove or mend these rows"
        )
    if found.style:
        notes.styles.setdefault(found.style, {})[name] = found
    stated = cells.kinds.get(name)
    told = "regression" if name in reading.numeric else None
    if stated == "categorical" or name in reading.categorical:
        told = "classification"
    chosen = task or told or guess_task(column, numbers, name, notes.sentences)
    if chosen == "regression":
        wrong = np.isnan(numbers)
        if wrong.any():
            first = int(np.argmax(wrong))
            raise DataError(
                f"target {name!r}: {one_line(column.iloc[first], 40)!r} on {cells.where(first)} is "
                "no number; a regression needs numbers"
            )
        check_range(name, numbers)
        if (spread := float(np.std(numbers))) < SAME_TO_TREES:
            notes.sentences.append(
                f"target {name!r} has a spread of {spread:.2g}: scikit-learn's trees take targets "
                "closer than 1.5e-8 for equal; another unit, such as a millionth, mends it"
            )
        return numbers, "regression", ()
    pair = two_spellings(column) if not np.isnan(numbers).any() else None
    if pair:
        notes.sentences.append(
            f"target {name!r}: {pair[0]!r} and {pair[1]!r} are taken as two classes; write them "
            "alike if they are one, or say task 'regression' if they are amounts"
        )
    plain = not (np.isnan(numbers).any() or leading_zeros(column) or pair)
    texts = not (plain and exact_as_floats(column, numbers))
    coded = categorical_column(column if texts else numbers)
    classes = tuple(coded.cat.categories)
    if len(classes) < 2:
        raise DataError(f"target {name!r} has one value in all rows: nothing to learn")
    if chosen == "binary" and len(classes) > 2:
        raise DataError(f"target {name!r} has {len(classes)} classes, task 'binary' needs two")
    if chosen == "multiclass" and len(classes) == 2:
        raise DataError(f"target {name!r} has two classes; say task 'binary'")
    codes = coded.cat.codes.to_numpy().astype(np.int64)
    for label, count in zip(classes, np.bincount(codes), strict=True):
        if count < SMALL_CLASS:
            notes.sentences.append(
                f"class {one_line(label, 40)!r} has {count} rows, fewer than {SMALL_CLASS} folds:"
                " some folds test or train without it"
            )
    return codes, "binary" if len(classes) == 2 else "multiclass", classes


def check_range(name: str, target: np.ndarray) -> None:
    """DataError for a numeric target of one value, that is too large, or whose values are too close
    together, for squared errors to stay numbers. Nine models of all families computed at both
    bounds."""
    low, high = float(target.min()), float(target.max())
    if low == high:
        raise DataError(f"target {name!r} has one value in all rows: nothing to learn")
    size = max(abs(low), abs(high))
    spread = float(np.std(target)) if size <= LARGEST else LARGEST
    if size > LARGEST or spread < SMALLEST:
        rule = f"at most {LARGEST:g} in size, with a spread of at least {SMALLEST:g}"
        raise DataError(
            f"target {name!r} has numbers from {low:g} to {high:g}; {rule}, is needed, as squared "
            "errors of others are no numbers: predict its logarithm, or use another unit"
        )


def same_as_target(column: pd.Series, target: np.ndarray, task: str) -> bool:
    """Whether a feature equals the target: the same numbers, or the same classes renamed."""
    if column.isna().any():
        return False
    if task == "regression" and column.dtype == np.float64:
        return bool(np.array_equal(column.to_numpy(), target))
    codes = pd.factorize(column)[0]
    pairs = len(np.unique(np.stack([codes, target]), axis=1).T)
    return task != "regression" and pairs == len(np.unique(codes)) == len(np.unique(target))


def check_columns(path: Path, reading: Reading, columns: Iterable[str]) -> None:
    """DataError for a column that is not there, one with two roles, and an unknown task."""
    known = list(columns)
    if reading.task is not None and reading.task not in TASKS:
        raise DataError(f"unknown task {reading.task!r}; {suggest(reading.task, TASKS)}")
    roles = {reading.target: "the target"} if reading.target else {}
    single = {"group": reading.group, "time": reading.time, "weight": reading.weight}
    several = dict.fromkeys(reading.drop, "left out")
    for column, role in [
        *((column, f"the {role} column") for role, column in single.items() if column),
        *several.items(),
    ]:
        if column in roles:
            raise DataError(f"column {column!r} cannot be {roles[column]} and {role} as well")
        roles[column] = role
    for name in (*reading.categorical, *reading.numeric):
        if name in reading.categorical and name in reading.numeric:
            raise DataError(f"column {name!r} cannot be categorical and numeric")
    for name in (*roles, *reading.categorical, *reading.numeric):
        if name not in known:
            raise DataError(f"{path.name} has no column {name!r}; {suggest(name, known)}")
    if reading.group and reading.time:
        raise DataError(GROUP_OR_TIME)
    if len(roles) == len(known):
        others = len(roles) > 1
        raise DataError(
            f"{path.name} has {'no feature left' if others else 'the target alone, and no feature'}"
        )


def group_codes(cells: Cells, name: str, marks: Collection[str] = ()) -> np.ndarray:
    """(N,) a number for each group, in the order of the file. Where all cells are numbers, "17" and
    "17.0" are one group; numbers with leading zeros, and those of which one is written as 1.1 and
    as 1.10, are texts. DataError for a missing group."""
    column = cells.frame[name]
    found = read_numbers(column, cells.delimiter, marks)
    if found.missing.any():
        first = int(np.argmax(found.missing))
        raise DataError(
            f"group column {name!r} is missing in {found.missing.sum()} rows, first on "
            f"{cells.where(first)}; fill it or remove these rows"
        )
    coded = leading_zeros(column) or two_spellings(column)
    plain = not (coded or found.style or np.isnan(found.values).any())
    numbers = plain and exact_as_floats(column, found.values)
    return pd.factorize(found.values if numbers else column)[0].astype(np.int64)


def row_weights(cells: Cells, name: str, notes: Notes, marks: Collection[str] = ()) -> np.ndarray:
    """(N,) how much each row counts; noted. DataError for a weight that is missing, no number,
    infinite or below 0, and where all are 0."""
    column = cells.frame[name]
    found = read_numbers(column, cells.delimiter, marks)
    values = found.values
    wrong = ~np.isfinite(values) | (values < 0)
    if wrong.any():
        first = int(np.argmax(wrong))
        shown = "missing" if found.missing[first] else repr(one_line(column.iloc[first], 40))
        raise DataError(
            f"weight column {name!r}: on {cells.where(first)} it is {shown}, as {wrong.sum()} rows "
            "in all are no weights; a weight is a number of at least 0"
        )
    if not values.any():
        raise DataError(f"weight column {name!r} is 0 in all rows: no row counts")
    if found.style:
        notes.styles.setdefault(found.style, {})[name] = found
    notes.sentences.append(
        f"rows count by column {name!r} ({values.min():g} to {values.max():g}, mean "
        f"{values.mean():.3g}) in fits and in every validation and test score"
    )
    if not USUAL_WEIGHTS[0] <= values.mean() <= USUAL_WEIGHTS[1]:
        notes.sentences.append(
            f"weights of column {name!r} have the mean {values.mean():.3g}, and are taken as "
            "counts of equal rows: penalties, and least weights of a leaf (min_child_weight), "
            "weigh more beside small weights and less beside large ones; if only their relation "
            "is meant, divide the column by its mean"
        )
    return values


def table_from_cells(path: Path, cells: Cells, reading: Reading, name: str) -> Table:
    """The table that `reading` makes of the cells of the file `path`; see `table_from_file`."""
    check_columns(path, reading, cells.frame.columns)
    notes = Notes(list(cells.notices))
    codes, task, classes = encode_target(cells, reading, notes)
    aside = {reading.target, reading.group, reading.time, reading.weight, *reading.drop}
    kept = [column for column in cells.frame.columns if column not in aside]
    frame = pd.DataFrame({column: feature(column, cells, reading, notes) for column in kept})
    marks = reading.missing
    weights = row_weights(cells, reading.weight, notes, marks) if reading.weight else None
    doubtful_points(cells, notes)
    for column in frame.columns:
        if same_as_target(frame[column], codes, task):
            raise DataError(
                f"column {column!r} is the target {reading.target!r} itself, perhaps by other "
                "names; leave it out (--drop) or remove it from the file"
            )
    digest = hashlib.sha256(path.read_bytes())
    digest.update(f"|{task}|{reading.target}|".encode())
    digest.update(content_sha256(frame, codes, classes).encode())
    if weights is not None:
        digest.update(f"|weight {reading.weight}|".encode() + weights.astype("<f8").tobytes())
    groups = group_codes(cells, reading.group, marks) if reading.group else None
    times = None
    if reading.time:
        times = read_times(cells.frame[reading.time], cells.delimiter, cells.where, marks)
    return Table(
        name,
        frame,
        codes,
        task,
        classes,
        digest.hexdigest(),
        warnings=tuple(notes.all()),
        groups=groups,
        times=times,
        weights=weights,
        styles={
            column: style
            for style, columns in notes.styles.items()
            for column in columns
            if column in frame.columns
        },
    )


def table_from_file(path: str | Path, reading: Reading, *, name: str | None = None) -> Table:
    """The table in a file; `reading` names the column to predict and what else is known of it.

    Files are CSV with a header (UTF-8, UTF-16, Latin-1 or Windows-1252; fields separated by comma,
    semicolon, tab or bar), Parquet, Arrow and Feather, also compressed (gzip, bzip2, xz, zip).
    MISSING lists the cells that count as missing. Columns of numbers are numeric, others
    categorical. No row is ever dropped: what cannot be used raises a DataError that names the line
    or column; doubtful decisions are listed in the table's `warnings`.
    """
    path = Path(path)
    if reading.task is not None and reading.task not in TASKS:
        raise DataError(f"unknown task {reading.task!r}; {suggest(reading.task, TASKS)}")
    cells = read_file(path)
    return table_from_cells(path, cells, reading, slug(name or path.stem))


def slug(text: str) -> str:
    """A file's name as that of a table.

    >>> slug("My houses (2)")
    'my-houses-2'
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:60] or "csv"


def table_from_csv(
    path: str | Path, target: str, *, task: str | None = None, name: str | None = None
) -> Table:
    """The table in a file with the column `target` to predict: `table_from_file`."""
    return table_from_file(path, Reading(target, task), name=name)
