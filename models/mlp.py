"""Multi-layer perceptron for tabular data (Gorishniy et al. 2021, sec. 3.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from .deep.embedded_rows import FlatRows
from .deep.layers.dropout import Seed, dropout
from .deep.layers.number_embedding import EmbeddedInput, NumberVectors
from .deep.row_network import DROPOUT, WIDTH, mlp_widths
from .hyperparameters import Number, hyper


class MLPNetwork(nn.Module):
    """[Linear -> ReLU -> dropout] for each of `widths`, then Linear.

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

    def forward(
        self, numbers: Tensor, codes: Tensor, seed: Seed | None = None
    ) -> Tensor:  # (B,) or (B, C)
        """Outputs of a batch of rows: one value or logit each, or the logits of its classes."""
        x = self.input(numbers, codes)
        for i, layer in enumerate(self.layers):
            x = dropout(layer(x).relu(), self.p, seed and (*seed, i))
        return self.head(x).squeeze(-1)


@dataclass(kw_only=True, eq=False, repr=False)
class MLP(FlatRows):
    """Multi-layer perceptron.

    The search spaces are those of Gorishniy et al. 2021, Table 9; the paper has no default
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
        Width of the last hidden layer, where there are two or more.
    dropout
        Dropout after each hidden layer.
    embedding
        Width of a category's vector.

    References
    ----------
    Gorishniy et al. 2021, arXiv:2106.11959, sec. 3.1.

    Examples
    --------
    >>> import numpy as np
    >>> from tabsweep import make_model
    >>> X, y = np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 2
    >>> model = make_model("mlp", task="binary", epochs=5, n_layers=2)
    >>> model.fit(X, y).predict(X).shape
    (40,)
    """

    n_layers: int = hyper(3, Number(1, 1000, whole=True))
    width_first: int = hyper(256, WIDTH)
    width_middle: int = hyper(256, WIDTH)
    width_last: int = hyper(256, WIDTH)
    dropout: float = hyper(0.1, DROPOUT)
    embedding: int = hyper(64, WIDTH)

    def _network(self) -> MLPNetwork:
        return MLPNetwork(
            n_numeric=self.n_numeric,
            sizes=self.sizes,
            width=self.embedding,
            widths=mlp_widths(self.n_layers, self.width_first, self.width_middle, self.width_last),
            n_out=self.n_out,
            p=self.dropout,
            numbers=self._vectors(self.number_width),
        )
