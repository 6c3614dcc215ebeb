"""Which models rank best across datasets? Mean and median ranks, by task and over all."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pandas as pd

from ..aggregation.cells import MIN_COVERAGE, Pool, Scope
from ..aggregation.ranking_rules import Convention, convention
from ..evidence import Evidence
from ..metrics import METRICS
from ..output import escape, footnotes
from ..output.tables import Cell, Panel, Section, Table
from ..statistics.tests import ranks, standard_error, win_rate

NO_RANK = "n/a"


def section(evidence: Evidence, pools: list[Pool], ranking: str = "average") -> Section:
    """The file `ranks`, from the pool of every scope; ranking: a name of `conventions`."""
    how = convention(ranking)
    frame = pd.concat([_frame(p, evidence.models, how) for p in pools], ignore_index=True)
    return Section("ranks", "Ranks", (_table(evidence, pools, how),), frame)


def why_no_ranks(mine: Pool) -> str:
    """Empty, or why the pool gives no ranking."""
    if not mine.n_scope:
        return "n/a: needs a dataset, has none"
    if len(mine.models) < 2:
        return f"n/a: needs at least 2 models with scores, has {len(mine.models)}"
    if not mine.datasets:
        return "n/a: needs a dataset on which every ranked model has a complete score, has none"
    return ""


def _ranked(mine: Pool, how: Convention) -> np.ndarray:
    """Ranks on the complete datasets, or on all where the convention ranks what is missing."""
    return ranks(mine.holed if how.missing_last else mine.scores, "min", ties=how.ties)


def _frame(mine: Pool, everyone: list[str], how: Convention) -> pd.DataFrame:
    """One row a model of the plan: its ranks in this pool, or why it has none."""
    reason = why_no_ranks(mine)
    rows = []
    figures = {} if reason else _figures(mine, how)
    for model in everyone:
        if model in figures:
            note = ""
        elif model in mine.thin:
            note = f"n/a: complete on {mine.thin[model]} of {mine.n_scope} datasets"
        else:
            note = reason or "n/a: not planned"
        row = {
            "scope": mine.scope.name,
            "datasets": which(mine.scope),
            "model": model,
            "n_scope": mine.n_scope,
            "n_ranked": len(_ranked(mine, how)) if not reason else 0,
            "n_models": len(mine.models) if not reason else 0,
        }
        rows.append({**row, **figures.get(model, _NO_FIGURES), "note": note})
    return pd.DataFrame(rows)


_NO_FIGURES: dict[str, float | int | None] = dict.fromkeys(
    ("mean_rank", "se", "median_rank", "n_best", "win_rate", "mean_rank_missing_last")
)


def _figures(mine: Pool, how: Convention) -> dict[str, dict[str, float]]:
    columns = {name: values.tolist() for name, values in summary(_ranked(mine, how)).items()}
    columns["mean_rank_missing_last"] = ranks(mine.holed, "min").mean(axis=0).tolist()
    return {
        model: {name: values[j] for name, values in columns.items()}
        for j, model in enumerate(mine.models)
    }


def summary(rank: np.ndarray) -> dict[str, np.ndarray]:  # (n_datasets, n_models) -> of (n_models,)
    """Mean rank with its standard error (NaN of one dataset), median, on how many datasets no other
    does better, win rate."""
    error = standard_error(rank) if len(rank) > 1 else np.full(rank.shape[1], np.nan)
    return {
        "mean_rank": rank.mean(axis=0),
        "se": error,
        "median_rank": np.median(rank, axis=0),
        "n_best": (rank == rank.min(axis=1, keepdims=True)).sum(axis=0),
        "win_rate": win_rate(rank),
    }


def which(scope: Scope) -> str:
    """'all' or 'subset', as the frames call the datasets of a scope."""
    return "subset" if scope.subset else "all"


def _table(evidence: Evidence, pools: list[Pool], how: Convention) -> Table:
    everything = [p for p in pools if not p.scope.subset]
    wide = everything[-1]  # all tasks, or the only task
    several = len(everything) > 1
    holes = any(len(p.holed) > len(p.datasets) for p in _wide_pools(pools, wide))
    holes = holes and not how.missing_last
    header = ["model"]
    header += [_heading(p.scope) for p in everything] if several else ["mean rank ↓"]
    header += ["median ↓", "win rate ↑", "best"]
    header += ["missing last ↓"] if holes else []
    panels = []
    for subset in sorted({p.scope.subset for p in pools}):
        mine = [p for p in pools if p.scope.subset == subset]
        panels.append(_panel(evidence, mine, how, holes, mine[0].scope.kind))
    title = (
        "Rank of each model's test score among the models, 1 is best: mean over datasets with "
        "standard error, and median. The best of each column is bold."
    )
    notes = [*footnotes.setting(evidence), *_notes(evidence, pools, several, holes, how)]
    return Table("ranks", title, tuple(header), tuple(panels), tuple(notes))


def _wide_pools(pools: list[Pool], wide: Pool) -> list[Pool]:
    return [p for p in pools if p.scope.name == wide.scope.name]


def _heading(scope: Scope) -> str:
    return f"{scope.name} ↓"


def _panel(evidence: Evidence, mine: list[Pool], how: Convention, holes: bool, title: str) -> Panel:
    wide = mine[-1]
    figures = [{} if why_no_ranks(p) else _figures(p, how) for p in mine]
    counts = [Cell("datasets")]
    ranked = [len(p.holed if how.missing_last else p.datasets) for p in mine]
    counts += [Cell(f"{n}/{p.n_scope}") for n, p in zip(ranked, mine, strict=True)]
    counts += [Cell()] * (3 + holes)
    lowest = [_extreme(f, "mean_rank", min) for f in figures]
    ends = {
        "median_rank": _extreme(figures[-1], "median_rank", min),
        "win_rate": _extreme(figures[-1], "win_rate", max),
        "n_best": _extreme(figures[-1], "n_best", max),
        "mean_rank_missing_last": _extreme(figures[-1], "mean_rank_missing_last", min),
    }
    rows = [tuple(counts)]
    for model in evidence.models:
        row = [Cell(escape.label(model))]
        for p, f, low in zip(mine, figures, lowest, strict=True):
            row.append(_mean_cell(p, f.get(model), low))
        own = figures[-1].get(model)
        names = ["median_rank", "win_rate", "n_best"]
        names += ["mean_rank_missing_last"] if holes else []
        for name in names:
            row.append(_plain_cell(wide, own, name, ends[name]))
        rows.append(tuple(row))
    return Panel(tuple(rows), title)


def _extreme(figures: dict, name: str, pick: Callable) -> float | None:
    values = [f[name] for f in figures.values()]
    return pick(values) if values else None


def _mean_cell(mine: Pool, own: dict | None, lowest: float | None) -> Cell:
    if own is None or lowest is None:
        return Cell(NO_RANK)
    error = "" if math.isnan(own["se"]) else f"{own['se']:.2f}"
    return Cell(f"{own['mean_rank']:.2f}", error, bold=own["mean_rank"] <= lowest + 1e-12)


def _plain_cell(mine: Pool, own: dict | None, name: str, end: float | None) -> Cell:
    if own is None or end is None:
        return Cell(NO_RANK)
    value = own[name]
    text = str(value) if name == "n_best" else f"{value:.2f}"
    return Cell(text, bold=abs(value - end) <= 1e-12)


def _notes(
    evidence: Evidence, pools: list[Pool], several: bool, holes: bool, how: Convention
) -> list[str]:
    metrics = [
        f"{footnotes.TASK_TITLES[t]} by {METRICS[evidence.headline(t)].label}"
        for t in evidence.tasks
    ]
    wide = [p for p in pools if not p.scope.subset][-1].scope.name
    notes = [f"Ranked: {'; '.join(metrics)}. {how.said}"]
    if any(len(p.datasets) > 1 for p in pools):
        notes.append(
            "After the mean: s/√N over N datasets (ddof 1). It describes the spread; ranks of "
            "different models are not independent, so it is no test."
        )
    if several:
        last = ", best and missing last" if holes else " and best"
        notes.append(f"Median rank, win rate{last}: over {wide}.")
    notes.append(
        "Datasets: ranked, of all. Win rate: share of (opponent, dataset) pairs won, ties count "
        "one half. Best: datasets on which no ranked model does better."
    )
    share = f"{100 * MIN_COVERAGE:g} %"
    notes.append(
        f"Ranked are the models with a complete score on at least {share} of the datasets of a "
        "column, on the datasets on which all of them have one."
        if not how.missing_last
        else f"Ranked are the models with a complete score on at least {share} of the datasets of "
        "a column, on every dataset with any score."
    )
    notes += absences(pools)
    if holes:
        notes.append(
            "Missing last: mean rank over all datasets with any score, a missing one ranked last."
        )
    if any(p.scope.subset for p in pools):
        notes.append(footnotes.left_out_of_subset(evidence))
    return notes


def absences(pools: list[Pool]) -> list[str]:
    """Which datasets and models the rankings lack, with their scopes; the reason of every n/a."""
    said: dict[str, list[str]] = {}
    for p in pools:
        name = p.scope.title
        reason = why_no_ranks(p)
        if reason:
            said.setdefault(f"{reason}", []).append(name)
            continue
        if p.dropped:
            text = f"datasets without a complete score of every model: {footnotes.join(p.dropped)}"
            said.setdefault(text, []).append(name)
        if p.thin:
            thin = [f"{escape.label(m)} ({n} of {p.n_scope} datasets)" for m, n in p.thin.items()]
            said.setdefault(f"models not ranked: {', '.join(thin)}", []).append(name)
    return [f"In {'; '.join(names)}: {text}." for text, names in said.items()]
