"""NPT's Table 1: average ranks over groups of datasets, published beside ours.

A rank depends on the list of methods and datasets. So the published ranks stand here twice: as
printed, and computed from the paper's own cells among the methods and datasets of this run.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pandas as pd

from ....reports.aggregation.ranking_rules import ranked
from ....reports.evidence import Evidence
from ....reports.metrics import METRICS
from ....reports.output import escape, footnotes
from ....reports.output.tables import Panel, ReportTable, Section, TableCell, fixed
from ....reports.reproduction.comparison_frame import comparison_frame
from ....reports.reproduction.comparison_table import NOTHING
from ....reports.reproduction.published_table import PublishedTable
from ....reports.statistics.ranking import standard_error
from ..paper_file import Paper
from ..published_values import table_rows

RANKING = "ordinal"  # Table 1 follows from Tables 8, 10 and 11 by no other rule


@dataclass(frozen=True)
class Group:
    """Datasets over which Table 1 averages ranks. name: the group's in its file; title: how ours
    calls it. cells, metric: the table with the value of each dataset, and its metric."""

    name: str
    title: str
    cells: str
    metric: str
    datasets: tuple[str, ...]


GROUPS = (
    Group(
        "uci-binary-classification-4",
        "binary classification, by AUROC",
        "npt-table-10",
        "auroc",
        ("higgs", "income-kdd", "kick", "breast-cancer-wdbc"),
    ),
    Group(
        "uci-multiclass-classification-2",
        "multi-class classification, by accuracy",
        "npt-table-8",
        "accuracy",
        ("poker-hand", "forest-cover"),
    ),
    Group(
        "uci-regression-4",
        "regression, by RMSE",
        "npt-table-11",
        "rmse",
        ("protein", "concrete", "boston", "yacht"),
    ),
)
HEADER = ("method", "printed", "published, these", "ours", "ours less theirs")
COLUMNS = """group method model printed printed_se published published_se ours ours_se n_datasets
    n_methods""".split()


def table_1(paper: Paper, table: PublishedTable) -> PublishedTable:
    """The cells of other tables that the ranks follow from, group by group."""
    parts = []
    for group in GROUPS:
        cells = table_rows(paper, group.cells)
        wanted = cells["dataset"].isin(group.datasets) & (cells["metric"] == group.metric)
        parts.append(cells[wanted & cells["value"].notna()])
    compare = partial(section, printed_ranks=table.rows)
    return replace(table, rows=pd.concat(parts, ignore_index=True), compare=compare)


def average_ranks(
    frame: pd.DataFrame, published: PublishedTable, printed_ranks: pd.DataFrame
) -> pd.DataFrame:
    """A row per (group, method) that this run has: the printed average rank, the one from the
    paper's cells and ours, the latter two among the methods and on the datasets of this run, each
    with its standard error over datasets (None for one dataset).

    A method without a complete score of ours on a dataset that others have ranks last there; a
    dataset with fewer than two methods counts for nothing. frame: the `comparison_frame` of the
    cells behind the ranks. printed_ranks: the rows of Table 1.
    """
    rows: list[dict[str, object]] = []
    whole = frame["ours"].notna() & (frame["n_folds"] == frame["n_planned"])
    for group in GROUPS:
        part = frame[frame["dataset"].isin(group.datasets)]
        mine = part[whole[part.index]]
        counts = mine.groupby("dataset")["method"].nunique()
        datasets = [d for d in group.datasets if counts.get(d, 0) > 1]
        mine = mine[mine["dataset"].isin(datasets)]
        methods = [m for m in dict.fromkeys(part["method"]) if m in set(mine["method"])]
        if not datasets:
            continue
        direction = METRICS[str(mine["metric"].iloc[0])].direction
        scores = {
            side: _matrix(cells, side, datasets, methods)
            for side, cells in (("published", part), ("ours", mine))
        }
        sides = {s: ranked(values, direction, RANKING) for s, values in scores.items()}
        printed = printed_ranks[printed_ranks["dataset"] == group.name]
        for row in printed.itertuples(index=False):
            if row.method not in methods:
                continue
            j = methods.index(row.method)
            found = {
                "group": group.title,
                "method": row.method,
                "model": published.model_of(row.method),
                "printed": float(row.value),
                "printed_se": float(row.spread),
                "n_datasets": len(datasets),
                "n_methods": len(methods),
            }
            for side, rank in sides.items():
                found[side] = float(rank[:, j].mean())
                error = float(standard_error(rank[:, j])) if len(datasets) > 1 else None
                found[f"{side}_se"] = error
            rows.append(found)
    return pd.DataFrame(rows, columns=COLUMNS)


def _matrix(
    cells: pd.DataFrame, side: str, datasets: list[str], methods: list[str]
) -> np.ndarray:  # (n_datasets, n_methods)
    wide = cells.pivot(index="dataset", columns="method", values=side)
    return wide.reindex(index=datasets, columns=methods).to_numpy(dtype=float)


def section(evidence: Evidence, published: PublishedTable, printed_ranks: pd.DataFrame) -> Section:
    """The printed average ranks beside ours, a panel per group."""
    frame = comparison_frame(evidence, published)
    found = average_ranks(frame, published, printed_ranks)
    panels = []
    for title, part in found.groupby("group", sort=False):
        (group,) = (g for g in GROUPS if g.title == title)
        n, n_methods = int(part["n_datasets"].iloc[0]), int(part["n_methods"].iloc[0])
        scope = f"{title}: {n} of {len(group.datasets)} datasets, {n_methods} methods"
        panels.append(Panel(tuple(_row(r) for _, r in part.iterrows()), scope))
    if not panels:
        panels = [Panel(((TableCell(NOTHING, span=len(HEADER)),),))]
    there = sorted(set(frame.loc[frame["ours"].notna(), "dataset"]))
    known = set(evidence.datasets())
    absent = [d for g in GROUPS for d in g.datasets if d not in there]
    notes = [
        *footnotes.setting(evidence),
        *footnotes.protocols(evidence, there),
        "Equal scores rank in the order of the methods in the paper's tables, without shared "
        "ranks; a method without a score ranks last.",
        "After each mean: s/√N over the datasets, none for one dataset. Printed: among all methods "
        "and datasets of the paper. Published, these: from the paper's own cells, among the "
        "methods and on the datasets that this run has, so that it can stand beside ours.",
        *published.notes,
        *(
            f"Datasets {what}: {footnotes.join(those)}."
            for what, those in (
                ("not in this run", [name for name in absent if name not in known]),
                ("without a score of this table", [name for name in absent if name in known]),
            )
            if those
        ),
    ]
    name = f"reproduce-{published.name}"
    title = f"{published.title}: average ranks, 1 is best, published beside ours."
    made = ReportTable(name, title, HEADER, tuple(panels), tuple(notes))
    remark = (
        f"{len(found)} of {len(printed_ranks)} printed average ranks have one of ours beside them."
    )
    return Section(name, f"{published.title} beside ours", (made,), found, (remark,))


def _row(r: pd.Series) -> tuple[TableCell, ...]:
    def cell(side: str) -> TableCell:
        error = r[f"{side}_se"]
        known = error is not None and not math.isnan(error)
        return TableCell(fixed(r[side], 2), fixed(error, 2) if known else "")

    return (
        TableCell(escape.label(r["method"])),
        cell("printed"),
        cell("published"),
        cell("ours"),
        TableCell(fixed(r["ours"] - r["published"], 2)),
    )
