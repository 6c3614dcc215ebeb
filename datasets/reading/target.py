"""The target of a user's file: its task, its values or classes, and what a class costs."""

from __future__ import annotations

import json
from collections.abc import Collection
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd

from ...common.columns import kinds
from ...common.columns.kinds import duration_kind, is_reading, negative_notes
from ...common.columns.levels import level_notes
from ...common.columns.numbers import (
    Numbers,
    as_float,
    is_missing,
    leading_zeros,
    read_numbers,
    two_spellings,
)
from ...common.counting import count
from ...common.text import first_few, nearest, one_line, suggest
from ..errors import DataError
from ..table import categorical_column
from .cells import Cells
from .columns import Notes, Reading
from .levels import category_of, joined, levels, two_texts

MAX_CLASSES_GUESSED = 20
MAX_CLASSES_DOUBTED = 100  # up to which whole numbers that are read as amounts may be classes
SMALL_CLASS = 10  # rows; fewer than the folds of the usual protocol
LARGEST, SMALLEST = 1e30, 1e-30  # of a numeric target: size at most, spread at least
SAME_TO_TREES = 1e-7  # they make a leaf where the variance is below 2.2e-16
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


def dates_as_classes(labels: pd.Series, name: str) -> list[str]:
    """A note that the texts (N,) of a target are dates and taken as classes; [] where they are no
    dates. DataError for more dates than MAX_CLASSES_GUESSED."""
    if kinds.kind_of(labels, day_first=True).word != kinds.DATE:  # in either order they are dates
        return []
    if (n := labels.nunique()) > MAX_CLASSES_GUESSED:
        raise DataError(
            f"target {name!r} holds dates, such as {labels.iloc[0]!r}, which no model predicts: "
            "make numbers of them, such as the days since one, or say task 'classification'"
        )
    return [f"target {name!r} has {n} dates; taken as classes"]


def guess_task(cells: pd.Series, numbers: np.ndarray, name: str, warnings: list[str]) -> str:
    """'regression' for fractions and for many distinct whole numbers, else 'classification'.
    Numbers with leading zeros are classes where texts would be; so are few fractions of which one
    is written in two ways.

    DataError where most of the texts differ, so that they are no classes, and for many dates.
    """
    n_distinct = cells.nunique()
    few = n_distinct <= max(MAX_CLASSES_GUESSED, len(cells) / 2)
    if np.isnan(numbers).any():
        warnings += dates_as_classes(cells, name)
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
        if whole and n_distinct <= min(MAX_CLASSES_DOUBTED, len(cells) / SMALL_CLASS):
            warnings.append(
                f"target {name!r} has {n_distinct} whole numbers; taken as amounts: say task"
                " 'classification' if they are classes"
            )
        return "regression"
    if not whole:
        return "classification" if two_spellings(cells) else "regression"
    if n_distinct > 2:
        warnings.append(
            f"target {name!r} has {n_distinct} whole numbers; taken as classes: say task"
            " 'regression' if they are amounts"
        )
    return "classification"


def stated_task(cells: Cells, reading: Reading) -> str:
    """The task that is said of the target, by its name or by its kind; "" for none."""
    told = {kinds.NUMBER: "regression", kinds.CATEGORY: "classification"}
    name = str(reading.target)
    return reading.task or told.get(reading.stated(name) or cells.kinds.get(name, ""), "")


def target_numbers(cells: Cells, reading: Reading) -> Numbers:
    """The numbers of the target, seconds where it holds durations; see `read_numbers`."""
    name, column = str(reading.target), cells[str(reading.target)]
    if cells.are_levels(name) and stated_task(cells, reading) != "regression":
        gaps = category_of(cells, name, reading).missing
        return Numbers(np.full(len(gaps), np.nan), gaps)
    found = read_numbers(column, cells.delimiter, reading.missing)
    if found.n_numbers or found.n_present == 0 or stated_task(cells, reading) not in _AMOUNTS:
        return found
    durations = duration_kind(column, found.missing)
    return durations.numbers if durations and durations.numbers else found


_AMOUNTS = ("", "regression")


def refuse_odd(cells: Cells, found: Numbers, name: str, task: str, notes: Notes) -> None:
    """DataError for a target of which most cells are numbers and some are not; a note where these
    are so many that it has classes, unless `task` says otherwise."""
    column = cells[name]
    first, n_odd = int(np.argmax(found.odd)), int(found.odd.sum())
    shown = f"{one_line(column.iloc[first], 40)!r} on {cells.where(first)}"
    if task == "regression" or is_reading(column, found.odd, found.missing):
        raise DataError(
            f"target {name!r} mixes {found.n_numbers} numbers and {count(n_odd, 'text')}: {shown} "
            "is no number; a regression needs numbers: --drop-missing-target leaves such rows out, "
            "--task classification takes all as classes"
        )
    if found.n_numbers > found.n_present / 2:
        notes.sentences.append(
            f"target {name!r} mixes {found.n_numbers} numbers and {count(n_odd, 'text')} "
            f"({shown}); taken as classes: say task 'regression' if they are amounts"
        )


def encode_target(
    cells: Cells, reading: Reading, notes: Notes
) -> tuple[np.ndarray, str, tuple[str, ...]]:
    """(target (N,), task, classes); DataError where cells are missing or do not fit the task, and
    for numbers that are too large or too close together for their squares to be numbers."""
    name, task = str(reading.target), reading.task
    column = cells[name]
    found = target_numbers(cells, reading)
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
    stated = stated_task(cells, reading)
    if found.odd.any() and stated in ("", "regression"):
        refuse_odd(cells, found, name, stated, notes)
    chosen = task or stated or guess_task(column, numbers, name, notes.sentences)
    if chosen == "regression":
        notes.add_style(name, found)
        notes.sentences.extend(negative_notes(f"target {name!r}", found))
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
    known = joined(levels(column, category_of(cells, name, reading)), name, reading, notes)
    coded = categorical_column(known)
    classes = tuple(coded.cat.categories)
    notes.sentences.extend(level_notes(f"target {name!r}", classes, "classes"))
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
    sizes = dict(zip(classes, np.bincount(codes).tolist(), strict=True))
    large = [label for label, n in sizes.items() if n >= SMALL_CLASS and label.isalpha()]
    small = {label: n for label, n in sizes.items() if n < SMALL_CLASS}
    alike = {label: nearest(label, large) for label in small if label.isalpha()}
    others = [f"{one_line(label, 40)!r} {n}" for label, n in small.items() if not alike.get(label)]
    for label, n in small.items():
        like = alike.get(label)
        if like or len(others) == 1:
            notes.sentences.append(
                f"class {one_line(label, 40)!r} has {count(n, 'row')}, fewer than {SMALL_CLASS} "
                "folds: some folds test or train without it"
                + (f"; if it is {one_line(like, 40)!r} misspelt, correct the file" if like else "")
            )
    if len(others) > 1:
        notes.sentences.append(
            f"target {name!r}: {len(others)} classes have fewer rows than {SMALL_CLASS} folds "
            f"({first_few(others, 3)}): some folds test or train without them"
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


def without_target(cells: Cells, reading: Reading) -> np.ndarray:
    """(N,) which rows have no target."""
    column = cells[str(reading.target)]
    found, task = target_numbers(cells, reading), stated_task(cells, reading)
    amounts = task == "regression" or is_reading(column, found.odd, found.missing)
    if task in _AMOUNTS and amounts and found.n_numbers:
        return found.missing | np.isinf(found.values) | found.odd
    if found.n_numbers == found.n_present or cells.are_levels(str(reading.target)):
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
