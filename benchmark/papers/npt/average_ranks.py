"""NPT's Table 1: average ranks over groups of datasets, published beside ours.

A rank depends on the list of methods and datasets. So the published ranks stand here twice: as
printed, and computed from the paper's own cells among the methods and datasets of this run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import pandas as pd

from ....reports.evidence import Evidence
from ....reports.output import escape, footnotes
from ....reports.output.tables import Panel, Section, TableCell, fixed
from ....reports.reproduction import own_rows
from ....reports.reproduction.comparison_frame import comparison_frame
from ....reports.reproduction.published_table import MARK, OWN, PublishedTable
from ..paper_file import Paper
from ..published_values import table_rows
from ..rank_tables import figures_section, figures_table, method_ranks, with_error

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
    with its standard error over datasets (NaN for one dataset).

    A method without a complete score of ours on a dataset that others have ranks last there; a
    dataset with fewer than two methods counts for nothing. frame: the `comparison_frame` of the
    cells behind the ranks. printed_ranks: the rows of Table 1.
    """
    whole = frame[frame["ours"].notna() & (frame["n_folds"] == frame["n_planned"])]
    whole = whole[whole.groupby("dataset")["method"].transform("size") > 1]
    found = [pd.DataFrame(columns=COLUMNS)]
    for group in GROUPS:
        mine = whole[whole["dataset"].isin(group.datasets)]
        theirs = frame[frame["dataset"].isin(mine["dataset"])]
        methods = [m for m in dict.fromkeys(theirs["method"]) if m in set(mine["method"])]
        if not methods:
            continue
        rows = printed_ranks[printed_ranks["dataset"] == group.name].set_index("method")
        rows = rows.rename(columns={"value": "printed", "spread": "printed_se"})
        own = list(dict.fromkeys(mine.loc[own_rows.is_own(mine), "method"]))
        parts = []
        for side, cells in (("published", theirs), ("ours", mine)):
            named = [m for m in methods if side == "ours" or m not in own]
            ranks = method_ranks(cells, side, RANKING, named)[["mean_rank", "se"]]
            parts.append(ranks.set_axis([side, f"{side}_se"], axis=1))
        both = rows.join(pd.concat(parts, axis=1), how="outer").rename_axis("method")
        order = [m for m in (*rows.index, *own) if m in methods]
        rows = both.loc[order].reset_index()
        found.append(
            rows.assign(
                group=group.title,
                model=rows["method"].map(published.model_of),
                n_datasets=mine["dataset"].nunique(),
                n_methods=len(methods),
            )[COLUMNS]
        )
    return pd.concat(found[1:] or found, ignore_index=True)


def section(evidence: Evidence, published: PublishedTable, printed_ranks: pd.DataFrame) -> Section:
    """The printed average ranks beside ours, a panel per group."""
    frame = comparison_frame(evidence, published)
    found = average_ranks(frame, published, printed_ranks)
    datasets = {group.title: group.datasets for group in GROUPS}
    panels = []
    for title, part in found.groupby("group", sort=False):
        n, n_methods = part[["n_datasets", "n_methods"]].iloc[0]
        scope = f"{title}: {n} of {len(datasets[str(title)])} datasets, {n_methods} methods"
        panels.append(Panel(tuple(_row(r) for _, r in part.iterrows()), scope))
    there = sorted(set(frame.loc[frame["ours"].notna(), "dataset"]))
    known = set(evidence.datasets())
    absent = [d for group in GROUPS for d in group.datasets if d not in there]
    notes = [
        *footnotes.protocols(evidence, there),
        "Equal scores rank in the order of the methods in the paper's tables, without shared "
        "ranks; a method without a score ranks last.",
        "After each mean: s/√N over the datasets, none for one dataset. Printed: among all methods "
        "and datasets of the paper. Published, these: from the paper's own cells, among the "
        "methods and on the datasets that this run has, so that it can stand beside ours.",
        *published.notes,
        *([f"{MARK} {OWN}."] if found["printed"].isna().any() else []),
        *(
            f"Datasets {what}: {footnotes.join(those)}."
            for what, those in (
                ("not in this run", [name for name in absent if name not in known]),
                ("without a score of this table", [name for name in absent if name in known]),
            )
            if those
        ),
    ]
    title = f"{published.title}: average ranks, 1 is best, published beside ours."
    table = figures_table(evidence, published.name, title, HEADER, panels, notes)
    n, n_printed = found["printed"].notna().sum(), len(printed_ranks)
    remark = f"{n} of {n_printed} printed average ranks have one of ours beside them."
    more = own_rows.placed(published, frame)
    return figures_section(published, table, found, remark, more)


def _row(r: pd.Series) -> tuple[TableCell, ...]:
    sides = (with_error(r[side], r[f"{side}_se"]) for side in ("printed", "published", "ours"))
    own = pd.isna(r["printed"])
    difference = TableCell(fixed(r["ours"] - r["published"], 2) if not own else "–")
    name = TableCell(escape.label(r["method"]), mark=MARK if own else "")
    return (name, *sides, difference)
