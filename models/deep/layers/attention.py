"""Softmax attention in blocks, without a table of all pairs.

softmax(scale Q K^T) V with dropout on the weights (Vaswani et al. 2017, sec. 3.2.1), in blocks of
queries. The backward pass computes the weights of a block anew, so memory grows with the rows and
not with their square; below `KEEP` weights they are kept instead. On a GPU the library's fused
kernels do the same; on a CPU such a kernel has no dropout, and serves predictions.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from ..precision import in_one_format
from .dropout import Seed, kept

BLOCK = 2**23  # weights of one block
ROWS = 128  # queries of a block at least: products of fewer rows are slow
KEEP = 2**23  # weights in all that may be kept for the backward pass
ALIGNED = 8  # fused GPU kernels take heads whose width is a multiple of it
MASKED = 2**24  # pairs of a mask that such a kernel is given at once
LONG = 256  # keys from which the library's fused kernel is faster on a CPU
SHORT = 64  # fewer keys than these are worth a softmax of their own, see `_weights`
WORD, NARROW = 16, 128  # bytes of torch's widest element, and of the rows moved as such
SPREAD = 40.0  # logits no farther apart may share a shift: no row loses its digits
LOWEST = -80.0  # less is nothing beside a weight of one, and takes torch's exp ten times as long
# What `scaled_dot_product_attention` calls on a CPU; it alone returns the logarithm of the sums.
FUSED_CPU = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu


def attention_weights(q: Tensor, k: Tensor, scale: float) -> Tensor:
    """The attention weights (B, H, Tq, Tk), one number for each pair of query and key."""
    return torch.softmax(torch.matmul(q * scale, k.transpose(-1, -2)), dim=-1)


def _forbid_(logits: Tensor, forbidden: Tensor) -> None:
    """Sets the logit of query i and key forbidden[i] (-1: none) to minus infinity."""
    rows = torch.nonzero(forbidden >= 0)[:, 0]
    logits[:, :, rows, forbidden[rows]] = -torch.inf


def _blocks(b: int, h: int, tq: int, tk: int) -> Iterator[tuple[slice, slice]]:
    """Slices of the batch and of the queries, at most `BLOCK` weights each or `ROWS` queries."""
    rows = max(ROWS, BLOCK // max(h * tk, 1))
    if rows < tq:
        for i in range(b):
            yield from ((slice(i, i + 1), slice(at, at + rows)) for at in range(0, tq, rows))
    else:
        items = max(1, BLOCK // max(h * tq * tk, 1))
        yield from ((slice(at, at + items), slice(0, tq)) for at in range(0, b, items))


def _weights(
    q: Tensor, k_t: Tensor, forbidden: Tensor | None, rows: slice
) -> tuple[Tensor, Tensor | None]:
    """(weights (b, h, t, Tk), factor of each row after which it sums to one, or None if it does).
    q is already scaled; k_t has the shape (b, h, D, Tk).

    With few keys, torch's softmax spends most of its time once per row. In that case the smaller
    output is divided by the sums instead of the weights, and all weights of a batch item and head
    are shifted by one common maximum if they are close.
    """
    logits = torch.matmul(q, k_t)
    if forbidden is not None:
        _forbid_(logits, forbidden[rows])
    if logits.shape[-1] >= SHORT or forbidden is not None or not logits.numel():
        return torch.softmax(logits, dim=-1), None
    flat = logits.flatten(2)
    shift = flat.amax(dim=-1, keepdim=True)
    if float(shift.max() - flat.min()) < SPREAD:
        logits = flat.sub_(shift).view_as(logits)
    else:
        logits.sub_(logits.amax(dim=-1, keepdim=True)).clamp_(min=LOWEST)
    weights = logits.exp_()
    sums = torch.matmul(weights, weights.new_ones(weights.shape[-1], 1))
    return weights, sums.reciprocal_()


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        scale: float,
        p: float,
        seed: Seed | None,
        forbidden: Tensor | None,
    ) -> Tensor:
        (b, h, tq, _), tk = q.shape, k.shape[2]
        keep = b * h * tq * tk <= KEEP and any(ctx.needs_input_grad)
        many = b > 1  # many small products: their factors are written out, one behind the other
        q = _written_out(q).mul_(scale) if many else q * scale
        k, v = (_written_out(k), _written_out(v)) if many else (k, v)
        out = _rows_first(b, h, tq, v)
        stored = []
        for n, (i, j) in enumerate(_blocks(b, h, tq, tk)):
            weights, norm = _weights(q[i, :, j], _turned(k[i]), forbidden, j)
            dropped = weights
            if p:
                mask = kept(weights, p, (*seed, n))  # type: ignore[misc]
                dropped = weights * mask if keep else weights.mul_(mask)
                if keep:
                    stored.append(dropped)
            if keep:
                stored += [weights, weights.new_empty(0) if norm is None else norm]
            product = torch.matmul(dropped, v[i])
            _copy_(out[i, :, j], product if norm is None else product.mul_(norm))
        if p:
            out *= 1.0 / (1.0 - p)
        ctx.save_for_backward(q, k, v, out, *([] if forbidden is None else [forbidden]), *stored)
        ctx.facts = scale, p, seed, forbidden is not None, keep
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        scale, p, seed, has_forbidden, keep = ctx.facts
        q, k, v, out, *rest = ctx.saved_tensors
        forbidden = rest.pop(0) if has_forbidden else None
        (b, h, tq, _), tk = q.shape, k.shape[2]
        dq, dk, dv = _rows_first(b, h, tq, q), _rows_first(b, h, tk, k), _rows_first(b, h, tk, v)
        # sum over keys of weight x its gradient = output x its gradient, dropout or not
        delta = _row_sums(grads[0] * out)
        grad = grads[0] * (1.0 / (1.0 - p)) if p else grads[0]
        for n, (i, j) in enumerate(_blocks(b, h, tq, tk)):
            dropped = mask = None
            if keep:
                dropped = rest.pop(0) if p else None
                weights, norm = rest.pop(0), rest.pop(0)
                norm = norm if norm.numel() else None
            else:
                weights, norm = _weights(q[i, :, j], _turned(k[i]), forbidden, j)
                if p:
                    mask = kept(weights, p, (*seed, n))
            g, less = grad[i, :, j], delta[i, :, j]
            if norm is not None:
                g, less = _written_out(g).mul_(norm), less * norm
            d_logits = torch.matmul(g, _turned(v[i]))
            if dropped is not None:
                d_logits.mul_(dropped).addcmul_(weights, less, value=-1)
            elif mask is not None:  # the weights are not used again: overwritten
                d_logits.mul_(mask).sub_(less).mul_(weights)
                dropped = weights.mul_(mask)
            else:
                d_logits.sub_(less).mul_(weights)
            seen = weights if dropped is None else dropped
            _put(dv, i, j, torch.matmul(seen.transpose(-1, -2), g))
            _copy_(dq[i, :, j], torch.matmul(d_logits, k[i]))
            _put(dk, i, j, torch.matmul(d_logits.transpose(-1, -2), q[i, :, j]))
        dq *= scale
        return dq, dk, dv, None, None, None, None


def _rows_first(b: int, h: int, t: int, like: Tensor) -> Tensor:  # (b, h, t, D)
    """An empty tensor whose memory runs by row and then by head, as linear layers want it."""
    return like.new_empty((b, t, h, like.shape[3])).transpose(1, 2)


def _row_sums(x: Tensor) -> Tensor:  # (b, h, t, D), rows first -> (b, h, t, 1)
    """As a product: torch's sum takes its time per row, however short."""
    b, h, t, width = x.shape
    sums = torch.mv(x.transpose(1, 2).reshape(-1, width), x.new_ones(width))
    return sums.view(b, t, h, 1).transpose(1, 2)


