"""How does a feed-forward block run fast and keep little? In blocks of rows that fit the cache.

Linear, GELU, dropout, Linear (Vaswani et al. 2017, sec. 3.3). Between forward and backward only the
input and the values before the GELU are kept.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from .drops import Seed, drop_, keep_bits

BLOCK = 2**18  # hidden values of one block


def _blocks(n: int, hidden: int) -> list[slice]:
    rows = max(1, BLOCK // hidden)
    return [slice(at, min(at + rows, n)) for at in range(0, n, rows)]


class _FeedForward(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,  # (N, W)
        w1: Tensor,
        b1: Tensor,
        w2: Tensor,
        b2: Tensor,
        p: float,
        seed: Seed | None,
    ) -> Tensor:
        keep = any(ctx.needs_input_grad)
        before = x.new_empty((len(x), len(w1))) if keep else None
        out = x.new_empty((len(x), len(w2)))
        scale = 1.0 / (1.0 - p)
        for n, rows in enumerate(_blocks(len(x), len(w1))):
            u = torch.addmm(b1, x[rows], w1.t())
            if before is not None:
                before[rows] = u
            g = F.gelu(u)
            if p:
                drop_(g, keep_bits(g.shape, p, (*seed, n), g.element_size()))  # type: ignore[misc]
            torch.addmm(b2, g, w2.t(), alpha=scale, out=out[rows])
        if before is not None:
            ctx.save_for_backward(x, w1, w2, before)
            ctx.facts = p, seed
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        x, w1, w2, before = ctx.saved_tensors
        p, seed = ctx.facts
        grad, scale = grads[0].contiguous(), 1.0 / (1.0 - p)
        dx = torch.empty_like(x)
        d1, d2, db1 = torch.zeros_like(w1), torch.zeros_like(w2), w1.new_zeros(len(w1))
        for n, rows in enumerate(_blocks(len(x), len(w1))):
            u, dy = before[rows], grad[rows]
            g, dg = F.gelu(u), torch.matmul(dy, w2)
            if p:
                bits = keep_bits(g.shape, p, (*seed, n), g.element_size())
                drop_(g, bits)
                drop_(dg, bits)
                dg *= scale
            d2.addmm_(dy.t(), g, alpha=scale)
            du = torch.ops.aten.gelu_backward(dg, u)
            d1.addmm_(du.t(), x[rows])
            db1 += du.sum(dim=0)
            torch.mm(du, w1, out=dx[rows])
        return dx, d1, db1, d2, grad.sum(dim=0), None, None


def feed_forward(
    x: Tensor,  # (..., W)
    w1: Tensor,
    b1: Tensor,
    w2: Tensor,
    b2: Tensor,
    *,
    p: float = 0.0,
    seed: Seed | None = None,
) -> Tensor:  # (..., W)
    """Linear(w1, b1), GELU, dropout p (where there is a seed), Linear(w2, b2)."""
    p = p if seed is not None else 0.0
    if x.is_cuda:
        return F.linear(F.dropout(F.gelu(F.linear(x, w1, b1)), p), w2, b2)
    out = _FeedForward.apply(x.reshape(-1, x.shape[-1]), w1, b1, w2, b2, p, seed)
    return out.view(*x.shape[:-1], len(w2))
