"""Critical-difference diagrams (Demsar 2006, fig. 1) as TikZ and PDF.

One layout of lines and texts, in points from the top left, and two writers of it: TikZ is text,
the PDF comes from Matplotlib. The same ranking matrix gives the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..aggregation.rank_tests import nemenyi_difference, nemenyi_groups
from ..aggregation.ranking_matrix import RankingMatrix
from ..output import escape, plotting
from ..output.text_width import TEXT_WIDTH_PT, widest

SIZE = 8.0  # of the texts in TikZ, pt
PDF_SIZE = 7.0  # of the texts in PDF, pt; DejaVu Sans is wider than Computer Modern
AXIS_WIDTH = 130.0  # of the axis, at least
MARGIN = 5.0  # beside the axis, for half of a tick's number
ROW = 12.0  # height of a label's line
FOOT = 8.0  # of a line from a rank to its label
SPACE = 3.0  # between this line and the label
THIN = 0.4  # of the lines from ranks to labels
BAR = 5.0  # between two bars of groups
MAX_TICKS = 12


@dataclass(frozen=True)
class Line:
    """A straight line from (x1, y1) to (x2, y2), `width` pt thick."""

    x1: float
    y1: float
    x2: float
    y2: float
    width: float = 0.6


@dataclass(frozen=True)
class Text:
    """A text whose left end, middle or right end (`anchor`) is at (x, y), centred in height."""

    x: float
    y: float
    text: str
    anchor: str = "center"


@dataclass(frozen=True)
class Drawing:
    """Lines and texts on a sheet of width by height pt."""

    width: float
    height: float
    lines: tuple[Line, ...]
    texts: tuple[Text, ...]
    title: str


# --- the layout -----------------------------------------------------------------------------------


def diagram(matrix: RankingMatrix, named: Callable[[str], str] = escape.label) -> Drawing:
    """Models on an axis of mean ranks, the best on the left. Bars join models that do not differ
    significantly by Nemenyi's test; the critical difference is drawn above the axis. The models'
    names (`named`) are below the axis, the better half left of their ranks and the other half right
    of them: in a column each where there is room beside the best and the worst rank, else at the
    ranks' own lines, so that the axis can take the full width."""
    models, mean = matrix.order()
    found = nemenyi_groups(matrix)
    difference = nemenyi_difference(matrix)
    labels = [f"{named(m)} {r:.2f}" for m, r in zip(models, mean, strict=True)]
    k, half = len(models), math.ceil(len(models) / 2)
    needs = [widest(label) + FOOT + SPACE for label in labels]  # pt beside a rank
    placed = [((rank - 1.0) / (k - 1.0), need) for rank, need in zip(mean, needs, strict=True)]
    axis, start = _axis(placed[:half], placed[half:])
    top = 40.0  # of the axis

    def at(rank: float) -> float:
        return start + axis * (rank - 1.0) / (k - 1.0)

    ends = [start + axis * place + need for place, need in placed[half:]]
    sheet = round(max(at(k) + MARGIN, *ends), 6)
    columns = max(at(mean[0]), max(needs[:half])), min(at(mean[-1]), sheet - max(needs[half:]))
    end = min(at(1.0 + difference), sheet - 2.0)
    lines = [Line(at(1), 16, end, 16, 1.0), Line(at(1), 13, at(1), 19), Line(end, 13, end, 19)]
    above = f"critical difference {difference:.2f}"
    middle = min(max((at(1) + end) / 2, widest(above) / 2), sheet - widest(above) / 2)
    texts = [Text(middle, 7, above)]
    lines.append(Line(at(1), top, at(k), top, 0.8))
    step = math.ceil(k / MAX_TICKS)
    for tick in range(1, k + 1):
        marked = (tick - 1) % step == 0
        lines.append(Line(at(tick), top - (5 if marked else 3), at(tick), top))
        if marked:
            texts.append(Text(at(tick), top - 10, str(tick)))
    levels = _levels([(at(mean[a]) - 2, at(mean[b]) + 2) for a, b in found])
    for (a, b), level in zip(found, levels, strict=True):
        y = top + 6 + BAR * level
        lines.append(Line(at(mean[a]) - 2, y, at(mean[b]) + 2, y, 2.4))
    first = top + 6 + BAR * (max(levels, default=-1) + 1) + 8
    for i, (label, rank) in enumerate(zip(labels, mean, strict=True)):
        y = first + ROW * (i if i < half else k - 1 - i)
        if i < half:
            x, side = min(at(rank), columns[0]) - FOOT, "right"
        else:
            x, side = max(at(rank), columns[1]) + FOOT, "left"
        lines += [Line(at(rank), top, at(rank), y, THIN), Line(at(rank), y, x, y, THIN)]
        texts.append(Text(x + math.copysign(SPACE, x - at(rank)), y, label, side))
    title = f"Mean ranks of {k} models on {len(matrix.datasets)} datasets"
    height = first + ROW * half
    return Drawing(sheet, height, tuple(lines), tuple(texts), title)


