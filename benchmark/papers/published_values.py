"""A paper's printed numbers: the CSV files in `published/`, and what stands beside a run.

A file has a row a value, in the paper's order, with the columns paper, table, dataset, method,
metric, direction, value, spread, spread_kind (std, sem, none, unstated), n_repeats, note, and for
some tables factor and level. Units stand in `note`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from ...common.text import one_line, suggest
from ...reports.reproduction.published_table import (
    Extension,
    Measure,
    PublishedTable,
    RankGroup,
)
from .paper_file import Paper, PaperError, TableEntry

# The columns of a table that a run stands beside.
_CELLS = [*"paper table dataset method metric direction value spread".split()]
_CELLS += ["spread_kind", "n_repeats"]
_KEY = ["dataset", "method", "metric", "factor", "level", "configuration", "ensemble_size"]


def load(folder: Path, name: str) -> pd.DataFrame:
    """The rows of published/<name>.csv in a paper's folder: `value`, `spread` and `n_repeats` as
    floats, and `decimals`, those of the printed value. Raises PaperError, with a suggestion, for a
    file that is not there, and for one that cannot be read."""
    path = folder / "published" / f"{name}.csv"
    if not path.is_file():
        known = [file.stem for file in path.parent.glob("*.csv")]
        raise PaperError(f"no file {path}; {suggest(name, known)}")
    try:
        frame = pd.read_csv(path, dtype=str, keep_default_na=False, encoding="utf-8")
    except ValueError as error:  # also pandas' ParserError, and bytes that are not UTF-8
        raise PaperError(one_line(f"{path}: {error}", 500)) from None
    if not isinstance(frame.index, pd.RangeIndex):  # pandas took the first field for an index
        law = "has more fields than the header; a text with a comma needs quotes"
        raise PaperError(f"{path}: line 2: {law}")
    need_columns(frame, ["dataset"], path)
    for column in ("value", "spread", "n_repeats"):
        if column not in frame:
            continue
        text = frame[column]
        numbers = pd.to_numeric(text.where(text != ""), errors="coerce").astype(float)
        wrong = (text != "") & ~np.isfinite(numbers)
        if wrong.any():
            at = int(np.flatnonzero(wrong)[0])
            law = "must be a finite number or empty, not"
            raise PaperError(f"{path}: line {at + 2}: {column} {law} {one_line(text[at], 40)!r}")
        if column == "value":
            frame["decimals"] = text.map(_decimals)
        frame[column] = numbers
    return frame


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

    >>> _decimals("0.510"), _decimals("12"), _decimals("4.5e-3")
    (3, 0, 4)
    """
    digits, _, power = text.lower().partition("e")
    return max(0, len(digits.partition(".")[2]) - int(power or 0))


def key_columns(frame: pd.DataFrame) -> list[str]:
    """The columns that name a row of a table uniquely."""
    return [c for c in _KEY if c in frame]


def printed_values(folder: Path, name: str, **where: str) -> dict[tuple[str, ...], float]:
    """{key: value} of published/<name>.csv: rows in which the named columns have these values, by
    the columns dataset, method and, where the table has it, level.

    >>> printed_values(Path(__file__).parent / "npt", "table3", method="npt")[
    ...     "protein-semi-synthetic", "npt", "add-one"
    ... ]
    0.46
    """
    rows = load(folder, name)
    for column, value in where.items():
        rows = rows[rows[column] == value]
    keys: Sequence[str] = [c for c in ("dataset", "method", "level") if c in rows]
    return {tuple(row[c] for c in keys): float(row["value"]) for _, row in rows.iterrows()}


def n_values(paper: Paper, name: str) -> int:
    """How many numbers a table of the paper has (rows, where it has no column `value`)."""
    rows = _load(paper, name)
    rows = rows[_wanted(rows, paper.file.table[name])]
    return int(rows["value"].notna().sum()) if "value" in rows else len(rows)


def datasets_in(paper: Paper, name: str) -> set[str]:
    """Our names of the datasets that a table of the paper has cells of. Raises PaperError."""
    return set(_load(paper, _cells_of(paper, name))["dataset"])


