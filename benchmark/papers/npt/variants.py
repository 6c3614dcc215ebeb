"""Ranks of NPT's eight variants on small data (Kossen et al. 2021, C.1.2, Table 13).

Every variant is fitted on every fold; on each fold the variants are ranked by the test rows'
negative log-likelihood, from 0, so that a dataset's mean ranks sum to 28. Beside the ranks stands
what the protocol does with the variants: the one with the least validation loss is chosen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ....datasets.catalog import card, load_dataset
from ....datasets.protocols import Fold, make_folds
from ....datasets.table import Table as Data
from ....models.deep.trainer import computing
from ....models.registry import spaces
from ....reports.metrics import accuracy, log_loss, rmse
from ....reports.statistics.ranking import ranks, standard_error
from ..available import on_available
from ..experiment_result import ExperimentResult, ExperimentTable, Setting, Size
from ..published_values import load
from .fitted_inputs import fitted

FOLDER = Path(__file__).parent

VARIANTS = (  # the published names, in the order of the space `npt`
    "base", "layers-16", "heads-16", "layers-16-heads-16", "p-target-0.1", "p-target-0.5",
    "p-feature-0.2", "cosine-cyclic",
)  # fmt: skip
PAPER: dict[str, tuple[str, dict[str, Any]]] = {  # dataset: (space, settings beside the variant)
    "boston": ("npt", {"width": 128, "lr": 1e-3}),
    "breast-cancer-wdbc": ("npt", {"width": 32, "lr": 5e-4}),
    "concrete": ("npt-long", {"width": 128, "lr": 1e-3}),
    "yacht": ("npt-long", {"width": 128, "lr": 1e-3}),
}


@dataclass(frozen=True)
class Extent:
    """A size of the experiment. folds: of each dataset. steps: of the base variant in each space,
    empty: as scripted; more_steps: what a variant may have at most of that. fewer: layers and heads
    are divided by it. settings: of every fit, instead of the paper's."""

    datasets: tuple[str, ...]
    folds: int
    steps: Mapping[str, int]
    more_steps: float
    fewer: tuple[int, int]
    settings: Mapping[str, Any]


EXTENTS: dict[Size, Extent] = {
    "tiny": Extent(
        ("breast-cancer-wdbc",), 2, {"npt": 2, "npt-long": 2}, 2.0, (4, 8),
        {"width": 4, "max_width": 128, "eval_every": 2},
    ),
    "reduced": Extent(
        tuple(PAPER), 2, {"npt": 60, "npt-long": 120}, 2.0, (4, 8),
        {"width": 8, "max_width": 128, "lr": 2e-2, "eval_every": 10, "batch_size": 256},
    ),
    "full": Extent(tuple(PAPER), 10, {}, np.inf, (1, 1), {}),
}  # fmt: skip


def variants(dataset: str, extent: Extent) -> dict[str, dict[str, Any]]:
    """{published name: configuration} of a dataset's eight variants, cut down to the extent."""
    space, settings = PAPER[dataset]
    listed = spaces("npt", card(dataset).task)[space]["params"]["variant"]["values"]
    scripted = listed[0]["steps"]
    layers, heads = extent.fewer
    found = {}
    for name, values in zip(VARIANTS, listed, strict=True):
        steps = values["steps"]
        if extent.steps:
            steps = round(extent.steps[space] * min(extent.more_steps, steps / scripted))
        found[name] = {
            **values,
            "n_layers": values["n_layers"] // layers,
            "n_heads": values["n_heads"] // heads,
            "steps": steps,
            "val_in_context": True,
            **settings,
            **extent.settings,
        }
    return found


@dataclass(frozen=True)
class Score:
    """val: the least validation loss. nll: of the test rows, for a regression the half mean squared
    error of standardised targets, which ranks alike. metric: RMSE or accuracy (a fraction)."""

    val: float
    nll: float
    metric: float


def trial(data: Data, fold: Fold, setting: Setting, config: Mapping[str, Any]) -> Score:
    """The score of one fit."""
    model = fitted(data, fold, setting, config)
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


