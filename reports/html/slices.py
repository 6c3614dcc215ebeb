"""A model's hyperparameters as places on axes, for slice plots."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..output import escape
from .board import all_rounded

GOOD = 0.8  # scores from here on are drawn in colour
LOG = 20  # largest over smallest value of a hyperparameter, from which its scale is logarithmic
ZERO = 0.1  # share of a logarithmic scale that is kept for values of 0
MAX_WORDS = 8  # values of a hyperparameter that is no number; the rarer ones are put together
OTHERS = "others"


@dataclass(frozen=True)
class Scale:
    """The values of a hyperparameter as shares from 0 to 1, NaN where a trial has none.

    words: the values in their order where it is no number, else the ends and the kind of the scale.
    """

    name: str
    places: np.ndarray  # (n,)
    words: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 1.0
    log: int = 0
    start: float = 0.0  # of `low`; below it stands 0 where a logarithmic scale has none

    @classmethod
    def of(cls, name: str, configs: Sequence[Mapping[str, Any]]) -> Scale | None:
        """None for a hyperparameter that does not vary."""
        values = [config.get(name) for config in configs]
        there = np.array([name in config for config in configs])
        known = [value for value, has in zip(values, there, strict=True) if has]
        if known and all(_is_number(value) for value in known):
            numbers = np.array(
                [float(v) if has else math.nan for v, has in zip(values, there, strict=True)]  # type: ignore[arg-type]
            )
            return cls._of_numbers(name, numbers)
        words = [_word(value) for value in known]
        counts = {word: words.count(word) for word in sorted(set(words))}
        if len(counts) < 2:
            return None
        if len(counts) > MAX_WORDS:
            kept = sorted(counts, key=lambda word: (-counts[word], word))[: MAX_WORDS - 1]
            order = [*sorted(kept), OTHERS]
        else:
            order = sorted(counts)
        at = {word: (i + 0.5) / len(order) for i, word in enumerate(order)}
        last = at[order[-1]]
        places = np.array(
            [
                at.get(_word(value), last) if has else math.nan
                for value, has in zip(values, there, strict=True)
            ]
        )
        return cls(name, places, tuple(order))

    @classmethod
    def _of_numbers(cls, name: str, numbers: np.ndarray) -> Scale | None:
        low, high = float(np.nanmin(numbers)), float(np.nanmax(numbers))
        if low == high:
            return None
        above = numbers[numbers > 0]
        log = 10 if low >= 0 and len(above) > 1 and high > LOG * above.min() else 0
        if not log:
            return cls(name, (numbers - low) / (high - low), (), low, high)
        lowest, start = float(above.min()), ZERO if low == 0 else 0.0
        shares = np.log(np.maximum(numbers, lowest) / lowest) / np.log(high / lowest)
        places = np.where(numbers < lowest, 0.0, start + shares * (1.0 - start))
        return cls(name, places, (), lowest, high, log, start)

    def data(self) -> dict[str, Any]:
        """What the script draws it from."""
        low, high, *places = all_rounded([self.low, self.high, *self.places.tolist()], 4)
        return {
            "name": escape.one_line(self.name),
            "places": places,
            "words": [escape.one_line(word) for word in self.words],
            "low": low,
            "high": high,
            "log": self.log,
            "start": self.start,
        }


def scales(configs: Sequence[Mapping[str, Any]]) -> list[Scale]:
    """A scale of each hyperparameter that varies, by name."""
    names = sorted({name for config in configs for name in config})
    return [scale for name in names if (scale := Scale.of(name, configs))]


def kinds(scores: np.ndarray, chosen: np.ndarray) -> list[int]:
    """0 for a trial in grey, 1 for one of the best fifth, 2 for one that validation chose."""
    return [int(kind) for kind in np.where(chosen, 2, scores >= GOOD)]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)
