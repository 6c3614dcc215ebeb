"""Score against time: what every model had reached after T CPU seconds of its search."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ..aggregation import at_times
from ..evidence import Evidence
from ..metrics import METRICS
from ..output import escape, footnotes
from ..output.curves import Curve, Plot
from ..output.looks import looks
from ..output.marks import ScoreText
from ..output.tables import Panel, ReportTable, Section, TableCell
from ..statistics.ranking import places

NAME = "time"
MOST_ROWS = 300  # of the table of scores; the CSV has every choice of every study

READ = (
    "After T CPU seconds of a study (fits and predictions of its trials, in the order of their "
    "index; its evaluation seeds not counted) validation's choice among the trials that had ended "
    "counts with its own test score. A study that took less keeps its last choice. Nothing was "
    "fitted for this; the CSV has each study's choice from every second at which it changes, so "
    "the score at any T. The table depends on the machine."
)


def section(evidence: Evidence, headline: pd.DataFrame) -> Section | None:
    """The file `time`; None where no study has CPU seconds and validation scores. `headline`:
    `cells.headline_cells`."""
    cells, ranked = at_times.at_equal_time(evidence, headline)
    tables = []
    if len(ranked):
        tables.append(_rank_table(evidence, ranked))
    if len(cells):
        tables.append(_score_table(evidence, cells))
    if not tables:
        return None
    changes = at_times.choices(at_times.spent(evidence))
    return Section(NAME, "Score against time", tuple(tables), changes)


def _header(ts: list[float]) -> tuple[str, ...]:
    return tuple(f"{t:g} s" for t in ts)


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
    header = ("model", *_header(list(wide.columns)))
    return ReportTable("time-ranks", title, header, (Panel(tuple(rows)),), notes)


def _score_table(evidence: Evidence, cells: pd.DataFrame) -> ReportTable:
    ts = sorted(set(cells["time"]))
    panels: list[Panel] = []
    n_rows, left_out = 0, 0
    for dataset, part in cells.groupby("dataset", sort=True):
        name = evidence.headline(str(part["task"].iloc[0]))
        wide = part.pivot(index="model", columns="time", values="mean")[ts]
        n_rows += len(wide)
        if n_rows > MOST_ROWS and panels:
            left_out += 1
            continue
        values = wide.to_numpy(dtype=float)
        known = values[~np.isnan(values)]
        score = ScoreText.of(name, known.tolist())
        first = [
            np.array(places(column, METRICS[name].direction)) == 1
            for column in np.where(np.isnan(values), _worst(name), values).T.tolist()
        ]
        rows = [
            (
                TableCell(escape.label(str(model))),
                *(
                    TableCell("–")
                    if np.isnan(values[i, j])
                    else TableCell(score(values[i, j]), bold=bool(first[j][i]))
                    for j in range(len(ts))
                ),
            )
            for i, model in enumerate(wide.index)
        ]
        panels.append(
            Panel(tuple(rows), f"{escape.label(str(dataset))}, {footnotes.metric_title(name)}")
        )
    title = "Test score of validation's choice after T CPU seconds a study: mean over the folds."
    notes = [*footnotes.setting(evidence), READ, "–: some fold had no score by then."]
    if left_out:
        notes.append(f"{footnotes.count(left_out, 'more dataset')} in the CSV.")
    return ReportTable("time", title, ("model", *_header(ts)), tuple(panels), tuple(notes))


def _worst(name: str) -> float:
    return -np.inf if METRICS[name].direction == "max" else np.inf


def plot(evidence: Evidence, headline: pd.DataFrame) -> Plot | None:
    """Mean rank against time; None where there are no ranks."""
    ranked = at_times.at_equal_time(evidence, headline)[1]
    if not len(ranked) or ranked["time"].nunique() < 2:
        return None
    of = looks(evidence.models, evidence.meta.get("families") or {})
    drawn = [
        Curve(
            str(model),
            mine["time"].to_numpy(dtype=float),
            mine["mean_rank"].where(mine["scored"] > 0).to_numpy(dtype=float),
            of[str(model)],
        )
        for model, mine in ranked.groupby("model", sort=True)
    ]
    return Plot(drawn, "Mean rank at equal time", "CPU seconds a study", "mean rank", log_x=10)
