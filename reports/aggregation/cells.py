"""Scores of studies and cells, and the states of those without a score.

Trials become studies (one score per fold), and studies become cells (one mean per dataset and
model). Every table of the report starts here; `ranking_matrix.py` continues for ranks and tests.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ..evidence import STUDY, Evidence
from ..statistics.ranking import places

# States of a study or a cell.
COMPLETE, PARTIAL, FAILED, UNSUPPORTED, OPEN, UNDEFINED, ABSENT = (
    "complete",
    "partial",
    "failed",
    "unsupported",
    "open",
    "undefined",
    "not planned",
)


def studies(evidence: Evidence) -> pd.DataFrame:
    """One row per planned study: its state, the cause if it has no score, and its test scores.

    Columns: dataset, task, fold, model, n_trials, n_recorded, n_done, n_failed, state (complete,
    failed, unsupported or open), cause, n_seeds, and test_<metric> (NaN without a score).
    """
    trials, plan = evidence.trials, evidence.planned
    metrics = [c for c in trials.columns if c.startswith("test_")]
    table = plan[["dataset", "task", "fold", "model", "n_trials", "reason"]].copy()
    number, counts = evidence.study_numbers
    counts = counts.assign(
        n_recorded=np.bincount(number, minlength=len(counts)),
        n_done=np.bincount(number[evidence.having("status", "done")], minlength=len(counts)),
        n_failed=np.bincount(number[evidence.having("status", "failed")], minlength=len(counts)),
    )
    table = table.merge(counts, on=STUDY, how="left")
    for name in ("n_recorded", "n_done", "n_failed"):
        table[name] = table[name].fillna(0).astype(int)
    table = table.merge(_scores(evidence, metrics), on=STUDY, how="left")
    table = table.merge(_first_cause(evidence), on=STUDY, how="left")
    table["cause"] = table["cause"].fillna("").astype(object)
    table["n_seeds"] = table["n_seeds"].fillna(0).astype(int)
    table["state"] = [_study_state(row) for row in table.itertuples(index=False)]
    table.loc[table["state"] != COMPLETE, metrics] = np.nan
    planned_absence = (table["state"] == UNSUPPORTED) & (table["reason"] != "")
    table.loc[planned_absence, "cause"] = table.loc[planned_absence, "reason"]
    order = ["dataset", "task", "fold", "model", "state", "cause", "n_trials"]
    order += ["n_recorded", "n_done", "n_failed", "n_seeds", *metrics]
    return table[order].sort_values(STUDY, kind="stable").reset_index(drop=True)


def counting(evidence: Evidence) -> np.ndarray:  # (n_trials,) of bool
    """The trials whose test scores count: the evaluation runs of a study, or where it has none the
    tuning trial that validation chose."""
    number, studies = evidence.study_numbers
    evaluates = evidence.having("stage", "eval")
    chosen = evidence.trials["selected"].to_numpy(dtype=bool) & evidence.having("stage", "tune")
    evaluated = np.bincount(number[evaluates], minlength=len(studies)) > 0
    return evaluates | (chosen & ~evaluated[number])


def _scores(evidence: Evidence, metrics: list[str]) -> pd.DataFrame:
    """Test scores of each study: the mean over its evaluation runs, or those of the chosen trial.

    `whole` is False for a study with an evaluation run that is not done: it has no score.
    """
    rows = evidence.trials.loc[counting(evidence), [*STUDY, "status", *metrics]]
    rows = rows.assign(whole=rows["status"] == "done", n_seeds=1)
    grouped = rows.groupby(STUDY, sort=True)
    means = _means(grouped, rows[metrics])
    means["whole"] = grouped["whole"].all()
    means["n_seeds"] = grouped["n_seeds"].sum()
    return means.reset_index()


def _means(grouped: Any, scores: pd.DataFrame) -> pd.DataFrame:
    """The mean of each group's scores, equal to the last bit to `np.mean` of the group, but
    computed for all groups of one size at once. NaN if one of the group's scores is NaN."""
    sizes = grouped.size()
    order = np.argsort(grouped.ngroup().to_numpy(), kind="stable")
    values = scores.to_numpy(dtype=float)[order]
    first = np.cumsum(sizes.to_numpy()) - sizes.to_numpy()
    means = np.empty((len(sizes), scores.shape[1]))
    for size in np.unique(sizes):
        at = np.flatnonzero(sizes == size)
        blocks = values[first[at][:, None] + np.arange(size)]  # (n_groups, size, n_metrics)
        means[at] = np.ascontiguousarray(blocks.swapaxes(1, 2)).mean(axis=2)
    return pd.DataFrame(means, index=sizes.index, columns=scores.columns)


def _first_cause(evidence: Evidence) -> pd.DataFrame:
    """The most frequent cause of each study's failures (ties: the first by name)."""
    bad = evidence.trials.loc[~evidence.having("status", "done"), [*STUDY, "status", "cause"]]
    cause = bad["cause"].where(bad["cause"] != "", bad["status"])
    counts = bad.assign(cause=cause).groupby([*STUDY, "cause"], sort=True).size().rename("n")
    counts = counts.reset_index().sort_values(
        [*STUDY, "n", "cause"], ascending=[True, True, True, False, True], kind="stable"
    )
    return counts.drop_duplicates(STUDY)[[*STUDY, "cause"]]


