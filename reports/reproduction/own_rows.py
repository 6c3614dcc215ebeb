"""Models that a paper's table lacks as rows of it, ranked among the published values."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

import numpy as np
import pandas as pd

from ..aggregation.ranking_rules import rank_figures
from ..evidence import Evidence
from ..metrics import METRICS
from ..output import escape, footnotes
from ..output.tables import Panel, ReportTable, TableCell, fixed
from .comparison_table import shown_spread
from .published_table import MARK, OWN, PublishedTable

PLACED = "-placed"  # how the name of the table of `placed` ends


def own_models(evidence: Evidence, published: PublishedTable, asked: Iterable[str]) -> list[str]:
    """The models of the evidence that are to be rows though the paper has none of that name: those
    asked for, and those from outside the package."""
    wanted = {*evidence.own, *asked} - set(published.model_names())
    return [model for model in evidence.models if model in wanted]


def with_own(published: PublishedTable, models: Collection[str]) -> PublishedTable:
    """The table with a row of each model for every value that a method has, without numbers."""
    rows, by = published.rows, published.cell_columns
    cells = rows.assign(decimals=rows.groupby(["dataset", "metric"])["decimals"].transform("max"))
    cells = cells.drop_duplicates(by)
    printed = cells.select_dtypes("number").columns.difference([*by, "decimals"])
    empty = {**dict.fromkeys(printed, np.nan), "spread_kind": "none"}
    own = [cells.assign(**empty, method=model, remark=OWN) for model in models]
    return replace(
        published,
        rows=pd.concat([rows, *own], ignore_index=True),
        extra=(*published.extra, *([OWN] if own else [])),
    )


def is_own(frame: pd.DataFrame) -> pd.Series:
    """Which rows of a `comparison_frame` are of models that the paper lacks."""
    return frame["note"].str.contains(OWN, regex=False)


def placed(what: PublishedTable, frame: pd.DataFrame) -> list[ReportTable]:
    """The published values in the paper's form, methods by datasets, with our scores of the models
    that it lacks among them, on the datasets where these have one; nothing without such models.
    frame: a `comparison_frame`."""
    own = frame[is_own(frame) & frame["ours"].notna()]
    cells = own[["dataset", "metric"]].drop_duplicates()
    if not len(cells):
        return []
    both = pd.concat([frame[frame["published"].notna()].assign(own=False), own.assign(own=True)])
    both = both.assign(value=both["published"].where(~both["own"], both["ours"]).astype(float))
    both = both.merge(cells, on=["dataset", "metric"])
    columns = [tuple(cell) for cell in cells.itertuples(index=False)]
    signs = both["metric"].map(lambda name: METRICS[name].sign).astype(float)
    losses = both.assign(loss=signs * both["value"])
    matrix = losses.pivot(index=["dataset", "metric"], columns="method", values="loss")
    figures = rank_figures(matrix, "available")
    best = matrix.min(axis=1)
    printed = both[~both["note"].map(what.is_extra).astype(bool)]
    digits = printed.groupby(["dataset", "metric"])["published_decimals"].max().to_dict()
    shown = {}
    for row in both.to_dict("records"):
        method, cell = row["method"], (row["dataset"], row["metric"])
        decimals, side = int(digits.get(cell, 3)), "ours" if row["own"] else "published"
        spread, first = (
            shown_spread(row, side, decimals, what),
            matrix.loc[cell, method] <= best[cell],
        )
        shown[method, *cell] = TableCell(fixed(row["value"], decimals), spread, bold=bool(first))
    mine = set(own["method"])
    order = figures["mean_rank"].sort_values(kind="stable").index
    rows = tuple(
        (
            TableCell(escape.label(str(method)), mark=MARK if method in mine else ""),
            *(shown.get((method, *column), TableCell("–")) for column in columns),
            TableCell(f"{figures.loc[method, 'mean_rank']:.2f}"),
            TableCell(str(int(figures.loc[method, "n_datasets"]))),
        )
        for method in order
    )
    several = len(what.metrics) > 1
    header = (
        "method",
        *(
            f"{escape.label(dataset)}{f', {what.metric_label(metric)}' if several else ''} "
            f"{footnotes.arrow(METRICS[metric].direction)}"
            for dataset, metric in columns
        ),
        "mean rank",
        "datasets",
    )
    notes = (
        f"{MARK} {OWN}: scores of ours. All others: the paper's values. On each dataset methods "
        "with a value there are ranked by it, equal values share their rank; a mean is over a "
        "method's own datasets. After each value its deviation or error, as above. Best bold.",
        "The paper's rows, budget and hardware are not ours: a rank among published values is an "
        "indication, beside rows of this run it is a comparison.",
    )
    title = f"{what.title}: published test {what.label}, and {footnotes.join(sorted(mine))} ranked "
    name = f"reproduce-{what.name}{PLACED}"
    return [ReportTable(name, f"{title}among them.", header, (Panel(rows),), notes)]
