"""Cells of a table made invisible or replaced by noise, for pre-training losses and predictions."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from .cells import Cells, Columns


def generator(device: torch.device | str, seed: int) -> torch.Generator:
    """A generator of this device from a seed."""
    return torch.Generator(device).manual_seed(seed)


def hide(
    cells: Cells, columns: Columns, hidden: Tensor, randomised: Tensor, g: torch.Generator
) -> Cells:
    """The cells with some hidden, and some replaced by noise: N(0, 1), or any category.

    hidden, randomised: (N, d) bool.
    """
    values, codes = cells.values, cells.codes
    if columns.numeric_at:
        at = randomised[:, columns.numeric_at]
        noise = torch.randn(values.shape, generator=g, device=values.device, dtype=values.dtype)
        values = torch.where(at, noise, values)
    if columns.categories_at:
        at = randomised[:, columns.categories_at]
        sizes = torch.tensor([columns.sizes[j] for j in columns.categories_at], device=codes.device)
        draws = torch.rand(codes.shape, generator=g, device=codes.device)
        codes = torch.where(at, (draws * sizes).long().clamp(max=sizes - 1), codes)
    return Cells(values, codes, (cells.hidden | hidden) & ~randomised)


def without(cells: Cells, hidden: Tensor) -> Cells:
    """The cells with those hidden, too, that `hidden` (N, d) marks."""
    return replace(cells, hidden=cells.hidden | hidden)
