"""Attention between datapoints on the lookup task (Kossen et al. 2021, Figs. 3b and B.1).

Duplicates that show their targets
stand above the originals, so a head that looks up has a diagonal in the lower left of its map: each
original attends to its own duplicate. The paper shows maps; here the share of the attention that
goes there is measured, too, for each layer and head over many tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ..experiment_files import new_figure, save_figure
from ..experiment_result import ExperimentTable
from .attention_maps import Layer, draw, entropies
from .lookup_task import Doubled, LookupTask

SHOWN = 3  # datapoints of Fig. 3b
HEADS = 4  # drawn of each layer, at most


@dataclass(frozen=True)
class Head:
    """Means over all originals of some tables. layer, head: from 1. to_duplicate: share of an
    original's attention that goes to its duplicate; to_duplicates, to_itself: to all duplicates,
    and to the original itself. first: share of originals that attend to no row more than to their
    duplicate. between: share of a duplicate's attention that goes to itself."""

    layer: int
    head: int
    to_duplicate: float
    to_duplicates: float
    to_itself: float
    first: float
    between: float


def attended(
    task: LookupTask, tables: Doubled, out: Path
) -> tuple[ExperimentTable, list[Path], str]:
    """(the share of each head's attention that goes to the duplicate, maps as figures in the folder
    `out`, a remark). task: trained on the original task."""
    maps = attention(task, tables)
    heads = shares(maps)
    sharpest = max(heads, key=lambda head: head.to_duplicate)
    layers = [
        Layer(number, "abd", weights[0], entropies(weights[0]).mean(dim=-1))
        for number, weights in maps.items()
    ]
    figures = [
        _rows_figure(maps, sharpest, out / "npt-lookup-maps-rows.png"),
        draw(layers, HEADS, out / "npt-lookup-maps-heads.png"),  # of the first table
    ]
    remark = (
        f"Original task: most goes to the duplicate in layer {sharpest.layer}, head "
        f"{sharpest.head}: {sharpest.to_duplicate:.3f} of an original's attention."
    )
    return _table(heads, tables), figures, remark


def attention(task: LookupTask, tables: Doubled) -> dict[int, Tensor]:
    """{number of an ABD layer, from 1: (B, H, 2N, 2N) attention weights in B tables}. Rows and
    columns are those of `Doubled`: duplicates, then originals."""
    cells, n = tables.cells, tables.features.shape[1]
    with torch.no_grad():
        found = [task.module.maps(cells[slice(at, at + n)]) for at in range(0, len(cells), n)]
    kinds = enumerate(task.module.kinds)
    return {i + 1: torch.stack([table[i] for table in found]) for i, k in kinds if k == "abd"}


def shares(maps: dict[int, Tensor]) -> list[Head]:
    """The heads of every layer, in order."""
    found = []
    for layer, weights in maps.items():
        n = weights.shape[-1] // 2
        of_originals = weights[:, :, n:].double()  # (B, H, N, 2N)
        duplicate = of_originals[..., :n].diagonal(dim1=-2, dim2=-1)  # (B, H, N)
        itself = of_originals[..., n:].diagonal(dim1=-2, dim2=-1)
        among = weights[:, :, :n, :n].double().diagonal(dim1=-2, dim2=-1)
        first = duplicate >= of_originals.amax(dim=-1)
        columns = [
            part.double().mean(dim=(0, 2)).tolist()
            for part in (duplicate, of_originals[..., :n].sum(dim=-1), itself, first, among)
        ]
        found += [Head(layer, i + 1, *head) for i, head in enumerate(zip(*columns, strict=True))]
    return found


def _table(heads: Sequence[Head], tables: Doubled) -> ExperimentTable:
    n_tables, n = tables.truth.shape
    rows = [
        {
            "layer": head.layer,
            "head": head.head,
            "to its duplicate": head.to_duplicate,
            "duplicate first": head.first,
            "to all duplicates": head.to_duplicates,
            "to itself": head.to_itself,
            "duplicate to itself": head.between,
        }
        for head in heads
    ]
    return ExperimentTable(
        "npt-lookup-maps",
        "Attention between datapoints on the lookup task",
        rows,
        f"Shares of an original's attention, means over {n_tables * n} originals in {n_tables} new "
        f"tables of {n} originals and as many duplicates; a head that weighs all rows alike gives "
        f"each {1 / (2 * n):.3g}. duplicate first: share of the originals that attend to no row "
        "more than to their duplicate. duplicate to itself: of a duplicate's attention; the loss "
        "does not ask for it, and the paper sees it as a second diagonal. The paper counts layers "
        "and heads from 0 and shows depth 4, head 0 (its Fig. 3b).",
    )


def _rows_figure(maps: dict[int, Tensor], head: Head, path: Path) -> Path:
    """The first originals' attention to their duplicates and to themselves, as numbers."""
    weights = maps[head.layer][0, head.head - 1].double().cpu().numpy()
    n = len(weights) // 2
    k = min(SHOWN, n)
    at = np.concatenate([np.arange(k), n + np.arange(k)])
    drawn = weights[n : n + k][:, at]
    figure, axes = new_figure(width=1.1 * len(at) + 1.5, height=0.8 * k + 1.4)
    axis = axes[0, 0]
    image = axis.imshow(drawn, vmin=0.0, vmax=1.0, cmap="viridis")
    for i, line in enumerate(drawn):
        for j, value in enumerate(line):
            colour = "white" if value < 0.5 else "black"
            axis.text(j, i, f"{value:.3f}", ha="center", va="center", color=colour, fontsize=8)
    numbers = range(1, k + 1)
    names = [*(f"duplicate {i}" for i in numbers), *(f"original {i}" for i in numbers)]
    axis.set_xticks(range(len(at)), names, rotation=30, ha="right", fontsize=8)
    axis.set_yticks(range(k), [f"original {i}" for i in numbers], fontsize=8)
    axis.set_title(f"layer {head.layer}, head {head.head}", fontsize=9)
    figure.colorbar(image, ax=axis, shrink=0.8)
    return save_figure(figure, path)