def published_table(paper: Paper, name: str) -> PublishedTable:
    """A table of the paper that a suite stands behind, as `reports` sets it beside a run. Raises
    PaperError for a published metric that `metrics` lacks."""
    table = paper.file.table[name]
    printed = _load(paper, name)
    need_columns(printed, _CELLS, paper.published_file(name))
    rows = _rows(paper, name)
    for metric in rows["metric"]:
        if metric not in table.metrics:
            where = f"{paper.folder}: table.{name}.metrics"
            raise PaperError(f"{where} lacks {metric!r}; {suggest(metric, table.metrics)}")
    _check_cells(paper, name, rows)
    for method in table.ranked:
        if method not in set(rows["method"]):
            where = f"{paper.folder}: table.{name}.ranked"
            raise PaperError(f"{where}: no {method!r} here; {suggest(method, set(rows['method']))}")
    extension = None
    if table.means:
        extension = Extension(
            printed,
            tuple(table.means.hosts),
            table.means.suffix,
            table.means.extension,
            table.means.measures,
        )
    return PublishedTable(
        name=name,
        title=table.title,
        paper=str(printed["paper"].iloc[0]),
        table=str(printed["table"].iloc[0]),
        rows=rows,
        measures={theirs: Measure(m.ours, m.unit) for theirs, m in table.metrics.items()},
        models=paper.file.models,
        shape=table.shape,
        replicates=table.errors == "replicates",
        configurations=_configurations(paper, table),
        ranking=table.ranking,
        ranking_note=table.ranking_note,
        ranked=tuple(table.ranked),
        deviations=table.deviations,
        control=table.controls.why if table.controls else "",
        control_label=table.controls.label if table.controls else "",
        addition=table.additions.why if table.additions else "",
        absent=_absent(paper, name, rows),
        extension=extension,
        rank_groups=tuple(RankGroup(g.name, g.title, tuple(g.datasets)) for g in table.rank_groups),
        printed_ranks=printed,
        stand_ins={n: s.why for n, s in paper.file.stand_ins.items() if n in set(rows["dataset"])},
        notes=(*table.notes, *paper.file.notes),
    )


def _absent(paper: Paper, name: str, rows: pd.DataFrame) -> dict[str, str]:
    """{published method: why it has no model here}. Raises PaperError for a method that the table
    lacks, or that a model of ours stands for."""
    found = {}
    for absent in paper.file.table[name].absent:
        where = f"{paper.folder}: table.{name}.absent: {absent.method!r}"
        if absent.method not in set(rows["method"]):
            known = dict.fromkeys(rows["method"])
            raise PaperError(f"{where} is no method of it; {suggest(absent.method, known)}")
        if absent.method in paper.file.models:
            ours = paper.file.models[absent.method]
            raise PaperError(f"{where} is {ours!r} here by `models`: leave out one of the two")
        found[absent.method] = absent.why
    return found


def _load(paper: Paper, name: str) -> pd.DataFrame:
    """A table of the paper, its datasets by our names."""
    found = load(paper.folder, paper.published_file(name).stem)
    return found.assign(dataset=found["dataset"].replace(dict(paper.file.datasets)))


def _wanted(rows: pd.DataFrame, table: TableEntry) -> Sequence[bool]:
    """The rows of a table whose method has the ending that it asks for."""
    if "method" not in rows:
        return [True] * len(rows)
    return [str(method).endswith(table.method_suffix) for method in rows["method"]]


def _cells_of(paper: Paper, name: str) -> str:
    """The table that the cells of a table stand in: another one, where it has means alone."""
    means = paper.file.table[name].means
    return means.cells if means else name


def _check_cells(paper: Paper, name: str, rows: pd.DataFrame) -> None:
    """PaperError for a cell that stands twice, and for two metrics of a dataset that is ranked."""
    where = f"{paper.folder}: table.{name}"
    twice = rows[rows.duplicated(["dataset", "method", "metric"])]
    if len(twice):
        cell = ", ".join(map(str, twice.iloc[0][["dataset", "method", "metric"]]))
        raise PaperError(f"{where}: its published file has two values of {cell}")
    metrics = rows.groupby("dataset", sort=True)["metric"].nunique()
    if paper.file.table[name].ranking and (metrics > 1).any():
        dataset, n = next(iter(metrics[metrics > 1].items()))
        raise PaperError(f"{where}.ranking: ranks need one metric a dataset, and {dataset} has {n}")


