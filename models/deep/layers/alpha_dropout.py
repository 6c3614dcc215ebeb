"""Alpha dropout, which keeps mean and variance of SELU's outputs (Klambauer et al. 2017)."""

from __future__ import annotations

from torch import Tensor

from .dropout import Seed, dropout

LOW = -1.7580993408473766  # what SELU goes to for very negative values: -lambda alpha


def alpha_dropout(x: Tensor, p: float, seed: Seed | None) -> Tensor:
    """Sets elements to `LOW` with probability p, then scales and shifts all, so that mean 0 and
    variance 1 stay so (Klambauer et al. 2017, sec. 3); the identity where `dropout` is it."""
    if not p or seed is None:
        return x
    scale = ((1 - p) * (1 + p * LOW**2)) ** -0.5
    kept = dropout(x - LOW, p, seed)  # over LOW, by 1 / (1 - p) too large
    return kept * (scale * (1 - p)) + scale * LOW * (1 - p)
