"""Normalised validation regret of configurations on datasets: measured, or estimated by forests.

On a fold the best validation loss has regret 0 and the median one regret 1, where it is cut off; a
failed trial has regret 1. Configurations that a sampler drew on one dataset were mostly not tried
on another, so a forest on that dataset's own trials of the model estimates what they would have
reached there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...sweeps.store.ledger import Ledger, Record
from ...sweeps.study_state import TUNE
from ...sweeps.trial import DONE, FAILED, canonical
from ..planning.plan_record import drawn_by
from ..results.evidence_builder import losses, planned_frame
from ..results.slots_frame import columns_of

if TYPE_CHECKING:
    import pandas as pd

UNKNOWN = 1.0  # regret of a configuration on a dataset of which nothing tells it
MIN_TRIALS = 5  # different configurations of a model on a dataset, for an estimate there
TREES, LEAF = 100, 2

COLUMNS = ["dataset", "split", "task", "fold", "model", "config", "loss"]
SLOT = ["dataset", "split", "fold", "model", "index", "id"]  # a trial; copied it is in several runs


@dataclass(frozen=True)
class Trials:
    """The tuning trials of runs. `frame`: dataset, split (how its folds were drawn), task, fold,
    model, config (canonical JSON) and loss (infinite for a failed trial). `sha256` of each
    dataset's data; `twins`: the datasets that share rows with it."""

    frame: pd.DataFrame
    sha256: Mapping[str, str]
    twins: Mapping[str, frozenset[str]]

    @property
    def datasets(self) -> list[str]:
        """The datasets with trials, sorted."""
        return sorted(set(self.frame["dataset"]))


def trials_of(runs: Sequence[Path]) -> Trials:
    """The tuning trials of runs whose whole schedule ran. Raises ValueError where two runs select
    by different metrics or have different data under one name, LedgerError for no run."""
    import pandas as pd

    parts: list[pd.DataFrame] = []
    metric: dict[str, str] = {}
    sha256: dict[str, str] = {}
    twins: dict[str, set[str]] = {}
    for run in runs:
        ledger = Ledger(Path(run))
        plan, frame = planned_frame(ledger, columns_of(ledger.columns()))
        for what, known, here in (
            ("metric", metric, _metrics(plan)),
            ("data", sha256, {d: v["sha256"] for d, v in plan["datasets"].items()}),
        ):
            for key in sorted(known.keys() & here.keys()):
                if known[key] != here[key]:
                    raise ValueError(
                        f"{run}: the {what} of {key} is {here[key]!r}, in a run before it "
                        f"{known[key]!r}: learn a portfolio from runs that agree"
                    )
            known |= here
        for name, described in plan["datasets"].items():
            for other in described.get("overlaps") or ():
                twins.setdefault(name, set()).add(other)
                twins.setdefault(other, set()).add(name)
        frame = frame.assign(loss=losses(frame, plan["metric"]))
        frame = frame[(frame["stage"] == TUNE) & frame["status"].isin([DONE, FAILED])]
        frame.loc[frame["status"] == FAILED, "loss"] = np.inf
        frame = frame[frame["loss"].notna()]
        splits = {name: ", ".join(drawn_by(plan, name)) for name in plan["datasets"]}
        frame["split"] = frame["dataset"].map(splits)
        parts.append(frame[list(dict.fromkeys([*COLUMNS, *SLOT]))])
    whole = pd.concat(parts, ignore_index=True)
    whole = whole.drop_duplicates(SLOT, ignore_index=True)[COLUMNS]  # copied: in several runs
    whole["config"] = [canonical(json.loads(text)) for text in whole["config"]]
    return Trials(whole, sha256, {name: frozenset(those) for name, those in twins.items()})


def _metrics(plan: Record) -> dict[str, str]:
    tasks = {described["task"] for described in plan["datasets"].values()}
    return {task: plan["metric"][task] for task in tasks}


def regrets(loss: np.ndarray) -> np.ndarray:  # (n,) -> (n,)
    """The losses of one fold as regrets: 0 for the best, 1 from the median of the finite ones on.

    >>> regrets(np.array([1.0, 2.0, 3.0, np.inf, 1.5])).tolist()
    [0.0, 1.0, 1.0, 1.0, 0.6666666666666666]
    """
    finite = loss[np.isfinite(loss)]
    if not len(finite):
        return np.ones(len(loss))
    best, middle = float(finite.min()), float(np.median(finite))
    if middle <= best:
        return np.where(loss <= best, 0.0, 1.0)
    return np.clip((loss - best) / (middle - best), 0.0, 1.0)


