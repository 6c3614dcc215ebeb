"""The predictions of a saved model for the rows of a file."""

from __future__ import annotations

import csv as csv_format
import io
import re
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ...common.columns.dates import NoMoment
from ...common.columns.numbers import NO_VALUE, is_missing, numbers_in_style
from ...common.counting import count
from ...common.files import write_atomically
from ...common.text import first_few, one_line
from ...datasets.reading.cells import Cells, read_file
from ...datasets.table import number_text
from ...models.library.columns import dates_of, unread_cells
from ...models.persistence.model_file import Fitted, load_model, warn_user
from ...models.persistence.schema import Column, Schema, SchemaError
from ...reports.output.escape import csv_text
from ...reports.statistics.conformal import interval as conformal
from ..errors import FitError, file_to_replace

MOSTLY_MISSING = 0.5  # share of the cells of a column from which on it is said
NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")


def predict_file(
    model: str | Path,
    csv: str | Path,
    out: str | Path,
    *,
    trust: Collection[str] = (),
    interval: float | None = None,
    only: Callable[[Cells], Cells] = lambda cells: cells,
    warn: Callable[[str], None] = warn_user,
) -> int:
    """Predict every row of a file, or of what `only` keeps of it, and write them in its order to a
    CSV; returns their number.

    The output has the columns that the model does not know, such as identifiers, then
    `prediction` and, for classes, `probability_<class>` each; it replaces `out` at once or not at
    all. interval: the share of targets between the columns `lower` and `upper` (split conformal, by
    the residuals in the file), for numbers. warn: told of unknown columns, unseen categories, other
    library versions. trust: see `load_model`. Errors: ModelFileError, SchemaError, DataError,
    FitError.
    """
    path, target = Path(csv), file_to_replace(Path(out))
    if target.exists() and any(target.samefile(p) for p in (path, Path(model)) if p.exists()):
        raise FitError(f"--out {one_line(target)} would replace what is read; name another file")
    fitted = load_model(model, trust=trust, warn=warn)
    ends = None if interval is None else interval_of(fitted, interval, Path(model).name)
    cells = only(read_file(path))
    for notice in cells.notices:
        warn(notice)
    told = fitted.about.get("missing", [])  # of a file that may come from elsewhere
    marks = [mark for mark in told if isinstance(mark, str)] if isinstance(told, list) else []
    frame = read_frame(cells, fitted.schema, marks, warn)
    try:
        ask = fitted.predict if fitted.schema.task == "regression" else fitted.predict_proba
        values = ask(frame, warn=warn)
        best = fitted.decided(values) if values.ndim == 2 else ()
    except Exception as error:  # a file may load and still be no model of this library's version
        raise FitError(
            f"{Path(model).name} cannot predict: {type(error).__name__}: {one_line(error)}"
        ) from error
    if values.ndim == 1:
        header = ["prediction", *(("lower", "upper") if ends else ())]
        added = (0.0, *(ends or ()))
        lines: Iterable[list[str]] = ([number(v + more) for more in added] for v in values)
    else:
        labels = [label_cell(label) for label in fitted.labels]
        header = ["prediction", *(csv_text(f"probability_{label}") for label in fitted.labels)]
        lines = (
            [labels[k], *map(number, row)] for k, row in zip(best, values.tolist(), strict=True)
        )
    wrong = int((~np.isfinite(values)).reshape(len(values), -1).any(axis=1).sum())
    if wrong:
        warn(f"{wrong} of {len(values)} predictions are NaN or infinite")
    beside = unknown_columns(cells, fitted.schema, header, warn)
    text = io.StringIO()
    writer = csv_format.writer(text, lineterminator="\n")
    writer.writerow([*map(csv_text, beside), *header])
    columns = [beside[name] for name in beside]
    writer.writerows([*(c[row] for c in columns), *line] for row, line in enumerate(lines))
    write_atomically(target, text.getvalue().encode())
    return len(frame)


def interval_of(fitted: Fitted, level: float, name: str) -> tuple[float, float]:
    """What is added to a prediction for the ends of its interval. FitError where the file has no
    residuals, or too few for the level."""
    residuals = np.array(fitted.about.get("residuals") or [], dtype=np.float64)
    if fitted.schema.task != "regression" or not len(residuals):
        raise FitError(f"{name} has no residuals: --interval is for regressions of bench fit")
    ends = conformal(residuals, level)
    if not np.isfinite(ends).all():
        raise FitError(f"{name} has {len(residuals)} residuals, too few for --interval {level:g}")
    return ends


