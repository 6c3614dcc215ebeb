"""What each study would have chosen after so many CPU seconds, and ranks at equal time.

A study's score at time T is the test score of the trial that validation would have chosen among the
trials that had ended when the study had used T CPU seconds. Nothing is fitted again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from ..evidence import Evidence
from ..metrics import METRICS
from ..statistics.ranking import ranks
from .cells import COMPLETE, STUDY

MOST_TIMES = 10  # columns of a table
_RANKS = ["time", "model", "mean_rank", "scored", "n_datasets"]


def spent(evidence: Evidence, steps: pd.DataFrame) -> pd.DataFrame:
    """`steps` (`anytime.running`) with `cpu`, the CPU seconds of a study so far, from its very
    beginning: trials on lower rungs, which all end before the first full one, are counted there.
    Empty where no CPU seconds or no validation scores are known.
    """
    if not len(steps) or not (steps["cpu"] > 0).any():
        return steps[:0]
    steps = steps.assign(cpu=steps["cpu"].round(6))
    lower = ~(evidence.having("stage", "tune") | evidence.having("stage", "eval"))
    if not lower.any():
        return steps
    sums = evidence.trials.loc[lower].groupby(STUDY, sort=True)["cpu_s"].sum().rename("lower")
    before = steps[STUDY].merge(sums.reset_index(), on=STUDY, how="left")["lower"].fillna(0.0)
    return steps.assign(cpu=(steps["cpu"] + before.to_numpy()).round(6))


def times(steps: pd.DataFrame) -> list[float]:
    """The times that a report shows: 1, 2 and 5 times powers of ten, from the first score of any
    study to the end of the last one. Some are left out if there are more than MOST_TIMES.

    >>> times(pd.DataFrame({"cpu": [0.04, 3.0, 11.0], "best": [0.1, 0.1, 0.1]}))
    [0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0]
    """
    known = steps.loc[steps["best"].notna() & (steps["cpu"] > 0), "cpu"]
    if not len(known):
        return []
    low, high = float(known.min()), float(steps["cpu"].max())
    for factors in ((1, 2, 5), (1, 3), (1,), (1,)):
        first, last = math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1
        marks = [float(f"{f}e{power}") for power in range(first, last + 1) for f in factors]
        marks = [t for t in marks if t >= low]
        marks = marks[: 1 + next(i for i, t in enumerate(marks) if t >= high)]
        if len(marks) <= MOST_TIMES:
            return marks
    return marks[:: -math.ceil(len(marks) / MOST_TIMES)][::-1]


def choices(steps: pd.DataFrame) -> pd.DataFrame:
    """The rows at which a study's choice changes: the score at any time T is that of a study's last
    row with `cpu_s` <= T.

    Columns: dataset, task, model, fold, cpu_s, n_trials, val_loss, test.
    """
    best, study = steps["best"].to_numpy(), steps["study"].to_numpy()
    new = np.append(True, (study[1:] != study[:-1]) | (best[1:] != best[:-1]))[: len(steps)]
    rows = steps[new & ~np.isnan(best)]
    chosen = rows[["dataset", "task", "model", "fold"]].assign(
        cpu_s=rows["cpu"], n_trials=rows["n"], val_loss=rows["best"], test=rows["test"]
    )
    return chosen.reset_index(drop=True)


def at(steps: pd.DataFrame, seconds: float) -> pd.DataFrame:
    """The row of each study after `seconds` of CPU time; none of a study that had ended no trial
    by then. A study that took less gives its last row."""
    study = steps["study"].to_numpy()
    rows = np.flatnonzero(steps["cpu"].to_numpy() <= seconds)
    if not len(rows):
        return steps[:0]
    return steps.iloc[rows[np.append(study[rows][1:] != study[rows][:-1], True)]]


def cells_at(steps: pd.DataFrame, headline: pd.DataFrame, ts: Sequence[float]) -> pd.DataFrame:
    """One row per (time, dataset, model) with a complete cell: `mean` test score over the folds
    after `time` CPU seconds of each fold's study, NaN where some fold had no score by then.

    `headline`: `cells.headline_cells`.
    """
    whole = headline.loc[headline["state"] == COMPLETE, ["dataset", "task", "model", "n_folds"]]
    parts = []
    for seconds in ts:
        grouped = at(steps, seconds).groupby(["dataset", "model"], sort=True)["test"]
        means = grouped.agg(mean="mean", n_scored="count").reset_index()
        cells = whole.merge(means, on=["dataset", "model"], how="left")
        cells["mean"] = cells["mean"].where(cells["n_scored"] == cells["n_folds"])
        parts.append(cells.assign(time=seconds)[["time", "dataset", "task", "model", "mean"]])
    columns = ["time", "dataset", "task", "model", "mean"]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)


def ranks_at(evidence: Evidence, cells: pd.DataFrame) -> pd.DataFrame:
    """One row per (time, model): `mean_rank` over the datasets on which every model has a score in
    the end, so the same for all times; `scored`, the share of them with a score by then.

    cells: `cells_at`. A model without a score by then ranks behind all that have one, ties share.
    """
    rows: list[dict[str, object]] = []
    if not len(cells):
        return pd.DataFrame(columns=_RANKS)
    end = cells[cells["time"] == cells["time"].max()]
    wide = end.pivot(index="dataset", columns="model", values="mean")
    wide = wide.dropna()
    task = dict(zip(end["dataset"], end["task"], strict=True))
    signs = np.array([METRICS[evidence.headline(task[d])].sign for d in wide.index])
    models = sorted(map(str, wide.columns))
    for seconds, part in cells.groupby("time", sort=True):
        if len(models) < 2 or not len(wide):
            break
        now = part.pivot(index="dataset", columns="model", values="mean")
        losses = now.loc[wide.index, models].to_numpy(dtype=float) * signs[:, None]
        scored = ~np.isnan(losses)
        place = ranks(np.where(scored, losses, np.inf)).mean(axis=0)
        for model, rank, share in zip(models, place, scored.mean(axis=0), strict=True):
            rows.append({"time": seconds, "model": model, "mean_rank": rank, "scored": share})
            rows[-1]["n_datasets"] = len(wide)
    return pd.DataFrame(rows, columns=_RANKS)
