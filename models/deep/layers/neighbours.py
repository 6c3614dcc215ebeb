"""Nearest neighbours in blocks of candidates: the nearest, and means of labels by distance."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

BLOCK = 4096  # candidates whose distances are in memory at once
SAME = 1e-14  # of the squared lengths: squared distances below it are rounding, and count as 0


def distances(a: Tensor, b: Tensor) -> Tensor:  # (B, D), (N, D) -> (B, N)
    """Euclidean distances; at 0 their gradient is 0.

    DIFF(Ye 2025, the authors' code): there |a|^2 + |b|^2 - 2ab is taken in float32, in which equal
    rows came out 0.01 apart; here it is taken in float64. Inputs of float64 are subtracted.
    """
    if a.dtype == torch.float64:
        return torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist")
    with torch.autocast(a.device.type, enabled=False):
        wide, other = a.double(), b.double()
        lengths = wide.square().sum(1)[:, None] + other.square().sum(1)
        squares = lengths - 2 * wide @ other.T
        apart = ~(squares <= SAME * lengths)  # NaN is apart
        return torch.where(apart, squares, 1.0).sqrt().mul(apart).to(a.dtype)


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
    far taken out; a backward pass makes the weights of a block anew. So B x `block` weights are in
    memory at once, and beside them what grows with B or with N alone.
    """
    n = len(queries)
    top, total = queries.new_full((n,), -torch.inf), queries.new_zeros(n)
    mean = queries.new_zeros(n, labels.shape[1])
    add: Any = _added
    if torch.is_grad_enabled():
        add = partial(checkpoint, _added, use_reentrant=False, preserve_rng_state=False)
    for at in range(0, len(candidates), block):
        hidden = None if own is None else own - at
        part = candidates[at : at + block], labels[at : at + block]
        top, total, mean = add(queries, *part, temperature, hidden, top, total, mean)
    return mean / total[:, None]


def _added(
    queries: Tensor,
    candidates: Tensor,
    labels: Tensor,
    temperature: float,
    hidden: Tensor | None,
    top: Tensor,
    total: Tensor,
    mean: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """The largest logits (B,), sums of weights (B,) and of labels (B, C) with one more block."""
    logits = -distances(queries, candidates) / temperature
    if hidden is not None:
        at = torch.arange(len(candidates), device=logits.device)
        logits = logits.masked_fill(hidden[:, None] == at, -torch.inf)
    highest = torch.maximum(top, logits.detach().amax(1))
    base = torch.where(highest == -torch.inf, 0.0, highest)  # nothing was seen so far
    weights, scale = (logits - base[:, None]).exp(), (top - base).exp()
    return (
        highest,
        total * scale + weights.sum(1),
        mean * scale[:, None] + weights @ labels,
    )


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
