"""How do the bytes of a source become a table? One small function per format."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from .card import Card
from .errors import DataError, one_line, suggest
from .table import Table, categorical_column, content_sha256

Masks = tuple[tuple[np.ndarray, np.ndarray], ...]
Parsed = tuple[pd.DataFrame, np.ndarray, tuple[str, ...], Masks, tuple[str, ...]]


def read_numbers(path: Path, *, delimiter: str | None) -> np.ndarray:  # -> (N, columns)
    """A headerless file of finite numbers; blanks and tabs separate where `delimiter` is None."""
    try:
        numbers = np.loadtxt(path, delimiter=delimiter, ndmin=2, dtype=np.float64)
    except ValueError as error:
        raise DataError(f"{path.name}: {one_line(error)}") from None
    if not np.isfinite(numbers).all():
        row = int(np.flatnonzero(~np.isfinite(numbers).all(axis=1))[0])
        raise DataError(f"{path.name}: row {row} has a missing or infinite number")
    return numbers


def ranks(column: np.ndarray) -> np.ndarray:
    """Each value's place among the distinct values of its column, from 0.

    >>> ranks(np.array([0.5, -1.0, 0.5]))
    array([1, 0, 1])
    """
    return np.unique(column, return_inverse=True)[1].reshape(-1)


def stand_apart(numbers: np.ndarray, part: np.ndarray) -> bool:
    """Whether `part` (a mask of rows) shares no value with the other rows in any column.

    Columns of one table share values as soon as they have few; when none does, the two parts were
    scaled separately and the same number means different things in them.
    """
    if not part.any() or part.all():
        return False
    return not any(np.isin(column[part], column[~part]).any() for column in numbers.T)


def frame_of(columns: Mapping[str, np.ndarray], categorical: tuple[str, ...]) -> pd.DataFrame:
    """Numbers as a frame in which the columns named in `categorical` are categories."""
    return pd.DataFrame(
        {
            name: categorical_column(values) if name in categorical else values.astype(np.float64)
            for name, values in columns.items()
        }
    )


def parse_whitespace(card: Card, files: Mapping[str, Path]) -> Parsed:
    """One file of numbers without header; the last column is a regression target."""
    numbers = read_numbers(files["data"], delimiter=None)
    if numbers.shape[1] != len(card.columns) + 1:
        raise DataError(
            f"{card.name}: {numbers.shape[1]} columns in the file, {len(card.columns)} features"
            " and a target in the card"
        )
    columns = dict(zip(card.columns, numbers.T, strict=False))
    return frame_of(columns, card.categorical), numbers[:, -1].copy(), (), (), ()


def parse_coded(card: Card, files: Mapping[str, Path]) -> Parsed:
    """Four headerless files: features, class codes, and the masks of stored splits.

    Every feature is a standardised number, categories included; a categorical column is coded by
    ranking its distinct values. The option `part_from_row` names the first row of a second part
    that was standardised on its own: there, categories are ranked within each part, and numeric
    columns stay as they are because their common scale cannot be had back.
    """
    numbers = read_numbers(files["features"], delimiter=",")
    labels = read_numbers(files["labels"], delimiter=",")
    tests = read_numbers(files["test_masks"], delimiter=",")
    vals = read_numbers(files["val_masks"], delimiter=",")
    n_rows = len(numbers)
    for role, array in (("labels", labels), ("test_masks", tests), ("val_masks", vals)):
        if len(array) != n_rows:
            raise DataError(f"{card.name}: {n_rows} rows of features, {len(array)} of {role}")
    if tests.shape != vals.shape or not np.isin(np.hstack([tests, vals]), (0, 1)).all():
        raise DataError(f"{card.name}: the masks are not two equal sets of 0/1 columns")
    if numbers.shape[1] != len(card.columns):
        raise DataError(
            f"{card.name}: {numbers.shape[1]} features in the file, {len(card.columns)} in the card"
        )
    target = labels[:, 0].astype(np.int64)
    if (target != labels[:, 0]).any() or set(target) != set(range(card.n_classes)):
        raise DataError(f"{card.name}: class codes are not 0..{card.n_classes - 1}, all in use")

    second = np.zeros(n_rows, dtype=bool)
    warnings: tuple[str, ...] = ()
    if "part_from_row" in card.options:
        start = int(card.options["part_from_row"])
        second[start:] = True
        if not stand_apart(numbers, second):
            raise DataError(f"{card.name}: part_from_row = {start}, but the parts share values")
    apart = {int(k) for k in range(tests.shape[1]) if stand_apart(numbers, tests[:, k] == 1)}
    if apart:
        warnings = (
            f"parts-standardised-apart: in the source, the test part of stored split"
            f" {', '.join(map(str, sorted(apart)))} shares no value with the other rows in any of"
            f" the {numbers.shape[1]} columns; categories are ranked within each part, numeric"
            " columns keep two scales",
        )
    columns: dict[str, np.ndarray] = {}
    for name, column in zip(card.columns, numbers.T, strict=True):
        if name in card.categorical:
            coded = np.empty(n_rows, dtype=np.int64)
            for part in (second, ~second):
                coded[part] = ranks(column[part])
            column = coded
        columns[name] = column
    masks = tuple((t == 1, v == 1) for t, v in zip(tests.T, vals.T, strict=True))
    classes = tuple(str(code) for code in range(card.n_classes))
    return frame_of(columns, card.categorical), target, classes, masks, warnings


def parse_bundled(card: Card, files: Mapping[str, Path]) -> Parsed:
    """A dataset that scikit-learn carries with it; needs no file."""
    from sklearn import datasets

    loader = getattr(datasets, f"load_{card.options['loader']}")
    bunch: Any = loader(**card.options.get("arguments", {}))
    names = [re.sub(r"\W+", "_", str(name)).strip("_") for name in bunch.feature_names]
    columns = dict(zip(names, np.asarray(bunch.data, dtype=np.float64).T, strict=True))
    categorical = tuple(card.options.get("categorical", ()))
    for name in categorical:
        if name not in columns:
            raise DataError(f"{card.name}: unknown column {name!r}; {suggest(name, columns)}")
    frame = frame_of(columns, categorical)
    if card.task == "regression":
        return frame, np.asarray(bunch.target, dtype=np.float64), (), (), ()
    classes = tuple(str(label) for label in bunch.target_names)
    return frame, np.asarray(bunch.target, dtype=np.int64), classes, (), ()


_PARSERS = {"whitespace": parse_whitespace, "coded": parse_coded, "bundled": parse_bundled}


def parse(card: Card, files: Mapping[str, Path]) -> Table:
    """The table of `card` from its files (role -> path); DataError where they do not fit it."""
    import hashlib

    frame, target, classes, masks, warnings = _PARSERS[card.parser](card, files)
    found = (len(frame), frame.shape[1], len(classes))
    stated = (card.n_rows, card.n_features, card.n_classes)
    if found != stated:
        raise DataError(
            f"{card.name}: {found} rows, features and classes were read, the card says {stated}"
        )
    digest = hashlib.sha256(card.meaning_sha256.encode())
    for file in sorted(card.files, key=lambda f: f.role):
        digest.update(f"{file.role}={file.sha256};".encode())
    digest.update(content_sha256(frame, target, classes).encode())
    for test, val in masks:
        digest.update(np.packbits(test).tobytes() + np.packbits(val).tobytes())
    return Table(card.name, frame, target, card.task, classes, digest.hexdigest(), masks, warnings)
