"""What the papers' tables of ranks and means over datasets share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from ...reports.aggregation.ranking_rules import rank_figures
from ...reports.evidence import Evidence
from ...reports.metrics import METRICS
from ...reports.output import footnotes
from ...reports.output.tables import Panel, ReportTable, Section, TableCell, fixed
from ...reports.reproduction.comparison_table import NOTHING
from ...reports.reproduction.published_table import PublishedTable


def method_ranks(
    cells: pd.DataFrame, value: str, ranking: str, methods: Sequence[str]
) -> pd.DataFrame:
    """`ranking_rules.rank_figures` of the methods, in their order. cells: dataset, method, metric
    by our names, and the column `value`."""
    signs = cells["metric"].map(lambda name: METRICS[name].sign).astype(float)
    losses = cells.assign(loss=signs * cells[value].astype(float))
    matrix = losses.pivot(index="dataset", columns="method", values="loss")
    return rank_figures(matrix.reindex(columns=list(methods)), ranking)


def with_error(value: float, error: float) -> TableCell:
    """A mean and, where it is known, its standard error; a dash for NaN."""
    if np.isnan(value):
        return TableCell("–")
    return TableCell(fixed(value, 2), "" if np.isnan(error) else fixed(error, 2))


def figures_table(
    evidence: Evidence,
    name: str,
    heading: str,
    header: Sequence[str],
    panels: Iterable[Panel],
    notes: Iterable[str],
    n_labels: int = 1,
) -> ReportTable:
    """A table of figures over datasets beside a run, or a sentence if there is no panel."""
    nothing = Panel(((TableCell(NOTHING, span=len(header)),),))
    notes = (*footnotes.setting(evidence), *notes)
    return ReportTable(
        f"reproduce-{name}", heading, tuple(header), tuple(panels) or (nothing,), notes, n_labels
    )


def figures_section(
    published: PublishedTable,
    table: ReportTable,
    frame: pd.DataFrame,
    remark: str,
    more: Iterable[ReportTable] = (),
) -> Section:
    """The comparison that this table makes, with `more` below it."""
    title = f"{published.title} beside ours"
    return Section(table.name, title, (table, *more), frame, (remark,))
