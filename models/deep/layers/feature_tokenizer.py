"""Feature tokenizer: one vector for each number and category, and a [CLS] token."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from .category_embedding import Categories


class Tokens(nn.Module):
    """[CLS], numbers, categories of a row as vectors (Gorishniy et al. 2021, sec. 3.3).

    Number j is x_j w_j + b_j; category j is the vector of its level + b_j; [CLS] is a vector alone.
    All start as U(-1/sqrt(D), 1/sqrt(D)). sizes: levels of the categorical columns. bias, cls:
    False leaves these out, as AutoInt does. `n` is the number of tokens, T.
    """

    def __init__(
        self,
        n_numeric: int,
        sizes: Sequence[int],
        width: int,
        *,
        bias: bool = True,
        cls: bool = True,
    ) -> None:
        super().__init__()
        first = int(cls)
        self.cls, self.n = cls, first + n_numeric + len(sizes)

        def drawn(n: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(n, width).uniform_(-1, 1) / width**0.5)

        self.weight = drawn(first + n_numeric)  # row 0 is [CLS], as if it were a number that is 1
        self.bias = drawn(n_numeric + len(sizes)) if bias else None
        self.categories = Categories(sizes, width) if sizes else None

    def forward(self, numbers: Tensor, codes: Tensor) -> Tensor:  # (B, F1), (B, F2) -> (B, T, D)
        """The tokens of each row: [CLS], numbers, categories."""
        bias: Tensor | None = self.bias
        if self.cls:
            numbers = torch.cat([numbers.new_ones(len(numbers), 1), numbers], dim=1)
            bias = None if bias is None else torch.cat([bias.new_zeros(1, bias.shape[1]), bias])
        x = numbers[..., None] * self.weight
        if self.categories is not None:
            x = torch.cat([x, self.categories(codes)], dim=1)
        return x if bias is None else x + bias
