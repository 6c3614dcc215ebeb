"""A paper's printed numbers: the CSV files in `published/`, and what stands beside a run.

A file has a row a value, in the paper's order, with the columns paper, table, dataset, method,
metric, direction, value, spread, spread_kind (std, sem, none, unstated), n_repeats, note, and for
some tables factor and level. Units stand in `note`. A row without a value says in the column
`remark` why it has none; a file without such rows needs no such column.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pandas as pd

from ...common.text import one_line, suggest
from ...datasets.errors import DataError
from ...reports.evidence import EvidenceError
from ...reports.reproduction.published_table import Measure, PublishedTable
from ..results.csv_lines import Lines
from . import cost_tables
from .paper_file import Paper, PaperError, TableEntry

# The columns of a table that a run stands beside.
_CELLS = [*"paper table dataset method metric direction value spread".split()]
_CELLS += ["spread_kind", "n_repeats"]
NUMBERS = ("value", "spread", "n_repeats")


def load(folder: Path, name: str) -> pd.DataFrame:
    """The rows of published/<name>.csv in a paper's folder: `value`, `spread` and `n_repeats` as
    floats, and `decimals`, those of the printed value. The file is read as results of another tool
    are (`csv_lines.py`). Raises PaperError, with a suggestion, for a file that is not there, and
    for one that cannot be read as it stands."""
    path = folder / "published" / f"{name}.csv"
    if not path.is_file():
        known = [file.stem for file in path.parent.glob("*.csv")]
        raise PaperError(f"no file {path}; {suggest(name, known)}")
    try:
        lines = Lines.of(path)
        numbers = {name: lines.floats(name) for name in NUMBERS if name in lines.cells}
    except (DataError, EvidenceError) as error:
        raise PaperError(one_line(f"{path.parent}/{error}", 500)) from None
    if lines.notes:
        raise PaperError(f"{path}: {lines.notes[0]}")
    frame = lines.cells.astype("str")
    need_columns(frame, ["dataset"], path)
    if "value" in frame:
        frame["decimals"] = frame["value"].map(_decimals)
    return frame.assign(**numbers)


def need_columns(frame: pd.DataFrame, needed: Sequence[str], path: Path) -> None:
    """Raises PaperError for a file of published values that lacks one of the columns or has no
    row."""
    missing = [column for column in needed if column not in frame]
    if missing:
        named = " and no column ".join(missing)
        raise PaperError(f"{path}: line 1: no column {named}; {suggest(missing[0], frame.columns)}")
    if frame.empty:
        raise PaperError(f"{path}: a header and no rows")


def _decimals(text: str) -> int:
    """The decimals of a printed number.

    >>> _decimals("0.510"), _decimals("12"), _decimals("4.5e-3"), _decimals("0,51")
    (3, 0, 4, 2)
    """
    digits, _, power = text.lower().replace(",", ".").partition("e")
    return max(0, len(digits.partition(".")[2]) - int(power or 0))


def printed_values(folder: Path, name: str) -> dict[tuple[str, ...], float]:
    """{key: value} of published/<name>.csv. A key has the columns dataset, method and, where the
    table has it, level.

    >>> printed_values(Path(__file__).parent / "npt", "table3")[
    ...     "protein-semi-synthetic", "npt", "add-one"
    ... ]
    0.46
    """
    rows = load(folder, name)
    keys = [column for column in ("dataset", "method", "level") if column in rows]
    return rows.set_index(keys)["value"].to_dict()


def n_values(paper: Paper, name: str) -> int:
    """How many numbers a table of the paper has (rows, where it has no column `value`)."""
    rows = table_rows(paper, name)
    return int(rows["value"].notna().sum()) if "value" in rows else len(rows)


def table_rows(paper: Paper, name: str) -> pd.DataFrame:
    """The rows of a table's file that the table shows, the datasets by our names, and `remark`. A
    method whose factor has levels is named with its level. Raises PaperError."""
    table = paper.file.table[name]
    found = load(paper.folder, paper.published_file(name).stem)
    if table.method_suffix:
        need_columns(found, ["method"], paper.published_file(name))
        found = found[found["method"].str.endswith(table.method_suffix)]
    if table.level_suffix:
        need_columns(found, ["method", "level"], paper.published_file(name))
        levels = found["level"].map(table.level_suffix.format)
        found = found.assign(method=found["method"] + levels)
    remark = found["remark"] if "remark" in found else ""
    return found.assign(dataset=found["dataset"].replace(dict(paper.file.datasets)), remark=remark)


def plain_table(paper: Paper, name: str) -> PublishedTable:
    """A table of the paper that a suite reproduces, made from its CSV file and its keys in
    paper.toml, before its function (if any) is applied."""
    table, rows = paper.file.table[name], table_rows(paper, name)
    need_columns(rows, _CELLS, paper.published_file(name))
    return PublishedTable(
        name=name,
        title=table.title,
        paper=str(rows["paper"].iloc[0]),
        table=str(rows["table"].iloc[0]),
        rows=rows,
        measures={theirs: Measure(m.ours, m.unit) for theirs, m in table.metrics.items()},
        models=paper.file.models,
        shape=table.shape,
        replicates=table.errors == "replicates",
        configurations=_configurations(paper, table),
        deviations=table.deviations,
        stand_ins={n: s.why for n, s in paper.file.stand_ins.items()},
        notes=(*table.notes, *paper.file.notes),
    )


def published_table(paper: Paper, name: str) -> PublishedTable:
    """A table of the paper that a suite stands behind, as `reports` sets it beside a run. Raises
    PaperError for a published metric that `metrics` lacks, and for a cell with two values."""
    found, entry = plain_table(paper, name), paper.file.table[name]
    if entry.function:
        found = paper.function(f"table.{name}.function")(paper, found)
    if entry.shape == "costs":
        return replace(found, compare=partial(cost_tables.section, entry.costs))
    where = f"{paper.folder}: table.{name}"
    for metric in found.rows["metric"]:
        if metric not in entry.metrics:
            raise PaperError(f"{where}.metrics lacks {metric!r}; {suggest(metric, entry.metrics)}")
    twice = found.rows[found.rows.duplicated(["method", *found.cell_columns])]
    if len(twice):
        cell = ", ".join(map(str, twice.iloc[0][["dataset", "method", "metric"]]))
        raise PaperError(f"{where}: its published file has two values of {cell}")
    return found


def _configurations(paper: Paper, table: TableEntry) -> dict[tuple[str, str], int]:
    """{(dataset, method): how many configurations the paper searched}."""
    if not table.configurations:
        return {}
    counts = table_rows(paper, table.configurations)
    need_columns(counts, ["method", "value"], paper.published_file(table.configurations))
    keys = zip(counts["dataset"], counts["method"], strict=True)
    pairs = zip(keys, counts["value"], strict=True)
    return {key: int(value) for key, value in pairs if not math.isnan(value)}
