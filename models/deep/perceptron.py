"""Perceptrons on one vector a row: what MLP and SNN share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from torch import Tensor, nn

from ..hyperparameters import DROPOUT, LAYERS, WIDTH, hyper
from .embedded_rows import FlatRows
from .layers.dropout import Seed
from .layers.number_embedding import EmbeddedInput, NumberVectors
from .row_network import mlp_widths


class PerceptronNetwork(nn.Module):
    """[Linear -> `after`] for each of `widths`, then Linear.

    sizes: levels of the categorical columns. width: of a category's vector. Two-class and numeric
    outputs come as (B,).
    """

    def __init__(
        self,
        *,
        n_numeric: int,
        sizes: Sequence[int],
        width: int,
        widths: Sequence[int],
        n_out: int,
        p: float,
        numbers: NumberVectors | None = None,
    ) -> None:
        super().__init__()
        self.p = p
        self.input = EmbeddedInput(n_numeric, sizes, width, numbers)
        ins = [self.input.n_out, *widths]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(ins, widths, strict=False))
        self.head = nn.Linear(ins[-1], n_out)

    def after(self, x: Tensor, seed: Seed | None) -> Tensor:  # (B, width) -> (B, width)
        """Activation and dropout of a hidden layer."""
        raise NotImplementedError

    def forward(self, numbers: Tensor, codes: Tensor, seed: Seed | None = None) -> Tensor:
        """(B,) values or logits of the second class, or (B, C) logits, of a batch of rows."""
        x = self.input(numbers, codes)
        for i, layer in enumerate(self.layers):
            x = self.after(layer(x), seed and (*seed, i))
        return self.head(x).squeeze(-1)


class Perceptron(FlatRows):
    """Base of perceptrons; a subclass names its `network`."""

    network: ClassVar[type[PerceptronNetwork]]

    n_layers: int = hyper(3, LAYERS, "Hidden layers.")
    width_first: int = hyper(256, WIDTH, "Width of the first hidden layer.")
    width_middle: int = hyper(
        256, WIDTH, "Width of the hidden layers between the first and the last."
    )
    width_last: int = hyper(
        256, WIDTH, "Width of the last hidden layer, where there are two or more."
    )
    dropout: float = hyper(0.1, DROPOUT, "Dropout after each hidden layer.")
    embedding: int = hyper(64, WIDTH, "Width of a category's vector.")

    def _network(self) -> PerceptronNetwork:
        return self.network(
            n_numeric=self.n_numeric,
            sizes=self.sizes,
            width=self.embedding,
            widths=mlp_widths(self.n_layers, self.width_first, self.width_middle, self.width_last),
            n_out=self.n_out,
            p=self.dropout,
            numbers=self._vectors(self.number_width),
        )
