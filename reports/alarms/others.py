"""Checks of a cell against other models on the same dataset, and of a fold against other folds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from ...common.text import first_few
from ..metrics import METRICS
from ..output import escape
from ..statistics.ranking import snap
from .finding import (
    NO_SKILL,
    SEVERAL,
    Finding,
    NotChecked,
    Results,
    errors,
    median_of_others,
    printed,
    times,
    trials_behind,
)

FAR_BETTER = 4.0  # times the error of the next best model
LEAST = 0.02  # an error of a bounded metric that few rows leave to chance
PEERS = 3  # other models, at least, that say what is usual
FEW_FOLDS = 3
OTHER_FOLD, BEYOND = 1.8, 8.0  # times the error expected; times the usual spread of such ratios
FEW_MODELS = 0.1  # share of the models that may be unlike on a dataset
LEAST_SPREAD, LEAST_ON_A_FOLD = 0.02, 0.05
UNLIKE, ALIKE = 1.5, 1.25  # times the others' median error: where cells are swapped, and in place

FAR, FOLD, SWAPPED, IDENTICAL = (
    "far better than the others",
    "one fold unlike the others",
    "swapped datasets",
    "identical scores",
)
RULES = {
    FAR: f"the error of the next best model is at least {FAR_BETTER:g} times its own, beside "
    f"{PEERS} other models or more",
    FOLD: f"on one fold of {FEW_FOLDS} or more the error is {OTHER_FOLD:g} times what the model's "
    "other folds and the other models on this fold let expect, or as many times less, and beyond "
    f"{BEYOND:g} times the usual spread; or it is exactly a constant's",
    SWAPPED: f"on two datasets a model's errors are {UNLIKE:g} times the others' and as many times "
    "less, less than any other's, and like the others' where exchanged",
    IDENTICAL: "all test scores of two models equal on every fold",
}


def far_better(results: Results) -> Iterator[Finding]:
    """A model that is much better than every other on a dataset: it knew the answers, or its score
    is of something else."""
    enough = False
    for _, metric, scores in results.scores():
        for dataset, row in scores.iterrows():
            own = pd.Series(errors(row.dropna(), metric), row.dropna().index).sort_values()
            if len(own) <= PEERS:
                continue
            enough = True
            floor = results.floor(metric, str(dataset), LEAST)
            best, second = float(own.iloc[0]) + floor, float(own.iloc[1]) + floor
            if second < FAR_BETTER * best or second <= 0:
                continue
            ratio = second / best if best > 0 else np.inf
            score = float(row[own.index[0]])
            cause = "trained on test rows, or a feature that tells the target, which other models "
            cause += "do not use"
            if not METRICS[metric].bounded:
                cause += "; or the score is in another unit (of a target in logarithms)"
            if score == 0.0:
                cause = "a missing result that was written as 0"
            yield Finding(
                FAR,
                (results.cell(dataset, own.index[0]),),
                f"error {own.iloc[0]:.3g}; of the next best, {escape.label(str(own.index[1]))}, "
                f"{own.iloc[1]:.3g}" + (f", {times(ratio)} times as large" if best > 0 else ""),
                cause,
            )
    if not enough:
        raise NotChecked(f"no dataset with more than {PEERS} models")


def unlike_folds(results: Results) -> Iterator[Finding]:
    """Folds on which a model is unlike itself on the other folds, and the others on this one."""
    enough = False
    for dataset, block in results.scored.groupby("dataset", sort=True):
        metric = results.evidence.headline(str(block["task"].iloc[0]))
        scores = block.pivot(index="fold", columns="model", values=f"test_{metric}").dropna()
        if len(scores) < FEW_FOLDS or scores.shape[1] < 2:
            continue
        enough = True
        error = scores.apply(errors, metric=metric)
        least = results.floor(metric, str(dataset), LEAST_ON_A_FOLD)
        size = float(error.to_numpy().mean()) or 1.0
        size = np.log(error + max(least, 1e-9 * size))
        apart = size - median_of_others(size)
        apart = apart - apart.median()
        spread = max(LEAST_SPREAD, 1.4826 * float(np.median(np.abs(apart.to_numpy()))))
        odd = (apart.abs() > np.log(OTHER_FOLD)) & (apart.abs() > BEYOND * spread)
        if metric in NO_SKILL:
            at = scores == NO_SKILL[metric]
            odd |= at.mul(at.sum() == 1, axis=1)
        found = [(m, f) for m in odd for f in odd.index[odd[m]]]
        if not found or odd.any().sum() > max(1, FEW_MODELS * scores.shape[1]):
            continue  # of many models it is the dataset, on which chance decides
        said = [
            f"{escape.label(str(m))}, fold {f}: {scores.at[f, m]:.4g}, elsewhere "
            f"{scores[m].drop(index=f).mean():.4g}"
            for m, f in found
        ]
        zero = all(scores.at[f, m] == 0.0 for m, f in found)
        cause = "missing results that were written as 0" if zero else ""
        cause = cause or "this fold's score is of other rows or another dataset, or the fit failed "
        yield Finding(
            FOLD,
            tuple(results.cell(dataset, m) for m in dict.fromkeys(m for m, _ in found)),
            first_few(said, 4, "; "),
            cause if zero else cause + "on it (a constant, a target that was not scaled)",
        )
    if not enough:
        raise NotChecked(f"no dataset with {FEW_FOLDS} folds and two models")


def swapped(results: Results) -> Iterator[Finding]:
    """Pairs of datasets whose cells of one model fit each other's place and not their own."""
    enough = False
    for _, metric, scores in results.scores():
        if scores.shape[1] <= PEERS or len(scores) < 2:
            continue
        enough = True
        floor = LEAST if METRICS[metric].bounded else 0.0
        size = scores.apply(errors, metric=metric) + floor
        size = np.log(size.where(size > 0))
        medians = median_of_others(size)
        for model in size:
            best = size.drop(columns=model).min(axis=1)
            others, own = medians[model], size[model]
            off = own - others
            ahead = (off < -np.log(UNLIKE)) & (own < best - np.log(ALIKE))
            for worse in off.index[off > np.log(UNLIKE)]:
                for better in off.index[ahead]:
                    there = abs(own[worse] - others[better]), abs(own[better] - others[worse])
                    if max(there) > np.log(ALIKE):
                        continue
                    yield Finding(
                        SWAPPED,
                        (results.cell(worse, model), results.cell(better, model)),
                        f"error {times(float(np.exp(off[worse])))} times the others' on "
                        f"{escape.label(str(worse))}, {times(float(np.exp(off[better])))} times "
                        f"on {escape.label(str(better))}; exchanged, both are like the others'",
                        "the scores of two datasets, one in the place of the other",
                    )
    if not enough:
        raise NotChecked(f"no task with two datasets and more than {PEERS} models")


