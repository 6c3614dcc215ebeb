"""Masking of cells in an epoch of Hopular, and the losses on them (Schaefl et al. 2022, A.3).

Targets are always hidden. Of the features few are hidden, some get a random value and most stay as
they are; all of them enter the loss.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..deep.cells import Cells, Columns, hide, index
from ..deep.column_decoder import Decoded, cell_losses


def noisy(
    cells: Cells,
    columns: Columns,
    p_mask: float,
    p_replace: float,
    g: torch.Generator,
) -> tuple[Cells, Tensor]:
    """(cells as the network sees them, their flags): targets hidden; of the features a share of
    p_mask hidden, of p_replace showing noise: N(0, 1), or any category alike.

    DIFF(Schaefl 2022, A.3, "original BERT masking"): the authors' code selects every cell, and
    these are its shares.
    """
    there = ~cells.hidden
    feature = torch.ones(columns.n, dtype=torch.bool, device=there.device)
    feature[index(columns.targets, there.device)] = False
    u = torch.rand(there.shape, generator=g).to(there.device)
    flags = there & (~feature | (u < p_mask))
    replaced = there & feature & (u >= p_mask) & (u < p_mask + p_replace)
    return hide(cells, columns, flags, replaced, g), flags


def column_losses(
    decoded: Decoded, truth: Cells, columns: Columns, chosen: Tensor
) -> tuple[Tensor, Tensor]:
    """(losses, counted), both (d,): the mean loss of each column over its chosen cells, (N, d)
    bool, and whether it has any: cross-entropy for categories, squared error of standardised values
    for numbers. Columns that are not decoded, or have no chosen cell, are 0 and not counted."""
    sums = [
        torch.where(chosen[:, index(at, chosen.device)], losses, 0.0).sum(dim=0)
        for at, losses in cell_losses(decoded, truth, columns)
    ]
    decoded_columns = [*decoded.numeric, *(j for g in decoded.groups for j in g)]
    order = index(decoded_columns, chosen.device)
    count = chosen[:, order].sum(dim=0)
    losses = truth.values.new_zeros(columns.n)
    counted = torch.zeros(columns.n, dtype=torch.bool, device=chosen.device)
    return (
        losses.index_copy(0, order, torch.cat(sums) / count.clamp(min=1)),
        counted.index_copy(0, order, count > 0),
    )


def mean_loss(losses: Tensor, counted: Tensor, which: Tensor) -> tuple[Tensor, Tensor]:
    """(mean, number) of the losses of `which` columns that count: columns weigh alike, however
    many cells they have. The mean over none is 0."""
    use = counted & which
    n = use.sum()
    return torch.where(use, losses, 0.0).sum() / n.clamp(min=1), n
