"""Outputs of a network for the columns of a table: one linear map a column.

Used by the networks that tell every cell of a row: NPT and Hopular, and SAINT in pre-training.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..base import two_columns
from .cells import Cells, Columns, index, linear_init_


@dataclass(frozen=True)
class Decoded:
    """Outputs for some columns. values: (N, numeric ones), standardised. logits: one (N, K, C)
    tensor for each group of categorical columns of like size, -inf beyond a column's categories."""

    numeric: list[int]
    values: Tensor
    groups: list[list[int]]
    logits: list[Tensor]

    def of(self, column: int) -> Tensor:
        """(N,) standardised values, or (N, C) logits, of one column."""
        if column in self.numeric:
            return self.values[:, self.numeric.index(column)]
        for at, logits in zip(self.groups, self.logits, strict=True):
            if column in at:
                return logits[:, at.index(column)]
        raise KeyError(column)

    def rows(self, rows: Tensor) -> Decoded:
        """The outputs of some of the rows."""
        return Decoded(self.numeric, self.values[rows], self.groups, [x[rows] for x in self.logits])


def stacked(parts: list[tuple[Decoded, int]]) -> Decoded:
    """One output from some, of each the first so many rows."""
    first = parts[0][0]
    return Decoded(
        first.numeric,
        torch.cat([d.values[:n] for d, n in parts]),
        first.groups,
        [torch.cat([d.logits[i][:n] for d, n in parts]) for i in range(len(first.groups))],
    )


def cell_losses(
    decoded: Decoded, truth: Cells, columns: Columns
) -> Iterator[tuple[list[int], Tensor]]:
    """(columns, losses (N, K) of their cells), numeric columns first, then each group: the squared
    error of standardised values, the log loss of categories."""
    dtype = truth.values.dtype
    if decoded.numeric:
        place = {j: i for i, j in enumerate(columns.numeric_at)}
        at = index([place[j] for j in decoded.numeric], truth.values.device)
        wanted = truth.values[:, at]
        yield decoded.numeric, (decoded.values.to(dtype) - wanted).square()
    for group, logits in zip(decoded.groups, decoded.logits, strict=True):
        at = index([columns.categories_at.index(j) for j in group], truth.codes.device)
        codes = truth.codes[:, at].flatten()
        losses = F.cross_entropy(logits.flatten(0, 1).to(dtype), codes, reduction="none")
        yield group, losses.view(len(truth), len(group))


def probabilities(logits: Tensor) -> np.ndarray:  # (N, C) -> (N, C)
    """Softmax of logits, in float64."""
    p = torch.softmax(logits.double(), dim=1).cpu().numpy()
    return two_columns(p[:, 1]) if p.shape[1] == 2 else p / p.sum(axis=1, keepdims=True)


class Decoder(nn.Module):
    """Vectors to columns: (N, d, E) -> values and logits; column j has a linear map of its own.

    Categorical columns are decoded in groups whose sizes round up to the same power of two.
    """

    def __init__(self, columns: Columns, width: int) -> None:
        super().__init__()
        self.columns = columns
        self.segments = list(columns.sizes)
        self.starts = [0, *accumulate(columns.sizes)]
        self.weight = nn.Parameter(torch.empty(self.starts[-1], width))
        self.bias = nn.Parameter(torch.empty(self.starts[-1]))
        self._known: dict[tuple[int | str, ...], tuple[Tensor, Tensor]] = {}
        linear_init_(self.weight.data, self.bias.data, width)

    def _groups(self, columns: Sequence[int]) -> list[list[int]]:
        groups: dict[int, list[int]] = {}
        for j in columns:
            if self.columns.categorical[j]:
                groups.setdefault((self.columns.sizes[j] - 1).bit_length(), []).append(j)
        return list(groups.values())

    def forward(self, state: Tensor, columns: Sequence[int]) -> Decoded:
        """Outputs for some columns, from one vector a cell, (N, d, E)."""
        numeric = [j for j in columns if not self.columns.categorical[j]]
        rows = index([self.starts[j] for j in numeric], state.device)
        of_numeric = state[:, index(numeric, state.device)]
        values = (of_numeric * self.weight[rows]).sum(dim=-1) + self.bias[rows]
        groups = self._groups(columns)
        return Decoded(numeric, values, groups, [self._logits(state, g) for g in groups])

    def _logits(self, state: Tensor, group: list[int]) -> Tensor:  # (N, K, C)
        rows, there = self._places(group, state.device)
        weight, bias = self.weight[rows], self.bias[rows]  # (K, C, E), (K, C)
        x = state[:, index(group, state.device)].transpose(0, 1)  # (K, N, E)
        logits = torch.baddbmm(bias[:, None].to(x.dtype), x, weight.transpose(1, 2).to(x.dtype))
        return logits.transpose(0, 1).masked_fill(~there, -torch.inf)

    def _places(self, group: list[int], device: torch.device) -> tuple[Tensor, Tensor]:
        """(K, C) rows of `weight` of each column and category, and whether there is such a one."""
        key: tuple[int | str, ...] = (*group, str(device))
        if key not in self._known:
            sizes = torch.tensor([self.columns.sizes[j] for j in group])
            offsets = torch.arange(int(sizes.max()))
            there = offsets < sizes[:, None]
            starts = torch.tensor([self.starts[j] for j in group])
            rows = torch.where(there, starts[:, None] + offsets, 0)
            self._known[key] = rows.to(device), there.to(device)
        return self._known[key]