def number(value: Any) -> str:
    """The shortest text that reads back as the same number."""
    return repr(float(value))


def label_cell(label: Any) -> str:
    """A class in a cell: as it is where it is a number, else safe from spreadsheets."""
    text = str(label)
    return text if NUMBER.fullmatch(text) else csv_text(text)


def unknown_columns(
    cells: Cells, schema: Schema, header: Collection[str], warn: Callable[[str], None]
) -> dict[str, list[str]]:
    """{name: cells as texts} of the columns that the model does not know, for the output. One with
    the name of a column of predictions (`header`) is left out."""
    names = [name for name in cells.columns if name not in set(schema.names)]
    taken = [name for name in names if name in header]
    if names:
        verb = "are" if len(names) > 1 else "is"
        many, shown = count(len(names), "column"), first_few(map(repr, names), 10)
        warn(f"{many} that the model does not know {verb} copied to the output: {shown}")
    if taken:
        warn(f"left out of the output, whose own columns have the name: {', '.join(taken)}")
    return {
        name: [text_cell(value) for value in cells[name]] for name in names if name not in taken
    }


def text_cell(value: Any) -> str:
    """A cell of the file as it is written: numbers in their shortest form, texts safe from
    spreadsheets."""
    if isinstance(value, float):
        return "" if np.isnan(value) else repr(value) if np.isinf(value) else number_text(value)
    return label_cell(value)


def read_frame(
    cells: Cells, schema: Schema, marks: Collection[str], warn: Callable[[str], None]
) -> pd.DataFrame:
    """The columns that the model knows, read as in training. marks: texts that stood for missing
    values there."""
    schema.check_names(list(cells.columns), lambda text: None)
    parts: dict[str, Any] = {}
    for column in schema.columns:
        texts = cells[column.name]
        if column.kind == "numeric":
            parts[column.name] = numeric_cells(column, cells, marks, warn)
        elif column.kind == "date":
            parts[column.name] = date_cells(column, cells, marks, warn)
        else:
            parts[column.name] = texts.astype(object).where(~is_missing(texts, marks), None)
        n_missing = int(is_missing(texts, marks).sum())
        if n_missing > MOSTLY_MISSING * len(texts) and column.style != NO_VALUE:
            warn(f"column {column.name!r}: {n_missing} of {len(texts)} cells are missing")
    return pd.DataFrame(parts)


def date_cells(
    column: Column, cells: Cells, marks: Collection[str], warn: Callable[[str], None]
) -> pd.Series:
    """(N,) datetimes, written as in the file of the training rows or as 2024-12-31; others are gaps
    with a warning. SchemaError names the line of the first, where they are more than half."""
    texts = cells[column.name]
    known = texts.astype(object).where(~is_missing(texts, marks), None)
    try:
        return dates_of(known, column.style, warn)
    except NoMoment as error:
        raise SchemaError(
            f"{cells.name}: column {column.name!r}: {one_line(known.iloc[error.row], 40)!r} on "
            f"{cells.where(error.row)} is no date; write dates like 2024-12-31"
        ) from None


def numeric_cells(
    column: Column, cells: Cells, marks: Collection[str], warn: Callable[[str], None]
) -> np.ndarray:
    """(N,) numbers, NaN for missing ones. They are read as in the training file, so that the
    reading of a row does not depend on the rows beside it; others are gaps with a warning.
    SchemaError names the line of the first, where they are more than half."""
    texts = cells[column.name]
    read = numbers_in_style(texts, column.style, marks)
    numbers = read.values
    bad = np.flatnonzero(np.isnan(numbers) & ~read.missing)
    if 0 < 2 * len(bad) <= read.n_present:
        known = f"numbers with {column.style}" if column.style else "plain numbers"
        warn(unread_cells(column.name, texts.to_numpy(dtype=object), read.odd, known))
    elif len(bad):
        first = int(bad[0])
        known = f"numbers with {column.style}" if column.style else "plain numbers"
        raise SchemaError(
            f"{cells.name}: column {column.name!r}: {one_line(texts.iloc[first], 40)!r} on "
            f"{cells.where(first)} (row {first + 1}) is no number; the model was trained on "
            f"{known} there ({count(len(bad), 'such cell')})"
        )
    if read.style:
        text, value = read.example
        warn(f"column {column.name!r}: {read.style}: {text!r} is read as {value:.15g}")
    infinite = np.isinf(numbers)
    if infinite.any():
        warn(f"column {column.name!r}: {infinite.sum()} infinite values count as missing")
    return np.where(infinite, np.nan, numbers)