def _axis(
    left: Sequence[tuple[float, float]], right: Sequence[tuple[float, float]]
) -> tuple[float, float]:
    """(length, start) of the axis in pt: the longest that fits an article, and at
    least AXIS_WIDTH.

    `left` and `right` are (place on the axis from 0 to 1, pt that line and name need beside it) of
    the models with their names on this side.
    """
    before = [(0.0, MARGIN), *left]
    after = [(1.0, MARGIN), *right]
    length = min(
        (TEXT_WIDTH_PT - n - m) / (q - p) for p, n in before for q, m in after if q - p > 1e-9
    )
    length = max(AXIS_WIDTH, length)
    return length, max(need - length * place for place, need in before)


def _levels(bars: Sequence[tuple[float, float]]) -> list[int]:
    """The lowest level of each bar (start, end), from left to right, where it overlaps no other."""
    ends: list[float] = []
    levels = []
    for start, end in bars:
        free = (i for i, last in enumerate(ends) if last + 3.0 < start)
        level = next(free, len(ends))
        ends[level : level + 1] = [end]
        levels.append(level)
    return levels


# --- the writers ----------------------------------------------------------------------------------


def to_pdf(drawing: Drawing) -> bytes:
    """The drawing as PDF."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    with plotting.fixed_style():
        w, h = drawing.width, drawing.height
        figure = Figure(figsize=(w / 72.0, h / 72.0))
        for one in drawing.lines:
            x, y = [one.x1 / w, one.x2 / w], [1 - one.y1 / h, 1 - one.y2 / h]
            style = "butt" if one.width > 1 else "projecting"
            figure.add_artist(
                Line2D(x, y, lw=one.width, color="black", solid_capstyle=style)  # type: ignore[arg-type]
            )
        for t in drawing.texts:
            text = figure.text(t.x / w, 1 - t.y / h, t.text, parse_math=False)
            text.set(ha=t.anchor, va="center", fontsize=PDF_SIZE)
        return plotting.to_pdf(figure, drawing.title)


def to_tikz(drawing: Drawing) -> str:
    """A tikzpicture for \\input, scaled to an article's text width; needs \\usepackage{tikz}."""
    scale = min(1.0, math.floor(1000 * TEXT_WIDTH_PT / drawing.width) / 1000)
    smaller = f", scale={scale:.3f}, transform shape" if scale < 1.0 else ""
    parts = [
        "% Made by tabsweep. Needs \\usepackage{tikz} in the preamble.",
        f"% {drawing.title}.",
        f"\\begin{{tikzpicture}}[x=1pt, y=-1pt, font=\\fontsize{{{SIZE:g}}}{{{SIZE + 1:g}}}"
        f"\\selectfont{smaller}]",
        f"  \\path (0,0) rectangle ({drawing.width:.2f},{drawing.height:.2f});",
    ]
    for one in drawing.lines:
        ends = f"({one.x1:.2f},{one.y1:.2f}) -- ({one.x2:.2f},{one.y2:.2f})"
        parts.append(f"  \\draw[line width={one.width:g}pt] {ends};")
    anchors = {"left": "west", "center": "center", "right": "east"}
    for t in drawing.texts:
        where = f"[anchor={anchors[t.anchor]}, inner sep=0pt] at ({t.x:.2f},{t.y:.2f})"
        parts.append(f"  \\node{where} {{{escape.latex(t.text)}}};")
    return "\n".join([*parts, "\\end{tikzpicture}%", ""])
