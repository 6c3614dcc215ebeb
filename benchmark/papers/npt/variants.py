"""Ranks of NPT's eight variants on small data (Kossen et al. 2021, C.1.2, Table 13).

Every variant is fitted on every fold; on each fold the variants are ranked by the test rows'
negative log-likelihood, from 0, so that a dataset's mean ranks sum to 28.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ....datasets.catalog import card
from ....datasets.protocols import Fold
from ....datasets.table import Table as Data
from ....reports.metrics import accuracy, log_loss, rmse
from ....reports.statistics.ranking import ranks, standard_error
from ..available import on_available
from ..experiment_result import ExperimentResult, ExperimentTable, Setting
from ..published_values import load
from .fitted_inputs import fitted, paper_configs

FOLDER = Path(__file__).parent

VARIANTS = (  # the published names, in the order of the space `npt`
    "base", "layers-16", "heads-16", "layers-16-heads-16", "p-target-0.1", "p-target-0.5",
    "p-feature-0.2", "cosine-cyclic",
)  # fmt: skip
DATASETS = ("boston", "breast-cancer-wdbc", "concrete", "yacht")
SIZES: dict[str, dict[str, Any]] = {
    "tiny": {
        "datasets": ("breast-cancer-wdbc",),
        "folds": 2,
        "steps": {"breast-cancer-wdbc": 2},
        "fewer": (4, 8),
        "settings": {"width": 4, "max_width": 128, "eval_every": 2},
    },
    "reduced": {
        "datasets": DATASETS,
        "folds": 2,
        "steps": {"boston": 60, "breast-cancer-wdbc": 60, "concrete": 120, "yacht": 120},
        "fewer": (4, 8),
        "settings": {
            "width": 8,
            "max_width": 128,
            "lr": 2e-2,
            "eval_every": 10,
            "batch_size": 256,
        },
    },
    "full": {"datasets": DATASETS, "folds": 10, "steps": {}, "fewer": (1, 1), "settings": {}},
}
MORE_STEPS = 2.0  # below the full size, what a variant has at most of the steps of the first


def variants(
    dataset: str, steps: Mapping[str, int], fewer: tuple[int, int], settings: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """{published name: configuration} of a dataset's eight variants.

    steps: of the first variant on each dataset, none: as scripted. fewer: layers and heads are
    divided by it. settings: of every fit, instead of the paper's.
    """
    listed = paper_configs(dataset)
    layers, heads = fewer
    found = {}
    for name, values in zip(VARIANTS, listed, strict=True):
        own = values["steps"]
        if steps:
            own = round(steps[dataset] * min(MORE_STEPS, own / listed[0]["steps"]))
        shape = {"n_layers": values["n_layers"] // layers, "n_heads": values["n_heads"] // heads}
        found[name] = {**values, **shape, "steps": own, **settings}
    return found


@dataclass(frozen=True)
class Score:
    """val: the least validation loss. nll: of the test rows, for a regression the half mean squared
    error of standardised targets, which ranks alike. metric: RMSE or accuracy (a fraction)."""

    val: float
    nll: float
    metric: float


def trial(setting: Setting, data: Data, fold: Fold, config: Mapping[str, Any]) -> Score:
    """The score of one fit."""
    model = fitted(setting, data, fold, config)
    x, y = data.rows(fold.test), data.target[fold.test]
    best = float(model.curve_[:, 1].min())
    if data.task == "regression":
        error = rmse(y, model.predict(x))
        return Score(best, 0.5 * (error / model._target_scale) ** 2, error)
    p = model.predict_proba(x)
    return Score(best, log_loss(y, p), accuracy(y, p))


def from_zero(losses: np.ndarray) -> np.ndarray:  # (folds, variants) -> the same
    """Ranks of the variants on every fold, 0 the best; equal ones share theirs."""
    return ranks(losses, "min") - 1.0


def run(
    setting: Setting,
    *,
    datasets: Sequence[str],
    folds: int,
    steps: Mapping[str, int],
    fewer: tuple[int, int],
    settings: Mapping[str, Any],
) -> ExperimentResult:
    """`bench experiment npt-variants`. folds: of each dataset; the others as in `variants`."""

    def scores(dataset: str) -> list[list[Score]]:
        data, configs = setting.load(dataset), variants(dataset, steps, fewer, settings)
        found = []
        for fold in setting.folds(data)[:folds]:
            setting.say(f"{dataset}: fold {fold.index + 1} of {folds}")
            found.append([trial(setting, data, fold, config) for config in configs.values()])
        return found

    found, left_out = on_available(datasets, scores)
    note = "Ranks by the test rows' negative log-likelihood, mean over the folds; 0 is best."
    if not setting.full:
        layers, heads = fewer
        numbers = " or ".join(map(str, dict.fromkeys(steps.values())))
        note += (
            f" {folds} folds; 8 and 16 layers are {8 // layers} and {16 // layers} here, 8"
            f" and 16 heads {8 // heads} and {16 // heads}; {numbers} steps (Concrete and Yacht"
            f" have the more), at most {MORE_STEPS:g} times as many where fewer targets are masked."
        )
    return ExperimentResult([table_of(found, note)], remarks=left_out)


def table_of(found: Mapping[str, Sequence[Sequence[Score]]], note: str) -> ExperimentTable:
    """The ranks, from {dataset: scores by fold and variant}."""
    published = load(FOLDER, "table13").set_index(["dataset", "level"])
    rows: list[dict[str, Any]] = []
    for dataset, scores in found.items():
        rank = from_zero(np.array([[s.nll for s in line] for line in scores]))
        val, metric = (
            np.array([[(s.val, s.metric) for s in line] for line in scores]).mean(axis=0).T
        )
        mean, error = rank.mean(axis=0), _error(rank)
        percent = 1.0 if card(dataset).task == "regression" else 100.0
        for i in np.argsort(mean, kind="stable"):
            paper = published.loc[(dataset, VARIANTS[i])]
            rows.append(
                {
                    "dataset": dataset,
                    "variant": VARIANTS[i],
                    "rank": mean[i],
                    "s.e.": error[i],
                    "published": float(paper["value"]),
                    "published s.e.": float(paper["spread"]),
                    "validation loss": val[i],
                    "test RMSE or accuracy (%)": percent * metric[i],
                }
            )
    return ExperimentTable("npt-variants", "Mean rank of NPT's variants", rows, note)


def _error(rank: np.ndarray) -> list[float | None]:
    """Standard error of each variant's mean rank; None with a single fold."""
    return [None] * rank.shape[1] if len(rank) < 2 else list(standard_error(rank))
