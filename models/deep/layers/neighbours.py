"""Nearest neighbours in blocks of candidates: the nearest, and means of labels by distance."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..precision import in_float32

BLOCK = 4096  # candidates whose distances are in memory at once
SAME = 1e-14  # of the squared lengths: squared distances below it are rounding, and count as 0


def distances(a: Tensor, b: Tensor) -> Tensor:  # (B, D), (N, D) -> (B, N)
    """Euclidean distances, without a gradient.

    DIFF(Ye 2025, the authors' code): there |a|^2 + |b|^2 - 2ab is taken in float32, in which equal
    rows came out 0.01 apart; here it is taken in float64. Inputs of float64 are subtracted.
    """
    with torch.no_grad(), torch.autocast(a.device.type, enabled=False):
        if a.dtype == torch.float64:
            return torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist")
        wide, other = a.double(), b.double()
        # the squares but for `SAME` of the lengths, by one product: clamped, equal rows are at 0
        lengths = [(1 - SAME) * x.square().sum(1, keepdim=True) for x in (wide, other)]
        left = torch.cat([-2 * wide, lengths[0], torch.ones_like(lengths[0])], dim=1)
        right = torch.cat([other, torch.ones_like(lengths[1]), lengths[1]], dim=1)
        squares = (left @ right.T).clamp_(min=0.0)
        return squares.float().sqrt_().to(a.dtype)


def neighbour_mean(
    queries: Tensor,
    candidates: Tensor,
    labels: Tensor,
    *,
    temperature: float,
    own: Tensor | None = None,
    block: int = BLOCK,
) -> Tensor:
    """softmax(-distance / temperature) over candidates, times their labels.

    queries (B, D), candidates (N, D), labels (N, C) -> (B, C). own: (B,) the one candidate that a
    query must not see, -1 for none. Sums run over blocks of candidates with the largest logit so
    far taken out; the backward pass makes the weights of a block anew. So B x `block` weights are
    in memory at once, and beside them what grows with B or with N alone. Labels have no gradient;
    at distance 0 that of queries and candidates is 0. Under autocast all is computed in float32.
    """

    def mean(*given: Tensor) -> Tensor:
        return _NeighbourMean.apply(*given, temperature, own, block)

    return in_float32(mean, queries, candidates, labels)


class _NeighbourMean(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        queries: Tensor,
        candidates: Tensor,
        labels: Tensor,
        temperature: float,
        own: Tensor | None,
        block: int,
    ) -> Tensor:
        n = len(queries)
        top, total = queries.new_full((n,), -torch.inf), queries.new_zeros(n)
        mean = queries.new_zeros(n, labels.shape[1])
        for at in range(0, len(candidates), block):
            logits = distances(queries, candidates[at : at + block]).mul_(-1 / temperature)
            _hide(logits, own, at)
            highest = torch.maximum(top, logits.amax(1))
            base = _base(highest)
            weights, scale = logits.sub_(base[:, None]).exp_(), (top - base).exp()
            top, total = highest, total * scale + weights.sum(1)
            mean = mean * scale[:, None] + weights @ labels[at : at + block]
        mean = mean / total[:, None]
        ctx.save_for_backward(queries, candidates, labels, own, mean, _base(top), total)
        ctx.temperature, ctx.block = temperature, block
        return mean

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        queries, candidates, labels, own, mean, base, total = ctx.saved_tensors
        if ctx.needs_input_grad[2]:
            raise NotImplementedError("neighbour_mean has no gradient by labels")
        slope, centre = grads[0], candidates.double().mean(0)
        near, known = queries.double() - centre, candidates.double() - centre
        of_mean = (slope * mean).sum(1, keepdim=True)
        of_queries, of_candidates = torch.zeros_like(near), torch.empty_like(known)
        for at in range(0, len(candidates), ctx.block):
            there = slice(at, at + ctx.block)
            apart = distances(queries, candidates[there])
            weights = (apart * (-1 / ctx.temperature)).sub_(base[:, None]).exp_()
            _hide(weights, own, at, value=0.0)
            # by the logits, then by half the squared distances
            weights.mul_(torch.addmm(-of_mean, slope, labels[there].T))
            weights.div_(apart.masked_fill_(apart == 0, torch.inf))
            wide = weights.mul_((-1 / (ctx.temperature * total))[:, None]).double()
            # x sum(w) - w y is a small difference of large terms: in float64
            of_queries.addcmul_(near, wide.sum(1, keepdim=True))
            of_queries.addmm_(wide, known[there], alpha=-1)
            torch.mul(known[there], wide.sum(0)[:, None], out=of_candidates[there])
            of_candidates[there].addmm_(wide.T, near, alpha=-1)
        of_queries, of_candidates = of_queries.to(queries), of_candidates.to(candidates)
        return of_queries, of_candidates, None, None, None, None


def _base(highest: Tensor) -> Tensor:
    """What is taken out of the logits: 0 where nothing was seen so far."""
    return torch.where(highest == -torch.inf, 0.0, highest)


def _hide(pairs: Tensor, own: Tensor | None, at: int, value: float = -torch.inf) -> None:
    """Writes `value` where a query meets its own candidate; pairs: (B, n) of candidates at, ..."""
    if own is None:
        return
    rows = ((own >= at) & (own < at + pairs.shape[1])).nonzero().squeeze(1)
    pairs[rows, own[rows] - at] = value


def nearest(
    queries: Tensor, keys: Tensor, n: int, *, own: Tensor | None = None, block: int = BLOCK
) -> Tensor:
    """Numbers of the n nearest keys of each query, nearest first: (B, D), (N, D) -> (B, n).

    own: (B,) the one key that a query must not find; then N must be above n. The search is exact; B
    x `block` distances are in memory at once.
    """
    least = queries.new_empty((len(queries), 0))
    found = torch.empty((len(queries), 0), dtype=torch.int64, device=queries.device)
    for at in range(0, len(keys), block):
        part = distances(queries, keys[at : at + block])
        numbers = torch.arange(at, at + part.shape[1], device=queries.device).expand(part.shape)
        if own is not None:
            part = part.masked_fill(own[:, None] == numbers, torch.inf)
        least, numbers = torch.cat([least, part], 1), torch.cat([found, numbers], 1)
        least, order = least.topk(min(n, least.shape[1]), dim=1, largest=False)
        found = numbers.gather(1, order)
    return found
