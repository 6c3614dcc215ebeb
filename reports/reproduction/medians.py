"""Where does each method rank in the middle? A paper's median ranks beside ours.

A rank says only who was before whom in one list of methods: ours are among the models of the run,
the paper's among its own, so the numbers cannot be compared, the orders can.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from ..aggregation.cells import headline_cells, studies
from ..aggregation.ranking_matrix import RankingMatrix as Pool
from ..aggregation.ranking_matrix import scopes
from ..aggregation.ranking_rules import ranked
from ..evidence import Evidence
from ..output import escape, footnotes
from ..output.tables import Panel, Section
from ..output.tables import ReportTable as Table
from ..output.tables import TableCell as Cell
from ..statistics.ranking import ranks, standard_error

NOTHING = "n/a: no published cell of this table has a value of ours"
HEADER = ("method", "published median", "ours: median", "mean", "datasets")
AMONG = (
    "The paper prints neither its accuracies on each dataset nor which methods stand for the 17 "
    "groups, so no rank among its 29 methods can be computed: ours are ranks among the models of "
    "this run alone. Compare the order of the methods, not the numbers."
)


def of_table(table: pd.DataFrame) -> dict[str, float]:
    """{method: median of its ranks on the datasets} of a published table; no value ranks last."""
    sign = np.where(table["direction"] == "max", -1.0, 1.0)
    losses = table.assign(loss=sign * table["value"])
    matrix = losses.pivot(index="dataset", columns="method", values="loss")
    middle = np.median(ranked(matrix.to_numpy(dtype=float), "min", "hopular"), axis=0)
    return dict(zip(matrix.columns, middle.tolist(), strict=True))


def section(
    evidence: Evidence, name: str, title: str, theirs: pd.DataFrame, models: Mapping[str, str]
) -> Section:
    """A table of published median ranks (one row a method) beside ours. `models`: our names."""
    printed = dict(zip(theirs["method"], theirs["value"].tolist(), strict=True))
    made, frame = table(evidence, name, title, printed, models, AMONG)
    return Section(f"reproduce-{name}", f"{title} beside ours", (made,), frame)


def table(
    evidence: Evidence,
    name: str,
    title: str,
    theirs: Mapping[str, float],
    models: Mapping[str, str],
    said: str,
) -> tuple[Table, pd.DataFrame]:
    """(table, frame): every ranked model of ours, by its median rank over all datasets and over the
    independent ones. theirs: published method -> median rank. said: the note on the numbers."""
    known = {models.get(method, method): (method, rank) for method, rank in theirs.items()}
    panels, rows, notes = [], [], []
    for mine in _pools(evidence):
        reason = mine.why_not
        if reason or not set(mine.models) & set(known):
            continue
        found = _rows(mine, known)
        rows += [{"datasets": mine.scope.kind, **row} for row in found]
        title = f"{mine.scope.kind} ({len(mine.datasets)})"
        panels.append(Panel(tuple(map(_cells, found)), title))
        if mine.thin:
            thin = ", ".join(f"{escape.label(m)} ({n})" for m, n in sorted(mine.thin.items()))
            notes.append(f"Complete on too few of {mine.n_scope} datasets for a rank: {thin}.")
    if not panels:
        panels = [Panel(((Cell(NOTHING, span=len(HEADER)),),))]
    absent = [model for model in known if model not in evidence.models]
    notes = [
        *footnotes.setting(evidence),
        said,
        f"{footnotes.TIES} After the mean: s/√N over the datasets.",
        *dict.fromkeys(notes),
        f"Of {len(known)} published methods {len(known) - len(absent)} are in this run.",
    ]
    columns = "datasets model method published median_rank mean_rank se n_datasets".split()
    heading = f"{title}: published median ranks beside those among our models, 1 is best."
    made = Table(f"reproduce-{name}", heading, HEADER, tuple(panels), tuple(notes))
    return made, pd.DataFrame(rows, columns=columns)


def _pools(evidence: Evidence) -> list[Pool]:
    """The widest scope, with all datasets and with the subset where there is one."""
    headline = headline_cells(evidence, studies(evidence))
    every = scopes(evidence)
    widest = [s for s in every if not s.subset][-1].name
    return [Pool.of(evidence, headline, scope) for scope in every if scope.name == widest]


def _rows(mine: Pool, known: Mapping[str, tuple[str, float]]) -> list[dict[str, object]]:
    """One row a ranked model, the best median first."""
    rank = ranks(mine.losses, "min")
    middle, mean = np.median(rank, axis=0), rank.mean(axis=0)
    errors = standard_error(rank).tolist() if len(rank) > 1 else [None] * len(mine.models)
    found = []
    for j in sorted(range(len(mine.models)), key=lambda j: (middle[j], mean[j], mine.models[j])):
        method, printed = known.get(mine.models[j], ("", None))
        found.append(
            {
                "model": mine.models[j],
                "method": method,
                "published": printed,
                "median_rank": float(middle[j]),
                "mean_rank": float(mean[j]),
                "se": errors[j],
                "n_datasets": len(rank),
            }
        )
    return found


def _cells(row: Mapping[str, object]) -> tuple[Cell, ...]:
    error = row["se"]
    return (
        Cell(escape.label(str(row["model"]))),
        Cell("n/a" if row["published"] is None else f"{row['published']:.1f}"),
        Cell(f"{row['median_rank']:.1f}"),
        Cell(f"{row['mean_rank']:.2f}", "" if error is None else f"{error:.2f}"),
        Cell(str(row["n_datasets"])),
    )
