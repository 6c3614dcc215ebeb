"""RTDL's Table 5: the score after a part of a search's time, published beside ours.

The paper tunes for six hours and shows the best configuration after 15 minutes to six hours. Ours
is what each study had chosen after the same share of the longest search of the run.
"""

from __future__ import annotations

import math
from dataclasses import replace

import pandas as pd

from ....reports.aggregation import anytime, at_times
from ....reports.evidence import Evidence
from ....reports.output import escape
from ....reports.output.tables import Panel, Section, TableCell, fixed
from ....reports.reproduction.published_table import MARK, OWN, PublishedTable
from ..paper_file import Paper
from ..rank_tables import figures_section, figures_table

HOURS = 6.0  # of the paper's searches
COUNT = "n-tuning-iterations"  # beside the scores: trials that had ended
HEADER = ("method", "hours, published", "score", "trials", "CPU s, ours", "score", "trials")
NOTE = (
    "Published: hours of a search on the authors' machine, means of five searches. Ours: CPU "
    "seconds of one search with a fold's tuning trials in turn, at the same share of the longest "
    "search of this run, and the test score of its choice by then. A dash: no trial had ended."
)


def table_5(paper: Paper, table: PublishedTable) -> PublishedTable:
    """The scores, a row for each time; the numbers of trials are in the column `trials`."""
    rows = table.rows
    keys = ["dataset", "method", "level"]
    counts = rows[rows["metric"] == COUNT].set_index(keys)["value"].rename("trials")
    scores = rows[rows["metric"] != COUNT].join(counts, on=keys)
    return replace(table, rows=scores, compare=section)


def section(evidence: Evidence, published: PublishedTable) -> Section:
    """Published scores after some hours beside ours after the same share of a search."""
    steps = at_times.spent(evidence, anytime.running(evidence))
    longest = float(steps["cpu"].max()) if len(steps) else math.nan
    found = []
    for hours, printed in published.rows.groupby("level", sort=False):
        if math.isnan(longest):
            break
        seconds = longest * float(hours) / HOURS
        now = at_times.at(steps, seconds).groupby(["dataset", "model"])[["test", "n"]].mean()
        rows = printed.assign(model=printed["method"].map(published.model_of), seconds=seconds)
        rows = rows.assign(hours=float(hours))
        found.append(rows.join(now, on=["dataset", "model"]))
    columns = "dataset method metric hours value trials seconds test n decimals remark".split()
    frame = pd.concat(found)[columns] if found else pd.DataFrame(columns=columns)
    here = frame[frame.groupby("dataset")["test"].transform("count") > 0]
    panels = [
        Panel(
            tuple(_row(r, part["decimals"].max()) for r in part.itertuples(index=False)),
            f"{escape.label(str(dataset))}, {published.metric_label(part['metric'].iloc[0])}",
        )
        for dataset, part in here.sort_values(["method", "hours"], kind="stable").groupby("dataset")
    ]
    own = [f"{MARK} {OWN}."] if (here["remark"] == OWN).any() else []
    title = f"{published.title}: test score after a time of the search, published beside ours."
    notes = (NOTE, *own, *published.notes)
    table = figures_table(evidence, published.name, title, HEADER, panels, notes)
    n = int((frame["test"].notna() & frame["value"].notna()).sum())
    remark = f"{n} of {len(published.printed)} published scores have one of ours."
    return figures_section(published, table, frame, remark)


def _row(r: object, decimals: int) -> tuple[TableCell, ...]:
    d = r._asdict()  # type: ignore[attr-defined]

    def number(name: str, decimals: int) -> TableCell:
        return TableCell("–" if pd.isna(d[name]) else fixed(d[name], decimals))

    return (
        TableCell(escape.label(d["method"]), mark=MARK if d["remark"] == OWN else ""),
        TableCell(f"{d['hours']:g}"),
        number("value", decimals),
        number("trials", 0),
        TableCell(fixed(d["seconds"], 0)),
        number("test", decimals),
        number("n", 0),
    )
