"""What the script draws: the numbers of a figure, as JSON that stands in the figure's element.

The page's one engine of figures is draw.js. Matplotlib draws those for papers: its SVG needs inline
styles, which the pages' content security policy forbids, and has fixed colours.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..output import escape
from ..output.looks import Look
from .board import all_rounded

DIGITS = 6  # of a number in a figure
SERIES_POINTS = 100  # of a curve


@dataclass(frozen=True)
class Series:
    """A named step curve through points (x, y) with ascending x, its colour and dash, and a band
    around it: [(x, low, high)]."""

    name: str
    points: Sequence[Sequence[float]]
    look: Look
    band: Sequence[Sequence[float]] = ()


@dataclass(frozen=True)
class Row:
    """A named value, its whisker's length on either side (NaN: none), and its colour."""

    name: str
    value: float
    spread: float = math.nan
    look: Look | None = None


def lines(
    series: Sequence[Series],
    *,
    title: str,
    note: str,
    x: str,
    y: str,
    log_x: int = 0,
    straight: bool = False,
) -> dict[str, str]:
    """Curves over one pair of axes, the most important first: steps, or points joined by straight
    lines. `log_x`: its base, or 0."""
    drawn = [
        {
            "name": escape.one_line(one.name),
            "look": one.look,
            "points": [all_rounded(point, DIGITS) for point in one.points],
            **({"band": [all_rounded(p, DIGITS) for p in one.band]} if len(one.band) else {}),
        }
        for one in series
    ]
    return _figure("lines", title, note, series=drawn, x=x, y=y, log=log_x, straight=straight)


def rows(
    values: Sequence[Row], *, title: str, note: str, x: str, whisker: str = "", bars: bool = False
) -> dict[str, str]:
    """A row for each value: a dot with its whisker, or a bar where the values are shares. whisker:
    what its half is, for the note, where a value has one."""
    drawn = []
    for one in values:
        value, spread = all_rounded([one.value, one.spread], DIGITS)
        name = escape.one_line(one.name)
        drawn.append({"name": name, "value": value, "spread": spread or 0, "look": one.look})
    if any(one["spread"] for one in drawn):
        note = f"{note} The whisker is one {whisker} on either side."
    return _figure("rows", title, note, rows=drawn, x=x, bars=bars)


def points(
    pairs: np.ndarray, look: Look, *, title: str, note: str, x: str, y: str
) -> dict[str, str]:
    """A dot for each of `pairs` (n, 2) on two axes of one scale, and the diagonal."""
    drawn = [all_rounded(pair, DIGITS) for pair in pairs.tolist()]
    return _figure("points", title, note, points=drawn, look=look, x=x, y=y)


def thin(points: np.ndarray) -> tuple[tuple[float, float], ...]:
    """The points (x, y) of a step curve where y changes, and its two ends; at most SERIES_POINTS,
    evenly chosen."""
    change = np.append(True, points[1:, 1] != points[:-1, 1])
    change[-1] = True
    return tuple(map(tuple, evenly(points[change], SERIES_POINTS).tolist()))


def evenly(points: np.ndarray, most: int) -> np.ndarray:  # (n, 2) -> (at most `most`, 2)
    """The points, or `most` of them, evenly chosen with both ends."""
    n = len(points)
    return points[np.linspace(0, n - 1, min(n, most)).round().astype(int)]


def _figure(kind: str, title: str, note: str, **numbers: Any) -> dict[str, str]:
    title = escape.one_line(title)
    found = {"kind": kind, "title": title, **numbers}
    text = json.dumps(found, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return {"title": title, "note": note, "drawn": text}
