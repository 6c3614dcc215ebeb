"""Hopular's median ranks over datasets, published beside ours: Table 1, and below Table 2.

A rank depends on the list of methods: ours are among the models of the run, the paper's among its
own. The orders of the methods can be compared, the numbers cannot.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from ....reports.aggregation.cells import headline_cells, studies
from ....reports.aggregation.ranking_matrix import RankingMatrix, scopes
from ....reports.aggregation.ranking_rules import ranked
from ....reports.evidence import Evidence
from ....reports.output import escape, footnotes
from ....reports.output.tables import Panel, ReportTable, Section, TableCell
from ....reports.reproduction.comparison import compare_cells
from ....reports.reproduction.comparison_frame import NOT_HERE
from ....reports.reproduction.comparison_table import NOTHING
from ....reports.reproduction.published_table import PublishedTable
from ....reports.statistics.ranking import ranks, standard_error
from ..paper_file import Paper

MARS = (
    "no maintained library has it: py-earth is archived since December 2023, and scikit-learn has "
    "none"
)
RANKING_NOTE = (
    "Published: computed from the table's values, the one that is not legible ranked last, which "
    "gives the medians that the paper prints."
)
RANKING = "missing-last"  # the printed medians follow if the illegible value ranks last
TOO_FEW = "complete on too few datasets"
HEADER = ("method", "our model", "published median", "ours: median", "mean", "datasets")
NO_RANK = "published methods without a rank of ours"


def table_1(paper: Paper, table: PublishedTable) -> PublishedTable:
    """Median ranks as printed; one method has no model here."""
    return replace(table, absent={"mars": MARS}, compare=section)


def table_2(paper: Paper, table: PublishedTable) -> PublishedTable:
    """Cells, and below them the median ranks that follow from them."""
    return replace(table, compare=section_of_values)


def ranks_of_values(published: PublishedTable) -> dict[str, float]:
    """{method: median over datasets of its rank} from published values."""
    rows = published.rows
    sign = np.where(rows["direction"] == "max", -1.0, 1.0)
    losses = rows.assign(loss=sign * rows["value"])
    matrix = losses.pivot(index="dataset", columns="method", values="loss")
    rank = ranked(matrix.to_numpy(dtype=float), "min", RANKING)
    return dict(zip(matrix.columns, np.median(rank, axis=0).tolist(), strict=True))


def section(evidence: Evidence, published: PublishedTable) -> Section:
    """A table of published median ranks (one row per method) beside ours."""
    rows = published.rows
    printed = dict(zip(rows["method"], rows["value"].tolist(), strict=True))
    notes = (*_over(rows["n_repeats"].max()), *published.notes)
    made, frame = _table(evidence, published, printed, published.name, notes)
    here = frame.loc[frame["median_rank"].notna(), "method"]
    remark = (
        f"{len(set(printed) & set(here))} of {len(printed)} published methods have a median rank "
        "of ours. A median rank has no published standard error, so no difference in joint "
        "standard errors."
    )
    return Section(made.name, f"{published.title} beside ours", (made,), frame, (remark,))


def section_of_values(evidence: Evidence, published: PublishedTable) -> Section:
    """The comparison of cells, with median ranks computed from the published values beside ours."""
    found = compare_cells(evidence, published)
    theirs, name = ranks_of_values(published), f"{published.name}-ranks"
    notes = (*_over(published.rows["dataset"].nunique()), RANKING_NOTE)
    first, *rest = found.tables
    return replace(
        found, tables=(first, _table(evidence, published, theirs, name, notes)[0], *rest)
    )


def _over(n: float) -> list[str]:
    """Over how many datasets the published medians are, where that is known."""
    ours = "ours: over those that the last column counts"
    return [] if np.isnan(n) else [f"Published: medians over {n:.0f} datasets; {ours}."]


def _table(
    evidence: Evidence,
    published: PublishedTable,
    theirs: Mapping[str, float],
    name: str,
    own_notes: tuple[str, ...],
) -> tuple[ReportTable, pd.DataFrame]:
    """(table, frame): every ranked model of ours, by its median rank over all datasets and over the
    independent ones. theirs: published method -> median rank. own_notes: on the published ranks."""
    known = {published.model_of(method): (method, rank) for method, rank in theirs.items()}
    title = published.title
    panels, rows, notes = [], [], []
    reasons = {
        model: published.absent.get(method, NOT_HERE if model not in evidence.models else "")
        for model, (method, _) in known.items()
    }
    for mine in _pools(evidence):
        reason = mine.why_not
        if reason or not set(mine.models) & set(known):
            continue
        found = _rows(mine, known)
        rows += [{"datasets": mine.scope.kind, **row} for row in found]
        scope = f"{mine.scope.kind} ({len(mine.datasets)})"
        panels.append(Panel(tuple(map(_cells, found)), scope))
        if mine.thin:
            thin = ", ".join(f"{escape.label(m)} ({n})" for m, n in sorted(mine.thin.items()))
            notes.append(f"Complete on too few of {mine.n_scope} datasets for a rank: {thin}.")
    if not panels:
        panels = [Panel(((TableCell(NOTHING, span=len(HEADER)),),))]
    ranked_here = {row["model"] for row in rows}
    without = [model for model in known if model not in ranked_here]
    if rows and without:
        left_out = [_without(model, *known[model], reasons[model] or TOO_FEW) for model in without]
        rows += left_out
        panels.append(Panel(tuple(map(_reason, left_out)), NO_RANK))
    absent = [model for model in known if model not in evidence.models]
    notes = [
        *footnotes.setting(evidence),
        *own_notes,
        f"{footnotes.TIES} After the mean: s/√N over the datasets.",
        *dict.fromkeys(notes),
        f"Of {len(known)} published methods {len(known) - len(absent)} are in this run.",
    ]
    columns = "datasets model method published median_rank mean_rank se n_datasets note".split()
    heading = f"{title}: published median ranks beside those among our models, 1 is best."
    made = ReportTable(
        f"reproduce-{name}", heading, HEADER, tuple(panels), tuple(notes), n_labels=2
    )
    return made, pd.DataFrame(rows, columns=columns)


def _pools(evidence: Evidence) -> list[RankingMatrix]:
    """The widest scope, with all datasets and with the subset where there is one."""
    headline = headline_cells(evidence, studies(evidence))
    every = scopes(evidence)
    widest = [s for s in every if not s.subset][-1].name
    return [RankingMatrix.of(evidence, headline, scope) for scope in every if scope.name == widest]


def _rows(mine: RankingMatrix, known: Mapping[str, tuple[str, float]]) -> list[dict[str, object]]:
    """One row per ranked model, the best median first."""
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
                "note": "",
            }
        )
    return found


def _without(model: str, method: str, printed: float, why: str) -> dict[str, object]:
    """The row of a published method that has no rank of ours."""
    return {"datasets": "", "model": model, "method": method, "published": printed, "note": why}


def _reason(row: Mapping[str, object]) -> tuple[TableCell, ...]:
    """Its printed row: the reason stands where our numbers would."""
    return (
        TableCell(escape.label(str(row["method"]))),
        TableCell("none"),
        TableCell(f"{row['published']:.1f}"),
        TableCell(f"n/a: {row['note']}", span=3),
    )


def _cells(row: Mapping[str, object]) -> tuple[TableCell, ...]:
    error = row["se"]
    return (
        TableCell(escape.label(str(row["method"] or "n/a"))),
        TableCell(escape.label(str(row["model"]))),
        TableCell("n/a" if row["published"] is None else f"{row['published']:.1f}"),
        TableCell(f"{row['median_rank']:.1f}"),
        TableCell(f"{row['mean_rank']:.2f}", "" if error is None else f"{error:.2f}"),
        TableCell(str(row["n_datasets"])),
    )
