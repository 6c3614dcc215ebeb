"""The derivation of one number of a report: the trials behind it and each step from them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from ..common.counting import count
from ..common.text import did_you_mean
from .aggregation.cells import COMPLETE, PARTIAL, cells, counting, headline_cells, studies
from .aggregation.ranking_matrix import RankingMatrix, scopes
from .evidence import Evidence
from .reproduction.comparison import compare
from .reproduction.published_table import PublishedTable

SCORES, LEADERBOARD = "scores", "leaderboard"
TABLES = (SCORES, LEADERBOARD)
MOST = 12  # terms of a sum that are printed; longer sums are shortened

TRIAL_COLUMNS = "fold stage index seed status cause validation test seconds config id origin"


@dataclass(frozen=True)
class Trace:
    """One cell of one table and its derivation.

    value: the number in the table's CSV, None if the cell has none. state: of the score (see
    `cells`). steps: sentences on how the value follows from the trials. flags: reasons why it is
    not compared like other cells (partial, left out of the ranking, ...). folds: one row per fold
    (fold, state, cause, score, n_seeds). trials: one row per trial of the (dataset, model) with
    TRIAL_COLUMNS; `counts` marks the trials that enter the score of their fold. ranked: whether
    the number depends on the other models as well.
    """

    table: str
    dataset: str
    model: str
    metric: str
    value: float | None
    state: str
    steps: tuple[str, ...]
    flags: tuple[str, ...]
    folds: pd.DataFrame
    trials: pd.DataFrame
    ranked: bool = False


def trace(
    evidence: Evidence,
    table: str,
    dataset: str,
    model: str,
    *,
    published: Mapping[str, PublishedTable] | None = None,
    elsewhere: Iterable[str] = (),
) -> Trace:
    """Explain a score, a rank on a dataset (`leaderboard`), or a cell of a published table's
    comparison.

    `model` may be the paper's name of a method where `table` is one of the `published`. Raises
    ValueError, with a suggestion, for a table, dataset or model that is not there; `elsewhere`
    names the tables that something else explains.
    """
    published = published or {}
    if table not in TABLES and table not in published:
        raise ValueError(_unknown("table", table, (*TABLES, *elsewhere, *published)))
    if dataset not in evidence.datasets():
        raise ValueError(_unknown("dataset", dataset, evidence.datasets(), " in these runs"))
    if table in published and model not in evidence.models:
        model = published[table].model_of(model)
    of_dataset = evidence.planned["dataset"] == dataset
    here = sorted(set(evidence.planned.loc[of_dataset, "model"]))
    if model not in here:
        raise ValueError(_unknown("model", model, here, f" planned on {dataset}"))
    score = _score(evidence, dataset, model)
    if table == SCORES:
        return score
    if table == LEADERBOARD or published[table].shape == "medians":
        return _ranks(evidence, score, table)
    return _reproduction(evidence, score, published[table])


def _unknown(what: str, name: str, known: Iterable[str], where: str = "") -> str:
    names = list(known)
    hint = did_you_mean(name, names)
    return f"no {what} {name!r}{where}{hint}; there is {', '.join(names) or 'none'}"


# --- a score --------------------------------------------------------------------------------------


def _score(evidence: Evidence, dataset: str, model: str, metric: str = "") -> Trace:
    """The mean over folds of one metric, by default the headline metric, by which the
    configuration was chosen."""
    evidence = _only(evidence, dataset)
    head = evidence.headline(evidence.tasks[0])
    metric = metric or head
    by_study = studies(evidence)
    block = cells(evidence, by_study, metric)
    cell = block[block["model"] == model].iloc[0]
    mine = by_study[by_study["model"] == model]
    trials = _trials(evidence, model, metric, head)
    folds = mine[["fold", "state", "cause", f"test_{metric}", "n_seeds"]]
    folds = folds.rename(columns={f"test_{metric}": "score"}).reset_index(drop=True)
    steps = [_fold_step(f, trials, metric, head) for f in folds.itertuples(index=False)]
    scores = folds["score"].dropna().tolist()
    value = None
    if cell["state"] in (COMPLETE, PARTIAL):
        value = float(cell["mean"])
        steps.append(f"mean over {count(len(scores), 'fold')}: {_mean_of(scores)} = {_g(value)}")
        steps += _spread_step(cell, scores, dataset in evidence.overlapping)
    flags = []
    if cell["state"] != COMPLETE:
        cause = f" ({cell['cause']})" if cell["cause"] else ""
        there = f"{cell['n_folds']} of {cell['n_planned']} folds have a score"
        flags.append(f"{cell['state']}{cause}: {there}; never bold, never in a ranking")
    if cell["n_undefined"]:
        flags.append(
            f"{count(cell['n_undefined'], 'fold')} left out for every model: the metric has no "
            "meaning on the test rows"
        )
    flags += _copied(trials)
    return Trace(
        SCORES, dataset, model, metric, value, cell["state"], tuple(steps), tuple(flags), folds,
        trials,
    )  # fmt: skip


def _only(evidence: Evidence, dataset: str) -> Evidence:
    """The evidence of one dataset."""
    frames = {"trials": evidence.trials, "planned": evidence.planned}
    if evidence.ensembles is not None:
        frames["ensembles"] = evidence.ensembles
    return replace(evidence, **{k: f[f["dataset"] == dataset] for k, f in frames.items()})


def _trials(evidence: Evidence, model: str, metric: str, head: str) -> pd.DataFrame:
    """The trials of a model in TRIAL_COLUMNS, and `counts`; `validation` is by `head`, the
    headline metric."""
    trials = evidence.trials.assign(counts=counting(evidence))
    trials = trials[trials["model"] == model].copy()
    for column, name in ((f"val_{head}", "validation"), (f"test_{metric}", "test")):
        trials[name] = trials[column] if column in trials else np.nan
    trials["seconds"] = trials[["fit_s", "predict_s"]].sum(axis=1, min_count=1)
    trials["last"] = trials["stage"].map({"tune": 1, "eval": 2}).fillna(0)  # rungs come first
    trials = trials.sort_values(["fold", "last", "stage", "index"], kind="stable")
    return trials[[*TRIAL_COLUMNS.split(), "counts"]].reset_index(drop=True)


def _fold_step(fold: Any, trials: pd.DataFrame, metric: str, head: str) -> str:
    """A sentence on how the score of one fold follows from its trials."""
    mine = trials[trials["fold"] == fold.fold]
    place = f"fold {fold.fold}:"
    if fold.state != COMPLETE:
        return f"{place} no score, {fold.state}{f' ({fold.cause})' if fold.cause else ''}"
    if math.isnan(fold.score):
        return f"{place} no score, the metric has no meaning on its test rows"
    used = mine[mine["counts"]]
    values = used["test"].tolist()
    of = f"test {metric} of {count(len(values), 'evaluation seed')}: {_mean_of(values)}"
    if not (used["stage"] == "eval").any():
        row, tuned = used.iloc[0], mine[mine["stage"] == "tune"]
        of = f"test {metric} of trial {row['index']}, the first with the best validation {head}, "
        of += f"{_g(row['validation'])}, of {count(len(tuned), 'trial')}"
    return f"{place} {_g(fold.score)}, {of}"


def _spread_step(cell: Any, scores: Sequence[float], overlapping: bool) -> list[str]:
    spread = float(cell["spread"])
    if math.isnan(spread):
        return ["no standard error: one fold"]
    if overlapping:
        return [f"standard deviation (ddof 1) over overlapping test parts: {_g(spread)}"]
    s = float(np.std(scores, ddof=1))
    return [f"standard error: s/√n = {_g(s)}/√{len(scores)} = {_g(spread)} (ddof 1)"]


def _copied(trials: pd.DataFrame) -> list[str]:
    origins = trials.loc[trials["origin"] != "", "origin"].value_counts().sort_index()
    return [f"{count(n, 'trial')} copied from run {run}" for run, n in origins.items()]


# --- a rank ---------------------------------------------------------------------------------------


def _ranks(evidence: Evidence, score: Trace, table: str) -> Trace:
    """The model's rank on the dataset, and how it enters the mean and the median of each scope."""
    headline = headline_cells(evidence, studies(evidence))
    task = headline.loc[headline["dataset"] == score.dataset, "task"].iloc[0]
    steps, flags, values = list(score.steps), list(score.flags), list[float]()
    for scope in (s for s in scopes(evidence) if task in s.tasks):
        matrix = RankingMatrix.of(evidence, headline, scope)
        why = _why_not_ranked(matrix, score, evidence)
        if why:
            flags.append(f"not ranked in {scope.title}: {why}")
            continue
        row = matrix.datasets.index(score.dataset)
        rank = matrix.ranks()[:, matrix.models.index(score.model)]
        values.append(float(rank[row]))
        steps += [
            f"{scope.title}, on {score.dataset}: {_order(matrix, row)}",
            f"{scope.title}: rank {rank[row]:g} of {len(matrix.models)}; mean over "
            f"{count(len(rank), 'dataset')}: {_mean_of(rank)} = {_g(rank.mean())}; median "
            f"{np.median(rank):g}",
        ]
    return replace(
        score,
        table=table,
        value=values[0] if values else None,
        steps=tuple(steps),
        flags=tuple(flags),
        ranked=True,
    )


