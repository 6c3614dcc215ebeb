"""Published scores of a run's own protocol: those of the tables that its suite and budget make."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .catalog import papers
from .published_values import published_table

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ["dataset", "model", "metric", "value", "spread", "table"]


def published_scores(meta: Mapping[str, Any]) -> pd.DataFrame | None:
    """Dataset, model and metric by our names, value and spread in our unit, and the title of the
    table; None where no published table is made by this suite with this budget.

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
            units = [table.measures[m].unit for m in rows["metric"]]
            found.append(
                rows.assign(
                    model=[table.model_of(method) for method in rows["method"]],
                    metric=[table.measures[m].metric for m in rows["metric"]],
                    value=rows["value"] / units,
                    spread=rows["spread"] / units,
                    table=table.title,
                )[COLUMNS]
            )
    if not found:
        return None
    import pandas as pd

    return pd.concat(found, ignore_index=True)
