"""How do the tokens of a row attend to each other?

Multi-head attention (Vaswani et al. 2017, sec. 3.2) in which all tokens ask or the first one alone,
over all keys or over a few mixtures of them (Wang et al. 2020, Linformer).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .attention import attend, join_heads, split_heads
from .drops import Seed, dropout

SHARING = ("headwise", "key-value", "layerwise")
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
        """Those of one layer."""
        if self.sharing == "headwise":
            return self.matrices[2 * layer], self.matrices[2 * layer + 1]
        matrix = self.matrices[layer if self.sharing == "key-value" else 0]
        return matrix, matrix


class TokenAttention(nn.Module):
    """softmax(Q K^T / sqrt(D / H)) V of H heads side by side, then a linear layer if `out`.

    Queries, keys and values are the thirds of one linear layer. p: dropout on the weights. Biases
    start at zero (Gorishniy et al. 2021, authors' code). Another way to weigh values by keys is a
    subclass with another `_answer` and `first`.
    """

    def __init__(self, width: int, n_heads: int, p: float, *, out: bool = True) -> None:
        super().__init__()
        self.n_heads, self.p = n_heads, p
        self.scale = (width / n_heads) ** -0.5
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width) if out else None
        nn.init.zeros_(self.qkv.bias)
        if self.out is not None:
            nn.init.zeros_(self.out.bias)

    def forward(self, x: Tensor, seed: Seed | None = None, mix: Mix | None = None) -> Tensor:
        """All tokens ask: (B, T, D) -> (B, T, D)."""
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        return self._joined(self._answer(q, k, v, seed, mix))

    def first(self, x: Tensor, seed: Seed | None = None, mix: Mix | None = None) -> Tensor:
        """The first token alone asks: (B, T, D) -> (B, 1, D).

        q (W x) = (q W) x and weights (W x) = W (weights x), so that keys and values are products of
        one token and not of all. The bias of the keys adds one number to all logits of a query.
        """
        (b, _, d), h = x.shape, self.n_heads
        if mix is not None:
            q = F.linear(x[:, :1], self.qkv.weight[:d], self.qkv.bias[:d])
            k, v = F.linear(x, self.qkv.weight[d:], self.qkv.bias[d:]).chunk(2, dim=-1)
            return self._joined(self._answer(q, k, v, seed, mix))
        wq, wk, wv = self.qkv.weight.split(d)
        bq, _, bv = self.qkv.bias.split(d)
        q = F.linear(x[:, 0], wq, bq).view(b, h, -1).transpose(0, 1)  # (H, B, D / H)
        q = torch.bmm(q, wk.view(h, -1, d)).transpose(0, 1)  # (B, H, D)
        weights = torch.softmax(torch.bmm(q, x.transpose(1, 2)) * self.scale, dim=-1)  # (B, H, T)
        weights = dropout(weights, self.p, seed)
        mixed = torch.bmm(weights, x).transpose(0, 1)  # (H, B, D)
        v = torch.bmm(mixed, wv.view(h, -1, d).transpose(1, 2)).transpose(0, 1)  # (B, H, D / H)
        v = v + weights.sum(dim=-1, keepdim=True) * bv.view(h, -1)
        return self._joined(v.reshape(b, 1, d))

    def _answer(
        self, q: Tensor, k: Tensor, v: Tensor, seed: Seed | None, mix: Mix | None
    ) -> Tensor:  # (B, Tq, D), (B, T, D), (B, T, D) -> (B, Tq, D)
        if mix is not None:
            k, v = mix[0] @ k, mix[1] @ v
        q, k, v = (split_heads(t, self.n_heads) for t in (q, k, v))
        return join_heads(attend(q, k, v, scale=self.scale, p=self.p, seed=seed))

    def _joined(self, x: Tensor) -> Tensor:
        return x if self.out is None else self.out(x)