def _why_not_ranked(mine: RankingMatrix, score: Trace, evidence: Evidence) -> str:
    """Empty, or the reason why the model has no rank on the dataset in this matrix."""
    if mine.why_not:
        return mine.why_not
    if mine.scope.subset and score.dataset not in evidence.subset:
        return f"{score.dataset} is not in the independent, learnable subset"
    if score.model in mine.thin:
        n = mine.thin[score.model]
        return f"{score.model} is complete on {n} of {mine.n_scope} datasets, too few"
    if score.dataset not in mine.datasets:
        return f"a ranked model lacks a complete score on {score.dataset}"
    return ""


def _order(mine: RankingMatrix, row: int) -> str:
    """The matrix's models on one dataset, best first, with their scores."""
    metric = mine.metric_of(row)
    losses = mine.losses[row]
    order = sorted(range(len(losses)), key=lambda j: (losses[j], mine.models[j]))
    shown = [f"{mine.models[j]} {metric.loss(float(losses[j])):.6g}" for j in order]
    return ", ".join(shown)


# --- a published value --------------------------------------------------------------------------


def _reproduction(evidence: Evidence, score: Trace, what: PublishedTable) -> Trace:
    """Ours beside the published value, in the published unit."""
    frame = compare(_only(evidence, score.dataset), what).frame
    if not {"dataset", "model", "ours", "joint_se"} <= set(frame):
        raise ValueError(
            f"{what.title} holds no values of single datasets, so none of {score.dataset}"
        )
    rows = frame[(frame["dataset"] == score.dataset) & (frame["model"] == score.model)]
    if rows.empty:
        here = sorted(set(frame.loc[frame["dataset"] == score.dataset, "method"]))
        has = f"of that dataset it has {', '.join(here)}"
        if not here:
            has = f"its datasets: {', '.join(sorted(set(frame['dataset'])))}"
        raise ValueError(f"{what.title} has no value of {score.model} on {score.dataset}; {has}")
    row = rows.iloc[0]
    metric = str(row["metric"])
    inner = score
    if metric != score.metric and f"test_{metric}" in evidence.trials:
        inner = _score(evidence, score.dataset, score.model, metric)
    value = None if pd.isna(row["ours"]) else float(row["ours"])
    unit = what.unit_of(metric)
    steps = list(inner.steps)
    if value is not None and unit != 1.0:
        steps.append(f"in the published unit: {unit:g} times that = {_g(value)}")
    error = "" if pd.isna(row["published_se"]) else f" ± {_g(row['published_se'])}"
    steps.append(f"published: {_g(row['published'])}{error}")
    if not pd.isna(row["joint_se"]):
        a, b = _g(row["published_se"]), _g(row["ours_se"])
        steps.append(
            f"difference: {_g(row['difference'])}, joint standard error √({a}² + {b}²) = "
            f"{_g(row['joint_se'])}: {row['difference_in_joint_se']:+.2f} of them"
        )
    flags = [*inner.flags, *([str(row["note"])] if row["note"] else [])]
    return replace(inner, table=what.name, value=value, steps=tuple(steps), flags=tuple(flags))


# --- words ----------------------------------------------------------------------------------------


def _g(value: float) -> str:
    return f"{value:.12g}"


def _mean_of(values: Sequence[float] | np.ndarray) -> str:
    """The mean of some numbers as a formula, shortened in the middle if they are many."""
    shown = [_g(float(v)) for v in values]
    if len(shown) > MOST:
        shown = [*shown[: MOST // 2], "...", *shown[-(MOST // 2) :]]
    return shown[0] if len(values) == 1 else f"({' + '.join(shown)})/{len(values)}"