def _written_out(x: Tensor) -> Tensor:
    """A contiguous copy of its own."""
    return _copy_(x.new_empty(x.shape), x)


def _copy_(to: Tensor, x: Tensor) -> Tensor:
    """`to.copy_(x)`; of narrow rows, which torch copies an element at a time, whole words."""
    words = _words(to), _words(x)
    if None in words or to.dtype != x.dtype:
        return to.copy_(x)
    words[0].copy_(words[1])  # type: ignore[union-attr, arg-type]
    return to


def _words(x: Tensor) -> Tensor | None:
    """The same memory as words, where rows are narrow and made of whole ones."""
    each = WORD // x.element_size()
    starts = (x.shape[-1], x.storage_offset(), *x.stride()[:-1])
    narrow = x.shape[-1] * x.element_size() <= NARROW and x.stride(-1) == 1
    return x.view(torch.complex128) if narrow and not any(s % each for s in starts) else None


def _put(total: Tensor, i: slice, j: slice, part: Tensor) -> None:
    """Adds what a block of queries j gives to all keys; the first of batch items i sets it."""
    if j.start == 0:
        _copy_(total[i], part)
    else:
        total[i] += part


def _turned(k: Tensor) -> Tensor:  # (b, h, T, D) -> (b, h, D, T)
    """Keys as the right side of a product; many small ones are faster when written out."""
    turned = k.transpose(-1, -2)
    return turned.contiguous() if k.shape[0] > 1 else turned