@dataclass(frozen=True)
class Matrix:
    """`regret` (n_configurations, n_datasets) of `configurations`, (model, canonical JSON), sorted;
    `measured` and `estimated` mark how it is known; where neither, it is UNKNOWN."""

    configurations: list[tuple[str, str]]
    datasets: list[str]
    regret: np.ndarray
    measured: np.ndarray
    estimated: np.ndarray

    def without(self, datasets: frozenset[str]) -> Matrix:
        """The matrix without datasets, and without configurations that ran on these alone."""
        columns = [i for i, name in enumerate(self.datasets) if name not in datasets]
        rows = np.flatnonzero(self.measured[:, columns].any(axis=1))
        return self.rows(rows, columns)

    def rows(
        self, rows: Sequence[int] | np.ndarray, columns: Sequence[int] | None = None
    ) -> Matrix:
        """A part of the matrix."""
        columns = list(range(len(self.datasets))) if columns is None else list(columns)
        at = np.ix_(np.asarray(rows, dtype=int), np.asarray(columns, dtype=int))
        return Matrix(
            [self.configurations[i] for i in rows],
            [self.datasets[i] for i in columns],
            self.regret[at],
            self.measured[at],
            self.estimated[at],
        )


def matrix_of(trials: Trials, *, within_model: bool = False) -> Matrix:
    """The regret of every configuration on every dataset.

    within_model: regret among the trials of the configuration's own model instead of among those of
    all models.
    """
    frame = trials.frame
    keys = ["dataset", "split", "fold", *(["model"] if within_model else [])]
    turned = frame.groupby(keys, sort=True)["loss"].transform(lambda part: regrets(part.to_numpy()))
    frame = frame.assign(regret=turned)
    means = frame.groupby(["dataset", "model", "config"], sort=True)["regret"].mean()
    names = sorted({(model, config) for _, model, config in means.index})
    datasets = trials.datasets
    row = {name: i for i, name in enumerate(names)}
    column = {name: j for j, name in enumerate(datasets)}
    regret = np.full((len(names), len(datasets)), UNKNOWN)
    measured = np.zeros(regret.shape, dtype=bool)
    for (dataset, model, config), value in means.items():
        regret[row[model, config], column[dataset]] = value
        measured[row[model, config], column[dataset]] = True
    estimated = np.zeros(regret.shape, dtype=bool)
    for model in sorted({model for model, _ in names}):
        rows = np.array([i for i, (name, _) in enumerate(names) if name == model])
        configs = [json.loads(names[i][1]) for i in rows]
        features = encoded(configs)
        for j in range(len(datasets)):
            known = measured[rows, j]
            open_ = ~known & _like_these(configs, known)
            if known.sum() >= MIN_TRIALS and open_.any():
                regret[rows[open_], j] = _forest(
                    features[known], regret[rows[known], j], features[open_]
                )
                estimated[rows[open_], j] = True
    return Matrix(names, datasets, regret, measured, estimated)


def _like_these(configs: Sequence[Mapping[str, Any]], known: np.ndarray) -> np.ndarray:
    """Which configurations have no hyperparameter that none of the known ones has: a space may
    differ between tasks."""
    there = {key for config, here in zip(configs, known, strict=True) if here for key in config}
    return np.array([set(config) <= there for config in configs])


def encoded(configs: Sequence[Mapping[str, Any]]) -> np.ndarray:  # (n, n_features)
    """Configurations as numbers for a forest: a number as it is, -1e9 where it is absent or no
    number, and a column of 0 and 1 for each other value."""
    columns: list[list[float]] = []
    for key in sorted({key for config in configs for key in config}):
        values = [config.get(key) for config in configs]
        numbers = [type(v) in (int, float) for v in values]
        if any(numbers):
            columns.append(
                [float(v or 0) if n else -1e9 for v, n in zip(values, numbers, strict=True)]
            )
        texts = [None if n else canonical([key in c, c.get(key)])
                 for c, n in zip(configs, numbers, strict=True)]  # fmt: skip
        for text in sorted({t for t in texts if t is not None}):
            columns.append([float(t == text) for t in texts])
    if not columns:
        return np.zeros((len(configs), 1))
    return np.array(columns, dtype=float).T


def _forest(known: np.ndarray, regret: np.ndarray, asked: np.ndarray) -> np.ndarray:
    from sklearn.ensemble import ExtraTreesRegressor

    forest = ExtraTreesRegressor(TREES, min_samples_leaf=LEAF, random_state=0, n_jobs=1)
    found: np.ndarray = forest.fit(known, regret).predict(asked)
    return np.clip(found, 0.0, 1.0)
