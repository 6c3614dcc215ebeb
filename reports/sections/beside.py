"""Published results that are not comparable with ours: other splits, metrics or tasks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from ..evidence import Evidence
from ..metrics import METRICS
from ..output import escape, footnotes
from ..output.tables import Panel, ReportTable, Section, TableCell, decimals_for, fixed

NAME, TITLE = "beside", "Published results on other splits"
MOST = 15  # published rows of a dataset in the printed table; the CSV has all


def section(evidence: Evidence, frame: pd.DataFrame) -> Section:
    """The file `beside`. frame: dataset, metric, source ("" for ours), model, score, spread (over
    seeds), n (seeds), same_rows, reason (why a published score is not comparable with ours).

    Nothing in it is ranked or tested. The best rows come first on each dataset and metric.
    """
    panels, cut = [], False
    for (dataset, metric), rows in frame.groupby(["dataset", "metric"], sort=True):
        name = str(metric)
        rows = rows.sort_values(
            ["score", "source", "model"], ascending=METRICS[name].direction == "min", kind="stable"
        )
        published = rows["source"] != ""
        if not published.any():
            continue  # the run's own metric, which nobody published here
        shown = rows[~published | (published.cumsum() <= MOST)]
        cut |= len(shown) < len(rows)
        scale = METRICS[name].factor
        decimals = decimals_for([float(v) * scale for v in rows["score"]])
        panels.append(
            Panel(
                tuple(_row(row, scale, decimals) for row in shown.to_dict("records")),
                f"{escape.label(str(dataset))}, {footnotes.metric_title(name)}",
            )
        )
    reasons = sorted(
        {
            f"{escape.label(row.source)} on {escape.label(row.dataset)}: {row.reason}"
            for row in frame[frame["source"] != ""].itertuples(index=False)
        }
    )
    notes = [
        "These scores are of other rows than ours, or of another metric: a difference is one of "
        "protocols as well, and none of them is ranked or tested.",
        "±: standard deviation over the published seeds; seeds: their number.",
        *(f"{reason}." for reason in reasons),
    ]
    if cut:
        notes.append(
            f"Of a dataset's published scores the best {MOST} are printed; the CSV has all."
        )
    header = ("model", "source", "score", "seeds")
    table = ReportTable(NAME, f"{TITLE}, beside ours", header, tuple(panels), tuple(notes), 2)
    about = "published results on other splits, which are not comparable with ours"
    return Section(NAME, TITLE, (table,), frame, about=about)


def _row(row: Mapping[Any, Any], scale: float, decimals: int) -> tuple[TableCell, ...]:
    score, spread = scale * float(row["score"]), scale * float(row["spread"])
    ours = not row["source"]
    return (
        TableCell(escape.label(str(row["model"]))),
        TableCell("this run" if ours else escape.label(str(row["source"]))),
        TableCell(fixed(score, decimals), "" if math.isnan(spread) else fixed(spread, decimals)),
        TableCell("" if ours else str(row["n"])),
    )
