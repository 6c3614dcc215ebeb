"""An NPT network for many small tables at once: rows attend to rows of their own table alone."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ....models.deep.cells import Cells, Columns
from ....models.deep.layers.dropout import Seed
from ....models.npt.network import NPTNetwork


class Tables(NPTNetwork):
    """A `NPTNetwork` whose rows are those of several tables of `rows` rows each, below each other.

    No row attends to a row of another table; the weights, and what one table gives, are those of
    `NPTNetwork`.
    """

    rows = 0  # of one table; 0: all rows are one table

    def _abd(self, block: nn.Module, x: Tensor, seed: Seed | None) -> Tensor:
        rows = self.rows or len(x)
        return block(x.reshape(len(x) // rows, rows, -1), seed).view_as(x)


def numeric_columns(n_features: int) -> Columns:
    """Columns of numeric features and, last, one numeric target."""
    n = n_features + 1
    return Columns(sizes=(1,) * n, categorical=(False,) * n, targets=(n_features,))


def numeric_cells(features: Tensor, targets: Tensor, hidden: Tensor) -> Cells:
    """Cells of numeric tables. features: (B, T, F). targets: (B, T). hidden: (B, T) bool, which
    targets are masked. -> B T rows."""
    values = torch.cat([features, targets[..., None]], dim=-1).flatten(0, 1)
    mask = torch.zeros_like(values, dtype=torch.bool)
    mask[:, -1] = hidden.flatten()
    codes = torch.zeros((len(values), 0), dtype=torch.long, device=values.device)
    return Cells(values, codes, mask)
