"""Small SVG figures inside the HTML pages: lines, dots with whiskers, and bars.

They are not drawn by Matplotlib: its SVG needs inline styles, which the pages' content security
policy forbids, has fixed colours, and is 14 times as large and 100 times as slow to draw (a report
on 25 datasets has 77 of these figures). Here colours come from the
classes c0 to c9 of the style sheet and follow the light or dark scheme; every series also has its
own dash pattern or a label, so that none is identified by colour alone. All texts are escaped.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..output import escape

WIDTH = 460  # so that the text can be read on a telephone, where it is scaled by .8
LEFT, RIGHT, TOP, BOTTOM = 56, 152, 12, 40
NAME = 20  # characters of a name
LONGEST, LETTER = 22, 6.7  # characters of a name beside a curve; pixels of one
KEY = 16  # pixels of a line beside its name
MAX_COLOURED = 10  # series with a colour; the others are thin and grey
MAX_LABELLED = 16  # series with a label; there is no room for more
ROW = 22  # pixels of a row of dots or bars


@dataclass(frozen=True)
class Series:
    """A named series of points (x, y) with ascending x."""

    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Dot:
    """A named value with the length of its whisker on either side (0: none)."""

    name: str
    value: float
    spread: float = 0.0


@dataclass(frozen=True)
class Axis:
    """A scale from values to pixels, with its ticks."""

    low: float
    high: float
    start: float
    end: float
    log: int = 0  # base of the logarithm, 2 or 10; 0: a linear scale

    @cached_property
    def _ends(self) -> tuple[float, float]:
        if self.log:
            return math.log10(self.low), math.log10(self.high)
        return self.low, self.high

    def at(self, value: float) -> float:
        """The pixel of the value."""
        return float(self.places([value])[0])

    def places(self, values: Sequence[float]) -> np.ndarray:
        """The pixels of the values."""
        low, high = self._ends
        if self.log:
            values = [math.log10(value) for value in values]
        shares = (np.asarray(values) - low) / (high - low) if high > low else len(values) * [0.5]
        return self.start + np.asarray(shares) * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Round values on the scale: about five; powers of the base where it is logarithmic."""
        if not self.log:
            return _round_ticks(self.low, self.high)
        lowest, highest = (math.log(v, self.log) for v in (self.low, self.high))
        powers = range(math.floor(lowest), math.ceil(highest) + 1)
        for steps in ((1,), (1, 3), (1, 2, 5)) if self.log == 10 else ((1,),):
            found = [s * float(self.log) ** p for p in powers for s in steps]
            found = [v for v in found if self.low * 0.999 <= v <= self.high * 1.001]
            if len(found) >= 3:
                return found[:: math.ceil(len(found) / 8)]
        return found or [self.low]


