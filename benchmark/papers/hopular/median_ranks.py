"""Hopular's median ranks over datasets, published beside ours: Table 1, and below Table 2.

A rank depends on the list of methods: ours are among the models of the run, the paper's among its
own. The orders of the methods can be compared, the numbers cannot.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from ....reports.aggregation.cells import headline_cells, studies
from ....reports.aggregation.ranking_matrix import RankingMatrix, ranking_matrices, widest
from ....reports.aggregation.ranking_rules import rank_figures
from ....reports.evidence import Evidence
from ....reports.output import escape, footnotes
from ....reports.output.tables import Panel, ReportTable, Section, TableCell
from ....reports.reproduction.comparison import compare_cells
from ....reports.reproduction.comparison_frame import NOT_HERE
from ....reports.reproduction.published_table import MARK, OWN, PublishedTable
from ..paper_file import Paper
from ..rank_tables import figures_section, figures_table, method_ranks, with_error

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
COLUMNS = "datasets model method published median_rank mean_rank se n_datasets note".split()


def table_1(paper: Paper, table: PublishedTable) -> PublishedTable:
    """Median ranks as printed; one method has no model here."""
    return replace(table, absent={"mars": MARS}, compare=section)


def table_2(paper: Paper, table: PublishedTable) -> PublishedTable:
    """Cells, and below them the median ranks that follow from them."""
    return replace(table, compare=section_of_values)


def ranks_of_values(published: PublishedTable) -> dict[str, float]:
    """{method: median over datasets of its rank} from published values."""
    rows = published.printed
    cells = rows.assign(metric=[published.measures[metric].metric for metric in rows["metric"]])
    ranks = method_ranks(cells, "value", RANKING, sorted(set(rows["method"])))
    return ranks["median_rank"].to_dict()


def section(evidence: Evidence, published: PublishedTable) -> Section:
    """A table of published median ranks (one row per method) beside ours."""
    rows = published.printed
    printed = dict(zip(rows["method"], rows["value"].tolist(), strict=True))
    notes = (*_over(rows["n_repeats"].max()), *published.notes)
    table, frame = _table(evidence, published, printed, published.name, notes)
    here = frame.loc[frame["median_rank"].notna(), "method"]
    remark = (
        f"{len(set(printed) & set(here))} of {len(printed)} published methods have a median rank "
        "of ours. A median rank has no published standard error, so no difference in joint "
        "standard errors."
    )
    return figures_section(published, table, frame, remark)


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
    methods = {published.model_of(method): method for method in theirs}
    panels, frames, notes = [], [], []
    for mine in _pools(evidence):
        if mine.why_not or not set(mine.models) & set(methods):
            continue
        found = _ranks(mine).assign(datasets=mine.scope.kind, note="")
        found["method"] = found["model"].map(methods).fillna("")
        frames.append(found.assign(published=found["method"].map(theirs)))
        scope = f"{mine.scope.kind} ({len(mine.datasets)})"
        panels.append(Panel(tuple(_cells(r) for r in frames[-1].itertuples()), scope))
        if not found["method"].all():
            notes.append(f"{MARK} {OWN}.")
        if mine.thin:
            thin = ", ".join(f"{escape.label(m)} ({n})" for m, n in sorted(mine.thin.items()))
            notes.append(f"Complete on too few of {mine.n_scope} datasets for a rank: {thin}.")
    absent = [model for model in methods if model not in evidence.models]
    ranked_here = {model for found in frames for model in found["model"]}
    without = [model for model in methods if model not in ranked_here]
    if frames and without:
        left_out = pd.DataFrame({"model": without, "datasets": ""})
        left_out["method"] = left_out["model"].map(methods)
        left_out["published"] = left_out["method"].map(theirs)
        left_out["note"] = [
            published.absent.get(methods[model], NOT_HERE if model in absent else TOO_FEW)
            for model in without
        ]
        frames.append(left_out)
        panels.append(Panel(tuple(_reason(r) for r in left_out.itertuples()), NO_RANK))
    notes = [
        *own_notes,
        f"{footnotes.TIES} After the mean: s/√N over the datasets.",
        *dict.fromkeys(notes),
        f"Of {len(methods)} published methods {len(methods) - len(absent)} are in this run.",
    ]
    heading = f"{published.title}: published median ranks beside those among our models, 1 is best."
    table = figures_table(evidence, name, heading, HEADER, panels, notes, n_labels=2)
    return table, pd.concat([pd.DataFrame(columns=COLUMNS), *frames], ignore_index=True)


def _pools(evidence: Evidence) -> list[RankingMatrix]:
    """The widest scope, with all datasets and with the subset where there is one."""
    made = ranking_matrices(evidence, headline_cells(evidence, studies(evidence)))
    return [matrix for matrix in made if matrix.scope.name == widest(made).scope.name]


def _ranks(mine: RankingMatrix) -> pd.DataFrame:
    """One row per ranked model, the best median first."""
    figures = rank_figures(pd.DataFrame(mine.losses, columns=mine.models), "average")
    figures = figures.rename_axis("model").reset_index()
    return figures.sort_values(["median_rank", "mean_rank", "model"])[
        ["model", "median_rank", "mean_rank", "se", "n_datasets"]
    ]


def _reason(row: Any) -> tuple[TableCell, ...]:
    """The printed row of a method without a rank: the reason stands where our numbers would."""
    return (
        TableCell(escape.label(row.method)),
        TableCell("none"),
        TableCell(f"{row.published:.1f}"),
        TableCell(f"n/a: {row.note}", span=3),
    )


def _cells(row: Any) -> tuple[TableCell, ...]:
    return (
        TableCell(escape.label(row.method or row.model), mark="" if row.method else MARK),
        TableCell(escape.label(row.model)),
        TableCell("n/a" if np.isnan(row.published) else f"{row.published:.1f}"),
        TableCell(f"{row.median_rank:.1f}"),
        with_error(row.mean_rank, row.se),
        TableCell(str(row.n_datasets)),
    )
