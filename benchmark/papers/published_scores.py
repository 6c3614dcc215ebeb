"""Published scores of a run's own protocol: those of the tables that its suite and budget make."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ...reports.reproduction.published_table import published_error
from .catalog import papers
from .published_values import published_table

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ["dataset", "model", "metric", "value", "se", "table"]


def published_scores(meta: Mapping[str, Any]) -> pd.DataFrame | None:
    """Dataset, model and metric by our names, value and its standard error `se` in our unit, and
    the title of the table; None where no published table is made by this suite with this budget.

    se: s / sqrt(n) of a printed standard deviation; NaN where none is printed, or not what of.

    meta: the evidence's. Only the built-in papers count. Raises PaperError.
    """
    tables = list(_tables_of_cells(meta))
    if not tables:
        return None
    import pandas as pd

    return pd.concat(tables, ignore_index=True)[COLUMNS]


def _tables_of_cells(meta: Mapping[str, Any]) -> Iterator[pd.DataFrame]:
    """The values of the tables by dataset and method that the run's suite and budget make, in our
    units, with all of COLUMNS."""
    made = str(meta.get("suite")), str(meta.get("budget")).partition(":")[0]
    for paper in papers():
        for name, entry in paper.file.table.items():
            if not entry.suite or (entry.suite, entry.budget) != made or entry.shape != "cells":
                continue
            table = published_table(paper, name)
            rows = table.rows[table.rows["value"].notna()]
            units = rows["metric"].map(lambda metric, t=table: t.measures[metric].unit)
            printed = zip(rows["spread"], rows["spread_kind"], rows["n_repeats"], strict=True)
            errors = [published_error(*one) for one in printed]
            yield rows.assign(
                model=rows["method"].map(table.model_of),
                metric=rows["metric"].map(lambda metric, t=table: t.measures[metric].metric),
                value=rows["value"] / units,
                se=np.array(errors, dtype=float) / units,
                table=table.title,
            )
