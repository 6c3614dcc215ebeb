"""The network of SAINT (Somepalli et al. 2021, arXiv:2106.01342, and the authors' code).

Every column of a row becomes a token. Layers attend between the tokens of each row, and between the
rows of a batch, each of which is one long token there. The answer is read from the first token.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ..deep.layers.attention import attention_weights, join_heads, split_heads
from ..deep.layers.category_embedding import Categories
from ..deep.layers.dropout import Seed
from ..deep.layers.geglu import GEGLUBlock
from ..deep.layers.polynomial_attention import alphas
from ..deep.layers.token_attention import PolynomialAttention, TokenAttention
from ..deep.precision import in_float32

KINDS = {"colrow": ("column", "row"), "col": ("column",), "row": ("row",)}  # of a layer, by style
HEAD = {"column": 16, "row": 64}  # width of a head, however wide the tokens are (authors' code)
NUMBER = 100  # values between a number and its token


class Cells(NamedTuple):
    """Rows before they become tokens: numbers (B, F1), category codes (B, F2), and which of the
    columns are missing (B, F2 + F1), in the order of the tokens."""

    numbers: Tensor
    codes: Tensor
    missing: Tensor


class Embedding(nn.Module):
    """[CLS], categories, numbers of a row as tokens; `n` is their number, T.

    A category is the vector of its level; number j goes through a perceptron of its own, 1 -> 100
    -> D with ReLU; a missing cell is one learned vector of its column, whatever stands there.

    gaps: the numeric columns that have a 0/1 column behind the numbers, which says where they are
    missing. sizes: levels of the categorical columns; unknown: of these columns, whether the last
    level stands for a missing value.
    """

    unknown: Tensor

    def __init__(
        self,
        n_numeric: int,
        sizes: Sequence[int],
        width: int,
        *,
        gaps: Sequence[int] = (),
        unknown: Sequence[bool] = (),
    ) -> None:
        super().__init__()
        self.n_numeric, self.sizes, self.width = n_numeric, tuple(sizes), width
        self.n = 1 + len(sizes) + n_numeric
        self.gaps = [len(sizes) + j for j in gaps]

        def drawn(*shape: int, fan_in: int = width) -> nn.Parameter:
            return nn.Parameter(torch.empty(shape).uniform_(-1, 1) / fan_in**0.5)

        self.cls = drawn(width)
        self.missing = drawn(len(sizes) + n_numeric, width)
        self.categories = Categories(sizes, width) if sizes else None
        self.weight_in, self.bias_in = (drawn(n_numeric, NUMBER, fan_in=1) for _ in range(2))
        self.weight_out = drawn(n_numeric, NUMBER, width, fan_in=NUMBER)
        self.bias_out = drawn(n_numeric, 1, width, fan_in=NUMBER)
        there = zip(sizes, unknown or [False] * len(sizes), strict=True)
        last = [size - 1 if is_last else -1 for size, is_last in there]
        self.register_buffer("unknown", torch.tensor(last, dtype=torch.int64), persistent=False)

    def cells(self, numbers: Tensor, codes: Tensor) -> Cells:
        """Cells of encoded rows, whose 0/1 columns for gaps stand behind the numbers.

        DIFF(Somepalli 2021): a number that is missing where the column had no gaps in training is
        the training mean.
        """
        gone = torch.zeros_like(numbers[:, : self.n_numeric], dtype=torch.bool)
        missing = torch.cat([codes == self.unknown, gone], dim=1)
        if self.gaps:
            missing[:, self.gaps] = numbers[:, self.n_numeric :] > 0.5
        return Cells(numbers[:, : self.n_numeric], codes, missing)

    def forward(self, cells: Cells) -> Tensor:  # -> (B, T, D)
        """Tokens (B, T, D) of rows of cells, [CLS] first."""
        parts = []
        if self.categories is not None:
            parts.append(self.categories(cells.codes))
        if self.n_numeric:
            hidden = (
                cells.numbers[..., None] * self.weight_in + self.bias_in
            ).relu()  # (B, F, 100)
            tokens = torch.baddbmm(self.bias_out, hidden.transpose(0, 1), self.weight_out)
            parts.append(tokens.transpose(0, 1))
        seen = torch.where(cells.missing[..., None], self.missing, torch.cat(parts, dim=1))
        return torch.cat([self.cls.expand(len(seen), 1, -1), seen], dim=1)


# -- attention from rows to stored rows -----------------------------------------------------------


class Memory(NamedTuple):
    """R stored rows of a layer that other rows attend to: their keys (1, H, R, d), and as `terms`
    their values, or P_k(A) times the values where a polynomial of A is the attention."""

    keys: Tensor
    terms: list[Tensor]


def _answer(attention: TokenAttention, apply: Callable[[Tensor, int], Tensor], v: Tensor) -> tuple:
    """(output of the heads, terms), where `apply` multiplies by the attention matrix."""
    if not isinstance(attention, PolynomialAttention):
        return apply(v, 0), [v]
    terms = attention.polynomial.terms(apply, v)
    return attention.polynomial.weighed(terms), terms


def _heads(attention: TokenAttention, x: Tensor) -> list[Tensor]:
    return [split_heads(t, attention.n_heads) for t in attention.qkv(x).chunk(3, dim=-1)]


def remembered(attention: TokenAttention, x: Tensor) -> tuple[Tensor, Memory]:
    """(1, R, W) rows that attend to each other, as in training: their output, and their memory."""

    def attend(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, list[Tensor]]:
        weights = attention_weights(q, k, attention.scale)
        return _answer(attention, lambda u, _: weights @ u, v)

    q, k, v = _heads(attention, x)
    out, terms = in_float32(attend, q, k, v)
    return attention._joined(join_heads(out)), Memory(k, terms)


def asking(attention: TokenAttention, x: Tensor, memory: Memory) -> Tensor:
    """(1, B, W) rows each of which attends to the R stored rows and itself alone.

    With a polynomial, that of the matrix [A 0; a a'] of the kept rows and one more: its powers act
    on the row's own values and on the terms of the kept rows.
    """

    def attend(q: Tensor, k: Tensor, v: Tensor, keys: Tensor) -> Tensor:
        own = (q * k).sum(dim=-1, keepdim=True)
        logits = torch.cat([torch.matmul(q, keys.transpose(-1, -2)), own], dim=-1)
        weights = torch.softmax(logits * attention.scale, dim=-1)
        kept, self_weight = weights[..., :-1], weights[..., -1:]
        return _answer(attention, lambda u, i: kept @ memory.terms[i] + self_weight * u, v)[0]

    return attention._joined(join_heads(in_float32(attend, *_heads(attention, x), memory.keys)))


# -- the network ----------------------------------------------------------------------------------


class Layer(GEGLUBlock):
    """Attention, then GEGLU, of sequences (B, T, W): each is y + f(y) of y = norm(x).

    DIFF(Somepalli 2021, eq. 1): the residual branch is taken behind the norm, and dropout acts in
    GEGLU alone, on no attention weight, as in the authors' code.
    """

    def forward(self, x: Tensor, seed: Seed | None = None) -> Tensor:
        """Sequences after the layer, (B, T, W); `seed` names the dropout."""
        y = self.norm_in(x)
        return self._after(y + self.attention(y), seed)

    def remembered(self, x: Tensor) -> tuple[Tensor, Memory]:
        """`forward` of rows that are stored, and their memory."""
        y = self.norm_in(x)
        attended, memory = remembered(self.attention, y)
        return self._after(y + attended), memory

    def asking(self, x: Tensor, memory: Memory) -> Tensor:
        """`forward` of rows that see the stored ones and not each other."""
        y = self.norm_in(x)
        return self._after(y + asking(self.attention, y, memory))

    def _after(self, x: Tensor, seed: Seed | None = None) -> Tensor:
        y = self.norm_ff(x)
        return y + self.feed_forward(y, seed)


class SAINTNetwork(nn.Module):
    """Tokens, layers, and Linear, ReLU, Linear of the first token.

    style: what each of n_layers does, attention between the columns, between the rows, or both in
    turn. attention, order: of all layers. p: dropout of the feed-forward layers. Two-class and
    numeric outputs come as (B,).

    `forward` lets the rows of its batch attend to each other; `context` and `ask` do not.
    """

    def __init__(
        self,
        embedding: Embedding,
        *,
        style: str,
        n_layers: int,
        n_heads: int,
        attention: str,
        order: int,
        p: float,
        hidden: int,
        n_out: int,
    ) -> None:
        super().__init__()
        self.embedding, width = embedding, embedding.width
        self.kinds = KINDS[style] * n_layers
        self.layers = nn.ModuleList(
            Layer(
                width if kind == "column" else embedding.n * width,
                n_heads=n_heads,
                d_head=HEAD[kind],
                attention=attention,
                order=order,
                p_attention=0.0,
                p_ffn=p,
            )
            for kind in self.kinds
        )
        self.widen = nn.Linear(width, hidden)
        self.head = nn.Linear(hidden, n_out)

    def encode(self, x: Tensor, seed: Seed | None = None) -> Tensor:
        """Tokens of some batches, which do not see each other: (S, B, T, D) -> (S, B, T, D)."""
        for i, (kind, layer) in enumerate(zip(self.kinds, self.layers, strict=True)):
            flat = x.flatten(0, 1) if kind == "column" else x.flatten(2)
            x = layer(flat, seed and (*seed, i)).view(x.shape)
        return x

    def read(self, x: Tensor) -> Tensor:  # (B, T, D) -> (B,) or (B, C)
        """Outputs read from the first token of encoded rows."""
        return self.head(self.widen(x[:, 0]).relu()).squeeze(-1)

    def forward(self, numbers: Tensor, codes: Tensor, seed: Seed | None = None) -> Tensor:
        """Outputs (B,) or (B, C) of rows that attend to each other."""
        x = self.embedding(self.embedding.cells(numbers, codes))
        return self.read(self.encode(x[None], seed)[0])

    def context(self, numbers: Tensor, codes: Tensor) -> list[Memory]:
        """The memory of these rows in every layer between rows."""
        x, memories = self.embedding(self.embedding.cells(numbers, codes)), []
        for kind, layer in zip(self.kinds, self.layers, strict=True):
            if kind == "column":
                x = layer(x)
            else:
                flat, memory = layer.remembered(x.reshape(1, len(x), -1))  # type: ignore[operator]
                x = flat.view(x.shape)
                memories.append(memory)
        return memories

    def ask(self, numbers: Tensor, codes: Tensor, context: Sequence[Memory]) -> Tensor:
        """Outputs of rows each of which sees itself and the context."""
        x, memories = self.embedding(self.embedding.cells(numbers, codes)), iter(context)
        for kind, layer in zip(self.kinds, self.layers, strict=True):
            if kind == "column":
                x = layer(x)
            else:
                flat = x.reshape(1, len(x), -1)
                x = layer.asking(flat, next(memories)).view(x.shape)  # type: ignore[operator]
        return self.read(x)

    def undecayed(self) -> list[nn.Parameter]:
        """The polynomials' weights (the authors decay all else)."""
        return alphas(self)
