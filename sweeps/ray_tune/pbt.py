"""Perturbation of a configuration for PBT: a step of every number, within its space."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..search.params import Axis, Float, Int, Maybe, Param
from ..search.space import Space, drawn
from ..study import Config

FACTORS = (0.8, 1.2)  # Jaderberg et al. 2017 (arXiv:1711.09846), sec. 4.1 and appendix A
# DIFF(appendix A): a number on a flat range moves by this share of the range; they multiply it.
SHARE = 0.2
RESAMPLE = 0.25  # probability that a number is drawn anew instead


def perturb(
    space: Space,
    config: Mapping[str, Any],
    rng: np.random.Generator,
    *,
    unchanged: Callable[[Config], Any] = lambda config: None,
) -> Config:
    """Another configuration near this one: every Float and Int moves, the rest stays.

    A number on a logarithmic range is multiplied by 0.8 or 1.2, one on a flat range moves by a
    fifth of it, and one in four is drawn anew; none leaves its range. A change that alters
    `unchanged(config)` is not made: the length of a schedule cannot change half-way.
    """
    perturbed = dict(config)
    for name, param in space.params.items():
        inner = param.of if isinstance(param, Maybe) else param
        if name not in perturbed or not isinstance(inner, Float | Int):
            continue
        value = perturbed[name]
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        if isinstance(param, Maybe) and not inner.contains(value):  # it holds its other value
            continue
        changed = {**perturbed, name: _moved(inner, name, value, rng)}
        if unchanged(changed) == unchanged(perturbed):
            perturbed = changed
    return perturbed


def _moved(param: Param, name: str, value: float, rng: np.random.Generator) -> Any:
    numbers = param.write(name, value)

    def draw(axis: Axis) -> float:
        if rng.random() < RESAMPLE:
            return drawn(axis, rng)
        was = numbers[axis.label]
        if axis.log:
            moved = was * rng.choice(FACTORS)
        else:
            moved = was + rng.choice((-SHARE, SHARE)) * (axis.high - axis.low)
        if axis.kind == "int":
            moved = was + max(1, round(abs(moved - was))) * (1 if moved > was else -1)
        return min(max(moved, axis.low), axis.high)

    return param.read(name, draw)
