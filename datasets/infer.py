"""Tables from a user's file: kinds of columns, task and classes are inferred."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..common.columns import kinds
from ..common.columns.dates import DateError, parsed
from ..common.columns.encoder import text_column
from ..common.columns.kinds import Kind, NotOfKind, kind_of, leading_zeros
from ..common.columns.numbers import (
    GROUPED_BY_POINT,
    MISSING,
    Numbers,
    as_float,
    exact_as_floats,
    is_missing,
    read_numbers,
    two_spellings,
)
from ..common.text import one_line, slug, suggest
from .errors import DataError
from .probes import same_classes
from .reading.cells import Cells, read_file
from .reading.columns import Notes, Problems, Reading, column_problems
from .reading.times import read_times
from .table import Table, categorical_column, content_sha256

__all__ = ["MISSING", "DataError", "Reading", "table_from_file"]

MAX_CLASSES_GUESSED = 20
SMALL_CLASS = 10  # rows; fewer than the folds of the usual protocol
USUAL_WEIGHTS = 0.1, 10.0  # mean weight of a row from and to which nothing is said of the scale
LARGEST, SMALLEST = 1e30, 1e-30  # of a numeric target: size at most, spread at least
SAME_TO_TREES = 1e-7  # they make a leaf where the variance is below 2.2e-16


def feature(
    name: str, cells: Cells, reading: Reading, notes: Notes
) -> tuple[Kind, pd.Series | np.ndarray | None]:
    """(kind of a column, its values as a `Table` holds them, or None if it is left out).

    The kind is guessed (`common/columns/kinds.py`), unless `reading` or the file states it.
    Infinite numbers count as missing, which is noted. DataError for a cell that is not of the
    stated kind, and for dates in several forms.
    """
    column = cells.frame[name]
    stated = reading.stated(name) or cells.kinds.get(name, "")
    how = {"delimiter": cells.delimiter, "marks": reading.missing, "day_first": reading.day_first}
    try:
        kind = kind_of(column, stated=stated, **how)  # type: ignore[arg-type]
    except NotOfKind as error:
        raise DataError(
            f"column {name!r}: {one_line(column.iloc[error.row], 40)!r} on "
            f"{cells.where(error.row)} {error}; say that it is categorical, or that this text "
            "marks a missing value"
        ) from None
    except DateError as error:
        raise DataError(f"column {name!r}: {error}") from None
    notes.sentences.extend(kind.notes)
    if kind.word == kinds.ID:
        return kind, None
    present = column.where(~kind.missing, None)
    if kind.word == kinds.DATE:
        return kind, parsed(present, kind.style)
    if kind.word == kinds.TEXT:
        return kind, text_column(present.astype(object).tolist())
    if kind.word == kinds.CATEGORY:
        return kind, categorical_column(levels(column, kind))
    numbers = kind.numbers
    assert numbers is not None
    notes.add_style(name, numbers)
    infinite = np.isinf(numbers.values)
    if infinite.any():
        notes.sentences.append(
            f"column {name!r}: {infinite.sum()} infinite values count as missing"
        )
    return kind, np.where(infinite, np.nan, numbers.values)


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


EXTREME_SHARE, EXTREME_SQUARES, FEW_TARGETS = 0.001, 0.9, 20


def extreme_targets(values: np.ndarray, name: str, notes: Notes) -> None:
    """Note values that decide RMSE and R2 alone: a thousandth of the rows (one at least) with 90 %
    of all squared distances to the median."""
    if len(values) < FEW_TARGETS or values.min() == values.max():
        return
    middle, low, high = float(np.median(values)), float(values.min()), float(values.max())
    far = np.sort(np.square((values - middle) / max(high - middle, middle - low)))
    n = max(1, round(EXTREME_SHARE * len(values)))
    if far[-n:].sum() > EXTREME_SQUARES * far.sum():
        notes.sentences.append(
            f"target {name!r} has extreme values: its median is {middle:.6g}, it reaches from "
            f"{low:.6g} to {high:.6g}, and {n} of {len(values)} rows decide RMSE and R2; look "
            "whether they are mistakes, compare by MAE, or learn ranks (--target-transform rank)"
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


def levels(column: pd.Series, kind: Kind, *, styled: bool = False) -> pd.Series:
    """The values by which categories, classes and groups are told apart, None where missing.

    They are numbers where all cells are plain numbers, so that "17" is "17.0"; with `styled` also
    where they are written in another style, so that "1,000" is "1000". They are the texts of the
    cells elsewhere, and where float64 takes two different numbers for one."""
    numbers, found = kind.numbers, column
    if numbers is not None and (styled or not numbers.style):
        found = pd.Series(numbers.values) if exact_as_floats(column, numbers.values) else column
    return found.astype(object).where(~kind.missing, None)


def two_texts(column: pd.Series, found: Numbers) -> tuple[str, str] | None:
    """Two texts of a column that are one number but two levels, such as "$1" and "$1.0", or
    None."""
    if not found.style:
        return two_spellings(column)
    new, first = ~column.duplicated().to_numpy(), dict[float, str]()
    for text, number in zip(column[new], found.values[new], strict=True):
        if first.setdefault(number, text) != text:
            return first[number], text
    return None


def encode_target(
    cells: Cells, reading: Reading, notes: Notes
) -> tuple[np.ndarray, str, tuple[str, ...]]:
    """(target (N,), task, classes); DataError where cells are missing or do not fit the task, and
    for numbers that are too large or too close together for their squares to be numbers."""
    name, task = str(reading.target), reading.task
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
            f" {cells.where(first)}{said}; --drop-missing-target leaves these rows out"
        )
    told = {kinds.NUMBER: "regression", kinds.CATEGORY: "classification"}
    stated = told.get(reading.stated(name) or cells.kinds.get(name, ""))
    chosen = task or stated or guess_task(column, numbers, name, notes.sentences)
    if chosen == "regression":
        notes.add_style(name, found)
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
    pair = two_texts(column, found) if not np.isnan(numbers).any() else None
    if pair:
        notes.sentences.append(
            f"target {name!r}: {pair[0]!r} and {pair[1]!r} are taken as two classes; write them "
            "alike if they are one, or say task 'regression' if they are amounts"
        )
    coded = categorical_column(levels(column, category_of(cells, name, reading)))
    classes = tuple(coded.cat.categories)
    if len(classes) < 2:
        raise DataError(f"target {name!r} has one value in all rows: nothing to learn")
    if chosen == "binary" and len(classes) > 2:
        raise DataError(f"target {name!r} has {len(classes)} classes, task 'binary' needs two")
    if chosen == "multiclass" and len(classes) == 2:
        raise DataError(f"target {name!r} has two classes; say task 'binary'")
    if reading.positive is not None:
        last = _class_named(reading.positive, classes, name)
        classes = (*(label for label in classes if label != last), last)
        coded = coded.cat.reorder_categories(classes)
    codes = coded.cat.codes.to_numpy().astype(np.int64)
    for label, count in zip(classes, np.bincount(codes), strict=True):
        if count < SMALL_CLASS:
            notes.sentences.append(
                f"class {one_line(label, 40)!r} has {count} rows, fewer than {SMALL_CLASS} folds:"
                " some folds test or train without it"
            )
    return codes, "binary" if len(classes) == 2 else "multiclass", classes


def _class_named(label: str, classes: Collection[str], target: str) -> str:
    if label not in classes:
        raise DataError(f"target {target!r} has no class {label!r}; {suggest(label, classes)}")
    return label


def _pairs_named(label: str, classes: tuple[str, ...]) -> list[tuple[str, str]]:
    """The pairs of classes that "CLASS:OTHER", where classes may have colons, or a JSON list of the
    two can mean."""
    parts = label.split(":")
    pairs: list[Any] = [(":".join(parts[:i]), ":".join(parts[i:])) for i in range(1, len(parts))]
    if label.startswith("["):
        with suppress(ValueError, RecursionError):
            pairs.append(json.loads(label))
    return [tuple(p) for p in pairs if len(p) == 2 and p[0] in classes and p[1] in classes]


def costs_of(reading: Reading, classes: tuple[str, ...]) -> tuple[tuple[float, ...], ...]:
    """(C, C) the cost matrix of `reading`, see `Table`; () where nothing is said. What is said of
    two classes counts before what is said of one; what is the name of one class is not read as two.
    DataError for a class that is none."""
    of_rows, of_pairs = dict.fromkeys(classes, 1.0), dict[tuple[str, str], float]()
    for said in reading.costs:
        label, _, number = said.rpartition("=")
        pairs = [] if label in classes else _pairs_named(label, classes)
        if len(pairs) > 1:
            raise DataError(
                f"cost {said!r} names two classes of target {reading.target!r} in two ways; write "
                f"{json.dumps(pairs[0])} or {json.dumps(pairs[1])} before the ="
            )
        if pairs:
            of_pairs[pairs[0]] = as_float(number)
        else:
            of_rows[_class_named(label, classes, str(reading.target))] = as_float(number)
        if not 0 <= as_float(number) < np.inf:
            raise DataError(
                f"cost {said!r} is not CLASS=NUMBER or CLASS:OTHER=NUMBER with a number of at "
                "least 0"
            )
    matrix = {(i, j): of_rows[i] * (i != j) for i in classes for j in classes} | of_pairs
    return tuple(tuple(matrix[i, j] for j in classes) for i in classes) if reading.costs else ()


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
    """Whether a feature is the target: the same numbers, or the same classes by other names."""
    if column.isna().any():
        return False
    if task == "regression" and column.dtype == np.float64:
        return bool(np.array_equal(column.to_numpy(), target))
    return task != "regression" and same_classes(pd.factorize(column)[0], target)


def category_of(cells: Cells, name: str, reading: Reading) -> Kind:
    """The kind of a column that is a category, whatever it looks like."""
    column, marks = cells.frame[name], reading.missing
    return kind_of(column, stated=kinds.CATEGORY, delimiter=cells.delimiter, marks=marks)


def group_codes(cells: Cells, name: str, reading: Reading) -> np.ndarray:
    """(N,) a number for each group, in the order of the file; see `levels`. DataError for a missing
    group."""
    kind = category_of(cells, name, reading)
    if kind.missing.any():
        raise DataError(
            f"group column {name!r} is missing in {kind.missing.sum()} rows, first on "
            f"{cells.where(int(np.argmax(kind.missing)))}; fill it or remove these rows"
        )
    return pd.factorize(levels(cells.frame[name], kind, styled=True))[0].astype(np.int64)


def row_weights(cells: Cells, reading: Reading, notes: Notes) -> np.ndarray:
    """(N,) how much each row counts; noted. DataError for a weight that is missing, no number,
    infinite or below 0, and where all are 0."""
    name = str(reading.weight)
    column = cells.frame[name]
    found = read_numbers(column, cells.delimiter, reading.missing)
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
    notes.add_style(name, found)
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


def without_target(cells: Cells, reading: Reading) -> np.ndarray:
    """(N,) which rows have no target."""
    column = cells.frame[reading.target]
    found = read_numbers(column, cells.delimiter, reading.missing)
    if found.n_numbers == found.n_present:
        return found.missing | np.isinf(found.values)
    return is_missing(column, reading.missing)


def with_target(cells: Cells, reading: Reading, notes: Notes) -> Cells:
    """The cells; without the rows that have no target where `reading` says so, which is noted."""
    if not reading.drop_missing_target:
        return cells
    missing = without_target(cells, reading)
    if not missing.any() or missing.all():
        return cells
    notes.sentences.append(
        f"target {reading.target!r} is missing in {missing.sum()} of {len(missing)} rows, which "
        "are left out"
    )
    return cells.rows(~missing)


def table_from_cells(
    path: Path,
    cells: Cells,
    reading: Reading,
    name: str,
    problems: Problems | None = None,
    decided: dict[str, Kind] | None = None,
) -> Table:
    """The table that `reading` makes of the cells of the file `path`; see `table_from_file`.

    problems: where they are kept, and not raised. decided: gets the kind of each feature. With kept
    problems the table lacks what they are about; DataError where nothing is left of it.
    """
    problems = problems or Problems()
    problems.add(*column_problems(path.name, reading, cells.frame.columns))
    notes = Notes(list(cells.notices))
    cells = with_target(cells, reading, notes)
    target = problems.tried(encode_target, cells, reading, notes)
    codes, task, classes = target or (np.zeros(0), "", ())
    aside = {reading.target, reading.group, reading.time, reading.weight, *reading.drop}
    columns = {}
    decided = {} if decided is None else decided
    for column in cells.frame.columns:
        made = None
        if column not in aside:
            made = problems.tried(feature, column, cells, reading, notes)
        if made:
            decided[column], columns[column] = made
    frame = pd.DataFrame({name: values for name, values in columns.items() if values is not None})
    weights = groups = times = None
    if reading.weight is not None:
        weights = problems.tried(row_weights, cells, reading, notes)
    doubtful_points(cells, notes)
    if task == "regression":
        extreme_targets(codes, str(reading.target), notes)
    for column in frame.columns if task else ():
        if same_as_target(frame[column], codes, task):
            problems.add(
                f"column {column!r} is the target {reading.target!r} itself, perhaps by other "
                "names; leave it out (--drop) or remove it from the file"
            )
    if frame.columns.empty:
        problems.add(f"{path.name} has no feature left: {'; '.join(notes.all())}")
    if reading.group is not None:
        groups = problems.tried(group_codes, cells, reading.group, reading)
    if reading.time is not None:
        how = (cells.delimiter, cells.where, reading.missing, reading.day_first)
        times = problems.tried(read_times, cells.frame[reading.time], *how)
    if not task or frame.columns.empty:
        raise DataError(problems.kept[0])
    for given, flag in ((reading.positive is not None, "--positive"), (reading.costs, "--cost")):
        if given and not classes:
            problems.add(f"{flag} goes with classes, and the target {reading.target!r} has none")
    costs = problems.tried(costs_of, reading, classes) if classes else None
    digest = hashlib.sha256(path.read_bytes())
    digest.update(f"|{task}|{reading.target}|".encode())
    digest.update(content_sha256(frame, codes, classes).encode())
    if weights is not None:
        digest.update(f"|weight {reading.weight}|".encode() + weights.astype("<f8").tobytes())
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
        styles={name: kind.style for name, kind in decided.items() if kind.style},
        left_out=tuple(name for name, kind in decided.items() if kind.word == kinds.ID),
        costs=costs or (),
    )


def table_from_file(path: str | Path, reading: Reading, *, name: str | None = None) -> Table:
    """The table in a file; `reading` names the column to predict and what else is known of it.

    Files are CSV with a header (in any usual encoding; fields separated by comma, semicolon, tab or
    bar), Parquet, Arrow and Feather, also compressed (gzip, bzip2, xz, zip). MISSING lists the
    cells that count as missing. Columns are numbers, categories, dates or texts. What cannot be
    used raises a DataError that names the line or column; doubtful decisions, and identifiers that
    are left out, are listed in the table's `warnings`.
    """
    path = Path(path)
    return table_from_cells(path, read_file(path), reading, slug(name or path.stem)[:60] or "csv")
