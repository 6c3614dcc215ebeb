"""How is dropout drawn so that it can be drawn again? From a seed, cheaply, place by place.

torch's own dropout costs about 20 ns an element and CPU thread; the bits here cost 2, and a
backward pass draws them again instead of keeping them. On a GPU the library's own is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

Seed = tuple[int, ...]  # what names a draw: the fit's seed, its step, the place in the network
_AS_INT = {2: torch.int16, 4: torch.int32, 8: torch.int64}


def keep_bits(shape: Sequence[int], p: float, seed: Seed, itemsize: int) -> Tensor:
    """Integers of `itemsize` bytes: all bits set with probability 1 - p (to 2^-31), else 0."""
    n = int(np.prod(shape))
    words = np.random.SFC64(list(seed)).random_raw((n + 1) // 2)
    bits = torch.from_numpy(np.atleast_1d(words).view(np.int32)[:n])
    # uniform on [-2^31, -1]; what stays negative after adding p 2^31 is kept
    bits.bitwise_or_(-(2**31)).add_(round(p * 2**31)).bitwise_right_shift_(31)
    return bits.view(*shape).to(_AS_INT[itemsize])


def drop_(x: Tensor, bits: Tensor) -> Tensor:
    """Zeroes what `bits` do not keep, in place and without scaling; x is contiguous."""
    x.view(bits.dtype).bitwise_and_(bits)
    return x


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float, seed: Seed) -> Tensor:
        ctx.p, ctx.seed = p, seed
        out = x * (1.0 / (1.0 - p))
        return drop_(out, keep_bits(out.shape, p, seed, out.element_size()))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        out = grads[0].contiguous() * (1.0 / (1.0 - ctx.p))
        bits = keep_bits(out.shape, ctx.p, ctx.seed, out.element_size())
        return drop_(out, bits), None, None


def dropout(x: Tensor, p: float, seed: Seed | None) -> Tensor:
    """Inverted dropout; the identity where p is 0 or there is no seed (evaluation)."""
    if not p or seed is None:
        return x
    if x.is_cuda:
        return torch.nn.functional.dropout(x, p)
    return _Dropout.apply(x.contiguous(), p, seed)
