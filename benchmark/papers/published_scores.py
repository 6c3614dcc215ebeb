"""Published scores of a run's own protocol: those of the tables that its suite and budget make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...reports.reproduction.published_table import published_error
from .catalog import papers
from .published_values import datasets_in, published_table

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ["dataset", "model", "metric", "value", "se", "table"]


def published_scores(meta: Mapping[str, Any]) -> pd.DataFrame | None:
    """Dataset, model and metric by our names, value and its standard error `se` in our unit, and
    the title of the table; None where no published table is made by this suite with this budget.

    se: s / sqrt(n) of a printed standard deviation; NaN where none is printed, or not what of.

    meta: the evidence's. Only the built-in papers count. Raises PaperError.
    """
    suite, budget = str(meta.get("suite")), str(meta.get("budget")).partition(":")[0]
    found = []
    for paper in papers():
        for name, entry in paper.file.table.items():
            if (entry.suite, entry.budget, entry.shape) != (suite, budget, "cells"):
                continue
            table = published_table(paper, name)
            rows = table.rows[table.rows["value"].notna()]
            units = np.array([table.measures[m].unit for m in rows["metric"]], dtype=float)
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
    suite, budget = str(meta.get("suite")), str(meta.get("budget")).partition(":")[0]
    found: dict[str, list[dict[str, Any]]] = {}
    for paper in papers():
        for name, entry in paper.file.table.items():
            if not entry.suite or entry.shape != "cells":
                continue
            if not datasets_in(paper, name).intersection(datasets):
                continue
            table = published_table(paper, name)
            rows = table.rows[table.rows["value"].notna() & table.rows["dataset"].isin(datasets)]
            same = (entry.suite, entry.budget) == (suite, budget)
            for row in rows.to_dict("records"):
                measure = table.measures[row["metric"]]
                found.setdefault(str(row["dataset"]), []).append(
                    {
                        "method": str(row["method"]),
                        "metric": measure.metric,
                        "value": float(row["value"]) / measure.unit,
                        "spread": float(row["spread"]) / measure.unit,
                        "table": table.title,
                        "comparable": same,
                    }
                )
    return dict(sorted(found.items()))
