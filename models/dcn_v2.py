"""Deep and cross network, version 2 (Wang et al. 2021; Gorishniy et al. 2021, F.9)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from .deep.embedded_rows import FlatRows
from .deep.layers.dropout import Seed, dropout
from .deep.layers.number_embedding import EmbeddedInput, NumberVectors
from .hyperparameters import DROPOUT, LAYERS, WIDTH, OneOf, hyper

STRUCTURES = ("parallel", "stacked")


class DCNV2Network(nn.Module):
    """A row's projection x0, crossed with itself, and an MLP beside (parallel) or after (stacked).

    A cross layer is x -> drop(x0 * Linear(x)) + x with a full matrix, a deep layer drop(ReLU(
    Linear(x))); the head reads both branches, or the deep one. sizes: levels of the categorical
    columns. embedding: width of a category's vector. Two-class and numeric outputs come as (B,).

    DIFF(Wang 2021): the projection to x0, which is Gorishniy's; the original crosses the features
    themselves.
    """

    def __init__(
        self,
        *,
        n_numeric: int,
        sizes: Sequence[int],
        embedding: int,
        width: int,
        n_cross: int,
        n_deep: int,
        n_out: int,
        p_cross: float,
        p_deep: float,
        stacked: bool,
        numbers: NumberVectors | None = None,
    ) -> None:
        super().__init__()
        self.p_cross, self.p_deep, self.stacked = p_cross, p_deep, stacked
        self.input = EmbeddedInput(n_numeric, sizes, embedding, numbers)
        self.first_linear = nn.Linear(self.input.n_out, width)
        self.cross_layers = nn.ModuleList(nn.Linear(width, width) for _ in range(n_cross))
        self.deep_layers = nn.ModuleList(nn.Linear(width, width) for _ in range(n_deep))
        self.last_linear = nn.Linear(width if stacked else 2 * width, n_out)

    def cross(self, x0: Tensor, seed: Seed | None = None) -> Tensor:  # (B, D) -> (B, D)
        """The cross branch."""
        x = x0
        for i, linear in enumerate(self.cross_layers):
            x = dropout(x0 * linear(x), self.p_cross, seed and (*seed, 0, i)) + x
        return x

    def deep(self, x: Tensor, seed: Seed | None = None) -> Tensor:  # (B, D) -> (B, D)
        """The deep branch."""
        for i, linear in enumerate(self.deep_layers):
            x = dropout(linear(x).relu(), self.p_deep, seed and (*seed, 1, i))
        return x

    def forward(self, numbers: Tensor, codes: Tensor, seed: Seed | None = None) -> Tensor:
        """(B,) values or logits of the second class, or (B, C) logits, of a batch of rows."""
        x0 = self.first_linear(self.input(numbers, codes))
        crossed = self.cross(x0, seed)
        if self.stacked:
            x = self.deep(crossed, seed)
        else:
            x = torch.cat([crossed, self.deep(x0, seed)], dim=1)
        return self.last_linear(x).squeeze(-1)


class DCNV2(FlatRows):
    """Deep and cross network V2, in the form of Gorishniy et al. 2021 (Table 15).

    The paper has no default configuration; ours is near what its searches chose.

    References
    ----------
    Wang et al. 2021, arXiv:2008.13535; Gorishniy et al. 2021, arXiv:2106.11959, sec. F.9.
    """

    example = "epochs=5, width=16"

    n_cross_layers: int = hyper(2, LAYERS, "Layers of the cross branch.")
    n_hidden_layers: int = hyper(3, LAYERS, "Layers of the deep branch.")
    width: int = hyper(256, WIDTH, "Width of both branches, D.")
    structure: str = hyper(
        "parallel",
        OneOf(STRUCTURES),
        "The deep branch beside the cross branch (`parallel`, which the paper reports) or "
        "behind it.",
    )
    hidden_dropout: float = hyper(0.1, DROPOUT, "Dropout after each layer of the deep branch.")
    cross_dropout: float = hyper(0.0, DROPOUT, "Dropout after each layer of the cross branch.")
    embedding: int = hyper(64, WIDTH, "Width of a category's vector.")

    def _network(self) -> DCNV2Network:
        return self._made(
            DCNV2Network,
            n_cross=self.n_cross_layers,
            n_deep=self.n_hidden_layers,
            p_cross=self.cross_dropout,
            p_deep=self.hidden_dropout,
            stacked=self.structure == "stacked",
        )
