"""Tables from the files of OpenML: columns by their declared kinds, and all folds of a task."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from ...common.columns.dates import parsed
from ...common.columns.encoder import text_column
from ...common.columns.kinds import DATE, TEXT, kind_of
from ...common.columns.plain import cells_of
from ...common.text import one_line, suggest
from ..card import Card
from ..errors import DataError
from ..reading.columnar import read_columnar
from ..table import Parsed, categorical_column
from ..table import kind_of as kind_of_dtype
from .arff import read_arff

TRAIN, VALIDATION, TEST = 0, 1, 2  # in the stored splits


@dataclass(frozen=True)
class Columns:
    """The columns of a file by name, numbers (float64, NaN) or texts (None where missing); the
    levels of the columns whose file lists them, in its order; the columns of dates and free texts,
    whose kind their cells decide."""

    values: Mapping[str, pd.Series]
    levels: Mapping[str, tuple[str, ...]]
    free: Collection[str] = ()


def read_columns(path: Path, where: str) -> Columns:
    """The columns of an ARFF or Parquet file of OpenML. `where` names it in errors (DataError)."""
    if path.suffix == ".parquet":
        names, columns, kinds, refused = read_columnar(path, "Parquet", where)
        if refused:
            raise DataError(next(iter(refused.values())))
        values = {name: cells_of(column, name) for name, column in zip(names, columns, strict=True)}
        values = {
            name: column if column.dtype == np.float64 else column.where(column != "", None)
            for name, column in values.items()
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
        [one.name for one in arff.attributes if one.kind in ("string", "date")],
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


def free_column(values: pd.Series, kind: str) -> pd.Series:
    """A column of dates or texts as a file of the user has it. kind: "" to find it; a column that
    is neither has categories."""
    cells = pd.Series(values.fillna(""), dtype=str).str.strip()
    try:
        found = kind_of(cells, stated=kind)
    except ValueError as error:
        if not kind:
            return feature(values, None)
        raise DataError(f"column {values.name!r} is no {kind}: {error}") from None
    present = values.where(~found.missing, None)
    if found.word == DATE:
        return parsed(present, found.style)
    if found.word == TEXT:
        return text_column(present.tolist())
    return feature(values, None)


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


def features_of(
    columns: Columns, names: Iterable[str], kinds: Mapping[str, str] | None = None
) -> pd.DataFrame:
    """The features `names` as a table has them. kinds: those that a card states; None to find the
    kind of dates and free texts."""
    found = {}
    for name in names:
        values = columns.values[name].rename(name)
        stated = "" if kinds is None else kinds.get(name, "")
        free = name in columns.free if kinds is None else stated in (DATE, TEXT)
        found[name] = (
            free_column(values, stated) if free else feature(values, columns.levels.get(name))
        )
    return pd.DataFrame(found)


def read_table(card: Card, data: Path, splits: Path) -> Parsed:
    """The table of a stored task and its folds. DataError where its files and card do not agree."""
    columns = read_columns(data, card.name)
    missing = [name for name in card.columns if name not in columns.values]
    if missing:
        raise DataError(f"{card.name}: its file has no column {missing[0]!r}, which its card names")
    target, classes = target_of(columns, card.target, card.task == "regression", card.name)
    frame = features_of(columns, card.columns, card.kinds)
    kinds = {str(name): kind_of_dtype(column.dtype) for name, column in frame.items()}
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
