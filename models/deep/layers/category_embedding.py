"""Embeddings of category codes in one table, with a row for unknown levels of each column."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Categories(nn.Module):
    """One table of vectors for all categorical columns (Gorishniy et al. 2021, sec. 3.3).

    sizes: levels of each column in training. Code `sizes[j]` of column j stands for a level that
    training did not hold. DIFF(Gorishniy 2021, the authors' code): there that code reads the first
    row of the next column; here each column has a row of its own for it.
    """

    offsets: Tensor

    def __init__(self, sizes: Sequence[int], width: int) -> None:
        super().__init__()
        rows = torch.tensor([0, *(n + 1 for n in sizes)]).cumsum(0)
        self.register_buffer("offsets", rows[:-1], persistent=False)
        self.weight = nn.Parameter(torch.empty(int(rows[-1]), width).uniform_(-1, 1) / width**0.5)

    def forward(self, codes: Tensor) -> Tensor:  # (B, F) -> (B, F, D)
        """The vector of each code."""
        return F.embedding(codes + self.offsets, self.weight)


class RowInput(nn.Module):
    """A row as one vector: its numbers, then the vectors of its categories side by side."""

    def __init__(self, n_numeric: int, sizes: Sequence[int], width: int) -> None:
        super().__init__()
        self.categories = Categories(sizes, width) if sizes else None
        self.n_out = n_numeric + len(sizes) * width

    def forward(self, numbers: Tensor, codes: Tensor) -> Tensor:  # (B, F1), (B, F2) -> (B, n_out)
        """Numbers and the vectors of the categories, side by side."""
        if self.categories is None:
            return numbers
        return torch.cat([numbers, self.categories(codes).flatten(1)], dim=1)
