"""What each study would have chosen after n trials, and its cost so far, without fitting again."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ..evidence import Evidence
from ..metrics import METRICS
from .cells import STUDY

_COLUMNS = ["study", *STUDY, "task", "n", "loss", "best", "test", "cpu"]


def running(evidence: Evidence) -> pd.DataFrame:
    """One row per tuning trial that ran to its end or failed, in the order of its study.

    Columns: study (a number), dataset, fold, model, task; `n`, the number of trials of the study up
    to and including this one; `loss`, its validation score as a loss (NaN if it failed); `best`,
    the lowest loss so far; `test`, the test score of the trial with the lowest loss (the lower
    index if equal); `cpu`, the CPU seconds so far (NaN if none was recorded). Trials on lower rungs
    and evaluation runs are left out. Empty if no validation score of a headline metric is known.
    """
    mine = evidence.having("stage", "tune")
    loss, test = (values[mine] for values in _headline(evidence))
    if not len(loss) or np.isnan(loss).all():
        return pd.DataFrame(columns=_COLUMNS)
    names = [*STUDY, "task", "index", "cpu_s"]
    tune = evidence.trials.loc[mine, names].reset_index(drop=True)
    number = evidence.study_numbers[0][mine]
    first = np.append(True, number[1:] != number[:-1])
    study = np.cumsum(first) - 1  # number of the study of each row
    filled = pd.Series(np.where(np.isnan(loss), np.inf, loss))
    lowest = filled.groupby(study).cummin().to_numpy()
    before = np.where(first, np.inf, np.concatenate([[np.inf], lowest[:-1]]))
    at = np.maximum.accumulate(np.where(filled.to_numpy() < before, np.arange(len(tune)), -1))
    start = np.maximum.accumulate(np.where(first, np.arange(len(tune)), 0))
    known = at >= start
    frame = tune[[*STUDY, "task"]].copy()
    frame["study"], frame["n"] = study, tune["index"] + 1
    frame["loss"] = loss
    frame["best"] = np.where(known, lowest, np.nan)
    frame["test"] = np.where(known, test[np.maximum(at, 0)], np.nan)
    sums = tune["cpu_s"].fillna(0.0).groupby(study).cumsum()
    frame["cpu"] = sums if tune["cpu_s"].notna().any() else np.nan
    return frame[_COLUMNS]


def _headline(evidence: Evidence) -> tuple[np.ndarray, np.ndarray]:
    """(validation loss, test score) of each trial by the headline metric of its task, else NaN."""
    rows = evidence.trials
    loss, test = np.full(len(rows), np.nan), np.full(len(rows), np.nan)
    for task in evidence.tasks:
        name = evidence.headline(task)
        mine = evidence.having("task", task) & evidence.having("status", "done")
        test[mine] = rows[f"test_{name}"].to_numpy(dtype=float)[mine]
        if f"val_{name}" in rows:
            loss[mine] = METRICS[name].sign * rows[f"val_{name}"].to_numpy(dtype=float)[mine]
    return loss, test


def by_trials(steps: pd.DataFrame) -> dict[str, dict[str, np.ndarray]]:
    """{dataset: {model: (n_points, 2)}} with the columns n and lowest validation loss, as means
    over the folds, for every n at which all folds have a score. Empty if no study has two
    trials."""
    if not len(steps) or steps["n"].max() < 2:
        return {}
    starts = steps.drop_duplicates("study")
    pairs = starts.groupby(["dataset", "model"], sort=True)
    names, folds = list(pairs.groups), pairs.size().to_numpy()
    cell = pairs.ngroup().to_numpy()[steps["study"].to_numpy()]
    rows = pd.DataFrame({"cell": cell, "n": steps["n"], "best": steps["best"]})
    grouped = rows.groupby(["cell", "n"], sort=True)["best"]
    means = grouped.mean().reset_index()
    means = means[grouped.count().to_numpy() == folds[means["cell"]]]
    points = means[["n", "best"]].to_numpy(dtype=float)
    ends = np.searchsorted(means["cell"], np.arange(len(names)), side="right")
    curves: dict[str, dict[str, np.ndarray]] = {}
    for (dataset, model), path in zip(names, np.split(points, ends[:-1]), strict=True):
        if len(path):
            curves.setdefault(str(dataset), {})[str(model)] = path
    return curves
