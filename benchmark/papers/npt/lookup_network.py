"""What the network of the original lookup task does (Kossen et al. 2021, sec. 4.2, Figs. 3, B.1).

Attention between datapoints: the upper rows of a map are duplicates with visible targets, the lower
rows the originals. A head that looks up has a diagonal in the lower left of its map, as each
original attends to its own duplicate. The paper shows maps; here the share of attention on that
diagonal is measured, too, by layer and head.

Interventions: in each test table one duplicate's target is set to values far beyond those of
training; the prediction for its original must change with it, and those of all other rows must not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..experiment_files import new_figure, save_figure
from ..experiment_result import ExperimentTable
from .attention_maps import Layer, draw, entropies
from .lookup_task import Doubled, LookupTask

ROWS = 3  # of Figure 3b
HEADS = 4  # drawn of each layer, at most
SHARES = (  # of an original's attention, but for the last, which is of a duplicate's
    "to its duplicate",
    "duplicate first",
    "to all duplicates",
    "to itself",
    "duplicate to itself",
)


def attended(
    task: LookupTask, tables: Doubled, out: Path
) -> tuple[list[ExperimentTable], Path, str]:
    """(the share of each head's attention that goes to the duplicate and the weights of the first
    rows, the maps of the first table as a figure in the folder `out`, a remark). task: trained on
    the original task."""
    maps = attention(task, tables)
    heads = shares(maps)
    sharpest = max(heads, key=lambda head: head[SHARES[0]])
    layers = [
        Layer(number, "abd", weights[0], entropies(weights[0]).mean(dim=-1))
        for number, weights in maps.items()
    ]
    remark = (
        f"Original task: most goes to the duplicate in layer {sharpest['layer']}, head "
        f"{sharpest['head']}: {sharpest[SHARES[0]]:.3f} of an original's attention."
    )
    figure = draw(layers, HEADS, out / "npt-lookup-maps-heads.png")
    weights = maps[int(sharpest["layer"])][0, int(sharpest["head"]) - 1]
    return [_table(heads, tables), _first_rows(weights, sharpest)], figure, remark


def _first_rows(weights: Tensor, head: Mapping[str, float]) -> ExperimentTable:
    """Figure 3b: what the first rows of a table attend to. weights: (2N, 2N) of a head."""
    n, rows = len(weights) // 2, []
    of_originals = weights[n:].double().cpu()
    for i in range(ROWS):
        row: dict[str, Any] = {"row": f"original {i + 1}"}
        row |= {f"duplicate {j + 1}": float(of_originals[i, j]) for j in range(ROWS)}
        row |= {f"original {j + 1}": float(of_originals[i, n + j]) for j in range(ROWS)}
        shown = sum(v for k, v in row.items() if k != "row")
        rows.append({**row, "all others": 1.0 - shown})
    title = "Attention of the first three rows to each other and to their duplicates"
    note = f"One new table, layer {head['layer']}, head {head['head']}; a row sums to 1."
    return ExperimentTable("npt-figure-3b", title, rows, note)


def attention(task: LookupTask, tables: Doubled) -> dict[int, Tensor]:
    """{number of an ABD layer, from 1: (B, H, 2N, 2N) attention weights in B tables}. Rows and
    columns are those of `Doubled`: duplicates, then originals."""
    cells, n = tables.cells, tables.features.shape[1]
    with torch.no_grad():
        found = [task.module.maps(cells[slice(at, at + n)]) for at in range(0, len(cells), n)]
    kinds = enumerate(task.module.kinds)
    return {i + 1: torch.stack([table[i] for table in found]) for i, k in kinds if k == "abd"}


def shares(maps: dict[int, Tensor]) -> list[dict[str, float]]:
    """A row for each layer and head, in order: the means of SHARES over all originals."""
    rows = []
    for layer, weights in maps.items():
        n = weights.shape[-1] // 2
        of_originals = weights[:, :, n:].double()  # (B, H, N, 2N)
        duplicate = of_originals[..., :n].diagonal(dim1=-2, dim2=-1)  # (B, H, N)
        itself = of_originals[..., n:].diagonal(dim1=-2, dim2=-1)
        among = weights[:, :, :n, :n].double().diagonal(dim1=-2, dim2=-1)
        first = duplicate >= of_originals.amax(dim=-1)
        parts = (duplicate, first, of_originals[..., :n].sum(dim=-1), itself, among)
        columns = [part.double().mean(dim=(0, 2)).tolist() for part in parts]
        for head, values in enumerate(zip(*columns, strict=True), start=1):
            rows.append({"layer": layer, "head": head, **dict(zip(SHARES, values, strict=True))})
    return rows


def _table(heads: Sequence[dict[str, float]], tables: Doubled) -> ExperimentTable:
    n_tables, n = tables.truth.shape
    return ExperimentTable(
        "npt-lookup-maps",
        "Attention between datapoints on the lookup task",
        heads,
        f"Shares of an original's attention, means over {n_tables * n} originals in {n_tables} new "
        f"tables of {n} originals and as many duplicates; a head that weighs all rows alike gives "
        f"each {1 / (2 * n):.3g}. duplicate first: share of the originals that attend to no row "
        "more than to their duplicate. duplicate to itself: of a duplicate's attention; the loss "
        "does not ask for it, and the paper sees it as a second diagonal. The paper counts layers "
        "and heads from 0 and shows depth 4, head 0 (its Fig. 3b).",
    )


# ---------------------------------------------------------------------- interventions

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
