"""Residual network for tabular data (Gorishniy et al. 2021, sec. 3.2)."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from .deep.embedded_rows import FlatRows
from .deep.layers.dropout import Seed, dropout
from .deep.layers.number_embedding import EmbeddedInput, NumberVectors
from .hyperparameters import DROPOUT, LAYERS, WIDTH, Number, hyper


class Block(nn.Module):
    """x + drop(Linear(drop(ReLU(Linear(BatchNorm(x)))))), of width d and hidden width h."""

    def __init__(self, d: int, h: int, p_hidden: float, p_residual: float) -> None:
        super().__init__()
        self.p_hidden, self.p_residual = p_hidden, p_residual
        self.norm = nn.BatchNorm1d(d)
        self.linear0 = nn.Linear(d, h)
        self.linear1 = nn.Linear(h, d)

    def forward(self, x: Tensor, seed: Seed | None = None) -> Tensor:  # (B, D) -> (B, D)
        """x plus what the block adds."""
        z = dropout(self.linear0(self.norm(x)).relu(), self.p_hidden, seed and (*seed, 0))
        return x + dropout(self.linear1(z), self.p_residual, seed and (*seed, 1))


class ResNetNetwork(nn.Module):
    """Linear, `n_layers` residual blocks, then BatchNorm, ReLU and Linear.

    The path from the first layer to the last norm is never normalised. sizes: levels of the
    categorical columns. embedding: width of a category's vector. Two-class and numeric outputs come
    as (B,).
    """

    def __init__(
        self,
        *,
        n_numeric: int,
        sizes: Sequence[int],
        embedding: int,
        n_layers: int,
        width: int,
        hidden: int,
        n_out: int,
        p_hidden: float,
        p_residual: float,
        numbers: NumberVectors | None = None,
    ) -> None:
        super().__init__()
        self.input = EmbeddedInput(n_numeric, sizes, embedding, numbers)
        self.first_layer = nn.Linear(self.input.n_out, width)
        self.layers = nn.ModuleList(
            Block(width, hidden, p_hidden, p_residual) for _ in range(n_layers)
        )
        self.last_normalization = nn.BatchNorm1d(width)
        self.head = nn.Linear(width, n_out)

    def forward(self, numbers: Tensor, codes: Tensor, seed: Seed | None = None) -> Tensor:
        """(B,) values or logits of the second class, or (B, C) logits, of a batch of rows."""
        x = self.first_layer(self.input(numbers, codes))
        for i, block in enumerate(self.layers):
            x = block(x, seed and (*seed, i))
        return self.head(self.last_normalization(x).relu()).squeeze(-1)


class ResNet(FlatRows):
    """Residual network of single rows.

    The search spaces are those of Gorishniy et al. 2021, Table 8; the paper has no default
    configuration, ours is that of its synthetic study (G.1) with less dropout and a faster rate.

    References
    ----------
    Gorishniy et al. 2021, arXiv:2106.11959, sec. 3.2.
    """

    example = "epochs=5, width=16"
    batch_norm = True

    n_layers: int = hyper(4, LAYERS, "Residual blocks.")
    width: int = hyper(256, WIDTH, "Width of the path from block to block, D.")
    hidden_factor: float = hyper(
        1.5, Number(0.0, 1000.0, low_open=True), "Hidden width of a block over `width`."
    )
    hidden_dropout: float = hyper(0.3, DROPOUT, "Dropout after the first linear layer of a block.")
    residual_dropout: float = hyper(
        0.0, DROPOUT, "Dropout after the second linear layer of a block."
    )
    embedding: int = hyper(64, WIDTH, "Width of a category's vector.")

    def _network(self) -> ResNetNetwork:
        return self._made(
            ResNetNetwork,
            hidden=max(1, int(self.width * self.hidden_factor)),
            p_hidden=self.hidden_dropout,
            p_residual=self.residual_dropout,
        )
