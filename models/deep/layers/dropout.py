"""Dropout whose draws are named by a seed, so that a backward pass may draw them again.

A draw takes 16 random bits an element. On a GPU the library's own dropout is used.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

Seed = tuple[int, ...]  # what names a draw: the fit's seed, its step, the place in the network


def kept(like: Tensor, p: float, seed: Seed) -> Tensor:
    """A mask for a tensor of this shape: 1 where an element is kept, 0 where it is dropped, which
    happens to each alone with probability p (to 16 bits)."""
    n = like.numel()
    drawn = np.random.SFC64(list(seed)).random_raw(-(-n // 4)).view(np.uint16)[:n]
    mask = torch.from_numpy(drawn >= np.uint16(min(round(p * 2**16), 2**16 - 1)))
    return mask.view(like.shape).to(device=like.device, dtype=like.dtype)


def dropout(x: Tensor, p: float, seed: Seed | None) -> Tensor:
    """Inverted dropout; the identity where p is 0 or there is no seed (evaluation)."""
    if not p or seed is None:
        return x
    if x.is_cuda:
        return torch.nn.functional.dropout(x, p)
    return x * kept(x, p, seed).mul_(1.0 / (1.0 - p))
