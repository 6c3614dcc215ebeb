"""Tables as cells: one row of cells per datapoint, features and targets alike.

A cell holds a standardised value or a category, and a mask channel (NPT, sec. 2.2): 1 where the
cell is hidden or missing, and then nothing of its value is seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor, nn

FARTHEST = 1e6  # standard deviations; beyond them a layer norm in float32 would overflow


@dataclass(frozen=True)
class Columns:
    """The columns of a table.

    sizes: value channels of each column, 1 for a numeric one, else the number of categories.
    categorical: which columns hold categories. targets: positions of the columns to predict.
    """

    sizes: tuple[int, ...]
    categorical: tuple[bool, ...]
    targets: tuple[int, ...]

    @property
    def n(self) -> int:
        """The number of columns, d."""
        return len(self.sizes)

    @cached_property
    def numeric_at(self) -> list[int]:
        """Positions of the numeric columns, in order."""
        return [j for j, c in enumerate(self.categorical) if not c]

    @cached_property
    def categories_at(self) -> list[int]:
        """Positions of the categorical columns, in order."""
        return [j for j, c in enumerate(self.categorical) if c]

    @property
    def mixed(self) -> bool:
        """Whether both kinds occur."""
        return bool(self.numeric_at) and bool(self.categories_at)


@dataclass(frozen=True)
class Cells:
    """Rows of cells. values: (N, number of numeric columns). codes: (N, number of categorical
    columns), 0..size-1. hidden: (N, d) bool, the mask channel. Where `hidden`, values and codes are
    not read."""

    values: Tensor
    codes: Tensor
    hidden: Tensor

    def __len__(self) -> int:
        return len(self.hidden)

    def __getitem__(self, rows: Tensor | slice) -> Cells:
        return Cells(self.values[rows], self.codes[rows], self.hidden[rows])

    def to(self, device: torch.device | str) -> Cells:
        """The same cells on a device."""
        return Cells(self.values.to(device), self.codes.to(device), self.hidden.to(device))


def join(parts: Sequence[Cells]) -> Cells:
    """The rows of all parts, one after the other."""
    return Cells(
        torch.cat([p.values for p in parts]),
        torch.cat([p.codes for p in parts]),
        torch.cat([p.hidden for p in parts]),
    )


def cells_of(x: np.ndarray, columns: Columns, dtype: torch.dtype = torch.float32) -> Cells:
    """Rows (N, d) of values and codes, NaN (or a code out of range) where missing, as cells.

    DIFF(Kossen 2021): values are clipped to a million standard deviations."""
    numeric, categories = x[:, columns.numeric_at], x[:, columns.categories_at]
    sizes = np.array([columns.sizes[j] for j in columns.categories_at], dtype=np.float64)
    hidden = np.zeros(x.shape, dtype=bool)
    hidden[:, columns.numeric_at] = np.isnan(numeric)
    bad = np.isnan(categories) | (categories < 0) | (categories >= sizes)
    hidden[:, columns.categories_at] = bad
    return Cells(
        torch.from_numpy(np.clip(np.nan_to_num(numeric), -FARTHEST, FARTHEST)).to(dtype),
        torch.from_numpy(np.where(bad, 0, categories).astype(np.int64)),
        torch.from_numpy(hidden),
    )


def index(numbers: Sequence[int], device: torch.device) -> Tensor:
    """Positions or sizes of columns as a tensor, made once for each device. An index that is a list
    is copied to a GPU at every use, and each copy waits until the GPU is idle."""
    return _index(tuple(numbers), device)


@lru_cache(maxsize=1024)
def _index(numbers: tuple[int, ...], device: torch.device) -> Tensor:
    return torch.tensor(numbers, dtype=torch.long, device=device)


def linear_init_(weight: Tensor, bias: Tensor, fan_in: int) -> None:
    """torch's default for a linear layer."""
    bound = fan_in**-0.5
    nn.init.uniform_(weight, -bound, bound)
    nn.init.uniform_(bias, -bound, bound)


class CellMaps(nn.Module):
    """A linear map from the value channels and the mask channel of each column, as stored by the
    embeddings of NPT and Hopular.

    `weight` holds the maps of all columns below each other (`segments`: rows of each): a row for
    each value channel, then that of the mask channel. numeric_at, categories_at: columns of a kind;
    numeric_rows, first_rows, mask_rows: where the maps of numeric and of categorical columns begin,
    and the last rows of the latter.
    """

    kinds: Tensor
    numeric_at: Tensor
    categories_at: Tensor
    numeric_rows: Tensor
    first_rows: Tensor
    mask_rows: Tensor

    def __init__(self, columns: Columns, width: int) -> None:
        super().__init__()
        self.columns = columns
        self.segments = [size + 1 for size in columns.sizes]
        starts = [0, *accumulate(self.segments)]
        self.weight = nn.Parameter(torch.empty(starts[-1], width))
        self.bias = nn.Parameter(torch.empty(columns.n, width))
        for j, fan_in in enumerate(self.segments):
            linear_init_(self.weight.data[starts[j] : starts[j + 1]], self.bias.data[j], fan_in)
        numeric, categories = columns.numeric_at, columns.categories_at
        for name, places in {
            "kinds": columns.categorical,
            "numeric_at": numeric,
            "categories_at": categories,
            "numeric_rows": [starts[j] for j in numeric],
            "first_rows": [starts[j] for j in categories],
            "mask_rows": [starts[j + 1] - 1 for j in categories],
        }.items():
            self.register_buffer(name, torch.tensor(places, dtype=torch.long), persistent=False)


def generator(seed: int) -> torch.Generator:
    """A generator from a seed, on the CPU: it masks the same cells whatever the device."""
    return torch.Generator().manual_seed(seed)


def hide(
    cells: Cells, columns: Columns, hidden: Tensor, randomised: Tensor, g: torch.Generator
) -> Cells:
    """The cells with some hidden, and some replaced by noise: N(0, 1), or any category.

    hidden, randomised: (N, d) bool.
    """
    values, codes = cells.values, cells.codes
    if columns.numeric_at:
        at = randomised[:, index(columns.numeric_at, values.device)]
        noise = torch.randn(values.shape, generator=g, dtype=values.dtype).to(values.device)
        values = torch.where(at, noise, values)
    if columns.categories_at:
        at = randomised[:, index(columns.categories_at, codes.device)]
        sizes = index([columns.sizes[j] for j in columns.categories_at], codes.device)
        draws = torch.rand(codes.shape, generator=g).to(codes.device)
        codes = torch.where(at, (draws * sizes).long().clamp(max=sizes - 1), codes)
    return Cells(values, codes, (cells.hidden | hidden) & ~randomised)


def without(cells: Cells, hidden: Tensor) -> Cells:
    """The cells with those hidden, too, that `hidden` (N, d) marks."""
    return replace(cells, hidden=cells.hidden | hidden)


def fitting_width(width: int, max_width: int, n_columns: int, n_heads: int) -> int:
    """`width`, or the largest multiple of n_heads with n_columns x width <= max_width (one n_heads
    at least) where that is less; max_width 0 is no limit.

    >>> fitting_width(16, 128, 10, 4), fitting_width(16, 0, 1000, 4), fitting_width(16, 128, 100, 4)
    (12, 16, 4)
    """
    if not max_width:
        return width
    return min(width, max(1, max_width // (n_columns * n_heads)) * n_heads)
