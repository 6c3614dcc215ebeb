"""Embeddings of numbers: each number of a row becomes a vector (Gorishniy et al. 2022).

The modules are those of the authors' library `rtdl_num_embeddings`; here are the bins of training
rows, what is done with columns that the library refuses, and the places in a network.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from rtdl_num_embeddings import (
    LinearReLUEmbeddings,
    PeriodicEmbeddings,
    PiecewiseLinearEmbeddings,
    compute_bins,
)
from torch import Tensor, nn

from .category_embedding import RowInput
from .feature_tokenizer import Tokens

KINDS = ("none", "linear-relu", "plr", "plr-lite", "ple-quantile", "ple-tree")
BINNED = ("ple-quantile", "ple-tree")
TREE = {"min_impurity_decrease": 1e-4, "random_state": 0}
NEAREST = 1e-6  # of a column's range: edges nearer to each other are one edge
FARTHEST = 1e3  # ranges of a column: numbers farther outside of it are cut to that


@dataclass(frozen=True)
class Embedding:
    """The settings of an embedding of numbers, see `EmbeddedRows`; version: of piecewise-linear
    ones, "A" (Gorishniy et al. 2022) or "B" (Gorishniy et al. 2025, TabM)."""

    kind: str
    width: int
    frequencies: int = 48
    sigma: float = 0.01
    activation: bool = True
    version: str = "A"

    def made(self, n: int, bins: Sequence[np.ndarray] = ()) -> nn.Module:
        """The library's module of n numbers, (B, n) -> (B, n, width); bins: edges of each."""
        if self.kind == "linear-relu":
            return LinearReLUEmbeddings(n, self.width)
        if self.kind in BINNED:
            edges = [torch.as_tensor(e, dtype=torch.get_default_dtype()) for e in bins]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of columns with one bin, as each 0/1 column has
                return PiecewiseLinearEmbeddings(
                    edges, self.width, activation=self.activation, version=self.version
                )
        return PeriodicEmbeddings(
            n,
            self.width,
            n_frequencies=self.frequencies,
            frequency_init_scale=self.sigma,
            activation=self.activation or self.kind == "plr-lite",
            lite=self.kind == "plr-lite",
        )


def edges_of(
    x: Tensor, n_bins: int, *, y: Tensor | None = None, regression: bool = False, **tree: Any
) -> list[Tensor]:
    """Ascending edges of at most n_bins bins for each column of x (N, F), from training rows.

    Quantiles of the column, or with `y` (N,) the thresholds of a tree of this column alone, whose
    settings are `tree`. One edge where a column has one value.

    DIFF(Gorishniy 2022, sec. 3.2): edges nearer than a millionth of the column's range are one
    edge, or 1 / width of the bin between them would be infinite in float32.
    """
    of_columns = []
    for column in x.T:
        least, most = column.min(), column.max()
        n = min(n_bins, len(column) - 1)
        if least == most:
            edges = least[None]
        elif n < 2:  # two rows
            edges = torch.stack([least, most])
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if y is None:
                    (edges,) = compute_bins(column[:, None], n)
                else:
                    (edges,) = compute_bins(
                        column[:, None], n, y=y, regression=regression, tree_kwargs=tree
                    )
        of_columns.append(_apart(edges))
    return of_columns


def _apart(edges: Tensor) -> Tensor:
    least = NEAREST * float(edges[-1] - edges[0])
    kept = [0]
    for i in range(1, len(edges)):
        if float(edges[i] - edges[kept[-1]]) >= least:
            kept.append(i)
    if len(kept) > 1:
        kept[-1] = len(edges) - 1
    return edges[kept]


class Inside(nn.Module):
    """The columns that vary in training rows, cut to a thousand ranges outside of their edges.

    DIFF(Gorishniy 2022): the library refuses columns of one value, here they are left out; and its
    encoding goes on without end outside of the edges, which overflows in a norm further on.
    """

    low: Tensor
    high: Tensor

    def __init__(self, bins: Sequence[np.ndarray]) -> None:
        super().__init__()
        self.kept = [j for j, edges in enumerate(bins) if len(edges) > 1]
        ends = np.array([[bins[j][0], bins[j][-1]] for j in self.kept]).reshape(-1, 2)
        margin = FARTHEST * (ends[:, 1] - ends[:, 0])
        kind = torch.get_default_dtype()
        low, high = (torch.as_tensor(a, dtype=kind) for a in (ends[:, 0], ends[:, 1]))
        margin = torch.as_tensor(margin, dtype=kind)
        self.register_buffer("low", low - margin, persistent=False)
        self.register_buffer("high", high + margin, persistent=False)

    def forward(self, numbers: Tensor) -> Tensor:  # (..., F) -> (..., kept)
        """The columns, cut."""
        return numbers[..., self.kept].clamp(self.low, self.high)


class NumberVectors(nn.Module):
    """Vectors of n numbers. `n`: how many numbers have one; `width` of each."""

    def __init__(
        self, embedding: Embedding, n_numeric: int, bins: Sequence[np.ndarray] = ()
    ) -> None:
        super().__init__()
        self.width = embedding.width
        self.inside = Inside(bins) if embedding.kind in BINNED else None
        self.n = n_numeric if self.inside is None else len(self.inside.kept)
        varying = [edges for edges in bins if len(edges) > 1]
        self.vectors = embedding.made(self.n, varying) if self.n else None

    def forward(self, numbers: Tensor) -> Tensor:  # (B, F) -> (B, n, D)
        """The vectors of the numbers."""
        x = numbers if self.inside is None else self.inside(numbers)
        return x.new_empty((len(x), 0, self.width)) if self.vectors is None else self.vectors(x)


class EmbeddedInput(RowInput):
    """A row as one vector: its numbers, or their vectors, then the vectors of its categories."""

    def __init__(
        self, n_numeric: int, sizes: Sequence[int], width: int, numbers: NumberVectors | None
    ) -> None:
        super().__init__(n_numeric, sizes, width)
        self.numbers = numbers
        if numbers is not None:
            self.n_out += numbers.n * numbers.width - n_numeric

    def forward(self, numbers: Tensor, codes: Tensor) -> Tensor:  # (B, F1), (B, F2) -> (B, n_out)
        """Numbers or their vectors, and the vectors of the categories, side by side."""
        if self.numbers is not None:
            numbers = self.numbers(numbers).flatten(1)
        return super().forward(numbers, codes)


class EmbeddedTokens(Tokens):
    """[CLS], the vectors of the numbers, and those of the categories, of width D."""

    def __init__(self, numbers: NumberVectors, sizes: Sequence[int]) -> None:
        super().__init__(0, sizes, numbers.width, bias=bool(sizes))
        self.numbers = numbers
        self.n += numbers.n

    def forward(self, numbers: Tensor, codes: Tensor) -> Tensor:  # (B, F1), (B, F2) -> (B, T, D)
        """The tokens of each row: [CLS], numbers, categories."""
        x = super().forward(numbers[:, :0], codes)
        return torch.cat([x[:, :1], self.numbers(numbers), x[:, 1:]], dim=1)