def _round_ticks(low: float, high: float, about: int = 5) -> list[float]:
    if not high > low:
        return [low]
    raw = (high - low) / about
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(s * power for s in (1, 2, 2.5, 5, 10) if s * power >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [i * step for i in range(first, last + 1)]


def lines(series: Sequence[Series], *, title: str, x: str, y: str, log_x: int = 0) -> str:
    """Step curves over one pair of axes, the most important first; beside each name a piece of its
    line, near the curve's end. (A leader from the curve to the name would read as data.)"""
    points = [p for line in series for p in line.points]
    height = 300
    xs, ys = [p[0] for p in points], [p[1] for p in points]
    log = log_x if min(xs) > 0 and max(xs) > min(xs) else 0
    labelled = series[:MAX_LABELLED]
    names = [escape.label(line.name, LONGEST) for line in labelled]
    right = WIDTH - max(RIGHT, round(KEY + 16 + LETTER * max(map(len, names))))
    across = Axis(min(xs), max(xs), LEFT, right, log)
    pad = 0.04 * (max(ys) - min(ys)) or 0.5 * abs(ys[0]) or 0.5
    up = Axis(min(ys) - pad, max(ys) + pad, height - BOTTOM, TOP)
    parts = [*_frame(across, up, x, y, height)]
    for line in series[MAX_LABELLED:]:
        path = _path(line, across, up)
        parts.append(f'<path class="rest" d="{path}"><title>{text(line.name)}</title></path>')
    for number, line in reversed(list(enumerate(labelled))):
        path = _path(line, across, up)
        name = f"<title>{text(line.name)}</title>"
        kind = f"line c{number}" if number < MAX_COLOURED else "rest"
        parts.append(f'<path class="{kind}" d="{path}">{name}</path>')
    ends = [up.at(line.points[-1][1]) for line in labelled]
    for number, (line, top) in enumerate(zip(labelled, _apart(ends, height), strict=True)):
        end_x, end_y = across.at(line.points[-1][0]), up.at(line.points[-1][1])
        left = right + 8
        kind = f"fill c{number}" if number < MAX_COLOURED else "end-of-rest"
        parts.append(f'<circle class="{kind}" cx="{px(end_x)}" cy="{px(end_y)}" r="3"/>')
        kind = f"line c{number}" if number < MAX_COLOURED else "rest"
        parts.append(f'<path class="key {kind}" d="M{left} {px(top)}h{KEY}"/>')
        label = text(names[number])
        parts.append(f'<text class="name" x="{left + KEY + 4}" y="{px(top + 4)}">{label}</text>')
    return svg(parts, height, f"{title}. {_spoken(series)}")


def dots(values: Sequence[Dot], *, title: str, x: str) -> str:
    """One row per name: a dot, and a whisker of length `spread` on either side."""
    height = ROW * len(values) + BOTTOM + TOP
    ends = [v.value + side * v.spread for v in values for side in (-1, 1)]
    pad = 0.05 * (max(ends) - min(ends)) or 0.5 * abs(ends[0]) or 0.5
    across = Axis(min(ends) - pad, max(ends) + pad, RIGHT + 10, WIDTH - 12)
    parts = _across(across, x, height)
    for number, dot in enumerate(values):
        y = TOP + ROW * (number + 0.5)
        label = text(escape.label(dot.name, NAME))
        parts.append(f'<text class="name end" x="{RIGHT}" y="{px(y + 4)}">{label}</text>')
        if dot.spread:
            left, right = across.at(dot.value - dot.spread), across.at(dot.value + dot.spread)
            parts.append(f'<path class="whisker" d="M{px(left)} {px(y)}H{px(right)}"/>')
        parts.append(
            f'<circle class="fill c0" cx="{px(across.at(dot.value))}" cy="{px(y)}" r="4"/>'
        )
    spoken = "; ".join(f"{dot.name} {dot.value:.4g}" for dot in values)
    return svg(parts, height, f"{title}. {spoken}.")


def bars(values: Sequence[Dot], *, title: str, x: str) -> str:
    """One row per name: a bar from 0 with its value at the end. Values are shares from 0 to 1."""
    height = ROW * len(values) + BOTTOM + TOP
    across = Axis(0.0, 1.0, RIGHT + 10, WIDTH - 52)
    parts = _across(across, x, height)
    for number, bar in enumerate(values):
        top = TOP + ROW * number + 4
        wide = max(0.0, across.at(bar.value) - across.start)
        label = text(escape.label(bar.name, NAME))
        parts.append(f'<text class="name end" x="{RIGHT}" y="{top + 11}">{label}</text>')
        parts.append(
            f'<rect class="fill c0" x="{RIGHT + 10}" y="{top}" width="{px(wide)}" '
            f'height="{ROW - 8}" rx="2"/>'
        )
        left = across.start + wide + 6
        parts.append(f'<text class="tick" x="{px(left)}" y="{top + 11}">{bar.value:.2f}</text>')
    spoken = "; ".join(f"{bar.name} {bar.value:.2f}" for bar in values)
    return svg(parts, height, f"{title}. {spoken}.")


# --- pieces ---------------------------------------------------------------------------------------


def _frame(across: Axis, up: Axis, x: str, y: str, height: int) -> list[str]:
    parts = []
    for value in up.ticks():
        at = up.at(value)
        parts.append(f'<path class="grid" d="M{LEFT} {px(at)}H{px(across.end)}"/>')
        parts.append(
            f'<text class="tick end" x="{LEFT - 6}" y="{px(at + 4)}">{number(value)}</text>'
        )
    middle = px((TOP + height - BOTTOM) / 2)
    parts.append(
        f'<text class="axis mid" transform="rotate(-90 12 {middle})" x="12" y="{middle}">'
        f"{text(y)}</text>"
    )
    return parts + _across(across, x, height, grid=False)


def _across(across: Axis, x: str, height: int, grid: bool = True) -> list[str]:
    floor = height - BOTTOM
    parts = [f'<path class="base" d="M{px(across.start)} {floor}H{px(across.end)}"/>']
    for value in across.ticks():
        at = px(across.at(value))
        parts.append(f'<path class="grid" d="M{at} {TOP}V{floor}"/>' if grid else "")
        parts.append(f'<text class="tick mid" x="{at}" y="{floor + 16}">{number(value)}</text>')
    middle = px((across.start + across.end) / 2)
    parts.append(f'<text class="axis mid" x="{middle}" y="{floor + 33}">{text(x)}</text>')
    return parts


def _path(line: Series, across: Axis, up: Axis) -> str:
    """The SVG path of a step curve: a value holds until the next point."""
    xs = all_px(across.places([x for x, _ in line.points]).tolist())
    ys = all_px(up.places([y for _, y in line.points]).tolist())
    steps = zip(xs[1:], ys[1:], ys[:-1], strict=True)
    return f"M{xs[0]} {ys[0]}" + "".join([f"H{x}V{y}" if y != b else f"H{x}" for x, y, b in steps])


def _apart(tops: Sequence[float], height: int, gap: float = 15.0) -> list[float]:
    """The heights, moved so that labels are at least `gap` apart, in the same order."""
    order = sorted(range(len(tops)), key=lambda i: (tops[i], i))
    placed = list(tops)
    floor = height - BOTTOM + 6.0
    for rank, i in enumerate(order):
        lowest = TOP if rank == 0 else placed[order[rank - 1]] + gap
        placed[i] = max(tops[i], lowest)
    for rank, i in reversed(list(enumerate(order))):
        most = floor - gap * (len(order) - 1 - rank)
        placed[i] = min(placed[i], most)
    return placed


def _spoken(series: Sequence[Series]) -> str:
    """The last value of each line, for screen readers."""
    said = [f"{line.name} {line.points[-1][1]:.4g}" for line in series[:MAX_LABELLED]]
    more = len(series) - MAX_LABELLED
    return "At the end: " + "; ".join(said) + (f"; and {more} more." if more > 0 else ".")


def svg(
    parts: Sequence[str], height: int, spoken: str, *, width: int = WIDTH, kind: str = "chart"
) -> str:
    """The figure of these parts; `spoken`: what a screen reader says of it."""
    body = "".join(parts)
    return (
        f'<svg class="{kind}" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{text(spoken)}">{body}</svg>'
    )


def text(words: str) -> str:
    """A text on one line, invisible characters shown, escaped for HTML."""
    return html.escape(escape.one_line(words))


def px(value: float) -> str:
    """A coordinate with one decimal at most."""
    return all_px([value])[0]


def all_px(values: Iterable[float]) -> list[str]:
    """`px` of many values."""
    numbers = tuple(values)
    text = (len(numbers) * " %.1f") % numbers + " "
    return [n if n != "-0" else "0" for n in text.replace(".0 ", " ").split()]


def number(value: float) -> str:
    """A tick's label: four digits, an exponent only for very large and very small values."""
    size = abs(value)
    if size and (size >= 1e5 or size < 1e-3):
        return f"{value:.0e}".replace("e+0", "e").replace("e-0", "e−").replace("-", "−")
    return f"{value:.4g}".replace("-", "−")
