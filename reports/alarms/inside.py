"""Checks of a cell against itself: its metrics, its seeds, its validation scores, its folds."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd

from ..evidence import STUDY
from ..metrics import METRICS
from ..statistics.ranking import equal
from .finding import SEVERAL, Finding, NotChecked, Results, median_of_others, telling, times

CLIPPED = -math.log(2.2e-16)  # the largest log loss of a row: probabilities are clipped there
ROUNDED = 0.005  # of a relation between metrics, for printed digits
MANY_COUNTS = 6  # equal shares of few rows, from which on they are no accident
SLOWER = 100.0  # times the model's usual time over that of the others
SLOWER_EVERYWHERE = 200.0  # times the next slowest model, on every dataset
NETWORKS = ("feature network", "row attention")  # families whose fits depend on the seed

CONTRADICT, SEEDS, COPIED, TIMES, LEAK = (
    "metrics contradict each other",
    "seeds that change nothing",
    "one score on several folds or datasets",
    "times out of proportion",
    "a feature tells the target",
)
LEAKS = ("missingness-leak", "feature-is-target")  # flags of a passport
RULES = {
    CONTRADICT: "log loss and accuracy, RMSE and MSE, RMSE and MAE, RMSE and R2 that no prediction "
    "on these rows can have together",
    SEEDS: f"all scores of {SEVERAL} runs or more under different seeds, on a fold, equal to the "
    "last digit, where the model is a network or its seeds differ elsewhere",
    COPIED: f"one score with more digits than a table prints on {SEVERAL} folds, or all folds of "
    "two datasets equal",
    TIMES: f"the time of the fits is {SLOWER:g} times what it is on other datasets, compared with "
    f"the other models, or {SLOWER_EVERYWHERE:g} times that of the next slowest on every dataset",
    LEAK: "the passport's flag of a leak",
}


def contradicting(results: Results) -> Iterator[Finding]:
    """Runs whose metrics cannot be of the same predictions."""
    rows = results.counted
    have = {name: rows[f"test_{name}"] for name in METRICS if f"test_{name}" in rows}
    bad: dict[str, pd.Series] = {}
    if {"accuracy", "log_loss"} <= set(have):
        wrong, loss = 1.0 - have["accuracy"], have["log_loss"]
        bad["log loss and accuracy"] = (loss > CLIPPED * wrong + math.log(2) + ROUNDED) | (
            loss < math.log(2) * wrong - ROUNDED
        )
    if {"rmse", "mse"} <= set(have):
        root = np.sqrt(have["mse"].clip(lower=0))
        bad["RMSE and MSE"] = (root - have["rmse"]).abs() > ROUNDED * root
    if {"rmse", "mae"} <= set(have):
        bad["RMSE and MAE"] = have["mae"] > (1 + ROUNDED) * have["rmse"]
    if {"rmse", "r2"} <= set(have):
        bad["RMSE and R2"] = _other_variance(rows, have["rmse"], have["r2"])
    if not bad:
        raise NotChecked("no two metrics of which one bounds the other")
    said: dict[tuple[str, str], list[str]] = {}
    for names, found in bad.items():
        one, other = (c for c in have if METRICS[c].label in names.split(" and "))
        for cell, mine in rows[found].groupby(["dataset", "model"], sort=True):
            first = mine.iloc[0]
            values = f"{first[f'test_{one}']:.4g} and {first[f'test_{other}']:.4g}"
            labels = f"{METRICS[one].label} and {METRICS[other].label}"
            said.setdefault(cell, []).append(f"{labels} {values} on fold {first['fold']}")
    for (dataset, model), seen in said.items():
        yield Finding(
            CONTRADICT,
            (results.cell(dataset, model),),
            "; ".join(seen),
            "one of them is of other rows, in another unit or on another scale of the target, or "
            "computed by another formula",
        )


def _other_variance(rows: pd.DataFrame, rmse: pd.Series, r2: pd.Series) -> pd.Series:
    """Mask of the runs whose RMSE^2 / (1 - R2), the variance of the fold's target, differs from the
    value of the other models."""
    left = 1.0 - r2
    variance = rmse**2 / left.where(left > ROUNDED)
    usual = variance.groupby([rows["dataset"], rows["fold"]]).transform("median")
    n = variance.groupby([rows["dataset"], rows["fold"]]).transform("count")
    return ((variance / usual - 1).abs() > 20 * ROUNDED) & (n >= SEVERAL)


def seeds_alike(results: Results) -> Iterator[Finding]:
    """Runs under several seeds that have the same scores, of a model that has a seed."""
    rows = results.counted[results.evidence.having("stage", "eval")[results.counted.index]]
    seedless = results.evidence.facts.seedless
    rows = rows[~rows["model"].isin(list(seedless))]
    sizes = rows.groupby(STUDY)["seed"].transform("size")
    rows = rows[sizes >= SEVERAL]
    if not len(rows):
        raise NotChecked(f"no fold with {SEVERAL} runs under different seeds")
    metrics = [c for c in rows if str(c).startswith("test_")]
    same = (rows.groupby(STUDY)[metrics].nunique() <= 1).all(axis=1)
    first = rows.groupby(STUDY)[metrics].first()
    names = [c.removeprefix("test_") for c in metrics]
    told = [
        any(telling(v, c, SEVERAL) for c, v in zip(names, row, strict=True))
        for row in first.to_numpy(dtype=float).tolist()
    ]
    long = pd.Series(told, index=first.index)
    families = results.evidence.facts.families
    by_model = same.groupby(level="model")
    for model, mine in by_model:
        family = (families.get(model) or ("external",))[0]
        if not (family in NETWORKS or (family == "external" and (~mine).any())):
            continue  # whose fits need not depend on the seed
        odd = mine & long.reindex(mine.index)
        by_dataset = odd.groupby(level="dataset").all()
        cells = [results.cell(d, model) for d in by_dataset.index[by_dataset]]
        if cells:
            yield Finding(
                SEEDS,
                tuple(cells),
                f"every run on {len(cells)} of {len(by_dataset)} datasets has the same scores",
                "one run written several times, or the seed does not reach the model",
            )


def copied(results: Results) -> Iterator[Finding]:
    """Scores that stand on several folds of a dataset, or on two datasets."""
    rows = results.scored
    metrics = [c for c in rows.columns if c.startswith("test_")]
    names = [c.removeprefix("test_") for c in metrics]
    values = rows[metrics].to_numpy(dtype=float)
    places = rows.groupby(["model", "dataset"], sort=True).indices
    if not any(len(at) >= SEVERAL for at in places.values()):
        raise NotChecked(f"no dataset with {SEVERAL} folds")
    seen: dict[tuple[str, bytes], str] = {}
    for (model, dataset), at in places.items():
        n, own = len(at), values[at]  # (n_folds, n_metrics)
        known = {c: v for c, v in zip(names, own.T, strict=True) if not np.isnan(v).all()}
        counts = all(METRICS[c].percent for c in known) and n < MANY_COUNTS
        if n < SEVERAL or counts or not any(telling(v[0], c, n) for c, v in known.items()):
            continue
        if all(bool(equal(v, v[0]).all()) for v in known.values()):
            yield Finding(
                COPIED,
                (results.cell(dataset, model),),
                f"the same scores on each of {n} folds",
                "the mean over folds in the place of each fold's score",
            )
        elif (other := seen.setdefault((model, own.tobytes()), dataset)) != dataset:
            yield Finding(
                COPIED,
                (results.cell(other, model), results.cell(dataset, model)),
                f"the same scores on all {n} folds of both",
                "the results of one dataset under the names of two",
            )


def out_of_proportion(results: Results) -> Iterator[Finding]:
    """Times of fits in another unit, or with a wait inside."""
    rows = results.counted
    means = rows.groupby(["dataset", "model"])["fit_s"].mean().unstack()
    means = means.where(means > 0).dropna(axis=0, how="all").dropna(axis=1, how="all")
    if means.shape[1] < 3 or not means.size:
        raise NotChecked("no times of the fits of three models")
    size = np.log(means)
    apart = size - median_of_others(size)
    usual = apart.median()
    for model in size:
        next_slowest = size.drop(columns=model).max(axis=1)
        everywhere = (size[model] - next_slowest).dropna()
        if len(everywhere) and everywhere.min() > np.log(SLOWER_EVERYWHERE):
            cells, ratio = list(everywhere.index), float(np.exp(everywhere.median()))
            seen = f"{times(ratio)} times that of the next slowest model, on every dataset"
        else:
            off = (apart[model] - usual[model]).dropna()
            cells = list(off.index[off > np.log(SLOWER)]) if len(off) >= SEVERAL else []
            ratio = float(np.exp(off[cells].median())) if cells else 1.0
            seen = f"{times(ratio)} times what its fits take on the other datasets"
        if cells:
            yield Finding(
                TIMES,
                tuple(results.cell(d, model) for d in cells),
                f"{seen}, beside the other models",
                "another unit (milliseconds), a wait inside the time, or another machine",
            )


def leaks(results: Results) -> Iterator[Finding]:
    """Datasets of which the passport says that a feature tells the target."""
    facts_of = results.evidence.facts.of_datasets
    if not any("flags" in facts for facts in facts_of.values()):
        raise NotChecked("no passports")
    for dataset, facts in facts_of.items():
        whole = results.whole
        mine = whole.loc[whole["dataset"] == dataset, ["dataset", "model", "mean"]]
        seen = [flag["detail"] for flag in facts.get("flags", ()) if flag["id"] in LEAKS]
        if seen and len(mine):
            cause = "known only after the target: leave the feature out (--drop)"
            cells = tuple(mine.itertuples(index=False, name=None))
            yield Finding(LEAK, cells, "; ".join(seen), cause)
