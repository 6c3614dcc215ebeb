"""What is the multi-layer perceptron of tabular networks? (Gorishniy et al. 2021, sec. 3.1)"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from .base import Number
from .deep.hyperparameters import hyper
from .deep.layers.category_embedding import RowInput
from .deep.layers.dropout import Seed, dropout
from .deep.row_network import DROPOUT, WIDTH, RowNetwork, mlp_widths


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
    ) -> None:
        super().__init__()
        self.p = p
        self.input = RowInput(n_numeric, sizes, width)
        ins = [self.input.n_out, *widths]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(ins, widths, strict=False))
        self.head = nn.Linear(ins[-1], n_out)

    def forward(
        self, numbers: Tensor, codes: Tensor, seed: Seed | None = None
    ) -> Tensor:  # (B,) or (B, C)
        x = self.input(numbers, codes)
        for i, layer in enumerate(self.layers):
            x = dropout(layer(x).relu(), self.p, seed and (*seed, i))
        return self.head(x).squeeze(-1)


@dataclass(kw_only=True, eq=False, repr=False)
class MLP(RowNetwork):
    """Multi-layer perceptron (Gorishniy et al. 2021, sec. 3.1; spaces in Table 9).

    n_layers: hidden layers. width_first, width_middle, width_last: their widths; all but the first
    and the last share one, and a single layer has the first. dropout: after each. embedding: width
    of a category's vector. The others: see `RowNetwork`. The paper has no default configuration;
    ours is near what its searches chose.
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
        )
