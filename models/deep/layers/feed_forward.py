"""Feed-forward block (Linear, GELU, dropout, Linear) in blocks of rows that fit the cache.

Linear, GELU, dropout, Linear (Vaswani et al. 2017, sec. 3.3). Between forward and backward only the
input and the values before the GELU are kept, and where they are few, those after it; what dropout
keeps is drawn again.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from ..precision import in_one_format
from .dropout import Seed, kept

BLOCK = 2**18  # hidden values of one block
KEEP = 2**22  # hidden values in all of which both sides of the GELU may be kept
ROWS = 1024  # and so many rows at least: each block adds to the weights' gradients once


def _blocks(n: int, hidden: int) -> list[slice]:
    rows = max(ROWS, BLOCK // hidden)
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
        before = x.new_empty((len(x) if keep else 0, len(w1)))
        out = x.new_empty((len(x), len(w2)))
        scale, after = 1.0 / (1.0 - p), []
        for n, rows in enumerate(_blocks(len(x), len(w1))):
            u = before[rows] if keep else x.new_empty((len(x[rows]), len(w1)))
            g = F.gelu(torch.addmm(b1, x[rows], w1.t(), out=u))
            if p:
                g.mul_(kept(g, p, (*seed, n)))  # type: ignore[misc]
            if keep and before.numel() <= KEEP:
                after.append(g)
            torch.addmm(b2, g, w2.t(), alpha=scale, out=out[rows])
        if keep:
            ctx.save_for_backward(x, w1, w2, before, *after)
            ctx.facts = scale, p, seed
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        scale, p, seed = ctx.facts
        x, w1, w2, before, *after = ctx.saved_tensors
        grad = grads[0].contiguous()
        scaled = grad * scale if p else grad
        dx = torch.empty_like(x)
        d1, d2, db1 = torch.empty_like(w1), torch.empty_like(w2), w1.new_zeros(len(w1))
        ones = x.new_ones(len(x))
        for n, rows in enumerate(_blocks(len(x), len(w1))):
            u, dy = before[rows], scaled[rows]
            g, dg = after[n] if after else F.gelu(u), torch.mm(dy, w2)
            if p:
                mask = kept(dg, p, (*seed, n))
                dg.mul_(mask)
                if not after:
                    g.mul_(mask)
            torch.addmm(d2, dy.t(), g, beta=float(n > 0), out=d2)
            du = torch.ops.aten.gelu_backward(dg, u)
            torch.addmm(d1, du.t(), x[rows], beta=float(n > 0), out=d1)
            db1.addmv_(du.t(), ones[rows])
            torch.mm(du, w1, out=dx[rows])
        return dx, d1, db1, d2, torch.mv(grad.t(), ones), None, None


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
    rows = x.reshape(-1, x.shape[-1])
    out = in_one_format(_FeedForward, (rows, w1, b1, w2, b2), p, seed)
    return out.view(*x.shape[:-1], len(w2))
