"""Findings on implausible cells, and what every check reads: scores as errors, by task and fold.

An error is 0 for a perfect score: 1 - score for metrics that are at most 1, the root for squared
errors, so that half of an error means the same for RMSE, MSE and R2.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from ..aggregation.cells import COMPLETE, counting
from ..evidence import Evidence
from ..metrics import METRICS

# What others call a model that predicts one value; a mark such as " [rtdl]" may follow.
CONSTANTS = {"constant", "dummy", "dummyclassifier", "dummyregressor", "majority", "zeror", "prior"}
_MARK = re.compile(r" \[[^\]]*\]$")
PRINTED_DIGITS = 6  # of scores that come from a printed table
NO_SKILL = {"r2": 0.0, "roc_auc": 0.5}  # scores of a constant, whatever the data
SEVERAL = 3  # equal scores, from which on they are hardly an accident
TEST_SHARE, SEEN_NONE = 0.1, 3.0  # no error in n rows is an error of up to 3/n; rows in a test part


@dataclass(frozen=True)
class Finding:
    """Cells that one check found implausible together.

    check: its name. cells: (dataset, model, value of the headline metric).
    """

    check: str
    cells: tuple[tuple[str, str, float], ...]
    seen: str
    cause: str

    @property
    def datasets(self) -> list[str]:
        """The datasets of its cells, each once."""
        return list(dict.fromkeys(dataset for dataset, _, _ in self.cells))

    @property
    def models(self) -> list[str]:
        """The models of its cells, each once."""
        return list(dict.fromkeys(model for _, model, _ in self.cells))


class NotChecked(Exception):
    """A check had nothing to look at; the message is the reason, for the page."""


@dataclass(frozen=True)
class Results:
    """What the checks look at. studies, headline: `cells.studies` and the cells of each task's
    headline metric."""

    evidence: Evidence
    studies: pd.DataFrame
    headline: pd.DataFrame

    @cached_property
    def whole(self) -> pd.DataFrame:
        """The complete cells."""
        return self.headline[self.headline["state"] == COMPLETE]

    @cached_property
    def means(self) -> dict[tuple[str, str], float]:
        """{(dataset, model): the score} of the complete cells."""
        return dict(self.whole.set_index(["dataset", "model"])["mean"].items())  # type: ignore[arg-type]

    def scores(self, *, constants: bool = False) -> Iterator[tuple[str, str, pd.DataFrame]]:
        """(task, its headline metric, complete scores of datasets x models) of each task.
        constants: whether with the models that predict one value."""
        for task in self.evidence.tasks:
            mine = self.whole[self.whole["task"] == task]
            table = mine.pivot(index="dataset", columns="model", values="mean")
            if not constants:
                table = table.drop(columns=[name for name in table if is_constant(name)])
            if table.size:
                yield task, self.evidence.headline(task), table

    @cached_property
    def counted(self) -> pd.DataFrame:
        """The trials whose scores count, done, with a complete cell, without constants."""
        trials = self.evidence.trials
        rows = trials[counting(self.evidence) & self.evidence.having("status", "done")]
        place = pd.MultiIndex.from_frame(rows[["dataset", "model"]])
        there = place.isin(list(self.means)) & ~rows["model"].map(is_constant).to_numpy(dtype=bool)
        return rows[there]

    @cached_property
    def scored(self) -> pd.DataFrame:
        """The studies of complete cells, without constants, by fold."""
        place = pd.MultiIndex.from_frame(self.studies[["dataset", "model"]])
        constant = self.studies["model"].map(is_constant).to_numpy(dtype=bool)
        rows = self.studies[place.isin(list(self.means)) & ~constant]
        return rows.sort_values(["dataset", "model", "fold"], kind="stable", ignore_index=True)

    def cell(self, dataset: Any, model: Any) -> tuple[str, str, float]:
        """A cell as a finding names it."""
        return str(dataset), str(model), float(self.means[dataset, model])

    def floor(self, metric: str, dataset: str, least: float, *, folds: int = 1) -> float:
        """What few rows leave to chance of an error: 0 where the metric has no upper end, else at
        least `least`, and 3/n in the n test rows of so many folds, where they are known."""
        if not METRICS[metric].bounded:
            return 0.0
        rows = self.evidence.facts.rows.get(dataset)
        return max(least, SEEN_NONE / (TEST_SHARE * rows) / folds) if rows else least


def is_constant(model: object) -> bool:
    """Whether a model predicts one value, by its name.

    >>> is_constant("constant [uci-small-reference]"), is_constant("knn")
    (True, False)
    """
    return _MARK.sub("", str(model)).casefold() in CONSTANTS


def errors(values: Any, metric: str) -> Any:
    """Scores of a metric as errors, 0 for a perfect one; squared errors as their roots."""
    one = METRICS[metric]
    error = 1.0 - values if one.bounded else np.asarray(values, dtype=float)
    return np.sqrt(np.maximum(error, 0.0)) if metric in ("mse", "r2") else error


def median_of_others(table: pd.DataFrame) -> pd.DataFrame:  # -> the same shape
    """In each cell the median of its row without this cell; NaN where there is no other."""
    values = table.to_numpy(dtype=float)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of rows without a number
        columns = [np.nanmedian(np.delete(values, j, 1), axis=1) for j in range(values.shape[1])]
    return pd.DataFrame(np.column_stack(columns), table.index, table.columns)


def printed(value: float) -> bool:
    """Whether a score has no more digits than a printed table: equal ones are no surprise."""
    return float(f"{value:.{PRINTED_DIGITS}g}") == value


def telling(value: float, metric: str, n: int) -> bool:
    """Whether n scores that are all this one are no accident: it is not perfect, and has more
    digits than a table prints, or some digits of a metric that does not only count rows."""
    if value != value or errors(value, metric) <= 1e-9:
        return False
    several, counts = n >= SEVERAL, METRICS[metric].percent
    if not printed(value):
        return several or not counts
    return several and not counts and float(f"{value:.2g}") != value


def times(ratio: float) -> str:
    """A ratio in two decimals, huge ones as a power of ten."""
    return f"{ratio:.2f}" if ratio < 1000 else f"1e{int(np.log10(min(ratio, 1e300)))}"


def trials_behind(evidence: Evidence) -> dict[tuple[str, str], list[str]]:
    """{(dataset, model): ids of the trials behind the cell}: the evaluations of its folds, or the
    chosen trials where it has none."""
    rows = evidence.trials.loc[counting(evidence), ["dataset", "model", "id"]]
    return {
        (str(dataset), str(model)): [name for name in dict.fromkeys(ids.tolist()) if name]
        for (dataset, model), ids in rows.groupby(["dataset", "model"], sort=False)["id"]
    }