def identical(results: Results) -> Iterator[Finding]:
    """Models with the same scores on every fold of a dataset, though their trials differ."""
    done = results.scored
    metrics = [c for c in done.columns if c.startswith("test_")]
    if not (done.groupby("dataset")["model"].nunique() > 1).any():
        raise NotChecked("no dataset with two models")
    values = _tied(done, metrics)
    alike: dict[tuple[str, bytes], list[tuple[str, int]]] = {}
    for (dataset, model), at in done.groupby(["dataset", "model"]).indices.items():
        key = str(dataset), values[at].tobytes()
        alike.setdefault(key, []).append((str(model), int(at[0])))
    n_folds = done.groupby("dataset").size() // done.groupby("dataset")["model"].nunique()
    behind = trials_behind(results.evidence)
    for (dataset, _), group in sorted(alike.items()):
        models = [model for model, _ in group]
        if len(models) < 2 or not _improbable(values[group[0][1]], metrics, int(n_folds[dataset])):
            continue
        ids = {frozenset(behind.get((dataset, model), [])) for model in models}
        if len(ids) == 1 and any(ids):
            continue  # the same trials under two names
        known = ~np.isnan(values[group[0][1]])
        labels = [METRICS[c.removeprefix("test_")].label for c in np.array(metrics)[known]]
        yield Finding(
            IDENTICAL,
            tuple(results.cell(dataset, model) for model in models),
            f"{', '.join(labels)} equal to the last digit",
            "two names of one model, or all predict the same (a constant)",
        )


def _tied(done: pd.DataFrame, metrics: Sequence[str]) -> np.ndarray:  # -> (n_studies, n_metrics)
    """The scores of the studies, those that tie with another model's on the fold written alike."""
    values = done[metrics].to_numpy(dtype=float, copy=True)
    for at in done.groupby(["dataset", "fold"]).indices.values():
        values[at] = snap(values[at].T).T
    return values


def _improbable(scores: np.ndarray, metrics: Sequence[str], n_folds: int) -> bool:
    """Whether equal scores are no accident: not perfect, and some with more digits than a table
    prints, or accuracies of several folds."""
    perfect, long = True, False
    for value, column in zip(scores.tolist(), metrics, strict=True):
        name = column.removeprefix("test_")
        if value != value:
            continue
        perfect &= bool(errors(np.array([value]), name)[0] <= 1e-9)
        long |= not printed(value) and (not METRICS[name].percent or n_folds >= SEVERAL)
    return long and not perfect