def attend(
    q: Tensor,  # (B, H, Tq, D)
    k: Tensor,  # (B, H, Tk, D)
    v: Tensor,  # (B, H, Tk, D)
    *,
    scale: float,
    p: float = 0.0,
    seed: Seed | None = None,
    forbidden: Tensor | None = None,
) -> Tensor:  # (B, H, Tq, D)
    """dropout(softmax(scale q k^T)) v, by blocks.

    p: dropout on the weights, where there is a seed. forbidden: (Tq,) the one key that a query must
    not see, -1 for none. A query with no key left gets NaN.
    """
    p = p if seed is not None else 0.0
    if q.is_cuda:
        fused = partial(_fused, p=p, scale=scale)
        if forbidden is None:
            return fused(q, k, v)
        rows = max(1, MASKED // k.shape[2])
        at = [slice(i, i + rows) for i in range(0, q.shape[2], rows)]

        def part(q: Tensor, k: Tensor, v: Tensor, forbidden: Tensor) -> Tensor:
            keys = torch.arange(k.shape[2], device=k.device)
            return fused(q, k, v, attn_mask=forbidden[:, None] != keys)

        # a mask is made anew in the backward pass, so that no table of all pairs is kept
        again = partial(checkpoint, part, use_reentrant=False) if torch.is_grad_enabled() else part
        return torch.cat([again(q[:, :, j], k, v, forbidden[j]) for j in at], dim=2)
    if not p and forbidden is None and _predicts_long(q, k):
        return F.scaled_dot_product_attention(q, k, v, scale=scale)
    return in_one_format(_Attention, (q, k, v), scale, p, seed, forbidden)


def _fused(
    q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None, *, p: float, scale: float
) -> Tensor:
    """The library's attention, which chooses its kernel by the width of a head.

    Heads of other widths are filled up with zeros, which change no logit: without that, only the
    kernel that makes the table of all pairs would take them.
    """
    width = v.shape[-1]
    more = -width % ALIGNED
    if more:
        q, k, v = (F.pad(x, (0, more)) for x in (q, k, v))
    out = F.scaled_dot_product_attention(q, k, v, attn_mask, p, scale=scale)
    return out[..., :width]


def attend_with_own(
    q: Tensor,  # (B, H, T, D)
    k: Tensor,  # (B, H, T, D)
    v: Tensor,  # (B, H, T, D)
    keys: Tensor,  # (B, H, N, D)
    values: Tensor,  # (B, H, N, D)
    *,
    scale: float,
) -> Tensor:  # (B, H, T, D)
    """softmax over N common keys and, for query i, its own key i; no dropout.

    Over many keys the library's fused kernel gives the answer of the common ones and the logarithm
    of their sum, to which a query's own key is added.
    """
    own = (q * k).sum(dim=-1, keepdim=True) * scale
    if _predicts_long(q, keys):
        attended, log_sum = FUSED_CPU(q, keys, values, 0.0, False, scale=scale)
        return torch.lerp(attended, v, torch.sigmoid(own - log_sum[..., None]))
    logits = torch.cat([torch.matmul(q, keys.transpose(-1, -2)) * scale, own], dim=-1)
    weights = torch.softmax(logits, dim=-1)
    return torch.matmul(weights[..., :-1], values) + weights[..., -1:] * v


def _predicts_long(q: Tensor, keys: Tensor) -> bool:
    """Whether this is a pass without gradients on a CPU, in one format, over many keys."""
    plain = not torch.is_grad_enabled() and not torch.is_autocast_enabled(q.device.type)
    return plain and q.device.type == "cpu" and keys.shape[2] >= LONG and q.dtype == keys.dtype


def split_heads(x: Tensor, n_heads: int) -> Tensor:  # (B, T, W) -> (B, H, T, W / H)
    """Head m is the contiguous slice m of the width."""
    return x.view(*x.shape[:-1], n_heads, x.shape[-1] // n_heads).transpose(-3, -2)


def join_heads(x: Tensor) -> Tensor:  # (B, H, T, D) -> (B, T, H D)
    """The inverse of `split_heads`."""
    return x.transpose(-3, -2).flatten(-2)