def _study_state(row: Any) -> str:
    """The state of a study; it is complete only when every planned trial is recorded."""
    if row.reason:
        return UNSUPPORTED
    if row.n_recorded < max(1, row.n_trials):
        return OPEN
    if row.whole is True or row.whole == 1:
        return COMPLETE
    if row.n_failed == 0 and row.n_done == 0:
        return UNSUPPORTED
    return FAILED


def cells(evidence: Evidence, table: pd.DataFrame, metric_name: str) -> pd.DataFrame:
    """One row per planned (dataset, model): mean and spread of a metric over folds, and the state.

    `table` is `studies(evidence)`. Columns: dataset, task, model, mean, spread, n_folds (with a
    score), n_planned, n_undefined (folds on which the metric is undefined for every model; they are
    left out for all), state, cause. `spread` is s / sqrt(n) (ddof 1), or s itself if the test
    parts of the folds overlap; NaN for one fold.
    """
    overlapping = evidence.overlapping
    keys = ("dataset", "model", "task", "fold", "state", "cause", f"test_{metric_name}")
    blocks: dict[str, dict[str, list[FoldScore]]] = {}
    tasks: dict[str, str] = {}
    for dataset, model, task, *fold in zip(*(table[k].tolist() for k in keys), strict=True):
        blocks.setdefault(dataset, {}).setdefault(model, []).append(FoldScore(*fold))
        tasks[dataset] = task
    summaries: list[tuple[Any, ...]] = []
    scores: list[np.ndarray] = []
    for dataset, block in sorted(blocks.items()):
        folds = [f for mine in block.values() for f in mine]
        scored = {f.number for f in folds if f.state == COMPLETE}
        meant = {f.number for f in folds if f.state == COMPLETE and not math.isnan(f.score)}
        needed = {f.number for f in folds} - (scored - meant)
        for model, mine in sorted(block.items()):
            state, cause, values = _cell_state(mine, needed)
            counts = (len(values), len(needed), len(scored - meant))
            summaries.append((dataset, tasks[dataset], model, *counts, state, cause))
            scores.append(values)
    names = "dataset task model n_folds n_planned n_undefined state cause".split()
    frame = pd.DataFrame(summaries, columns=names)
    mean, spread = _means_and_spreads(scores)
    n = np.where(frame["dataset"].isin(overlapping), 1, np.maximum(frame["n_folds"], 1))
    frame.insert(3, "mean", mean)
    frame.insert(4, "spread", spread / np.sqrt(n))
    return frame


class FoldScore(NamedTuple):
    """The result of one study, as it enters the cell of its dataset and model."""

    number: int
    state: str
    cause: str
    score: float  # NaN without one


def _cell_state(mine: list[FoldScore], needed: set[int]) -> tuple[str, str, np.ndarray]:
    """(state, cause, scores in fold order) of one model on one dataset."""
    wanted = sorted((f for f in mine if f.number in needed), key=lambda f: f.number)
    values = np.array([f.score for f in wanted if not math.isnan(f.score)])
    if not needed:
        return UNDEFINED, "", values
    if len(values) == len(needed):
        return COMPLETE, "", values
    lost = [f for f in sorted(mine, key=lambda f: f.number) if f.state != COMPLETE]
    if len(values):
        return PARTIAL, lost[0].cause if lost else "", values
    for state in (FAILED, OPEN, UNSUPPORTED):
        causes = [f.cause for f in lost if f.state == state]
        if causes:
            return state, causes[0], values
    return UNDEFINED, "", values


def _means_and_spreads(lists: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """(mean, standard deviation with ddof 1) of each list of scores, equal to the last bit to
    numpy's for the list alone; NaN where there are too few."""
    length = np.array([len(values) for values in lists], dtype=int)
    mean, spread = np.full((2, len(lists)), math.nan)
    for n in np.unique(length[length > 0]):
        at = np.flatnonzero(length == n)
        block = np.stack([lists[i] for i in at.tolist()])
        mean[at] = block.mean(axis=1)
        if n > 1:
            spread[at] = block.std(axis=1, ddof=1)
    return mean, spread


def best_models(block: pd.DataFrame, direction: str) -> set[str]:
    """The models with the best complete mean of a dataset, several if nearly equal."""
    cells = zip(block["model"].tolist(), block["state"].tolist(), block["mean"], strict=True)
    whole = {model: mean for model, state, mean in cells if state == COMPLETE}
    order = places(list(whole.values()), direction)
    return {m for m, p in zip(whole, order, strict=True) if p == 1}


def headline_cells(evidence: Evidence, table: pd.DataFrame) -> pd.DataFrame:
    """The cells of each task's headline metric. `table` is `studies(evidence)`."""
    parts = [
        cells(evidence, table[table["task"] == task], evidence.headline(task))
        for task in evidence.tasks
    ]
    return pd.concat(parts, ignore_index=True)
