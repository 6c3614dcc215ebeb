"""Slice plots and parallel coordinates of a model's configurations, as SVG in the pages' style."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..output import escape
from .charts import Axis, number, px, svg, text

GOOD = 0.8  # scores from here on are drawn in colour
LOG = 20  # largest over smallest value of a hyperparameter, from which its scale is logarithmic
ZERO = 0.1  # share of a logarithmic scale that is kept for values of 0
MAX_WORDS = 8  # values of a hyperparameter that is no number; the rarer ones are put together
OTHERS = "others"
WIDTH, HEIGHT, LEFT, TOP, FLOOR = 300, 210, 34, 10, 168
SPAN, ABOVE, BELOW = 460, 56, 250  # of the parallel coordinates
SHIFTS = 7  # places beside each other for points with the same word


@dataclass(frozen=True)
class Trials:
    """Configurations with a score each: 1 is the best of its study, 0 the worst; chosen: whether
    validation chose it."""

    configs: Sequence[Mapping[str, Any]]
    scores: np.ndarray  # (n,)
    chosen: np.ndarray  # (n,) of bool

    def kinds(self) -> list[tuple[str, np.ndarray]]:  # [(class, mask (n,))]
        """The points by the class of the style sheet that they are drawn in, the last on top."""
        good = self.scores >= GOOD
        return [
            ("poor", ~good & ~self.chosen),
            ("good", good & ~self.chosen),
            ("picked", self.chosen),
        ]


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
            low, high = float(np.nanmin(numbers)), float(np.nanmax(numbers))
            if low == high:
                return None
            above = numbers[numbers > 0]
            log = 10 if low >= 0 and len(above) > 1 and high > LOG * above.min() else 0
            lowest = float(above.min()) if log else low
            start = ZERO if log and low == 0 else 0.0
            places: np.ndarray = np.where(there, 0.0, math.nan)
            inside = there & (numbers >= lowest)
            axis = Axis(lowest, high, start, 1.0, log)
            places[inside] = axis.places(numbers[inside].tolist())
            return cls(name, places, (), lowest, high, log, start)
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


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def scales(configs: Sequence[Mapping[str, Any]]) -> list[Scale]:
    """A scale of each hyperparameter that varies, by name."""
    names = sorted({name for config in configs for name in config})
    return [scale for name in names if (scale := Scale.of(name, configs))]


def slice_plot(scale: Scale, trials: Trials, *, y: str) -> str:
    """The score of each trial against the value of one hyperparameter."""
    floor, right = FLOOR, WIDTH - 10
    up = Axis(0.0, 1.0, floor - 6, TOP)
    parts = []
    for value in (0.0, 0.5, 1.0):
        at = px(up.at(value))
        parts.append(f'<path class="grid" d="M{LEFT} {at}H{right}"/>')
        tick = px(up.at(value) + 4)
        parts.append(f'<text class="tick end" x="{LEFT - 5}" y="{tick}">{value:g}</text>')
    across = Axis(0.0, 1.0, LEFT + 8, right - 6)
    parts += _marks(scale, across, floor)
    parts.append(f'<path class="base" d="M{LEFT} {floor}H{right}"/>')
    shift: np.ndarray = np.zeros(len(trials.scores))
    if scale.words:
        wide = (across.end - across.start) / len(scale.words) / (SHIFTS + 1)
        shift = (np.arange(len(shift)) % SHIFTS - SHIFTS // 2) * wide
    known = ~np.isnan(scale.places)
    xs = across.start + scale.places * (across.end - across.start) + shift
    ys = up.places(trials.scores.tolist())
    for kind, mask in trials.kinds():
        path = _dots(xs[mask & known], ys[mask & known])
        parts.append(f'<path class="dots {kind}" d="{path}"/>' if path else "")
    n = int(known.sum())
    spoken = f"{escape.label(scale.name)}: {y} of {n} trials against its value."
    return svg(parts, HEIGHT, spoken, width=WIDTH, kind="chart small")


def _dots(xs: np.ndarray, ys: np.ndarray) -> str:
    pairs = zip(_whole(xs), _whole(ys), strict=True)
    return "".join(f"M{x} {y}h0" for x, y in pairs)


def _whole(values: np.ndarray) -> list[str]:
    return [f"{value:.0f}" for value in values.tolist()]


def _marks(scale: Scale, across: Axis, floor: float) -> list[str]:
    """Ticks and their labels below the line."""
    if scale.words:
        room = (across.end - across.start) / len(scale.words)
        ticks = [((i + 0.5) / len(scale.words), word) for i, word in enumerate(scale.words)]
        letters = max(3, int(room / 6))
        return [
            f'<text class="tick mid" x="{px(across.start + at * (across.end - across.start))}" '
            f'y="{floor + 16}">{text(_cut(word, letters))}</text>'
            for at, word in ticks
        ]
    start = across.start + scale.start * (across.end - across.start)
    inner = Axis(scale.low, scale.high, start, across.end, scale.log)
    ticks_at = inner.ticks()
    zero = f'<text class="tick mid" x="{px(across.start)}" y="{floor + 16}">0</text>'
    return ([zero] if scale.start else []) + [
        f'<text class="tick mid" x="{px(inner.at(value))}" y="{floor + 16}">{number(value)}</text>'
        for value in ticks_at[:: math.ceil(len(ticks_at) / 5)]
    ]


def parallel(found: Sequence[Scale], trials: Trials, *, y: str) -> str:
    """A line for each trial across the axes of the hyperparameters and, at the right, its score.

    Only trials that have all of them.
    """
    axes = [*found, Scale(y, trials.scores)]
    known = ~np.isnan(np.column_stack([axis.places for axis in axes])).any(axis=1)
    left, right = 46, SPAN - 40
    places = np.linspace(left, right, len(axes))
    letters = max(6, int(2 * (right - left) / max(1, len(axes) - 1) / 5.6) - 1)
    heights = np.column_stack(
        [BELOW - axis.places * (BELOW - ABOVE) for axis in axes]
    )  # (n_trials, n_axes)
    xs = _whole(places)
    parts = []
    for kind, mask in trials.kinds():
        for line in heights[mask & known]:
            path = "L".join(f"{x} {h}" for x, h in zip(xs, _whole(line), strict=True))
            parts.append(f'<path class="thread {kind}" d="M{path}"/>')
    for i, axis in enumerate(axes):
        x = px(float(places[i]))
        parts.append(f'<path class="base" d="M{x} {ABOVE}V{BELOW}"/>')
        name = text(_cut(axis.name, letters))
        parts.append(f'<text class="axis mid" x="{x}" y="{16 + 15 * (i % 2)}">{name}</text>')
        for at, label in _ends(axis):
            height = px(BELOW - at * (BELOW - ABOVE) + (3 if axis.words else 14 if at == 0 else -5))
            side = (
                f'class="tick mid" x="{x}"'
                if not axis.words
                else (f'class="tick" x="{px(float(places[i]) + 4)}"')
            )
            parts.append(f'<text {side} y="{height}">{text(label)}</text>')
    spoken = f"{int(known.sum())} trials across {', '.join(escape.label(a.name) for a in axes)}."
    return svg(parts, BELOW + 24, spoken, width=SPAN, kind="chart threads")


def _cut(name: str, letters: int) -> str:
    shown = escape.one_line(name)
    return shown if len(shown) <= letters else shown[: letters - 1] + "…"


def _ends(axis: Scale) -> list[tuple[float, str]]:
    """[(share, label)] along an axis: its words, or its two ends."""
    if axis.words:
        n = len(axis.words)
        return [((i + 0.5) / n, _cut(word, 9)) for i, word in enumerate(axis.words)]
    return [(0.0, number(0.0 if axis.start else axis.low)), (1.0, number(axis.high))]
