"""Gated feed-forward layer (GEGLU) of TabTransformer and SAINT, and the parts of their blocks."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from .dropout import Seed, dropout
from .token_attention import token_attention


class GEGLU(nn.Module):
    """Linear, a gelu(g) of the halves a, g, dropout p, Linear (Shazeer 2020, arXiv:2002.05202).

    After the gate a row is four times as wide.
    """

    def __init__(self, width: int, p: float) -> None:
        super().__init__()
        self.p = p
        self.widen = nn.Linear(width, 8 * width)
        self.narrow = nn.Linear(4 * width, width)

    def forward(self, x: Tensor, seed: Seed | None = None) -> Tensor:  # (..., D) -> (..., D)
        """The layer applied along the last axis."""
        a, gate = self.widen(x).chunk(2, dim=-1)
        return self.narrow(dropout(a * F.gelu(gate), self.p, seed))


class GEGLUBlock(nn.Module):
    """The parts of a block that attends between tokens of a width, then applies GEGLU to each.

    A subclass says what is normed and what is added. d_head: width of a head. attention, order: of
    `token_attention`. p_attention, p_ffn: dropout in the two parts.
    """

    def __init__(
        self,
        width: int,
        *,
        n_heads: int,
        d_head: int,
        attention: str,
        order: int,
        p_attention: float,
        p_ffn: float,
    ) -> None:
        super().__init__()
        self.norm_in = nn.LayerNorm(width)
        self.attention = token_attention(
            width,
            n_heads,
            p_attention,
            attention=attention,
            order=order,
            d_head=d_head,
            bias=False,
        )
        self.norm_ff = nn.LayerNorm(width)
        self.feed_forward = GEGLU(width, p_ffn)
