"""0/1 columns of category codes, all 0 for a level that training did not hold."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class OneHot(nn.Module):
    """sizes: levels of each column in training; code `sizes[j]` of column j stands for another."""

    def __init__(self, sizes: Sequence[int]) -> None:
        super().__init__()
        self.sizes = list(sizes)
        self.n_out = sum(self.sizes)

    def forward(self, codes: Tensor) -> Tensor:  # (..., columns) -> (..., n_out), whole numbers
        """The 0/1 columns of all columns, side by side."""
        parts = [F.one_hot(codes[..., j], n + 1)[..., :n] for j, n in enumerate(self.sizes)]
        return torch.cat(parts, dim=-1) if parts else codes
