"""The table of ranks over the models that each dataset has, as RTDL's Table 2 averages them."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from ..aggregation.ranking_matrix import Scope, loss_table, scopes
from ..aggregation.ranking_rules import ranked, ranking_rule
from ..evidence import Evidence
from ..metrics import METRICS
from ..output import escape, footnotes
from ..output.tables import Panel, ReportTable, Section, TableCell


def rank_figures(losses: pd.DataFrame, ranking: str) -> pd.DataFrame:
    """Of each model (column) with a score: mean_rank, std (over its datasets, ddof 1; NaN for one),
    median_rank, n_best and n_ranked, the number of its datasets. losses: datasets x models, lower
    is better, NaN for a missing score.

    >>> losses = pd.DataFrame({"a": [1.0, 2.0], "b": [2.0, np.nan]})
    >>> rank_figures(losses, "available").loc["b"].tolist()
    [2.0, nan, 2.0, 0.0, 1.0]
    """
    rank = pd.DataFrame(
        ranked(losses.to_numpy(dtype=float), "min", ranking), losses.index, losses.columns
    )
    lowest = rank.min(axis=1)
    found = pd.DataFrame(
        {
            "mean_rank": rank.mean(),
            "std": rank.std(ddof=1),
            "median_rank": rank.median(),
            "n_best": rank.eq(lowest, axis=0).sum(),
            "n_ranked": rank.notna().sum(),
        }
    )
    return found[found["n_ranked"] > 0]


def in_brackets(mean: float, std: float) -> str:
    """A mean rank as RTDL prints it: '1.8 (1.2)'."""
    return f"{mean:.1f}" if math.isnan(std) else f"{mean:.1f} ({std:.1f})"


def section(evidence: Evidence, headline: pd.DataFrame, ranking: str) -> Section:
    """The file `ranks` by a rule of available models. headline: `cells.headline_cells`."""
    every = scopes(evidence)
    figures: dict[str, pd.DataFrame] = {}
    frames = []
    for scope in every:
        losses = loss_table(headline, scope, evidence.subset)
        found = figures[scope.title] = rank_figures(losses, ranking)
        frame = found.reindex(evidence.models).rename_axis("model").reset_index()
        named = {"scope": scope.name, "datasets": scope.selection, "n_scope": len(losses)}
        notes = np.where(frame["mean_rank"].isna(), "n/a: no complete score", "")
        frames.append(frame.assign(**named, n_models=len(found), note=notes))
    columns = "scope datasets model n_scope n_ranked n_models mean_rank std median_rank n_best note"
    table = _table(evidence, every, figures, ranking)
    return Section(
        "ranks", "Ranks", (table,), pd.concat(frames, ignore_index=True)[columns.split()]
    )


def _table(
    evidence: Evidence, every: list[Scope], figures: dict[str, pd.DataFrame], ranking: str
) -> ReportTable:
    alone = [s for s in every if not s.subset]
    header = ["model"]
    header += [f"{s.name} ↓" for s in alone] if len(alone) > 1 else ["mean rank ↓"]
    header += ["median ↓", "best", "datasets"]
    panels = []
    for subset in sorted({s.subset for s in every}):
        mine = [s for s in every if s.subset == subset]
        found = [figures[s.title] for s in mine]
        rows = tuple(_row(model, found) for model in evidence.models)
        panels.append(Panel(rows, mine[0].kind))
    metrics = [
        f"{footnotes.TASK_TITLES[t]} by {METRICS[evidence.headline(t)].label}"
        for t in evidence.tasks
    ]
    notes = [
        *footnotes.setting(evidence),
        f"Ranked: {'; '.join(metrics)}. {ranking_rule(ranking).description}",
        f"Median, best (datasets on which no other model is better) and datasets: over "
        f"{alone[-1].name}.",
    ]
    title = (
        "Rank of each model's test score among the models that a dataset has, 1 is best: mean over "
        "the model's datasets. The best of each column is bold."
    )
    return ReportTable("ranks", title, tuple(header), tuple(panels), tuple(notes))


def _row(model: str, found: list[pd.DataFrame]) -> tuple[TableCell, ...]:
    row = [TableCell(escape.label(model))]
    for table in found:
        if model not in table.index:
            row.append(TableCell("n/a"))
            continue
        mean, std = table.loc[model, "mean_rank"], table.loc[model, "std"]
        best = mean <= table["mean_rank"].min() + 1e-12
        row.append(TableCell(in_brackets(mean, std), bold=bool(best)))
    widest = found[-1]
    if model not in widest.index:
        return (*row, *[TableCell("n/a")] * 2, TableCell("0"))
    own = widest.loc[model]
    return (
        *row,
        TableCell(
            f"{own['median_rank']:.2f}",
            bold=bool(own["median_rank"] <= widest["median_rank"].min()),
        ),
        TableCell(f"{own['n_best']:.0f}", bold=bool(own["n_best"] == widest["n_best"].max())),
        TableCell(f"{own['n_ranked']:.0f}"),
    )
