"""`bench predict`: the predictions of a saved model for the rows of a CSV."""

from __future__ import annotations

import csv as csv_format
import io
import re
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ...common.files import write_atomically
from ...common.text import one_line
from ...datasets.infer import MISSING, as_numbers, check_size, read_cells
from ...models.persistence.model_file import load_model, warn_user
from ...models.persistence.schema import Column, Schema, SchemaError
from ...reports.output.escape import csv_text

NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
LEADING_ZERO = re.compile(r"[-+]?0\d+.*")


class FitError(Exception):
    """A model cannot be fitted or applied with these arguments; the message names a way."""


def predict_file(
    model: str | Path,
    csv: str | Path,
    out: str | Path,
    *,
    trust: Collection[str] = (),
    warn: Callable[[str], None] = warn_user,
) -> int:
    """Predict every row of a CSV and write them in its order to another; returns their number.

    The output has a column `prediction` and, for classes, `probability_<class>` each; it replaces
    `out` at once or not at all. warn: told of ignored columns, unseen categories, other library
    versions. trust: see `load_model`. Errors: ModelFileError, SchemaError, DataError, FitError.
    """
    path, target = Path(csv), Path(out)
    if target.is_dir() or not target.parent.is_dir():
        raise FitError(f"--out {one_line(target)} must be a file in a folder that is there")
    if target.exists() and any(target.samefile(p) for p in (path, Path(model)) if p.exists()):
        raise FitError(f"--out {one_line(target)} would replace what is read; name another file")
    fitted = load_model(model, trust=trust, warn=warn)
    frame = read_frame(path, fitted.schema, warn)
    try:
        ask = fitted.predict if fitted.schema.task == "regression" else fitted.predict_proba
        values = ask(frame, warn=warn)
    except Exception as error:  # a file may load and still be no model of this library's version
        raise FitError(
            f"{Path(model).name} cannot predict: {type(error).__name__}: {one_line(error)}"
        ) from error
    if values.ndim == 1:
        header = ["prediction"]
        lines: Iterable[list[str]] = ([number(v)] for v in values)
    else:
        labels = [label_cell(label) for label in fitted.labels]
        header = ["prediction", *(csv_text(f"probability_{label}") for label in fitted.labels)]
        best = values.argmax(axis=1)
        lines = (
            [labels[k], *map(number, row)] for k, row in zip(best, values.tolist(), strict=True)
        )
    wrong = int((~np.isfinite(values)).reshape(len(values), -1).any(axis=1).sum())
    if wrong:
        warn(f"{wrong} of {len(values)} predictions are NaN or infinite")
    text = io.StringIO()
    writer = csv_format.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(lines)
    try:
        write_atomically(target, text.getvalue().encode())
    except OSError as error:
        raise FitError(f"--out {one_line(target)}: {error.strerror}") from None
    return len(frame)


def number(value: Any) -> str:
    """The shortest text that reads back as the same number."""
    return repr(float(value))


def label_cell(label: Any) -> str:
    """A class in a cell: as it is where it is a number, else safe from spreadsheets."""
    text = str(label)
    return text if NUMBER.fullmatch(text) else csv_text(text)


def read_frame(path: Path, schema: Schema, warn: Callable[[str], None]) -> pd.DataFrame:
    """The columns that the model knows, from a CSV read as in training: numbers or categories."""
    check_size(path)
    cells, lines, delimiter = read_cells(path)
    schema.check_names(list(cells.columns), warn)
    parts = {
        column.name: numeric_cells(path, column, cells[column.name], lines, delimiter, warn)
        if column.kind == "numeric"
        else category_cells(column, cells[column.name])
        for column in schema.columns
    }
    return pd.DataFrame(parts)


def numeric_cells(
    path: Path,
    column: Column,
    cells: pd.Series,
    lines: list[int],
    delimiter: str,
    warn: Callable[[str], None],
) -> np.ndarray:
    """(N,) numbers, NaN where missing; SchemaError names the line of the first text."""
    numbers, missing = as_numbers(cells, delimiter)
    bad = np.flatnonzero(np.isnan(numbers) & ~missing)
    if len(bad):
        first = int(bad[0])
        raise SchemaError(
            f"{path.name}: column {column.name!r}: {one_line(cells.iloc[first], 40)!r} on line "
            f"{lines[first]} (row {first + 1}) is no number; the model was trained on numbers "
            f"there ({len(bad)} such cells)"
        )
    infinite = np.isinf(numbers)
    if infinite.any():
        warn(f"column {column.name!r}: {infinite.sum()} infinite values count as missing")
    return np.where(infinite, np.nan, numbers)


def category_cells(column: Column, cells: pd.Series) -> pd.Series:
    """Texts, None where missing; where the categories are numbers, 2.0 is the category 2."""
    known = {str(category): category for category in column.categories}

    def category(text: str) -> Any:
        if text in known:
            return known[text]
        if NUMBER.fullmatch(text) and not LEADING_ZERO.fullmatch(text):
            shortest = np.format_float_positional(float(text), trim="-")
            return known.get(shortest, text)
        return text

    kept = {text: category(text) for text in cells.unique() if text not in MISSING}
    return pd.Series([kept.get(text) for text in cells], dtype=object)
