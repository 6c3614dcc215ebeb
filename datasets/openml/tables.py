"""Tables from the files of OpenML: columns by their declared kinds, and all folds of a task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from ...common.text import one_line, suggest
from ..card import Card
from ..errors import DataError
from ..reading.columnar import read_columnar
from ..table import Parsed, categorical_column
from .arff import read_arff

TRAIN, VALIDATION, TEST = 0, 1, 2  # in the stored splits


@dataclass(frozen=True)
class Columns:
    """The columns of a file by name, numbers (float64, NaN) or texts (None where missing); the
    levels of the columns whose file lists them, in its order."""

    values: Mapping[str, pd.Series]
    levels: Mapping[str, tuple[str, ...]]


def read_columns(path: Path, where: str) -> Columns:
    """The columns of an ARFF or Parquet file of OpenML. `where` names it in errors (DataError)."""
    if path.suffix == ".parquet":
        frame, kinds = read_columnar(path, "Parquet", where)
        values = {
            str(name): column if column.dtype == np.float64 else column.where(column != "", None)
            for name, column in frame.items()
        }
        for name, kind in kinds.items():
            if kind == "categorical" and values[name].dtype == np.float64:
                values[name] = pd.Series(categorical_column(values[name]), dtype=object)
        return Columns(values, {})
    arff = read_arff(path.read_bytes(), where)
    names = [one.name for one in arff.attributes]
    return Columns(
        {name: arff.frame[j] for j, name in enumerate(names)},
        {one.name: one.levels for one in arff.attributes if one.kind == "nominal"},
    )


def feature(values: pd.Series, levels: tuple[str, ...] | None) -> pd.Series:
    """A column of a table. Numbers stay numbers, infinite ones become missing values. Texts become
    categories, ordered as the file states, if it does. Levels without a row are left out."""
    if values.dtype == np.float64:
        return values.replace([np.inf, -np.inf], np.nan)
    used = set(values.dropna())
    order = [level for level in levels if level in used] if levels else None
    if order is not None and len(order) < len(used):
        strange = sorted(used - set(order))[0]
        raise DataError(
            f"column {values.name!r} has a value that its file does not list: {strange!r}"
        )
    return categorical_column(values.tolist(), order=order)


def target_of(
    columns: Columns, name: str, regression: bool, where: str
) -> tuple[np.ndarray, tuple[str, ...]]:
    """(codes or numbers (N,), classes) of the target. Raises DataError."""
    if name not in columns.values:
        raise DataError(f"{where}: no column {name!r}; {suggest(name, columns.values)}")
    values = columns.values[name].rename(name)
    if regression:
        if values.dtype != np.float64:
            raise DataError(f"{where}: the target {name!r} holds texts; a regression needs numbers")
        if not np.isfinite(values).all():
            n = int((~np.isfinite(values)).sum())
            raise DataError(f"{where}: the target {name!r} is missing or infinite in {n} rows")
        return values.to_numpy(dtype=np.float64), ()
    coded = feature(values, columns.levels.get(name))
    if coded.dtype == np.float64:
        coded = categorical_column(coded)
    codes = coded.cat.codes.to_numpy().astype(np.int64)
    if (codes < 0).any():
        raise DataError(f"{where}: the target {name!r} is missing in {(codes < 0).sum()} rows")
    classes = tuple(coded.cat.categories)
    if len(classes) < 2:
        raise DataError(f"{where}: the target {name!r} has one value in all rows")
    return codes, classes


def features_of(columns: Columns, names: Iterable[str]) -> pd.DataFrame:
    """The features `names` as a table has them."""
    return pd.DataFrame(
        {
            name: feature(columns.values[name].rename(name), columns.levels.get(name))
            for name in names
        }
    )


def read_table(card: Card, data: Path, splits: Path) -> Parsed:
    """The table of a stored task and its folds. DataError where its files and card do not agree."""
    columns = read_columns(data, card.name)
    missing = [name for name in card.columns if name not in columns.values]
    if missing:
        raise DataError(f"{card.name}: its file has no column {missing[0]!r}, which its card names")
    target, classes = target_of(columns, card.target, card.task == "regression", card.name)
    frame = features_of(columns, card.columns)
    kinds = {
        name: "numeric" if frame[name].dtype == np.float64 else "categorical" for name in frame
    }
    if kinds != card.kinds:
        odd = next(name for name in card.columns if kinds[name] != card.kinds[name])
        raise DataError(
            f"{card.name}: column {odd!r} is {kinds[odd]}, the card says {card.kinds[odd]}: the "
            "file decides; correct the card"
        )
    try:
        parts = np.load(splits)
    except (ValueError, OSError) as error:
        raise DataError(f"{card.name}: its splits cannot be read: {one_line(error)}") from None
    if parts.ndim != 2 or parts.shape[1] != len(target):
        raise DataError(f"{card.name}: splits of shape {parts.shape} for {len(target)} rows")
    masks = tuple((fold == TEST, fold == VALIDATION) for fold in parts)
    return frame, target, classes, masks, ()
