"""Self-normalising network (Klambauer et al. 2017; Gorishniy et al. 2021, F.5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from .deep.embedded_rows import FlatRows
from .deep.layers.alpha_dropout import alpha_dropout
from .deep.layers.dropout import Seed
from .deep.layers.number_embedding import EmbeddedInput, NumberVectors
from .deep.row_network import DROPOUT, WIDTH, mlp_widths
from .hyperparameters import Number, hyper


class SNNNetwork(nn.Module):
    """[Linear -> SELU -> alpha dropout] for each of `widths`, then Linear.

    Weights are drawn from N(0, 1 / inputs), biases are 0. sizes: levels of the categorical columns.
    width: of a category's vector. Two-class and numeric outputs come as (B,).
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
        for linear in (*self.layers, self.head):
            nn.init.normal_(linear.weight, std=linear.in_features**-0.5)
            nn.init.zeros_(linear.bias)

    def forward(
        self, numbers: Tensor, codes: Tensor, seed: Seed | None = None
    ) -> Tensor:  # (B,) or (B, C)
        """Outputs of a batch of rows: one value or logit each, or the logits of its classes."""
        x = self.input(numbers, codes)
        for i, layer in enumerate(self.layers):
            x = alpha_dropout(nn.functional.selu(layer(x)), self.p, seed and (*seed, i))
        return self.head(x).squeeze(-1)


@dataclass(kw_only=True, eq=False, repr=False)
class SNN(FlatRows):
    """Self-normalising network: SELU, alpha dropout, and weights that keep mean and variance.

    The search spaces are those of Gorishniy et al. 2021, Table 12; the paper has no default
    configuration, ours is near what its searches chose.

    Parameters
    ----------
    n_layers
        Hidden layers.
    width_first
        Width of the first hidden layer.
    width_middle
        Width of the hidden layers between the first and the last.
    width_last
        Width of the last hidden layer.
    dropout
        Alpha dropout after each hidden layer.
    embedding
        Width of a category's vector.

    References
    ----------
    Klambauer et al. 2017, arXiv:1706.02515; Gorishniy et al. 2021, arXiv:2106.11959, sec. F.5.

    Examples
    --------
    >>> import numpy as np
    >>> from tabsweep import make_model
    >>> X, y = np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 2
    >>> model = make_model("snn", task="binary", epochs=5, n_layers=2)
    >>> model.fit(X, y).predict(X).shape
    (40,)
    """

    n_layers: int = hyper(4, Number(2, 1000, whole=True))
    width_first: int = hyper(256, WIDTH)
    width_middle: int = hyper(256, WIDTH)
    width_last: int = hyper(256, WIDTH)
    dropout: float = hyper(0.05, DROPOUT)
    embedding: int = hyper(64, WIDTH)

    def _network(self) -> SNNNetwork:
        return SNNNetwork(
            n_numeric=self.n_numeric,
            sizes=self.sizes,
            width=self.embedding,
            widths=mlp_widths(self.n_layers, self.width_first, self.width_middle, self.width_last),
            n_out=self.n_out,
            p=self.dropout,
            numbers=self._vectors(self.number_width),
        )
