"""Nearest neighbours in blocks of candidates: the nearest, and means of labels by distance."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..precision import in_float32

BLOCK = 4096  # candidates whose distances are made at once
KEPT = 2**28  # bytes of distances that a training step keeps for its backward pass
SAME = 1e-14  # of the squared lengths: in float64, squared distances below it count as 0
NEAR = 1e-2  # of a query's squared length: squared distances below it lose digits in float32
CROWD = 64  # of so many pairs at most one may be near: more of them are faster in float64
SAMPLE = 128  # rows, at least, whose median is the centre

Pairs = tuple[Tensor, Tensor | None, Tensor | None]  # distances (B, n), and the near pairs' indices


def distances(a: Tensor, b: Tensor) -> Tensor:  # (B, D), (N, D) -> (B, N)
    """Euclidean distances, without a gradient; each has the digits of its format.

    DIFF(Ye 2025, the authors' code): there |a|^2 + |b|^2 - 2ab is taken of the points as they are,
    and equal rows came out 0.01 apart. Here points are centred first, and the pairs that are near
    each other beside their lengths are subtracted; where these are many, all is taken in float64.
    Inputs of float64 are always subtracted.
    """
    return _pairs(a, b, centre(b))[0]


def centre(points: Tensor) -> Tensor:  # (N, D) -> (D,)
    """The median of some of the points: few far ones do not move it."""
    return points.detach()[:: max(1, len(points) // SAMPLE)].median(0).values


@torch.no_grad()
def _pairs(a: Tensor, b: Tensor, middle: Tensor, own: Tensor | None = None, at: int = 0) -> Pairs:
    """Distances, infinite where a query meets its own candidate; and the numbers of the near pairs,
    which were subtracted, or None where distances were taken in float64."""
    with torch.autocast(a.device.type, enabled=False):
        if a.dtype == torch.float64:
            apart = torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist")
            return _hide(apart, own, at), None, None
        near = a.float() - middle.float()
        squares = _hide(_squares(near, b.float() - middle.float()), own, at)
        limit = NEAR * near.square().sum(1, keepdim=True)
        rows, columns = (squares <= limit).nonzero().unbind(1)
        if len(rows) * CROWD <= squares.numel():
            squares[rows, columns] = (a[rows] - b[columns]).float().square().sum(1)
            return squares.sqrt_().to(a.dtype), rows, columns
        wide = middle.double()
        squares = _squares(a.double() - wide, b.double() - wide, SAME).clamp_(min=0.0)
        return _hide(squares.float().sqrt_().to(a.dtype), own, at), None, None


def _squares(a: Tensor, b: Tensor, less: float = 0.0) -> Tensor:  # (B, D), (N, D) -> (B, N)
    """|a|^2 + |b|^2 - 2ab by one product, less a share of the squared lengths."""
    lengths = [(1 - less) * x.square().sum(1, keepdim=True) for x in (a, b)]
    left = torch.cat([-2 * a, lengths[0], torch.ones_like(lengths[0])], dim=1)
    return left @ torch.cat([b, torch.ones_like(lengths[1]), lengths[1]], dim=1).T


def neighbour_mean(
    queries: Tensor,
    candidates: Tensor,
    labels: Tensor,
    *,
    temperature: float,
    own: Tensor | None = None,
    block: int = BLOCK,
    kept: int = KEPT,
) -> Tensor:
    """softmax(-distance / temperature) over candidates, times their labels.

    queries (B, D), candidates (N, D), labels (N, C) -> (B, C). own: (B,) the one candidate that a
    query must not see, -1 for none. Sums run over blocks of candidates with the largest logit so
    far taken out, so B x `block` weights are in memory at once. For the backward pass at most
    `kept` bytes of distances stay in memory; those of further blocks are made anew. Labels have no
    gradient; at distance 0 that of queries and candidates is 0. Under autocast all is computed in
    float32.
    """
    kept = kept if torch.is_grad_enabled() else 0

    def mean(*given: Tensor) -> Tensor:
        return _NeighbourMean.apply(*given, temperature, own, block, kept)

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
        room: int,
    ) -> Tensor:
        n, middle = len(queries), centre(candidates)
        top, total = queries.new_full((n,), -torch.inf), queries.new_zeros(n)
        mean = queries.new_zeros(n, labels.shape[1])
        kept: list[Tensor | None] = []
        for at in range(0, len(candidates), block):
            pairs = _pairs(queries, candidates[at : at + block], middle, own, at)
            apart = pairs[0]
            highest = torch.maximum(top, apart.amin(1) / -temperature)
            base = _base(highest)
            weights, scale = _weights(apart, base, temperature), (top - base).exp()
            top, total = highest, total * scale + weights.sum(1)
            mean = mean * scale[:, None] + weights @ labels[at : at + block]
            room -= apart.nbytes
            if room >= 0:
                kept += pairs
        mean = mean / total[:, None]
        ctx.save_for_backward(
            queries, candidates, labels, own, middle, mean, _base(top), total, *kept
        )
        ctx.temperature, ctx.block = temperature, block
        return mean

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        queries, candidates, labels, own, middle, mean, base, total, *kept = ctx.saved_tensors
        if ctx.needs_input_grad[2]:
            raise NotImplementedError("neighbour_mean has no gradient by labels")
        slope = grads[0] * (-1 / (ctx.temperature * total))[:, None]
        of_mean = (slope * mean).sum(1, keepdim=True)
        of_queries, of_candidates = torch.zeros_like(queries), torch.empty_like(candidates)
        for i, at in enumerate(range(0, len(candidates), ctx.block)):
            there = slice(at, at + ctx.block)
            pairs = kept[3 * i : 3 * i + 3]
            pairs = pairs or _pairs(queries, candidates[there], middle, own, at)
            # by the logits, then by half the squared distances
            weights = _weights(pairs[0], base, ctx.temperature)
            weights.mul_(torch.addmm(-of_mean, slope, labels[there].T))
            sums = _by_points(weights, pairs, queries, candidates[there], middle)
            of_queries += sums[0]
            of_candidates[there] = sums[1]
        return of_queries, of_candidates, *[None] * 5


def _weights(apart: Tensor, base: Tensor, temperature: float) -> Tensor:  # (B, n) -> (B, n)
    """exp(-distance / temperature - base)."""
    return torch.sub(-base[:, None], apart, alpha=1 / temperature).exp_()


def _by_points(
    weights: Tensor, pairs: Pairs, queries: Tensor, candidates: Tensor, middle: Tensor
) -> tuple[Tensor, Tensor]:
    """Sums of weight / distance * (query - candidate) over candidates, and of its negative over
    queries; `weights` is written over.

    x sum(w) - w y is a small difference of large terms where pairs are near: these are subtracted
    one by one, or the sums taken in float64.
    """
    apart, rows, columns = pairs
    if rows is None or columns is None:
        weights = weights.div_(apart.masked_fill(apart == 0, torch.inf)).double()
        middle = middle.double()
    else:
        length = apart[rows, columns]
        few = weights[rows, columns] / length.masked_fill(length == 0, torch.inf)
        weights.div_(apart)[rows, columns] = 0.0
    near, known = queries - middle, candidates - middle
    of_queries = torch.addmm(near * weights.sum(1, keepdim=True), weights, known, alpha=-1)
    of_known = torch.addmm(known * weights.sum(0)[:, None], weights.T, near, alpha=-1)
    if rows is not None and columns is not None:
        steps = (queries[rows] - candidates[columns]).mul_(few[:, None])
        of_queries.index_add_(0, rows, steps)
        of_known.index_add_(0, columns, steps, alpha=-1)
    return of_queries.to(queries), of_known.to(queries)


def _base(highest: Tensor) -> Tensor:
    """What is taken out of the logits: 0 where nothing was seen so far."""
    return torch.where(highest == -torch.inf, 0.0, highest)


def _hide(pairs: Tensor, own: Tensor | None, at: int) -> Tensor:
    """The distances (B, n) of candidates at, ...: infinite where a query meets its own."""
    if own is not None:
        rows = ((own >= at) & (own < at + pairs.shape[1])).nonzero().squeeze(1)
        pairs[rows, own[rows] - at] = torch.inf
    return pairs


def nearest(
    queries: Tensor, keys: Tensor, n: int, *, own: Tensor | None = None, block: int = BLOCK
) -> Tensor:
    """Numbers of the n nearest keys of each query, nearest first: (B, D), (N, D) -> (B, n).

    own: (B,) the one key that a query must not find; then N must be above n. The search is exact; B
    x `block` distances are in memory at once.
    """
    least = queries.new_empty((len(queries), 0))
    chosen = torch.empty((len(queries), 0), dtype=torch.int64, device=queries.device)
    middle = centre(keys)
    for at in range(0, len(keys), block):
        part = _pairs(queries, keys[at : at + block], middle, own, at)[0]
        numbers = torch.arange(at, at + part.shape[1], device=queries.device).expand(part.shape)
        least, numbers = torch.cat([least, part], 1), torch.cat([chosen, numbers], 1)
        least, order = least.topk(min(n, least.shape[1]), dim=1, largest=False)
        chosen = numbers.gather(1, order)
    return chosen
