"""Checks of what validation chose: against the default, and against the validation scores."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from ..aggregation.cells import counting
from ..output import escape
from ..statistics.ranking import equal
from .finding import Finding, NotChecked, Results, errors, is_constant, telling, times

DEFAULT_SUFFIX = "-default"
WORSE_THAN_DEFAULT, WORSE_THAN_DEFAULT_ON_ONE_FOLD = 1.2, 1.5  # times the default's error
OPTIMISTIC = 2.0  # times the usual ratio of test error to validation error
ALONE = 4.0  # times, where fewer than MIN_PEERS other models say what is usual
FEW_ROWS = 0.05  # of a share of rows: what chance does to few rows
MIN_PEERS = 3  # models whose ratio is the usual one

DEFAULT, FAR, SAME = (
    "worse than its default",
    "validation far better than test",
    "validation equals test",
)
RULES = {
    DEFAULT: f"error of the tuned configuration at least {WORSE_THAN_DEFAULT:g} "
    f"times that of the default one on every fold ({WORSE_THAN_DEFAULT_ON_ONE_FOLD:g} times with "
    "one fold)",
    FAR: "ratio of test to validation error at least "
    f"{OPTIMISTIC:g} times the median ratio of the other models on the dataset ({ALONE:g} times "
    f"with fewer than {MIN_PEERS} of them)",
    SAME: "validation and test score of most runs equal to the digit",
}


def worse_than_default(results: Results) -> Iterator[Finding]:
    """Models that tuning made worse. A cell that lacks a fold has no score and is passed by."""
    n = 0
    for task, metric, scores in results.scores(constants=True):
        folds = _beside_default(results, task, metric)
        n += len(folds)
        yield from _of_task(folds, scores)
    if not n:
        raise NotChecked("no default configuration beside a tuned one")


def _beside_default(results: Results, task: str, metric: str) -> pd.DataFrame:
    """dataset, fold, model, other (the default's name, "" for the first trial of the study) and
    ratio (error over the default's)."""
    evidence, studies = results.evidence, results.studies
    column, place = f"test_{metric}", ["dataset", "fold", "model"]
    tuned = studies.loc[studies["task"] == task, [*place, column]]
    is_default = tuned["model"].astype(str).str.endswith(DEFAULT_SUFFIX)
    defaults = tuned[is_default].assign(other=tuned["model"])
    defaults["model"] = defaults["model"].astype(str).str.removesuffix(DEFAULT_SUFFIX)
    pairs = [tuned.merge(defaults, on=place, suffixes=("", "_default"))]
    # validation did not choose the first trial, where that is the default
    trials = evidence.trials.loc[
        evidence.having("stage", "tune")
        & evidence.having("status", "done")
        & evidence.having("task", task),
        [*place, "index", "selected", column],
    ]
    begins = trials["model"].isin(evidence.facts.default_first)
    chosen = trials["selected"].astype(bool)
    first = trials[begins & (trials["index"] == 0) & ~chosen].assign(other="")
    pairs.append(trials[chosen].merge(first, on=place, suffixes=("", "_default")))
    folds = pd.concat([pair[[*place, "other", column, f"{column}_default"]] for pair in pairs])
    default = errors(folds[f"{column}_default"].to_numpy(dtype=float), metric)
    folds["ratio"] = errors(folds[column].to_numpy(dtype=float), metric) / np.where(
        default > 0, default, np.nan
    )
    return folds


def _of_task(folds: pd.DataFrame, scores: pd.DataFrame) -> Iterator[Finding]:
    for (model, other, dataset), mine in folds.groupby(["model", "other", "dataset"], sort=True):
        ratio = mine["ratio"].to_numpy()
        limit = WORSE_THAN_DEFAULT if len(ratio) > 1 else WORSE_THAN_DEFAULT_ON_ONE_FOLD
        value = scores[model].get(dataset, np.nan) if model in scores else np.nan
        if np.isnan([*ratio, value]).any() or ratio.min() < limit:
            continue
        named = escape.label(other) if other else "its default configuration"
        yield Finding(
            DEFAULT,
            ((str(dataset), str(model), float(value)),),
            f"error {times(float(np.exp(np.log(ratio).mean())))} times that of {named}",
            "validation rows too few to choose by, or a choice that overfits them",
        )


def validation_far_better(results: Results) -> Iterator[Finding]:
    """Models whose validation scores promised far more than the test scores are."""
    n = 0
    for task, metric, _ in results.scores():
        rows = with_validation(results, task, metric)
        n += len(rows)
        both = rows.assign(
            val=errors(rows[f"val_{metric}"].to_numpy(dtype=float), metric),
            test=errors(rows[f"test_{metric}"].to_numpy(dtype=float), metric),
        )
        means = both.groupby(["dataset", "model"], sort=True)[["val", "test"]].mean().dropna()
        n_folds = rows.groupby("dataset")["fold"].nunique()
        for dataset, block in means.groupby(level="dataset", sort=True):
            name = str(dataset)
            # an error of 0 on few rows is no surprise
            least = 0.1 * float(block["test"].median())
            floor = max(results.floor(metric, name, FEW_ROWS, folds=n_folds[dataset]), least)
            yield from _promising(results, name, block.droplevel("dataset"), floor)
    if not n:
        raise NotChecked("no validation scores")


def _promising(
    results: Results, dataset: str, block: pd.DataFrame, floor: float
) -> Iterator[Finding]:
    """block: the errors `val` and `test` of each model on the dataset."""
    if floor <= 0 or len(block) < 2:
        return
    ratio = np.log((block["test"] + floor) / (block["val"] + floor)).to_numpy()
    limit = np.log(OPTIMISTIC if len(block) > MIN_PEERS else ALONE)
    for j, (model, row) in enumerate(block.iterrows()):
        usual = float(np.median(np.delete(ratio, j)))
        if ratio[j] - max(usual, 0.0) < limit:
            continue
        yield Finding(
            FAR,
            (results.cell(dataset, model),),
            f"error {row['test']:.3g} in test, {row['val']:.3g} in validation; of the other models "
            f"{times(float(np.exp(usual)))} times the validation error",
            "chosen among many on few validation rows, or trained on validation rows",
        )


def validation_is_test(results: Results) -> Iterator[Finding]:
    """Cells whose validation scores are their test scores."""
    found: dict[str, list[tuple[str, str, float]]] = {}
    n = 0
    for task in results.evidence.tasks:
        name = results.evidence.headline(task)
        rows = with_validation(results, task, name)
        n += len(rows)
        alike = equal(rows[f"val_{name}"], rows[f"test_{name}"])
        for (dataset, model), mine in rows.assign(alike=alike).groupby(["dataset", "model"]):
            k = int(mine["alike"].sum())
            told = [telling(v, name, k) for v in mine.loc[mine["alike"], f"test_{name}"]]
            if 2 * k > len(mine) and any(told):
                found.setdefault(str(model), []).append(results.cell(dataset, model))
    if not n:
        raise NotChecked("no validation scores")
    for cells in found.values():
        yield Finding(
            SAME,
            tuple(cells),
            "equal to the digit in most runs",
            "one part of the data scored twice: validation rows are test rows, or a copied column",
        )


def with_validation(results: Results, task: str, metric: str) -> pd.DataFrame:
    """The runs of a task with a validation and a test score. Only the run that validation chose
    enters from a study; results of another tool name no choice, so all that count enter."""
    val, test = f"val_{metric}", f"test_{metric}"
    trials = results.evidence.trials
    if val not in trials:
        return trials.iloc[:0].assign(**{val: np.nan})
    mine = results.evidence.having("task", task) & results.evidence.having("status", "done")
    chosen = mine & trials["selected"].to_numpy(dtype=bool)
    number, studies = results.evidence.study_numbers
    names_one = np.bincount(number[chosen], minlength=len(studies)) > 0
    rows = trials[chosen | (mine & counting(results.evidence) & ~names_one[number])]
    rows = rows[rows[[val, test]].notna().all(axis=1)]
    place = pd.MultiIndex.from_frame(rows[["dataset", "model"]])
    there = place.isin(list(results.means)) & ~rows["model"].map(is_constant).to_numpy(dtype=bool)
    return rows[there]
