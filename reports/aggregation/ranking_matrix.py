"""The complete matrix of losses (datasets x models) that ranks and tests are computed from.

A model is in the matrix of a scope if it has a complete score on at least MIN_COVERAGE of the
scope's datasets; a dataset is in it if all of these models have a complete score there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..evidence import Evidence
from ..metrics import Metric, metric
from ..statistics.ranking import ranks, snap
from .cells import COMPLETE

# A model is ranked and tested if it has a complete score on at least this share of the datasets.
MIN_COVERAGE = 0.8

Array = np.ndarray


@dataclass(frozen=True)
class Scope:
    """The datasets of one ranking or test: those of some tasks, all of them or a subset."""

    name: str
    tasks: tuple[str, ...]
    metrics: tuple[str, ...]  # headline metric of each task
    subset: bool = False

    @property
    def title(self) -> str:
        """The name, with ", subset" for the subset."""
        return self.name + ", subset" * self.subset

    @property
    def kind(self) -> str:
        """Which datasets, for a table's heading."""
        return "independent, learnable subset" if self.subset else "all datasets"

    @property
    def selection(self) -> str:
        """'all' or 'subset', as the column `datasets` of the CSV files has it."""
        return "subset" if self.subset else "all"


def scopes(evidence: Evidence) -> list[Scope]:
    """Everything that is ranked and tested: each task; both classification tasks together where
    they share a metric; all tasks together; and each of these again on the subset, if there is
    one."""
    head = {task: evidence.headline(task) for task in evidence.tasks}
    made = [Scope(task, (task,), (name,)) for task, name in head.items()]
    both = [task for task in ("binary", "multiclass") if task in head]
    if len(both) == 2 and head[both[0]] == head[both[1]] and len(head) > 2:
        made.append(Scope("classification", tuple(both), tuple(head[t] for t in both)))
    if len(head) > 1:
        made.append(Scope("all tasks", tuple(head), tuple(head.values())))
    if set(evidence.subset) < set(evidence.datasets()):
        made += [Scope(s.name, s.tasks, s.metrics, subset=True) for s in made]
    return made


def loss_table(headline: pd.DataFrame, scope: Scope, subset: Sequence[str]) -> pd.DataFrame:
    """Datasets of the scope (rows) by models (columns), sorted by name: the complete scores as
    losses (lower is better), NaN for every other planned cell.

    `headline` is `cells.headline_cells`; `subset` names the datasets of the subset.
    """
    rows = headline[headline["task"].isin(scope.tasks)]
    if scope.subset:
        rows = rows[rows["dataset"].isin(subset)]
    named = dict(zip(scope.tasks, scope.metrics, strict=True))
    loss = [
        metric(named[t]).loss(m) if state == COMPLETE else math.nan
        for t, m, state in zip(rows["task"], rows["mean"], rows["state"], strict=True)
    ]
    matrix = rows.assign(loss=loss).pivot(index="dataset", columns="model", values="loss")
    return matrix.sort_index().sort_index(axis=1)


def as_errors(losses: Array, bounded: Array) -> Array:  # (n_datasets, n_models), (n_datasets,) bool
    """Losses as errors, 0 for a perfect score: 1 - score where the dataset's metric is at most 1
    (`bounded`), else the loss itself. Near-equal scores have equal errors: beside a perfect score
    the rounding of another would be a large share of its error."""
    losses = snap(losses)
    return np.where(bounded[:, None], np.maximum(1.0 + losses, 0.0), losses)


@dataclass(frozen=True)
class RankingMatrix:
    """A complete matrix: every model of `models` has a complete score on every one of `datasets`.

    `losses[i, j]` is lower for the better model. `thin` maps the models left out for covering less
    than MIN_COVERAGE of the scope to the number of datasets that they cover; `dropped` names the
    datasets on which a model of the matrix lacks a complete score. `n_scope` is the number of
    datasets in the scope.
    """

    scope: Scope
    models: list[str]
    datasets: list[str]
    tasks: list[str]  # of `datasets`
    losses: Array  # (n_datasets, n_models)
    n_scope: int
    thin: dict[str, int]
    dropped: list[str]

    @classmethod
    def of(cls, evidence: Evidence, headline: pd.DataFrame, scope: Scope) -> RankingMatrix:
        """The matrix of a scope; `headline` is `cells.headline_cells`."""
        everything = loss_table(headline, scope, evidence.subset)
        n_scope = len(everything)
        counts = {str(m): int(n) for m, n in everything.notna().sum().items()}
        models = [m for m in counts if counts[m] and counts[m] >= MIN_COVERAGE * n_scope]
        thin = {m: n for m, n in counts.items() if m not in models}
        full = everything[models].dropna() if models else everything.iloc[:0, :0]
        dropped = sorted(set(map(str, everything.index)) - set(map(str, full.index)))
        return cls.of_table(full, headline, scope, n_scope, thin, dropped)

    @classmethod
    def of_table(
        cls,
        table: pd.DataFrame,
        headline: pd.DataFrame,
        scope: Scope,
        n_scope: int,
        thin: dict[str, int],
        dropped: Sequence[str] = (),
    ) -> RankingMatrix:
        """The matrix of these losses, a part of `loss_table`."""
        task_of = dict(zip(headline["dataset"], headline["task"], strict=True))
        models, datasets = ([str(name) for name in axis] for axis in (table.columns, table.index))
        tasks, losses = [task_of[d] for d in datasets], table.to_numpy(dtype=float)
        return cls(scope, models, datasets, tasks, losses, n_scope, thin, list(dropped))

    def metric_of(self, row: int) -> Metric:
        """The headline metric of the dataset in that row of `losses`."""
        return metric(self.scope.metrics[self.scope.tasks.index(self.tasks[row])])

    @property
    def errors(self) -> Array:  # (n_datasets, n_models)
        """The losses as errors, see `as_errors`."""
        rows = range(len(self.losses))
        return as_errors(self.losses, np.array([self.metric_of(i).bounded for i in rows], bool))

    @property
    def why_not(self) -> str:
        """Empty, or the reason why the matrix gives no ranking, as the tables print it."""
        if not self.n_scope:
            return "n/a: needs a dataset, has none"
        if len(self.models) < 2:
            return f"n/a: needs at least 2 models with scores, has {len(self.models)}"
        if not self.datasets:
            return "n/a: needs a dataset on which every ranked model has a complete score, has none"
        return ""

    def ranks(self) -> Array:  # (n_datasets, n_models)
        """Rank of every model on every dataset, 1 = best, shared by near-equal losses."""
        return ranks(self.losses)

    def order(self) -> tuple[list[str], list[float]]:
        """(models by mean rank, then by name; their mean ranks)."""
        mean = self.ranks().mean(axis=0).tolist()
        pairs = sorted(zip(mean, self.models, strict=True))
        return [model for _, model in pairs], [rank for rank, _ in pairs]


def ranking_matrices(evidence: Evidence, headline: pd.DataFrame) -> list[RankingMatrix]:
    """The matrix of every scope, in the order of `scopes`."""
    return [RankingMatrix.of(evidence, headline, scope) for scope in scopes(evidence)]


def widest(matrices: Sequence[RankingMatrix]) -> RankingMatrix:
    """The matrix of all tasks and all datasets, of those of an evidence."""
    return [matrix for matrix in matrices if not matrix.scope.subset][-1]
