"""NPT and its baselines on the lookup of a duplicate row's target (Kossen et al. 2021, B.1).

Reduced: every step draws fresh random tables, so nothing can be remembered, and every test table is
new. Full: the tables are batches of Protein, with the settings of NPT-Base. The network of the
original task is looked into: its attention, and what interventions on a duplicate do. Deep kernel
learning needs the extra `dkl`; without it its row holds the paper's values alone.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ....models.optional import optional
from ..experiment_files import new_figure, save_figure
from ..experiment_result import ExperimentResult, ExperimentTable, Setting
from ..published_values import printed_values
from .lookup_network import attended, intervened
from .lookup_task import (
    FULL,
    REDUCED,
    TEST,
    TINY,
    VAL,
    VARIANTS,
    Doubled,
    LookupTask,
    Settings,
    Variant,
    correlation,
    learn,
    rmse,
    source_of,
)

FOLDER = Path(__file__).parent

# Standard deviation of Protein's target (NPT, B.1.2): the paper's RMSE has its unit.
PAPER_SD = 6.11
SIZES = {
    size: {"settings": settings}
    for size, settings in (("tiny", TINY), ("reduced", REDUCED), ("full", FULL))
}
NEIGHBOURS = range(1, 11)
DKL = "deep kernel learning"  # deep_kernel.py, which imports GPyTorch
METHODS = (("npt", "NPT"), ("knn-1", "1-NN"), ("knn", "k-NN"), ("dkl", DKL))


def neighbours(tables: Doubled, k: int) -> Tensor:  # (B, N)
    """Mean target of the k duplicates that are nearest in feature space, for each original; it is
    told which rows are duplicates, as NPT is not (B.1.2)."""
    n = tables.shown.shape[1]
    distances = torch.cdist(
        tables.features[:, n:].double(),
        tables.features[:, :n].double(),
        compute_mode="donot_use_mm_for_euclid_dist",
    )
    nearest = distances.topk(min(k, n), dim=-1, largest=False).indices  # (B, N, k)
    shown = tables.shown[:, None, :].expand(-1, n, -1)
    return torch.gather(shown, 2, nearest).mean(dim=-1)


def best_neighbours(validation: Doubled) -> int:
    """The k of 1..10 with the least validation error."""
    errors = [
        float((neighbours(validation, k) - validation.truth).square().mean()) for k in NEIGHBOURS
    ]
    return NEIGHBOURS[errors.index(min(errors))]


def run(
    setting: Setting,
    *,
    settings: Settings,
    variants: tuple[Variant, ...] = VARIANTS,
) -> ExperimentResult:
    """`bench experiment npt-lookup`: every variant by every method, predictions against the truth;
    of the original task attention and interventions, too."""
    printed = printed_values(FOLDER, "table3")
    source = source_of(setting, settings)
    rows: list[dict[str, Any]] = []
    clouds: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    tables: list[ExperimentTable] = []
    figures: list[Path] = []
    remarks: list[str] = []
    for variant in variants:
        task = learn(source, variant, settings, setting)
        new = task.drawn(TEST, 0, settings.test_tables)
        answers, k = predictions(task, new)
        try:
            optional("gpytorch", model=DKL, extra="dkl")
        except ImportError as error:
            remarks += [] if remarks else [f"Not run: {error}."]
        else:
            answers["dkl"] = by_deep_kernel(task, new, setting)
        truth = new.truth
        if variant == VARIANTS[0]:
            shares, maps, remark = attended(task, new, setting.out)
            followed, curve = intervened(task, new, setting.out)
            tables, figures = [followed, *shares], [maps, curve]
            remarks.append(remark)
        clouds[variant.title] = (truth.cpu().numpy().ravel(), answers["npt"].cpu().numpy().ravel())
        for method, title in METHODS:
            theirs = printed["protein-semi-synthetic", method, variant.name]
            ours = answers.get(method)
            rows.append(
                {
                    "task": variant.title,
                    "method": f"k-NN, best of 1 to 10 (k = {k})" if method == "knn" else title,
                    "r": None if ours is None else correlation(ours, truth),
                    "RMSE": None if ours is None else rmse(ours, truth),
                    "RMSE, paper": theirs / PAPER_SD,
                    "as printed": theirs,
                }
            )
    n_tables, n_rows = truth.shape
    if not setting.full:
        remarks.append(
            f"Ours: fresh tables of {source.n_features} features and a target, all independent "
            f"N(0, 1), {settings.tables} tables a step, {settings.steps} steps; a network of width "
            f"{settings.width} and {settings.n_layers} layers. The paper's: Protein, NPT-Base."
        )
    table = ExperimentTable(
        "npt-lookup",
        "Lookup of a duplicate's target: test correlation and RMSE",
        rows,
        f"{n_tables * n_rows} predictions on {n_tables} new tables of {n_rows} originals and "
        "as many duplicates; RMSE in standard deviations of the target, the paper's (Protein, "
        f"Table 3) divided by {PAPER_SD}.",
    )
    figures = [_cloud_figure(clouds, setting.out / "predictions.png"), *figures]
    return ExperimentResult([table, *tables], figures, remarks)


@torch.no_grad()
def predictions(task: LookupTask, tables: Doubled) -> tuple[dict[str, Tensor], int]:
    """({method: predictions for the originals of new tables}, the k that was chosen)."""
    k = best_neighbours(task.validation)
    return {
        "npt": task.predict(tables),
        "knn-1": neighbours(tables, 1),
        "knn": neighbours(tables, k),
    }, k


def by_deep_kernel(task: LookupTask, tables: Doubled, setting: Setting) -> Tensor:  # (B, N)
    """Targets of the originals by deep kernel learning; raises ImportError without GPyTorch."""
    from . import deep_kernel as learning

    sizes = {"tiny": learning.TINY, "reduced": learning.REDUCED, "full": learning.FULL}
    kernel = learning.learn_kernel(
        task.source,
        task.variant,
        sizes[setting.size],
        seed=setting.seed,
        device=setting.device,
        new_tables=partial(task.drawn, VAL, 0),
    )
    return kernel.predict(tables)


def _cloud_figure(clouds: dict[str, tuple[np.ndarray, np.ndarray]], path: Path) -> Path:
    figure, axes = new_figure(len(clouds), width=2.8, height=2.8)
    for axis, (title, (truth, predicted)) in zip(axes[0], clouds.items(), strict=True):
        axis.plot(truth, predicted, ".", markersize=2)
        axis.axline((0, 0), slope=1, color="0.6", linewidth=0.8)
        axis.set(title=title, xlabel="target")
    axes[0, 0].set_ylabel("prediction")
    return save_figure(figure, path)