def run(setting: Setting, extent: Extent | None = None) -> ExperimentResult:
    """`bench experiment npt-variants`."""
    extent = EXTENTS[setting.size] if extent is None else extent
    found, left_out = on_available(extent.datasets, lambda name: _scores(setting, extent, name))
    return ExperimentResult(tables_of(found, extent), remarks=left_out)


def _scores(setting: Setting, extent: Extent, dataset: str) -> list[list[Score]]:
    """The scores of a dataset's variants, by fold."""
    data = load_dataset(dataset, mirror=setting.mirror, cache=setting.cache)
    folds = make_folds(data, card(dataset).protocol, seed=setting.seed)[: extent.folds]
    configs = variants(dataset, extent)
    found = []
    for fold in folds:
        setting.say(f"{dataset}: fold {fold.index + 1} of {len(folds)}")
        with computing(setting.threads):
            found.append([trial(data, fold, setting, c) for c in configs.values()])
    return found


def tables_of(
    found: Mapping[str, Sequence[Sequence[Score]]], extent: Extent
) -> list[ExperimentTable]:
    """The ranks, and what validation chooses, from {dataset: scores by fold and variant}."""
    published = load(FOLDER, "table13").set_index(["dataset", "level"])
    rows: list[list[Any]] = []
    chosen: list[list[Any]] = []
    for dataset, scores in found.items():
        rank = from_zero(np.array([[s.nll for s in line] for line in scores]))
        val = np.array([[s.val for s in line] for line in scores])
        metric = np.array([[s.metric for s in line] for line in scores])
        mean, error = rank.mean(axis=0), _error(rank)
        for i in np.argsort(mean, kind="stable"):
            paper = published.loc[(dataset, VARIANTS[i])]
            rows.append(
                [
                    dataset, VARIANTS[i], mean[i], error[i], float(paper["value"]),
                    float(paper["spread"]), val[:, i].mean(), _metric(dataset, metric, i)[1],
                ]
            )  # fmt: skip
        best = int(val.mean(axis=0).argmin())
        chosen.append(
            [
                dataset, VARIANTS[best], mean[best], *_metric(dataset, metric, best),
                min(VARIANTS, key=lambda v: published.loc[(dataset, v), "value"]),
            ]
        )  # fmt: skip
    return [_ranks_table(rows, extent), _chosen_table(chosen)]


def _error(rank: np.ndarray) -> list[float | None]:
    """Standard error of each variant's mean rank; None with a single fold."""
    return [None] * rank.shape[1] if len(rank) < 2 else list(standard_error(rank))


def _metric(dataset: str, metric: np.ndarray, variant: int) -> list[Any]:
    """[name, the variant's mean over the folds, NPT's published one], accuracy in percent."""
    classes = card(dataset).task != "regression"
    table = load(FOLDER, "table8" if classes else "table11").set_index(["dataset", "method"])
    value = float(metric[:, variant].mean()) * (100.0 if classes else 1.0)
    paper = float(table.loc[(dataset, "npt"), "value"])
    return ["accuracy (%)" if classes else "RMSE", value, paper]


def _ranks_table(rows: list[list[Any]], extent: Extent) -> ExperimentTable:
    layers, heads = extent.fewer
    note = "Ranks by the test rows' negative log-likelihood, mean over the folds; 0 is best."
    if (layers, heads) != (1, 1):
        steps = " or ".join(map(str, extent.steps.values()))
        note += (
            f" {extent.folds} folds; 8 and 16 layers are {8 // layers} and {16 // layers} here, 8"
            f" and 16 heads {8 // heads} and {16 // heads}; {steps} steps (Concrete and Yacht have"
            f" the more), at most {extent.more_steps:g} times as many where fewer targets are"
            " masked."
        )
    return ExperimentTable(
        "npt-variants",
        "Mean rank of NPT's variants",
        ["dataset", "variant", "rank", "s.e.", "published", "published s.e.",
         "validation loss", "test RMSE or accuracy (%)"],
        rows,
        note,
    )  # fmt: skip


def _chosen_table(rows: list[list[Any]]) -> ExperimentTable:
    return ExperimentTable(
        "npt-variants-chosen",
        "The variant that validation chooses",
        ["dataset", "chosen", "its rank", "metric", "its score", "published NPT",
         "first in the paper"],
        rows,
        "Chosen by the mean validation loss over the folds.",
    )  # fmt: skip
