"""The report's table of ranks: mean and median rank and win rate, per task and over all tasks."""

from __future__ import annotations

import math
from collections.abc import Callable

import pandas as pd

from ..aggregation.ranking_matrix import MIN_COVERAGE, RankingMatrix
from ..evidence import Evidence
from ..metrics import METRICS
from ..output import escape, footnotes
from ..output.tables import Panel, ReportTable, Section, TableCell
from ..statistics.ranking import rank_summary

NO_RANK = "n/a"


def section(evidence: Evidence, matrices: list[RankingMatrix]) -> Section:
    """The file `ranks`. `matrices`: one for each scope."""
    frame = pd.concat([_frame(m, evidence.models) for m in matrices], ignore_index=True)
    return Section("ranks", "Ranks", (_table(evidence, matrices),), frame)


def _frame(matrix: RankingMatrix, everyone: list[str]) -> pd.DataFrame:
    """One row per planned model: its ranks in this matrix, or the reason why it has none."""
    reason = matrix.why_not
    rows = []
    figures = {} if reason else _figures(matrix)
    for model in everyone:
        if model in figures:
            note = ""
        elif model in matrix.thin:
            note = f"n/a: complete on {matrix.thin[model]} of {matrix.n_scope} datasets"
        else:
            note = reason or "n/a: not planned"
        row = {
            "scope": matrix.scope.name,
            "datasets": matrix.scope.selection,
            "model": model,
            "n_scope": matrix.n_scope,
            "n_ranked": len(matrix.datasets) if not reason else 0,
            "n_models": len(matrix.models) if not reason else 0,
        }
        rows.append({**row, **figures.get(model, _NO_FIGURES), "note": note})
    return pd.DataFrame(rows)


_NO_FIGURES: dict[str, float | int | None] = dict.fromkeys(
    ("mean_rank", "se", "median_rank", "n_best", "win_rate")
)


def _figures(matrix: RankingMatrix) -> dict[str, dict[str, float]]:
    columns = {name: values.tolist() for name, values in rank_summary(matrix.ranks()).items()}
    return {
        model: {name: values[j] for name, values in columns.items()}
        for j, model in enumerate(matrix.models)
    }


def _table(evidence: Evidence, matrices: list[RankingMatrix]) -> ReportTable:
    everything = [m for m in matrices if not m.scope.subset]
    several = len(everything) > 1
    header = ["model"]
    header += [f"{m.scope.name} ↓" for m in everything] if several else ["mean rank ↓"]
    header += ["median ↓", "win rate ↑", "best"]
    panels = [
        _panel(evidence, [m for m in matrices if m.scope.subset == subset])
        for subset in sorted({m.scope.subset for m in matrices})
    ]
    title = (
        "Rank of each model's test score among the models, 1 is best: mean over datasets with "
        "standard error, and median. The best of each column is bold."
    )
    notes = [*footnotes.setting(evidence), *_notes(evidence, matrices, several)]
    return ReportTable("ranks", title, tuple(header), tuple(panels), tuple(notes))


def _panel(evidence: Evidence, matrices: list[RankingMatrix]) -> Panel:
    """One row per model, a column for each matrix, the other figures from the last matrix."""
    figures = [{} if m.why_not else _figures(m) for m in matrices]
    counts = [TableCell("datasets")]
    counts += [TableCell(f"{len(m.datasets)}/{m.n_scope}") for m in matrices]
    counts += [TableCell()] * 3
    lowest = [_extreme(f, "mean_rank", min) for f in figures]
    best = {"median_rank": min, "win_rate": max, "n_best": max}
    ends = {name: _extreme(figures[-1], name, pick) for name, pick in best.items()}
    rows = [tuple(counts)]
    for model in evidence.models:
        row = [TableCell(escape.label(model))]
        for mine, low in zip(figures, lowest, strict=True):
            row.append(_mean_cell(mine.get(model), low))
        own = figures[-1].get(model)
        rows.append((*row, *(_plain_cell(own, name, end) for name, end in ends.items())))
    return Panel(tuple(rows), matrices[0].scope.kind)


def _extreme(figures: dict, name: str, pick: Callable) -> float | None:
    values = [f[name] for f in figures.values()]
    return pick(values) if values else None


def _mean_cell(own: dict | None, lowest: float | None) -> TableCell:
    if own is None or lowest is None:
        return TableCell(NO_RANK)
    error = "" if math.isnan(own["se"]) else f"{own['se']:.2f}"
    return TableCell(f"{own['mean_rank']:.2f}", error, bold=own["mean_rank"] <= lowest + 1e-12)


def _plain_cell(own: dict | None, name: str, end: float | None) -> TableCell:
    if own is None or end is None:
        return TableCell(NO_RANK)
    value = own[name]
    text = str(value) if name == "n_best" else f"{value:.2f}"
    return TableCell(text, bold=abs(value - end) <= 1e-12)


def _notes(evidence: Evidence, matrices: list[RankingMatrix], several: bool) -> list[str]:
    metrics = [
        f"{footnotes.TASK_TITLES[t]} by {METRICS[evidence.headline(t)].label}"
        for t in evidence.tasks
    ]
    wide = [m for m in matrices if not m.scope.subset][-1].scope.name
    notes = [f"Ranked: {'; '.join(metrics)}. {footnotes.TIES}"]
    if any(len(m.datasets) > 1 for m in matrices):
        notes.append(
            "After the mean: s/√N over N datasets (ddof 1). It describes the spread; ranks of "
            "different models are not independent, so it is not a significance test."
        )
    if several:
        notes.append(f"Median rank, win rate and best: over {wide}.")
    notes.append(
        "Datasets: ranked, of all. Win rate: share of (opponent, dataset) pairs won, ties count "
        "one half. Best: datasets on which no ranked model does better."
    )
    share = f"{100 * MIN_COVERAGE:g} %"
    notes.append(
        f"Ranked are the models with a complete score on at least {share} of the datasets of a "
        "column, on the datasets on which all of them have one."
    )
    notes += footnotes.absences(m.gaps() for m in matrices)
    if any(m.scope.subset for m in matrices):
        notes.append(footnotes.left_out_of_subset(evidence))
    return notes
