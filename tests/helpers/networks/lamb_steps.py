"""What a step of LAMB did to one tensor, measured from the weights before and after it."""

from __future__ import annotations

import numpy as np
import torch
from tabsweep.models.deep.optimisers import CAP, Lamb

KINDS = ("weight_norm", "adam_norm", "trust_ratio")


def measured(
    lamb: Lamb, p: torch.Tensor, before: torch.Tensor, weight_decay: float
) -> dict[str, float]:
    """The capped norm of the weights, that of the direction r, and the trust ratio, by which the
    step is longer than rate x |r|. Where r is 0 the ratio cannot be seen: NaN."""
    state, (group,) = lamb.state[p], lamb.param_groups
    r = state["exp_avg"] / (state["exp_avg_sq"].sqrt() + group["eps"]) + weight_decay * before
    length, rate = float((before - p.detach()).norm()), lamb._lr(p, group)
    norm = float(r.norm())
    ratio = length / (rate * norm) if norm else np.nan
    return dict(zip(KINDS, (min(float(before.norm()), CAP), norm, ratio), strict=True))
