"""Sparsemax and 1.5-entmax, with exact thresholds.

Both solve max over p on the simplex of p . z + H(p), with the Gini entropy (sparsemax, Martins and
Astudillo 2016) or Tsallis' entropy of order 1.5 (entmax, Peters et al. 2019). The solution cuts the
scores at a threshold tau; it is found exactly, from sorted scores.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

WIDE = 1024  # of more scores only the larger ones are sorted, a quarter where that is enough

Rule = Callable[[Tensor], tuple[Tensor, Tensor]]  # sorted scores -> tau and size of the support


def _ranks(top: Tensor) -> Tensor:  # 1, 2, ..., n along the last axis
    return torch.arange(1, top.shape[-1] + 1, dtype=top.dtype, device=top.device)


def _sparse_rule(top: Tensor) -> tuple[Tensor, Tensor]:  # (..., n) -> (..., 1) each
    """tau with sum(max(z - tau, 0)) = 1 (Martins and Astudillo 2016, Algorithm 1)."""
    spare = top.cumsum(-1) - 1
    size = (_ranks(top) * top > spare).sum(-1, keepdim=True).clamp(min=1)  # 0 for NaN
    return spare.gather(-1, size - 1) / size, size


def _entmax_rule(top: Tensor) -> tuple[Tensor, Tensor]:  # (..., n) -> (..., 1) each
    """tau with sum(max(z - tau, 0)^2) = 1 (Peters et al. 2019, Algorithm 2).

    For the k largest: k (mean - tau)^2 + k variance = 1; right is the last k whose tau is not above
    its own score.
    """
    k = _ranks(top)
    mean = top.cumsum(-1) / k
    variance = top.square().cumsum(-1) / k - mean.square()
    tau = mean - (1 / k - variance).clamp(min=0).sqrt()
    size = (tau <= top).sum(-1, keepdim=True).clamp(min=1)
    return tau.gather(-1, size - 1), size


def _sparse_threshold(z: Tensor) -> Tensor:  # (n, ...) -> (1, ...)
    """tau of sparsemax along the first axis, of scores of at most 0 of which one is 0.

    Newton's steps from tau = -1, below the solution: each drops scores from the support, and where
    it drops none tau is exact (Michelot 1986). Sums of whole rows of memory cost less than a sort.
    """
    tau = torch.full_like(z[:1], -1.0)
    size = None
    for _ in range(len(z)):
        above = (z - tau).clamp_(min=0)
        spare = above.sum(0, keepdim=True).sub_(1)
        now = above.sign_().sum(0, keepdim=True)
        tau = tau + spare / now.clamp(min=1)
        if size is not None and torch.equal(size, now):
            break
        size = now
    return tau


def _threshold(z: Tensor, rule: Rule) -> Tensor:  # (..., n) -> (..., 1)
    n = z.shape[-1]
    if n > WIDE:
        tau, size = rule(z.topk(n // 4).values)
        if bool((size < n // 4).all()):  # then no smaller score belongs to a support
            return tau
    return rule(z.sort(-1, descending=True).values)[0]


class _Sparsemax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        z = (z - z.amax(-1, keepdim=True)).clamp(min=-2)  # tau is at least -1: no share changes
        p = (z - _threshold(z, _sparse_rule)).clamp(min=0)
        ctx.save_for_backward(p)
        return p

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        """J = diag(s) - s s^T / sum(s), with s = 1 on the support."""
        support = ctx.saved_tensors[0] > 0
        inside = grads[0] * support
        mean = inside.sum(-1, keepdim=True) / support.sum(-1, keepdim=True)
        return inside - mean * support


class _Entmax15(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        z = ((z - z.amax(-1, keepdim=True)) / 2).clamp(min=-2)
        root = (z - _threshold(z, _entmax_rule)).clamp(min=0)
        ctx.save_for_backward(root)
        return root.square()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        """J = diag(s) - s s^T / sum(s), with s = sqrt(p)."""
        (s,) = ctx.saved_tensors
        scaled = grads[0] * s
        return scaled - scaled.sum(-1, keepdim=True) / s.sum(-1, keepdim=True) * s


class _FirstSparsemax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        z = z - z.amax(0, keepdim=True)
        p = (z - _sparse_threshold(z)).clamp_(min=0)
        ctx.save_for_backward(p)
        return p

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        support = ctx.saved_tensors[0].sign()
        inside = grads[0] * support
        mean = inside.sum(0, keepdim=True) / support.sum(0, keepdim=True)
        return inside.addcmul_(mean, support, value=-1)


def sparsemax(z: Tensor) -> Tensor:  # (..., n) -> (..., n)
    """Shares along the last axis: the point of the simplex that is nearest to z.

    >>> sparsemax(torch.tensor([1.0, 0.5, -1.0]))
    tensor([0.7500, 0.2500, 0.0000])
    """
    return _Sparsemax.apply(z)


def first_sparsemax(z: Tensor) -> Tensor:  # (n, ...) -> (n, ...)
    """`sparsemax` along the first axis."""
    return _FirstSparsemax.apply(z)


def first_entmax15(z: Tensor) -> Tensor:  # (n, B) -> (n, B)
    """`entmax15` along the first axis."""
    return entmax15(z.t().contiguous()).t()


def entmax15(z: Tensor) -> Tensor:  # (..., n) -> (..., n)
    """Shares along the last axis: p = max(z/2 - tau, 0)^2, with tau such that they sum to 1."""
    return _Entmax15.apply(z)


def sparsemoid(x: Tensor) -> Tensor:
    """The first share of sparsemax([x, 0])."""
    return (x / 2 + 0.5).clamp(0, 1)


class _Entmoid15(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        x = x.clamp(-2, 2)
        ctx.save_for_backward(x)
        return (8 - x.square()).sqrt_().mul_(x).div_(8).add_(0.5).clamp_(0, 1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        square = ctx.saved_tensors[0].square()
        return (4 - square).div_((8 - square).sqrt_().mul_(4)).mul_(grads[0])


def entmoid15(x: Tensor) -> Tensor:
    """The first share of entmax15([x, 0]), in closed form; exactly 0 and 1 beyond -2 and 2.

    With q the root of the other share, q^2 + (q + x/2)^2 = 1 gives p = 1/2 + x sqrt(8 - x^2) / 8.
    """
    return _Entmoid15.apply(x)


FIRST: dict[str, Callable[[Tensor], Tensor]] = {
    "entmax": first_entmax15,
    "sparsemax": first_sparsemax,
}
"""Name -> shares of many, which stand along the first axis."""

CHOICES: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    "entmax": (entmax15, entmoid15),
    "sparsemax": (sparsemax, sparsemoid),
}
"""Name -> shares of many, share of one of two."""
