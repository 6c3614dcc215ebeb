"""Interventions on the target of a duplicate row (Kossen et al. 2021, sec. 4.2, Fig. 3).

In each test table one duplicate's target is set to values far beyond those of training; the
prediction for its original must change with it, and those of all other rows must not.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from ..experiment_files import new_figure, save_figure
from ..experiment_result import ExperimentTable
from .lookup_task import Doubled, LookupTask

VALUES = np.linspace(-8.0, 8.0, 33)  # standard deviations of the target
RANGES = (2.0, 4.0, 8.0)
INTERVENTIONS = 64


def intervened(task: LookupTask, tables: Doubled, out: Path) -> tuple[ExperimentTable, Path]:
    """Slopes and correlations by range of the intervention, and the curve, a figure in the folder
    `out`. task: trained on the original task."""
    followed, others = curves(task, tables)
    rows = []
    for limit in RANGES:
        at = np.abs(VALUES) <= limit
        slope, r, error = line(followed[:, at], VALUES[at])
        change = float(others[:, at].mean())
        row = {"range": f"±{limit:g}", "slope": slope, "r": r, "RMSE": error}
        rows.append({**row, "change of other rows": change})
    table = ExperimentTable(
        "npt-interventions",
        "Predictions when one duplicate's target is set to any value in a range",
        rows,
        f"{len(followed)} interventions on new tables, {len(VALUES)} values each; all in "
        "standard deviations of the target, of which training showed N(0, 1). Slope, r "
        "and RMSE of the predictions for the duplicate's original against the values set; "
        "last, the mean absolute change of the predictions for the table's other "
        "originals. The paper shows a curve (Fig. 3e) and calls it near-perfect.",
    )
    return table, _figure(followed, out / "interventions.png")


@torch.no_grad()
def curves(task: LookupTask, tables: Doubled) -> tuple[np.ndarray, np.ndarray]:
    """Both (interventions, values): predictions for the original whose duplicate is set to each of
    VALUES, and the mean absolute change of the other originals' predictions."""
    before = task.predict(tables)
    n_tables, n_rows = tables.truth.shape
    intervened = range(min(n_rows - 1, max(1, INTERVENTIONS // n_tables)))  # one at a time
    followed, others = [], []
    for row in intervened:
        rest = torch.arange(before.shape[1], device=before.device) != row
        for value in VALUES:
            shown = tables.shown.clone()
            shown[:, row] = float(value)
            after = task.predict(replace(tables, shown=shown))
            followed.append(after[:, row].cpu().numpy())
            others.append((after - before)[:, rest].abs().mean(dim=1).cpu().numpy())
    shape = (len(intervened), len(VALUES), len(before))
    return _by_value(followed, shape), _by_value(others, shape)


def _by_value(found: list[np.ndarray], shape: tuple[int, int, int]) -> np.ndarray:
    return np.stack(found).reshape(shape).swapaxes(1, 2).reshape(-1, shape[1])


def line(predicted: np.ndarray, values: np.ndarray) -> tuple[float, float, float]:
    """(slope, r, root mean squared difference) of predictions (B, K) against the values (K,)."""
    x = np.broadcast_to(values, predicted.shape).ravel()
    y = predicted.ravel().astype(np.float64)
    slope = float(np.polyfit(x, y, 1)[0])
    r = float(np.corrcoef(x, y)[0, 1]) if y.std() else 0.0
    return slope, r, float(np.sqrt(np.mean((y - x) ** 2)))


def _figure(followed: np.ndarray, path: Path) -> Path:
    figure, axes = new_figure()
    axis = axes[0, 0]
    middle = np.median(followed, axis=0)
    low, high = np.quantile(followed, [0.05, 0.95], axis=0)
    axis.axline((0, 0), slope=1, color="0.6", linewidth=0.8)
    axis.fill_between(VALUES, low, high, alpha=0.3, label="5 to 95 %")
    axis.plot(VALUES, middle, label="median")
    axis.axvspan(-2, 2, color="0.93", zorder=0)
    axis.set(xlabel="target that the duplicate shows", ylabel="prediction for its original")
    axis.legend()
    return save_figure(figure, path)
