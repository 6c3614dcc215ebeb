"""Sides of a question that are several models: what validation chooses of equally many of each."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb

import numpy as np
import pandas as pd

from ..evidence import Evidence
from ..metrics import METRICS
from ..statistics.ranking import snap
from .cells import COMPLETE, counting, studies

FOLD = ["dataset", "fold"]


def errors_by_fold(evidence: Evidence) -> pd.DataFrame:
    """dataset, task, fold, model, val, test of every study with a score: its validation loss and
    test error by the headline metric of the task, means over its evaluation runs."""
    table = studies(evidence)
    whole = table.loc[table["state"] == COMPLETE, [*FOLD, "model"]]
    rows = evidence.trials[counting(evidence)]
    frames = []
    for task in evidence.tasks:
        metric = METRICS[evidence.headline(task)]
        mine = rows[rows["task"] == task]
        val = mine.get(f"val_{metric.name}", pd.Series(np.nan, index=mine.index))
        test = [metric.error(value) for value in mine[f"test_{metric.name}"]]
        frames.append(mine.assign(val=metric.sign * val, test=test))
    keys = ["dataset", "task", "fold", "model"]
    means = pd.concat(frames).groupby(keys)[["val", "test"]].mean().reset_index()
    return means.merge(whole, on=[*FOLD, "model"])


def chosen_of(val: np.ndarray, test: np.ndarray, k: int) -> float:  # (n,) each
    """The test error that is expected of the best by validation among k of the n models, drawn at
    random: so that a side of many models has no more chances than one of k. Equally good ones by
    validation share their test error.

    >>> chosen_of(np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0]), 3)
    4.0
    >>> chosen_of(np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0]), 1)
    5.0
    """
    n = len(val)
    order = np.argsort(val, kind="stable")
    errors = pd.Series(test[order]).groupby(snap(val[order][None])[0]).transform("mean")
    chances = [comb(n - 1 - place, k - 1) / comb(n, k) for place in range(n)]
    return float(np.dot(chances, errors))


def side(folds: pd.DataFrame, models: Sequence[str], k: int | None = None) -> pd.Series:
    """{(dataset, fold): test error} of a side, as `chosen_of` computes it, for the folds on which
    at least k of its models have scores. k: how many models choose, by default all of the side.
    folds: `errors_by_fold`."""
    mine = folds[folds["model"].isin(models)].dropna(subset=["val", "test"])
    mine = mine.sort_values([*FOLD, "model"], kind="stable")
    k = k or len(models)
    found = {
        place: chosen_of(one["val"].to_numpy(), one["test"].to_numpy(), k)
        for place, one in mine.groupby(FOLD)
        if len(one) >= k
    }
    index = pd.MultiIndex.from_tuples(list(found), names=FOLD)
    return pd.Series(list(found.values()), index=index, dtype=float)


def gains(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:  # (n,) errors each
    """How much lower our error is, as a share of the larger one; 0 for a tie."""
    e = snap(np.stack([ours, theirs], axis=1)) if len(ours) else np.empty((0, 2))
    return (e[:, 1] - e[:, 0]) / np.maximum(np.abs(e).max(axis=1), 1e-12)
