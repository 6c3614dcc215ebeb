"""The network of the Non-Parametric Transformer (Kossen et al. 2021, sec. 2).

Every cell of the table becomes a vector; layers attend in turn between datapoints (ABD: a row is
one token) and between the attributes of each row (ABA: a cell is one token); then every column is
decoded. The order and place of the layer norms follow the authors' code, see `Block`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..deep.cells import CellMaps, Cells, Columns
from ..deep.column_decoder import Decoded, Decoder
from ..deep.layers.attention import (
    attend,
    attend_with_own,
    attention_weights,
    join_heads,
    split_heads,
)
from ..deep.layers.dropout import Seed, dropout
from ..deep.layers.feed_forward import feed_forward
from ..deep.layers.polynomial_attention import Polynomial

LN_EPS = 1e-12


class Embedding(CellMaps):
    """Cells to vectors, all columns at once (NPT, sec. 2.2): (N, d) cells -> (N, d, E).

    The input of a column's linear map is a one-hot vector or (value, mask), so the map is a row of
    `weight` or a sum of two.
    """

    def __init__(self, columns: Columns, width: int) -> None:
        super().__init__(columns, width)
        self.index = nn.Parameter(torch.randn(columns.n, width))
        self.kind = nn.Parameter(torch.randn(2, width)) if columns.mixed else None

    def forward(self, cells: Cells) -> Tensor:
        """One vector a cell, (N, d, E)."""
        added = self.bias + self.index
        if self.kind is not None:
            added = added + self.kind[self.kinds]
        parts = []
        if len(self.numeric_at):
            hidden = cells.hidden[:, self.numeric_at]
            seen = cells.values.masked_fill(hidden, 0.0)[..., None]
            flags = hidden.to(seen.dtype)[..., None]
            rows = self.numeric_rows
            parts.append(seen * self.weight[rows] + flags * self.weight[rows + 1])
        if len(self.categories_at):
            hidden = cells.hidden[:, self.categories_at]
            rows = torch.where(hidden, self.mask_rows, self.first_rows + cells.codes)
            parts.append(F.embedding(rows, self.weight))
        if len(parts) == 1:
            return parts[0] + added
        out = torch.cat(parts, dim=1)
        order = torch.argsort(torch.cat([self.numeric_at, self.categories_at]))
        return out[:, order] + added


class Block(nn.Module):
    """Multi-head self-attention with a residual branch and a feed-forward (NPT, eqs. 4 and 5).

    (B, T, W) -> (B, T, W). R = O(heads) + Linear(X); out = R + FF(LN(R)); the softmax is divided by
    sqrt(W), the whole width.

    DIFF(Kossen 2021, eq. 4): as in the authors' code, the input of the queries alone is normalised;
    keys, values and the residual branch read X. In the printed equation keys and values read LN(X).

    polynomial: of the attention matrix, in its place (CheAtt); `p_weights` is then dropout on what
    the heads answer.
    """

    def __init__(
        self,
        width: int,
        n_heads: int,
        p_weights: float,
        p: float,
        polynomial: Polynomial | None = None,
    ) -> None:
        super().__init__()
        if width % n_heads:
            raise ValueError(f"n_heads must divide the width {width}, got {n_heads}")
        self.n_heads, self.p_weights, self.p = n_heads, p_weights, p
        self.scale = width**-0.5
        self.norm_in = nn.LayerNorm(width, eps=LN_EPS)
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.mix = nn.Linear(width, width)
        self.residual = nn.Linear(width, width)
        self.norm_ff = nn.LayerNorm(width, eps=LN_EPS)
        self.widen = nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)
        self.polynomial = polynomial

    def heads(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # each (B, H, T, W / H)
        """Queries, keys and values."""
        q, k, v = self.query(self.norm_in(x)), self.key(x), self.value(x)
        return (
            split_heads(q, self.n_heads),
            split_heads(k, self.n_heads),
            split_heads(v, self.n_heads),
        )

    def _heads_and_residual(self, x: Tensor) -> tuple[tuple[Tensor, Tensor, Tensor], Tensor]:
        """`heads`, and the residual branch (B, T, W), with one product for all that read X."""
        readers = (self.key, self.value, self.residual)
        weight = torch.cat([layer.weight for layer in readers])
        bias = torch.cat([layer.bias for layer in readers])
        k, v, residual = F.linear(x, weight, bias).chunk(3, dim=-1)
        q, k, v = (split_heads(t, self.n_heads) for t in (self.query(self.norm_in(x)), k, v))
        return (q, k, v), residual

    def after(
        self, x: Tensor, attended: Tensor, seed: Seed | None, residual: Tensor | None = None
    ) -> Tensor:
        """The block after the attention: mix, residual branch (of x unless given), feed-forward."""
        at = None if seed is None else (*seed, 1)
        mixed = dropout(self.mix(join_heads(attended)), self.p, at)
        r = mixed + (self.residual(x) if residual is None else residual)
        ff = feed_forward(
            self.norm_ff(r),
            self.widen.weight,
            self.widen.bias,
            self.narrow.weight,
            self.narrow.bias,
            p=self.p,
            seed=None if seed is None else (*seed, 2),
        )
        return r + dropout(ff, self.p, None if seed is None else (*seed, 3))

    def forward(self, x: Tensor, seed: Seed | None = None) -> Tensor:
        """Tokens after the block, (B, T, W); `seed` names the dropout."""
        (q, k, v), residual = self._heads_and_residual(x)
        at = None if seed is None else (*seed, 0)
        if self.polynomial is None:
            attended = attend(q, k, v, scale=self.scale, p=self.p_weights, seed=at)
        else:
            qkv = torch.cat([join_heads(part) for part in (q, k, v)], dim=-1)
            answered = self.polynomial.attend(qkv, self.scale)
            attended = split_heads(dropout(answered, self.p_weights, at), self.n_heads)
        return self.after(x, attended, seed, residual)

    def weights(self, x: Tensor) -> Tensor:  # (B, H, T, T)
        """The attention weights, for figures."""
        q, k, _ = self.heads(x)
        return attention_weights(q, k, self.scale)

    def asking(self, x: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Rows (1, T, W) that attend to stored rows (1, H, N, W / H) and each to itself alone."""
        attended = attend_with_own(*self.heads(x), keys, values, scale=self.scale)
        return self.after(x, attended, None)


