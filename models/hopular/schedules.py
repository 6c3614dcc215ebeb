"""Schedules of Hopular's feature-loss weight and learning rate by epoch.

k counts completed epochs, so the first epoch uses k = 0. Beyond the period both keep their end.
"""

from __future__ import annotations

import math

SCHEDULES = ("cosine", "constant")


def gamma(
    k: int, period: int, start: float = 1.0, end: float = 0.0, *, warmup: float = 0.0
) -> float:
    """Weight of the feature loss in epoch k (Schaefl et al. 2022, eq. 10): half a cosine from
    `start` to `end`, after a share of `warmup` at `start`."""
    flat = int(warmup * period)
    first = max(flat, 1)
    if k < first:
        return start
    part = min(1.0, (k - first + 1) / (period - flat))
    return end + 0.5 * (start - end) * (1 + math.cos(math.pi * part))


def rate(
    k: int, period: int, peak: float, *, warmup: float = 0.0, schedule: str = "cosine"
) -> float:
    """Learning rate of epoch k: half a cosine to 0, after a share of `warmup` at `peak`. As in the
    authors' code it is one epoch ahead of `gamma`, so that the last epoch has rate 0.

    DIFF(Schaefl 2022, Table A.6): the paper names one rate for all experiments and no schedule of
    it, which is `constant`; the default is that of the authors' code.
    """
    if schedule == "constant":
        return peak
    flat = int(warmup * period)
    if k < flat:
        return peak
    part = min(1.0, (k - flat + 1) / math.ceil((1 - warmup) * period))
    return peak * 0.5 * (1 + math.cos(math.pi * part))
