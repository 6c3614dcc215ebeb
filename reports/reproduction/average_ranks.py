"""Average ranks over groups of datasets, published beside ours.

A rank depends on the list of methods and datasets. So the published ranks stand here twice: as
printed, and computed from the paper's own cells among the methods and datasets of this run.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from ..aggregation.ranking_rules import ranked, ranking_rule
from ..evidence import Evidence
from ..metrics import METRICS
from ..output import escape, footnotes
from ..output.tables import Panel, ReportTable, Section, TableCell, fixed
from ..statistics.ranking import standard_error
from .median_ranks import NOTHING
from .published_table import PublishedTable

HEADER = ("method", "printed", "published, these", "ours", "ours less theirs")
COLUMNS = """group method model printed printed_se published published_se ours ours_se n_datasets
    n_methods""".split()


def average_ranks(frame: pd.DataFrame, published: PublishedTable) -> pd.DataFrame:
    """A row per (group, method) that this run has: the printed average rank, the one from the
    paper's cells and ours, the latter two among the methods and on the datasets of this run, each
    with its standard error over datasets (None for one dataset).

    Ranked by the table's rule. A method without a complete score of ours on a dataset that others
    have ranks as the rule says; a dataset with fewer than two methods counts for nothing.
    frame: the `comparison_frame` of the cells behind the ranks.
    """
    rows: list[dict[str, object]] = []
    whole = frame["ours"].notna() & (frame["n_folds"] == frame["n_planned"])
    for group in published.rank_groups:
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
        if not ranking_rule(published.ranking).missing_last:
            known = np.logical_and(*(np.isfinite(s).all(axis=1) for s in scores.values()))
            scores = {side: s[known] for side, s in scores.items()}
            datasets = [d for d, whole_row in zip(datasets, known, strict=True) if whole_row]
            if not datasets:
                continue
        sides = {s: ranked(values, direction, published.ranking) for s, values in scores.items()}
        printed = published.printed_ranks[published.printed_ranks["dataset"] == group.name]
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


def _rule(name: str) -> str:
    """A rule's ties and missing scores in a sentence."""
    rule = ranking_rule(name)
    shared = "share their average rank"
    ordinal = "rank in the order of the methods in the paper's tables, without shared ranks"
    missing = (
        "a method without a score ranks last"
        if rule.missing_last
        else "a dataset on which a method has no score is left out"
    )
    return f"Equal scores {shared if rule.ties == 'average' else ordinal}; {missing}."


def section(evidence: Evidence, published: PublishedTable, frame: pd.DataFrame) -> Section:
    """The printed average ranks beside ours, a panel per group. frame: the `comparison_frame` of
    the cells behind them."""
    found = average_ranks(frame, published)
    panels = []
    for title, part in found.groupby("group", sort=False):
        (group,) = (g for g in published.rank_groups if g.title == title)
        n, n_methods = int(part["n_datasets"].iloc[0]), int(part["n_methods"].iloc[0])
        scope = f"{title}: {n} of {len(group.datasets)} datasets, {n_methods} methods"
        panels.append(Panel(tuple(_row(r) for _, r in part.iterrows()), scope))
    if not panels:
        panels = [Panel(((TableCell(NOTHING, span=len(HEADER)),),))]
    there = sorted(set(frame.loc[frame["ours"].notna(), "dataset"]))
    known = set(evidence.datasets())
    absent = [d for g in published.rank_groups for d in g.datasets if d not in there]
    notes = [
        *footnotes.setting(evidence),
        *footnotes.protocols(evidence, there),
        _rule(published.ranking),
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
    n_printed = len(published.printed_ranks)
    remark = f"{len(found)} of {n_printed} printed average ranks have one of ours beside them."
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
