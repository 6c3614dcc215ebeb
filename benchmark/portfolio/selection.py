"""The choice of a portfolio: greedy, by mean normalised validation regret over datasets."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ..planning.portfolios.portfolio_file import ALL, EACH, Entry
from .regrets import Matrix, Trials, matrix_of


@dataclass(frozen=True)
class Pick:
    """A chosen row of a matrix. `regret`: mean over the datasets of the least regret among the
    rows chosen up to here; `alone`: the mean regret of this row."""

    row: int
    regret: float
    alone: float


def greedy(matrix: Matrix, size: int) -> list[Pick]:
    """At most `size` rows, each the one with which the mean over the datasets of the least regret
    among the chosen rows is lowest.

    Ties go to the lower regret alone, then to the first by model and configuration.
    """
    n, n_datasets = matrix.regret.shape
    if not n_datasets:
        return []
    best = np.full(n_datasets, np.inf)
    alone = matrix.regret.mean(axis=1)
    left = list(range(n))
    picks: list[Pick] = []
    while left and len(picks) < size:
        together = np.minimum(matrix.regret[left], best).mean(axis=1)
        place = min(range(len(left)), key=lambda i: (round(together[i], 12), alone[left[i]], i))
        row = left.pop(place)
        best = np.minimum(best, matrix.regret[row])
        picks.append(Pick(row, float(best.mean()), float(alone[row])))
    return picks


def learn(
    trials: Trials, size: int, *, per_model: bool = False, leave_one_out: bool = False
) -> list[Entry]:
    """The entries of a portfolio file: those learned on all datasets, and with `leave_one_out` for
    each dataset those learned without it and without the datasets that share rows with it.

    per_model: `size` configurations of each model, by regret within the model, instead of `size`
    over all models. Raises ValueError for fewer than two datasets.
    """
    datasets = trials.datasets
    if len(datasets) < 2:
        held = f"{datasets[0]} alone" if datasets else "no finished trial"
        raise ValueError(
            f"a portfolio is learned on two datasets or more, and the runs hold {held}: name more "
            "runs, or sweep more datasets"
        )
    matrix = matrix_of(trials, within_model=per_model)
    entries = list(_entries(matrix, size, per_model, ""))
    for dataset in datasets if leave_one_out else ():
        gone = frozenset({dataset}) | trials.twins.get(dataset, frozenset())
        entries += _entries(matrix.without(gone), size, per_model, dataset)
    return entries


def scope_of(per_model: bool) -> str:
    """The `scope` of a portfolio file."""
    return EACH if per_model else ALL


def _entries(matrix: Matrix, size: int, per_model: bool, without: str) -> Iterable[Entry]:
    models = sorted({model for model, _ in matrix.configurations})
    for group in [[m] for m in models] if per_model else [models]:
        part = matrix.rows([i for i, (m, _) in enumerate(matrix.configurations) if m in group])
        if per_model:  # a dataset on which a model never ran says nothing about it
            there = part.measured.any(axis=0)
            part = part.rows(range(len(part.configurations)), np.flatnonzero(there).tolist())
        for pick in greedy(part, size):
            model, config = part.configurations[pick.row]
            yield Entry(
                model=model,
                config=config,
                without=without,
                regret=pick.regret,
                alone=pick.alone,
                measured=int(part.measured[pick.row].sum()),
                estimated=int(part.estimated[pick.row].sum()),
            )
