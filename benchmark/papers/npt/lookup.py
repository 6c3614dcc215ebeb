"""NPT and its baselines on the lookup of a duplicate row's target (Kossen et al. 2021, B.1).

Reduced: every step draws fresh random tables, so nothing can be remembered, and every test table is
new. Full: the tables are batches of Protein, with the settings of NPT-Base.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from ....models.deep.trainer import torch_device
from ..experiment_files import new_figure, save_figure
from ..experiment_result import ExperimentResult, ExperimentTable, Setting, Size
from ..published_values import printed_values
from .lookup_baselines import (
    EXTRA,
    KernelSettings,
    best_neighbours,
    deep_kernel,
    gpytorch,
    neighbours,
)
from .lookup_task import (
    SETTINGS,
    TEST,
    VARIANTS,
    LookupTask,
    Settings,
    Variant,
    correlation,
    learn,
    rmse,
    source_of,
)

FOLDER = Path(__file__).parent

PAPER_SD = (
    6.11  # standard deviation of Protein's target (NPT, B.1.2): the paper's RMSE has its unit
)
KERNELS: dict[Size, KernelSettings] = {
    "tiny": KernelSettings(rows=64, epochs=2, lr=1e-3, batch_size=32, inducing=16),
    "reduced": KernelSettings(rows=2048, epochs=30, lr=1e-4),
    "full": KernelSettings(rows=30_000, epochs=30_000, lr=1e-4),
}
SIZES = {
    size: {"settings": settings, "kernel": KERNELS[size]} for size, settings in SETTINGS.items()
}
METHODS = (("npt", "NPT"), ("knn-1", "1-NN"), ("knn", "k-NN"), ("dkl", "deep kernel learning"))


def run(
    setting: Setting,
    *,
    settings: Settings,
    kernel: KernelSettings,
    variants: tuple[Variant, ...] = VARIANTS,
) -> ExperimentResult:
    """`bench experiment npt-lookup`: every variant by every method, learning curves, and
    predictions against the truth. kernel: of deep kernel learning."""
    printed = printed_values(FOLDER, "table3")
    source = source_of(setting, settings)
    rows: list[dict[str, Any]] = []
    curves: dict[str, list[tuple[int, float, float]]] = {}
    clouds: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    facts: dict[str, Any] = {}
    for variant in variants:
        task, training, cpu_s = learn(source, variant, settings, setting)
        facts[variant.name] = {
            "training_cpu_s": cpu_s,
            "step_ms": round(1000 * training.step_s, 2),
        }
        curves[variant.title] = [
            (step, r, score**0.5)
            for (step, score), r in zip(training.curve, task.correlations, strict=True)
        ]
        answers, k = predictions(setting, task, kernel)
        truth = answers.pop("truth")
        clouds[variant.title] = (truth.cpu().numpy().ravel(), answers["npt"].cpu().numpy().ravel())
        for method, title in METHODS:
            theirs = printed["protein-semi-synthetic", method, variant.name]
            found = answers.get(method)
            rows.append(
                {
                    "task": variant.title,
                    "method": f"k-NN, best of 1 to 10 (k = {k})" if method == "knn" else title,
                    "r": None if found is None else correlation(found, truth),
                    "RMSE": None if found is None else rmse(found, truth),
                    "RMSE, paper": theirs / PAPER_SD,
                    "as printed": theirs,
                }
            )
    n_tables, n_rows = task.validation.truth.shape
    remarks = []
    if not setting.full:
        remarks.append(
            f"Ours: fresh tables of {source.n_features} features and a target, all independent "
            f"N(0, 1), {settings.tables} tables a step, {settings.steps} steps; a network of width "
            f"{settings.width} and {settings.n_layers} layers. The paper's: Protein, NPT-Base."
        )
    if gpytorch() is None:
        remarks.append(
            "Deep kernel learning was left out: GPyTorch is not installed; "
            f"pip install 'tabsweep[{EXTRA}]' brings it."
        )
    curve = next(iter(curves.values()))
    keep = sorted({round(i * (len(curve) - 1) / 9) for i in range(10)})
    tables = [
        ExperimentTable(
            "npt-lookup",
            "Lookup of a duplicate's target: test correlation and RMSE",
            rows,
            f"{n_tables * n_rows} predictions on {n_tables} new tables of {n_rows} originals and "
            "as many duplicates; RMSE in standard deviations of the target, the paper's (Protein, "
            f"Table 3) divided by {PAPER_SD}.",
        ),
        ExperimentTable(
            "learning-curves",
            "Correlation on validation tables by training step",
            [
                {"step": curve[i][0], **{title: c[i][1] for title, c in curves.items()}}
                for i in keep
            ],
        ),
    ]
    figures = [
        _curve_figure(curves, setting.out / "learning-curves.png"),
        _cloud_figure(clouds, setting.out / "predictions.png"),
    ]
    return ExperimentResult(tables, figures, remarks, facts)


@torch.no_grad()
def predictions(
    setting: Setting, task: LookupTask, kernel: KernelSettings
) -> tuple[dict[str, torch.Tensor], int]:
    """({method: predictions, "truth": targets} of new test tables, the k that was chosen)."""
    tables = task.drawn(TEST, 0, task.settings.test_tables)
    k = best_neighbours(task.validation)
    found = {
        "truth": tables.truth,
        "npt": task.predict(tables),
        "knn-1": neighbours(tables, 1),
        "knn": neighbours(tables, k),
    }
    with torch.enable_grad():
        predict = deep_kernel(
            task.source,
            task.variant,
            kernel,
            seed=setting.seed,
            device=str(torch_device(setting.device)),
            say=setting.say,
        )
    if predict is not None:
        found["dkl"] = predict(tables)
    return found, k


def _curve_figure(curves: dict[str, list[tuple[int, float, float]]], path: Path) -> Path:
    figure, axes = new_figure(2)
    for title, curve in curves.items():
        steps, r, error = zip(*curve, strict=True)
        axes[0, 0].plot(steps, r, label=title)
        axes[0, 1].semilogy(steps, error, label=title)
    axes[0, 0].set(xlabel="step", ylabel="r on validation tables")
    axes[0, 1].set(xlabel="step", ylabel="RMSE, standard deviations")
    axes[0, 0].legend()
    return save_figure(figure, path)


def _cloud_figure(clouds: dict[str, tuple[np.ndarray, np.ndarray]], path: Path) -> Path:
    figure, axes = new_figure(len(clouds), width=2.8, height=2.8)
    for axis, (title, (truth, predicted)) in zip(axes[0], clouds.items(), strict=True):
        axis.plot(truth, predicted, ".", markersize=2)
        axis.axline((0, 0), slope=1, color="0.6", linewidth=0.8)
        axis.set(title=title, xlabel="target")
    axes[0, 0].set_ylabel("prediction")
    return save_figure(figure, path)
