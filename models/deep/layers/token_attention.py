"""Multi-head attention between the tokens of a row.

All tokens attend or the first one alone (Vaswani et al. 2017, sec. 3.2), to all keys or to a few
mixtures of them (Wang et al. 2020, Linformer), or through a polynomial of the attention matrix (Kim
et al. 2024).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..precision import in_float32
from .attention import attend, attention_weights, join_heads, split_heads
from .dropout import Seed, dropout
from .polynomial_attention import Polynomial

SHARING = ("headwise", "key-value", "layerwise")
LINFORMER = ("none", *SHARING)
Mix = tuple[Tensor, Tensor]  # (M, T) each: what mixes the keys of T tokens, and their values


class Mixtures(nn.Module):
    """Matrices (M, T) that turn T keys or values into M = int(T ratio) of them, for all layers.

    sharing (Wang et al. 2020, sec. 4): `headwise`, one for the keys and one for the values of each
    layer; `key-value`, one for both; `layerwise`, one for all layers too. They start as a linear
    layer without a bias.
    """

    def __init__(self, n_tokens: int, ratio: float, sharing: str, n_layers: int) -> None:
        super().__init__()
        self.sharing = sharing
        n = {"headwise": 2 * n_layers, "key-value": n_layers, "layerwise": 1}[sharing]
        shape = max(int(n_tokens * ratio), 1), n_tokens
        self.matrices = nn.ParameterList(
            nn.Parameter(torch.empty(shape).uniform_(-1, 1) / n_tokens**0.5) for _ in range(n)
        )

    def of(self, layer: int) -> Mix:
        """The two matrices of a layer."""
        if self.sharing == "headwise":
            return self.matrices[2 * layer], self.matrices[2 * layer + 1]
        matrix = self.matrices[layer if self.sharing == "key-value" else 0]
        return matrix, matrix


class TokenAttention(nn.Module):
    """softmax(Q K^T / sqrt(d)) V of H heads side by side, then a linear layer if `out`.

    Queries, keys and values are the thirds of one linear layer, with a bias if `bias`. d_head: d,
    width of a head (D / H by default). p: dropout on the weights. Biases start at zero (Gorishniy
    et al. 2021, authors' code). Another way to weigh values by keys is a subclass with another
    `_answer` and `first`.
    """

    def __init__(
        self,
        width: int,
        n_heads: int,
        p: float,
        *,
        d_head: int | None = None,
        bias: bool = True,
        out: bool = True,
    ) -> None:
        super().__init__()
        inner = width if d_head is None else n_heads * d_head
        self.n_heads, self.p = n_heads, p
        self.scale = (inner / n_heads) ** -0.5
        self.qkv = nn.Linear(width, 3 * inner, bias=bias)
        self.out = nn.Linear(inner, width) if out else None
        for layer in (self.qkv, self.out):
            if layer is not None and layer.bias is not None:
                nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor, seed: Seed | None = None, mix: Mix | None = None) -> Tensor:
        """All tokens attend: (B, T, D) -> (B, T, D)."""
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        return self._joined(self._answer(q, k, v, seed, mix))

    def first(self, x: Tensor, seed: Seed | None = None, mix: Mix | None = None) -> Tensor:
        """The first token alone attends: (B, T, D) -> (B, 1, D).

        q (W x) = (q W) x and weights (W x) = W (weights x), so that keys and values are products of
        one token and not of all. The bias of the keys adds one number to all logits of a query.
        """
        (b, _, d), h, weight, bias = x.shape, self.n_heads, self.qkv.weight, self.qkv.bias
        inner = len(weight) // 3
        if mix is not None:
            q = F.linear(x[:, :1], weight[:inner], None if bias is None else bias[:inner])
            rest = F.linear(x, weight[inner:], None if bias is None else bias[inner:])
            k, v = rest.chunk(2, dim=-1)
            return self._joined(self._answer(q, k, v, seed, mix))
        wq, wk, wv = weight.split(inner)
        bq, _, bv = (None, None, None) if bias is None else bias.split(inner)
        q = F.linear(x[:, 0], wq, bq).view(b, h, -1).transpose(0, 1)  # (H, B, d)
        q = torch.bmm(q, wk.view(h, -1, d)).transpose(0, 1)  # (B, H, D)
        weights = torch.softmax(torch.bmm(q, x.transpose(1, 2)) * self.scale, dim=-1)  # (B, H, T)
        weights = dropout(weights, self.p, seed)
        mixed = torch.bmm(weights, x).transpose(0, 1)  # (H, B, D)
        v = torch.bmm(mixed, wv.view(h, -1, d).transpose(1, 2)).transpose(0, 1)  # (B, H, d)
        if bv is not None:
            v = v + weights.sum(dim=-1, keepdim=True) * bv.view(h, -1)
        return self._joined(v.reshape(b, 1, inner))

    def weights(self, x: Tensor) -> Tensor:  # (B, T, D) -> (B, H, T, T)
        """A, the attention weights without dropout, for figures."""
        q, k, _ = self.qkv(x).chunk(3, dim=-1)
        return self._weights(q, k)

    def _weights(self, q: Tensor, k: Tensor) -> Tensor:  # (B, T, H d) each -> (B, H, T, T)
        return attention_weights(
            split_heads(q, self.n_heads), split_heads(k, self.n_heads), self.scale
        )

    def _answer(
        self, q: Tensor, k: Tensor, v: Tensor, seed: Seed | None, mix: Mix | None
    ) -> Tensor:  # (B, Tq, H d), (B, T, H d), (B, T, H d) -> (B, Tq, H d)
        if mix is not None:
            k, v = mix[0] @ k, mix[1] @ v
        q, k, v = (split_heads(t, self.n_heads) for t in (q, k, v))
        return join_heads(attend(q, k, v, scale=self.scale, p=self.p, seed=seed))

    def _joined(self, x: Tensor) -> Tensor:
        return x if self.out is None else self.out(x)


class PolynomialAttention(TokenAttention):
    """Attention whose matrix A is replaced by a polynomial of itself (Kim et al. 2024).

    All keys are attended to: `mix` is always None. p: dropout on what the heads answer; A is never
    dropped from, so that its rows sum to one (the paper says nothing of dropout). A and its
    polynomial are computed in float32 inside autocast.
    """

    def __init__(
        self,
        width: int,
        n_heads: int,
        p: float,
        *,
        basis: str,
        order: int,
        d_head: int | None = None,
        bias: bool = True,
        out: bool = True,
    ) -> None:
        super().__init__(width, n_heads, p, d_head=d_head, bias=bias, out=out)
        self.polynomial = Polynomial(basis, order, n_heads)

    def forward(self, x: Tensor, seed: Seed | None = None, mix: Mix | None = None) -> Tensor:
        """All tokens attend: (B, T, D) -> (B, T, D)."""
        answer = self.polynomial.attend(self.qkv(x), self.scale)
        return self._joined(dropout(answer, self.p, seed))

    def first(self, x: Tensor, seed: Seed | None = None, mix: Mix | None = None) -> Tensor:
        """The first token alone attends: (B, T, D) -> (B, 1, D).

        The first row of a polynomial of A is that of A^T applied to (1, 0, ..).
        """
        answer = in_float32(self._first_row, *self.qkv(x).chunk(3, dim=-1))
        return self._joined(dropout(answer, self.p, seed))

    def matrix(self, x: Tensor) -> Tensor:  # (B, T, D) -> (B, H, T, T)
        """The polynomial of `weights` written out, for figures."""
        return self.polynomial.matrix(self.weights(x))

    def _first_row(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:  # -> (B, 1, H d)
        weights = self._weights(q, k)
        one = torch.zeros_like(weights[..., :1])
        one[:, :, 0] = 1.0
        row = self.polynomial(weights.transpose(-1, -2), one).transpose(-1, -2)  # (B, H, 1, T)
        return join_heads(row @ split_heads(v, self.n_heads))


def token_attention(
    width: int,
    n_heads: int,
    p: float,
    *,
    attention: str = "softmax",
    order: int = 5,
    d_head: int | None = None,
    bias: bool = True,
    out: bool = True,
) -> TokenAttention:
    """The attention of this name (`ATTENTIONS`); order: the polynomial's, nothing to softmax."""
    if attention == "softmax":
        return TokenAttention(width, n_heads, p, d_head=d_head, bias=bias, out=out)
    return PolynomialAttention(
        width, n_heads, p, basis=attention, order=order, d_head=d_head, bias=bias, out=out
    )
