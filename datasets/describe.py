"""A description of a user's file: columns, kinds, marks of missing values, target, problems."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..common.text import one_line
from .infer import Notes, Reading, check_columns, feature, table_from_cells
from .passport import passport
from .protocols import make_folds
from .reading.cells import Cells
from .reading.numbers import is_missing, read_numbers
from .table import Table, is_categorical

SENTINELS = (-9.0, -99.0, -999.0, -9999.0, 99.0, 999.0, 9999.0, 99999.0)
SHOWN = 3  # categories of a column


def describe(path: Path, cells: Cells, reading: Reading) -> dict[str, Any]:
    """Facts about a file, as plain data: `form`, `n_rows`, `columns` (name -> role, kind,
    n_missing, marks, n_distinct, values), `warnings`; and where `reading` names a target its
    `task`, a line about the `target`, `protocol`, `n_folds`, `sizes` of the first fold, and the
    passport's `flags`.

    Raises DataError for a target or another column that is not there or cannot be used.
    """
    notes = Notes(list(cells.notices))
    table: Table | None = None
    check_columns(path, reading, map(str, cells.frame.columns))
    if reading.target:
        table = table_from_cells(path, cells, reading, path.stem)
    roles = {reading.target: "target", reading.group: "group", reading.time: "time"}
    roles |= {reading.weight: "weight"} | dict.fromkeys(reading.drop, "left out")
    columns = {}
    for name in map(str, cells.frame.columns):
        values = feature(name, cells, reading, notes) if table is None else None
        if table is not None and name in table.frame.columns:
            values = table.frame[name]
        facts = column_facts(cells, name, reading, values)
        columns[name] = {"role": roles.get(name, "feature"), **facts}
        if facts["suspect"]:
            notes.sentences.append(
                f"column {name!r}: {facts['suspect']} stands out; if it marks a missing value: "
                f"--missing {facts['suspect']}"
            )
    found: dict[str, Any] = {
        "file": path.name,
        "form": cells.form,
        "n_rows": len(cells.frame),
        "columns": columns,
        "warnings": notes.all(),
    }
    if table is None:
        return found
    folds = make_folds(table, reading.protocol)
    facts = passport(table, folds)
    suspects = [note for note in notes.sentences if note not in cells.notices]
    return found | {
        "warnings": [*table.warnings, *suspects],
        "task": table.task,
        "target": target_text(table),
        "class_counts": facts["class_counts"],
        "protocol": reading.protocol,
        "n_folds": len(folds),
        "sizes": {part: len(getattr(folds[0], part)) for part in ("train", "val", "test")},
        "flags": [flag for flag in facts["flags"] if flag["id"] != "reading"],
    }


def column_facts(
    cells: Cells, name: str, reading: Reading, values: pd.Series | np.ndarray | None
) -> dict[str, Any]:
    """Facts about one column; `values` as they are read, None for one that is no feature."""
    column = cells.frame[name]
    missing = is_missing(column, reading.missing)
    present = column[~missing]
    marks = sorted({str(text) or "(empty)" for text in column[missing].unique()})
    if column.dtype == np.float64:
        marks = ["(empty)"] if column.isna().any() else []
        known = column[column.notna()]
        marks += [mark for mark in reading.missing if is_missing(known, (mark,)).any()]
    if values is None:
        found = read_numbers(column, cells.delimiter, reading.missing)
        numeric = found.n_numbers == found.n_present > 0
        values = found.values if numeric else column
        kind = ""
    else:
        numeric = not (isinstance(values, pd.Series) and is_categorical(values))
        kind = "numeric" if numeric else "categorical"
    suspect = ""
    if numeric:
        numbers = np.asarray(values, dtype=np.float64)
        numbers = numbers[~np.isnan(numbers)]
        text = f"{numbers.min():g} to {numbers.max():g}" if len(numbers) else ""
        suspect = sentinel(numbers) if kind else ""
    else:
        counts = present.astype(str).value_counts()
        shown = [f"{one_line(text, 20)} ({n})" for text, n in counts.iloc[:SHOWN].items()]
        text = ", ".join(shown) + (", ..." if len(counts) > SHOWN else "")
    return {
        "kind": kind,
        "n_missing": int(missing.sum()),
        "marks": marks,
        "n_distinct": int(present.nunique()),
        "values": text,
        "suspect": suspect,
    }


def sentinel(numbers: np.ndarray) -> str:
    """A number like -999 that occurs several times at an end of the values and far from all others;
    "" for none."""
    if len(numbers) < 10:
        return ""
    for end in (float(numbers.min()), float(numbers.max())):
        others = numbers[numbers != end]
        n_end = len(numbers) - len(others)
        if end not in SENTINELS or n_end < 2 or len(others) < 2:
            continue
        gap = float(np.abs(others - end).min())
        if gap > 2 * (others.max() - others.min()) or (end < 0 <= others.min() and end <= -99):
            return f"{end:g}"
    return ""


def target_text(table: Table) -> str:
    """The classes with their shares of the rows, or the range of a numeric target."""
    if not table.classes:
        low, middle, high = np.quantile(table.target, (0, 0.5, 1))
        return f"{low:g} to {high:g}, median {middle:g}"
    counts = np.bincount(table.target, minlength=table.n_classes)
    order = np.argsort(-counts, kind="stable")
    parts = [
        f"{one_line(table.classes[k], 20)} {counts[k]} ({counts[k] / table.n_rows:.1%})"
        for k in order[:8]
    ]
    return ", ".join(parts) + (f" and {len(order) - 8} more" if len(order) > 8 else "")
