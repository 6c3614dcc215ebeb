"""Average ranks over the methods that each dataset has, published beside ours."""

from __future__ import annotations

import pandas as pd

from ..aggregation.ranking_rules import ranking_rule
from ..evidence import Evidence
from ..metrics import METRICS
from ..output import escape, footnotes
from ..output.tables import Panel, ReportTable, TableCell
from ..sections.available_ranks import in_brackets, rank_figures
from .published_table import PublishedTable

HEADER = ("method", "published", "datasets", "ours", "datasets")


def average_ranks(frame: pd.DataFrame, published: PublishedTable, side: str) -> pd.DataFrame:
    """`available_ranks.rank_figures` of the methods of the table, from its values ("published") or
    from a run's means ("ours"). frame: a `comparison_frame`."""
    rows = frame[frame[side].notna() & frame["method"].isin(pool(published))]
    sign = rows["metric"].map({m.name: m.sign for m in METRICS.values()}).astype(float)
    losses = rows.assign(loss=sign * rows[side].astype(float))
    matrix = losses.pivot(index="dataset", columns="method", values="loss")
    return rank_figures(matrix, published.ranking)


def pool(published: PublishedTable) -> list[str]:
    """The methods that are ranked among each other."""
    return list(published.ranked or dict.fromkeys(published.rows["method"]))


def table(evidence: Evidence, published: PublishedTable, frame: pd.DataFrame) -> ReportTable:
    """The average ranks of both sides, in the form in which the paper prints them."""
    sides = [average_ranks(frame, published, side) for side in ("published", "ours")]
    ours = sides[1]["mean_rank"]
    lowest = [side["mean_rank"].min() for side in sides]
    rows = []
    for method in sorted(pool(published), key=lambda m: (-ours.get(m, -1.0), m)):
        cells = [TableCell(escape.label(method))]
        for found, low in zip(sides, lowest, strict=True):
            if method not in found.index:
                cells += [TableCell("n/a"), TableCell("0")]
                continue
            mean, std, n = found.loc[method, ["mean_rank", "std", "n_ranked"]]
            cells += [
                TableCell(in_brackets(mean, std), bold=bool(mean <= low + 1e-12)),
                TableCell(f"{n:.0f}"),
            ]
        rows.append(tuple(cells))
    notes = [
        *footnotes.fewer_seeds(evidence),
        ranking_rule(published.ranking).description,
        "Published: from the printed values, so that equal digits share a rank; ours: from the "
        "unrounded means.",
        *([published.ranking_note] if published.ranking_note else []),
    ]
    title = f"{published.title}: average ranks, published beside ours, 1 is best."
    name = f"reproduce-{published.name}-ranks"
    return ReportTable(name, title, HEADER, (Panel(tuple(rows)),), tuple(notes))
