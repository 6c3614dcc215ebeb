"""Attention between datapoints on the lookup task (Kossen et al. 2021, Figs. 3b and B.1).

The upper rows are duplicates with visible targets, the lower rows the originals. A head that looks
up has a diagonal in the lower left of its map: each original attends to its own duplicate. The
paper shows maps; this module also measures the share of attention on that diagonal, by layer and
head.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

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
