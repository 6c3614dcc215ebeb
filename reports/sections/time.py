"""Score against time: what every model had reached after T CPU seconds of its search."""

from __future__ import annotations

import pandas as pd

from ..aggregation import at_times
from ..evidence import Evidence
from ..output import escape, footnotes
from ..output.curves import Curve, Plot
from ..output.looks import looks
from ..output.tables import Panel, ReportTable, Section, TableCell

NAME = "time"

READ = (
    "After T CPU seconds of a study (fits and predictions of its trials, in the order of their "
    "index; its evaluation seeds not counted) validation's choice among the trials that had ended "
    "counts with its own test score. A study that took less keeps its last choice. Nothing was "
    "fitted for this; the CSV has each study's choice from every second at which it changes, so "
    "the score at any T. The table depends on the machine."
)


def section(evidence: Evidence, steps: pd.DataFrame, ranked: pd.DataFrame) -> Section:
    """The file `time`. `steps`: `at_times.spent`; `ranked`: `at_times.ranks_at`, not empty."""
    about = "ranks at equal time: after T CPU seconds of each search"
    table = _rank_table(evidence, ranked)
    return Section(NAME, "Score against time", (table,), at_times.choices(steps), about=about)


def _rank_table(evidence: Evidence, ranked: pd.DataFrame) -> ReportTable:
    wide = ranked.pivot(index="model", columns="time", values="mean_rank")
    scored = ranked.pivot(index="model", columns="time", values="scored")
    best = wide.min()
    rows = [
        (
            TableCell(escape.label(str(model))),
            *(
                TableCell(
                    "–" if not scored.loc[model, t] else f"{rank:.2f}",
                    bold=bool(scored.loc[model, t] and rank == best[t]),
                )
                for t, rank in wide.loc[model].items()
            ),
        )
        for model in wide.sort_values([wide.columns[-1]], kind="stable").index
    ]
    n = int(ranked["n_datasets"].iloc[0])
    title = (
        f"Mean rank at equal time, after T CPU seconds a study; {footnotes.count(n, 'dataset')}."
    )
    notes = (
        *footnotes.setting(evidence),
        READ,
        "Over the datasets on which every model has a score in the end. A model without a score "
        "by T on a dataset (–: on none) ranks there behind all that have one. Bold: lowest rank.",
    )
    header = ("model", *(f"{t:g} s" for t in wide.columns))
    return ReportTable("time-ranks", title, header, (Panel(tuple(rows)),), notes)


def plot(evidence: Evidence, ranked: pd.DataFrame) -> Plot | None:
    """Mean rank against time; None without two times. `ranked`: `at_times.ranks_at`."""
    if ranked["time"].nunique() < 2:
        return None
    of = looks(evidence.models, evidence.facts.families)
    drawn = [
        Curve(
            str(model),
            mine["time"].to_numpy(dtype=float),
            mine["mean_rank"].where(mine["scored"] > 0).to_numpy(dtype=float),
            of[str(model)],
        )
        for model, mine in ranked.groupby("model", sort=True)
    ]
    return Plot(drawn, "Mean rank at equal time", "CPU seconds a study", "mean rank")
