"""A description of a user's file: columns, kinds, marks of missing values, target, problems."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..common.columns.dates import parsed
from ..common.columns.kinds import DATE, ID, NUMBER, Kind
from ..common.columns.numbers import is_missing, read_numbers
from ..common.text import first_few, one_line
from .errors import DataError
from .infer import feature, table_from_cells
from .passport import class_counts, passport
from .protocols import make_folds
from .reading.cells import Cells
from .reading.columns import Notes, Problems, Reading, column_problems
from .table import Table

MOST_ODD = 10  # texts of a column that are not of its kind
SHOWN = 3  # categories of a column


def describe(path: Path, cells: Cells, reading: Reading) -> dict[str, Any]:
    """Facts about a file, as plain data: `form`, `n_rows`, `columns` (name -> role, kind, style,
    n_missing, marks, n_distinct, values, and not_read: {text: how often} of cells that are not of
    the kind), `warnings`, and `problems`, for which the file is
    refused; and where `reading` names a target that can be used, its `task`, a line about the
    `target`, `protocol`, `n_folds`, `sizes` of the first fold, and the passport's `flags`.
    """
    problems, decided = Problems(keep=True), dict[str, Kind]()
    names = list(map(str, cells.columns))
    problems.add(*column_problems(path.name, reading, names))
    known, table = reading.of_columns(names), None
    warnings: list[str] = []
    if known.target is not None:
        rest = Problems(keep=True)
        try:
            table = table_from_cells(path, cells, known, path.stem, rest, decided)
            warnings = list(table.warnings)
        except DataError:  # it is among the problems
            pass
        problems.add(*(text for text in rest.kept if text not in problems.kept))
    if table is None:
        notes = Notes(list(cells.notices))
        for name in names:
            made = None
            if name not in (known.target, *known.drop, *cells.refused):
                made = Problems(keep=True).tried(feature, name, cells, known, notes)
            if made:
                decided[name] = made[0]
        warnings = notes.all()
    roles = {reading.target: "target", reading.group: "group", reading.time: "time"}
    roles |= {reading.weight: "weight"} | dict.fromkeys(reading.drop, "left out")
    columns = {}
    for name in names:
        facts = column_facts(cells, name, reading, decided.get(name))
        role = "left out" if facts["kind"] == ID else "feature"
        columns[name] = {"role": roles.get(name, role), **facts}
    about: dict[str, Any] = {
        "file": path.name,
        "form": cells.form,
        "n_rows": cells.n_rows,
        "columns": columns,
        "warnings": warnings,
    }
    splits = table is not None and not problems.kept  # a refused time or group splits nothing
    if table is not None and splits:
        about |= problems.tried(split_facts, table, known) or {}
    return about | {"problems": problems.kept}


def split_facts(table: Table, reading: Reading) -> dict[str, Any]:
    """The task, target, folds and flags of a table. DataError where it cannot be split."""
    folds = make_folds(table, reading.protocol)
    facts = passport(table, folds)
    return {
        "task": table.task,
        "target": target_text(table),
        "class_counts": facts["class_counts"],
        "protocol": reading.protocol,
        "n_folds": len(folds),
        "sizes": {part: len(getattr(folds[0], part)) for part in ("train", "val", "test")},
        "flags": [flag for flag in facts["flags"] if flag["id"] != "reading"],
    }


def column_facts(cells: Cells, name: str, reading: Reading, kind: Kind | None) -> dict[str, Any]:
    """Facts about one column; `kind` is None for one that is no feature."""
    column = cells[name]
    missing = is_missing(column, reading.missing)
    if kind is not None and len(kind.missing) == len(missing):
        missing = kind.missing
    present = column[~missing]
    marks = sorted({str(text) or "(empty)" for text in column[missing].unique()})
    if column.dtype == np.float64:
        marks = ["(empty)"] if column.isna().any() else []
        known = column[column.notna()]
        marks += [mark for mark in reading.missing if is_missing(known, (mark,)).any()]
    of_kind = kind.numbers if kind is not None and kind.word == NUMBER else None
    read = of_kind or read_numbers(column, cells.delimiter, reading.missing)
    numeric = read.n_numbers == read.n_present > 0 or of_kind is not None
    n_distinct = int(present.nunique())
    word = kind.word if kind is not None else ""
    if numeric and word in ("", NUMBER):
        numbers = read.values[~np.isnan(read.values)]
        text = f"{numbers.min():g} to {numbers.max():g}"
    elif word == DATE and kind is not None and len(present):
        times = parsed(present, kind.style)
        text = f"{times.min()} to {times.max()}"
    else:
        counts = present.astype(str).value_counts()
        shown = [f"{one_line(text, 20)} ({n})" for text, n in counts.iloc[:SHOWN].items()]
        text = ", ".join(shown) + (", ..." if len(counts) > SHOWN else "")
    odd = dict(list(kind.odd.items())[:MOST_ODD]) if kind is not None else {}
    return {
        "not_read": odd,
        "kind": "constant" if word and n_distinct == 1 else word,
        "style": kind.style if kind is not None else "",
        "n_missing": int(missing.sum()),
        "marks": marks,
        "n_distinct": n_distinct,
        "values": text,
    }


def target_text(table: Table) -> str:
    """The classes with their shares of the rows, or the range of a numeric target."""
    if not table.classes:
        low, middle, high = np.quantile(table.target, (0, 0.5, 1))
        return f"{low:g} to {high:g}, median {middle:g}"
    counts = sorted(class_counts(table).items(), key=lambda item: -item[1])
    parts = [f"{one_line(c, 20)} {n} ({n / table.n_rows:.1%})" for c, n in counts]
    return first_few(parts, 8)