Context = list[tuple[Tensor, Tensor]]  # keys and values (1, H, N, W / H) of each ABD layer


class NPTNetwork(nn.Module):
    """The network: cells (N, d) -> a vector a cell (N, d, E); `decode` reads columns from these.

    columns: of the table. width: E, of a cell. n_layers: blocks, ABD and ABA in turn, ABD first;
    with `aba=False` every second one is left out (NPT, sec. B.5). n_heads divides E.
    p_weights, p: dropout on attention weights and elsewhere. attention, order: `softmax` in the ABA
    layers, or the basis and order of a polynomial of their attention matrix.

    A seed names the dropout of one pass; without one there is none.
    """

    def __init__(
        self,
        columns: Columns,
        *,
        width: int = 64,
        n_layers: int = 8,
        n_heads: int = 8,
        p_weights: float = 0.1,
        p: float = 0.1,
        aba: bool = True,
        attention: str = "softmax",
        order: int = 5,
    ) -> None:
        super().__init__()
        self.columns, self.width, self.p = columns, width, p
        self.embedding = Embedding(columns, width)
        whole = columns.n * width
        kinds = ["abd" if i % 2 == 0 else "aba" for i in range(n_layers)]
        self.kinds = [kind for kind in kinds if aba or kind == "abd"]
        self.blocks = nn.ModuleList(
            Block(whole, n_heads, p_weights, p)
            if kind == "abd"
            else Block(
                width,
                n_heads,
                p_weights,
                p,
                None if attention == "softmax" else Polynomial(attention, order, n_heads),
            )
            for kind in self.kinds
        )
        self.decoder = Decoder(columns, width)

    def segments(self) -> dict[Tensor, Sequence[int]]:
        """Stored parameters that hold several tensors: rows of each (for LAMB)."""
        ones = [1] * self.columns.n
        return {
            self.embedding.weight: self.embedding.segments,
            self.embedding.bias: ones,
            self.decoder.weight: self.decoder.segments,
            self.decoder.bias: self.decoder.segments,
        }

    def forward(self, cells: Cells, seed: Seed | None = None) -> Tensor:  # (N, d, E)
        """One vector a cell of rows that attend to each other; `seed` names the dropout."""
        x = dropout(self.embedding(cells), self.p, None if seed is None else (*seed, 0))
        for i, (kind, block) in enumerate(zip(self.kinds, self.blocks, strict=True)):
            at = None if seed is None else (*seed, i + 1)
            x = self._abd(block, x, at) if kind == "abd" else block(x, at)
        return dropout(x, self.p, None if seed is None else (*seed, len(self.kinds) + 1))

    def _abd(self, block: nn.Module, x: Tensor, seed: Seed | None) -> Tensor:
        return block(x.reshape(1, len(x), -1), seed).view_as(x)

    def decode(self, state: Tensor, columns: Sequence[int] | None = None) -> Decoded:
        """Values and logits of some columns (all by default), from (N, d, E)."""
        return self.decoder(state, range(self.columns.n) if columns is None else columns)

    # -- prediction of rows that do not see each other ---------------------------------------------

    def context(self, cells: Cells) -> Context:
        """Keys and values of these rows in every ABD layer, for other rows to attend to."""
        x, stored = self.embedding(cells), []
        for kind, block in zip(self.kinds, self.blocks, strict=True):
            if kind == "abd":
                flat = x.reshape(1, len(x), -1)
                q, k, v = block.heads(flat)  # type: ignore[operator]
                stored.append((k, v))
                if len(stored) == self.kinds.count("abd"):
                    break  # nothing reads what the rows become after the last of these layers
                x = block.after(flat, attend(q, k, v, scale=block.scale), None).view_as(x)  # type: ignore[operator, arg-type]
            else:
                x = block(x)
        return stored

    def ask(self, cells: Cells, context: Context) -> Tensor:  # (N, d, E)
        """Rows that attend to the context and each to itself, never to each other."""
        x, layers = self.embedding(cells), iter(context)
        for kind, block in zip(self.kinds, self.blocks, strict=True):
            if kind == "abd":
                flat = x.reshape(1, len(x), -1)
                x = block.asking(flat, *next(layers)).view_as(x)  # type: ignore[operator]
            else:
                x = block(x)
        return x

    def maps(self, cells: Cells) -> list[Tensor]:
        """Attention weights of every layer: (H, N, N) between datapoints, (N, H, d, d) between the
        attributes of each row."""
        x, weights = self.embedding(cells), []
        for kind, block in zip(self.kinds, self.blocks, strict=True):
            if kind == "abd":
                flat = x.reshape(1, len(x), -1)
                weights.append(block.weights(flat)[0])  # type: ignore[operator]
                x = block(flat).view_as(x)
            else:
                weights.append(block.weights(x))  # type: ignore[operator]
                x = block(x)
        return weights
