"""Gated feed-forward layer (GEGLU) of TabTransformer and SAINT."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from .dropout import Seed, dropout


class GEGLU(nn.Module):
    """Linear, a gelu(g) of the halves a, g, dropout p, Linear (Shazeer 2020, arXiv:2002.05202).

    hidden: width between the two linear layers, after the gate; four times the width by default.
    """

    def __init__(self, width: int, p: float, hidden: int | None = None) -> None:
        super().__init__()
        self.p = p
        inner = hidden or 4 * width
        self.widen = nn.Linear(width, 2 * inner)
        self.narrow = nn.Linear(inner, width)

    def forward(self, x: Tensor, seed: Seed | None = None) -> Tensor:  # (..., D) -> (..., D)
        """The layer applied along the last axis."""
        a, gate = self.widen(x).chunk(2, dim=-1)
        return self.narrow(dropout(a * F.gelu(gate), self.p, seed))
