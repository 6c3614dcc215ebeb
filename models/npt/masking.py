"""Selection of cells to mask in a step of NPT, and the losses on them (NPT, 2.5, 2.6, C.4).

Some feature cells and some targets are selected; nine in ten of them are hidden, one in ten gets a
random value. Losses are taken on selected cells alone, hidden or random.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..deep.cells import Cells, Columns, index
from ..deep.column_decoder import Decoded, cell_losses

RANDOM_SHARE = 0.1  # of the selected cells get a random value (NPT, C.4.3)


def select(candidates: Tensor, p: float, g: torch.Generator) -> tuple[Tensor, Tensor]:
    """(hidden, randomised), both (N, d) bool and disjoint: each candidate is selected with
    probability p; p = 1 hides all of them and randomises none.

    DIFF(Kossen 2021, C.4.3): exactly a tenth (rounded) of the selected is randomised; the authors'
    code takes one cell more. The number of selected cells is binomial, as the paper has it; that
    code draws it from a normal distribution of the same mean and variance.
    """
    nothing = torch.zeros_like(candidates)
    if p >= 1:
        return candidates, nothing
    if p <= 0:
        return nothing, nothing
    draws = torch.rand(candidates.shape, generator=g).to(candidates.device)
    chosen = candidates & (draws < p)
    at = torch.nonzero(chosen.flatten())[:, 0]
    order = torch.randperm(len(at), generator=g).to(at.device)
    randomised = nothing.flatten().clone()
    randomised[at[order[: round(RANDOM_SHARE * len(at))]]] = True
    randomised = randomised.view_as(chosen)
    return chosen & ~randomised, randomised


def loss_on(
    decoded: Decoded, truth: Cells, columns: Columns, chosen: Tensor
) -> tuple[Tensor, Tensor]:
    """(sum of losses, number of cells) over the chosen cells, (N, d) bool: cross-entropy for
    categories, squared error of standardised values for numbers (NPT, sec. C.4.1).

    Divide the one by the other for NPT's loss: all cells weigh alike.
    """
    total = truth.values.new_zeros(())
    count = chosen.new_zeros((), dtype=torch.long)
    for at, losses in cell_losses(decoded, truth, columns):
        counted = chosen[:, index(at, chosen.device)]
        total = total + torch.where(counted, losses, 0.0).sum()
        count = count + counted.sum()
    return total, count
