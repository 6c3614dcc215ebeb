"""Published scores of a run's own protocol: those of the tables that its suite and budget make."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...reports.reproduction.published_table import PublishedTable, published_error
from .catalog import papers
from .published_values import published_table, table_rows

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ["dataset", "model", "metric", "value", "se", "table"]


def published_scores(meta: Mapping[str, Any]) -> pd.DataFrame | None:
    """Dataset, model and metric by our names, value and its standard error `se` in our unit, and
    the title of the table; None where no published table is made by this suite with this budget.

    se: s / sqrt(n) of a printed standard deviation; NaN where none is printed, or not what of.

    meta: the evidence's. Only the built-in papers count. Raises PaperError.
    """
    found = []
    for table, comparable in _tables_of_cells(meta):
        if not comparable:
            continue
        rows, units = _values(table)
        printed = zip(rows["spread"], rows["spread_kind"], rows["n_repeats"], strict=True)
        errors = np.array([published_error(*one) for one in printed], dtype=float)
        found.append(
            rows.assign(
                model=[table.model_of(method) for method in rows["method"]],
                metric=[table.measures[m].metric for m in rows["metric"]],
                value=rows["value"] / units,
                se=errors / units,
                table=table.title,
            )[COLUMNS]
        )
    if not found:
        return None
    import pandas as pd

    return pd.concat(found, ignore_index=True)


def published_on(
    meta: Mapping[str, Any], datasets: Sequence[str]
) -> dict[str, list[dict[str, Any]]]:
    """{dataset of ours: the values that the built-in papers print for it}, in the paper's order.

    A value is {method, metric, value, spread, table, comparable}: in our metric's unit, spread NaN
    where none is printed; comparable where the table is made by this suite with this budget. Only
    tables that a run can stand beside. Raises PaperError.
    """
    found: dict[str, list[dict[str, Any]]] = {}
    for table, comparable in _tables_of_cells(meta, datasets):
        rows, units = _values(table)
        for row, unit in zip(rows.to_dict("records"), units, strict=True):
            if row["dataset"] not in datasets:
                continue
            found.setdefault(str(row["dataset"]), []).append(
                {
                    "method": str(row["method"]),
                    "metric": table.measures[row["metric"]].metric,
                    "value": float(row["value"]) / unit,
                    "spread": float(row["spread"]) / unit,
                    "table": table.title,
                    "comparable": comparable,
                }
            )
    return dict(sorted(found.items()))


def _tables_of_cells(
    meta: Mapping[str, Any], datasets: Sequence[str] | None = None
) -> Iterator[tuple[PublishedTable, bool]]:
    """The built-in papers' tables of scores by dataset and method, each with whether the run's
    suite and budget make it. datasets: only tables that have one of them."""
    made = str(meta.get("suite")), str(meta.get("budget")).partition(":")[0]
    for paper in papers():
        for name, entry in paper.file.table.items():
            if not entry.suite or entry.shape != "cells":
                continue
            comparable = (entry.suite, entry.budget) == made
            if datasets is None and not comparable:
                continue
            if datasets and not set(table_rows(paper, name)["dataset"]).intersection(datasets):
                continue
            yield published_table(paper, name), comparable


def _values(table: PublishedTable) -> tuple[pd.DataFrame, np.ndarray]:
    """(the rows that have a value, their units)."""
    rows = table.rows[table.rows["value"].notna()]
    return rows, np.array([table.measures[m].unit for m in rows["metric"]], dtype=float)
