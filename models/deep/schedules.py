"""Schedules of learning rates and loss weights, as pure functions of the step.

s counts completed steps, so the first step uses s = 0.
"""

from __future__ import annotations

import math

SCHEDULES = ("constant", "flat-cosine", "cosine", "cosine-cyclic", "polynomial")
FLOOR = 1e-7  # where cyclic and polynomial schedules begin or end


def rate(schedule: str, s: int, steps: int, peak: float, share: float = 0.5) -> float:
    """The learning rate of step s + 1.

    flat-cosine: `peak` for the first `share` of the steps, then half a cosine to 0 (NPT, C.1.1).
    cosine: half a cosine from the first step on (Hopular; Loshchilov and Hutter 2017).
    cosine-cyclic: warm-up over `share`, then cycles of twice and four times its length, the second
    with half the peak (NPT, C.1.2). polynomial: warm-up over `share`, then linear to 1e-7.

    DIFF(Kossen 2021, C.1.2): two whole cycles do not fit; training ends half-way through the second
    one at peak / 4, and the flat part's cosine begins one step early, as the authors' code has it.
    """
    warm = share * steps
    if schedule == "constant":
        return peak
    if schedule == "cosine":
        return peak * 0.5 * (1 + math.cos(math.pi * s / steps))
    if schedule == "flat-cosine":
        if s < warm or share >= 1:
            return peak
        return peak * 0.5 * (1 + math.cos(math.pi * (s - warm + 1) / ((1 - share) * steps)))
    if schedule == "cosine-cyclic":
        if s < warm:
            return FLOOR + s * (peak - FLOOR) / warm
        if not warm:
            raise ValueError(
                "schedule cosine-cyclic needs a share over 0: its cycles are its multiples"
            )
        c, period = s - warm, 2 * warm
        i = math.floor(math.log2(1 + c / period))
        t = c - (2**i - 1) * period
        wave = FLOOR + 0.5 * (peak - FLOOR) * (1 + math.cos(math.pi * t / (2**i * period)))
        return wave / 2**i
    if schedule == "polynomial":
        if s < warm:
            return peak * s / warm
        return FLOOR + (peak - FLOOR) * (1 - (s - warm) / (steps - warm))
    raise ValueError(f"unknown schedule {schedule!r}; known: {', '.join(SCHEDULES)}")


def tradeoff(
    schedule: str, s: int, steps: int, start: float = 1.0, proportion: float = 1.0
) -> float:
    """The weight of the feature loss in step s + 1 (NPT, sec. 2.6): `cosine` or `linear` from
    `start` to 0 over `proportion` of the steps, one step late as in the authors' code, or
    `constant`."""
    if schedule == "constant":
        return start
    u, length = max(s - 1, 0), math.ceil(proportion * steps)
    if u > length:
        return 0.0
    if schedule == "cosine":
        return start * 0.5 * (1 + math.cos(math.pi * u / length))
    if schedule == "linear":
        return start * (1 - u / length)
    raise ValueError(f"unknown schedule {schedule!r}; known: constant, cosine, linear")