def _rows(paper: Paper, name: str) -> pd.DataFrame:
    """The rows that are to stand beside ours, in the paper's order, and why some have no value of
    this table (`remark`)."""
    table, cells = paper.file.table[name], _cells_of(paper, name)
    rows = _ranked_cells(paper, table) if table.rank_groups else _load(paper, cells)
    if not table.rank_groups:
        need_columns(rows, _CELLS, paper.published_file(cells))
    if table.level_suffix:
        need_columns(rows, ["level"], paper.published_file(cells))
    if table.level_suffix:
        rows = rows.assign(method=rows["method"] + rows["level"].map(table.level_suffix.format))
    rows = rows.assign(remark="")
    for missing in table.missing:
        rows = _with_row(rows, missing.dataset, missing.method, missing.metric, missing.why)
    if table.controls:
        for dataset in table.controls.datasets:
            metrics = rows.loc[rows["dataset"] == dataset, "metric"]
            if metrics.empty:
                where = f"{paper.folder}: table.{name}.controls.datasets"
                raise PaperError(
                    f"{where}: no {dataset!r} here; {suggest(dataset, rows['dataset'].unique())}"
                )
            metric = str(metrics.iloc[-1])
            for method in table.controls.methods:
                rows = _with_row(rows, dataset, method, metric, table.controls.why)
    if table.additions:
        more = _load(paper, table.additions.table)
        source = paper.published_file(table.additions.table)
        need_columns(more, [*_CELLS, *table.additions.where], source)
        for column, value in table.additions.where.items():
            more = more[more[column] == value]
        more = more[~more["method"].isin(set(rows["method"]))].assign(remark=table.additions.why)
        rows = pd.concat([rows, more[[c for c in rows if c in more]]], ignore_index=True)
    return rows[_wanted(rows, table)]


def _ranked_cells(paper: Paper, table: TableEntry) -> pd.DataFrame:
    """The rows of other tables that a table of average ranks follows from, group by group."""
    parts = []
    for group in table.rank_groups:
        cells = _load(paper, group.cells)
        wanted = cells["dataset"].isin(group.datasets) & (cells["metric"] == group.metric)
        for dataset in group.datasets:
            if dataset not in set(cells.loc[wanted, "dataset"]):
                hint = suggest(dataset, cells["dataset"].unique())
                raise PaperError(
                    f"{paper.folder}: rank group {group.name!r}: {group.cells} has no "
                    f"{group.metric!r} of {dataset!r}; {hint}"
                )
        parts.append(cells[wanted])
    return pd.concat(parts, ignore_index=True)


def _with_row(rows: pd.DataFrame, dataset: str, method: str, metric: str, why: str) -> pd.DataFrame:
    """The rows with one more without a value, after the last of that dataset and metric."""
    like = rows[(rows["dataset"] == dataset) & (rows["metric"] == metric)]
    if like.empty:
        raise PaperError(f"no published value of {metric} on {dataset}, beside which {method} goes")
    at = int(str(like.iloc[-1].name)) + 1
    empty = {"value": np.nan, "spread": np.nan, "decimals": 0, "note": "", "remark": why}
    row = {**like.iloc[-1], "method": method, **empty}
    return pd.concat([rows[:at], pd.DataFrame([row]), rows[at:]], ignore_index=True)


def _configurations(paper: Paper, table: TableEntry) -> dict[tuple[str, str], int]:
    """{(dataset, method): how many configurations the paper searched}."""
    if not table.configurations:
        return {}
    counts = _load(paper, table.configurations)
    need_columns(counts, ["method", "value"], paper.published_file(table.configurations))
    keys = zip(counts["dataset"], counts["method"], strict=True)
    pairs = zip(keys, counts["value"], strict=True)
    return {key: int(value) for key, value in pairs if not math.isnan(value)}
