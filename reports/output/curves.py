"""Figures of curves: PDF by Matplotlib, LaTeX by pgfplots; the same numbers give the same bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from . import escape
from .looks import LIGHT, Look
from .plotting import fixed_style, to_pdf
from .text_width import TEXT_WIDTH_PT, widest, width

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Matplotlib's forms of the dashes in html/draw.js.
DASHES = ("-", (0, (7, 3)), (0, (2, 2)), (0, (9, 3, 2, 3)), (0, (14, 4)), (0, (3, 6)))
LEGEND_PT = 30.0  # of a legend in pgfplots, beside its texts: the lines' samples and the gaps
LEGEND_GAP = 0.03  # between axis and legend, as a share of the axis
POINTS_WIDE_PT, POINTS_HIGH_PT, LABEL_PT = 220.0, 140.0, 7.0  # of a plot of points; its names
NARROWEST, POINTS_AXIS = 0.3, 0.72  # axes, as shares of the line
FEW_PLACES = range(3, 6)  # on an x axis, of which each has a tick


@dataclass(frozen=True)
class Curve:
    """A named line through points (x, y), both (n,); NaN leaves a gap. `look`: its colour and
    dash; `band`: lower and upper ends around y, (n,) each."""

    label: str
    x: np.ndarray
    y: np.ndarray
    look: Look
    band: tuple[np.ndarray, np.ndarray] | None = None


@dataclass(frozen=True)
class Plot:
    """Curves over a logarithmic x. steps: y is constant up to the next point. A plot of single
    points has their names beside them, others a legend."""

    curves: Sequence[Curve]
    title: str
    x: str
    y: str
    steps: bool = False

    @property
    def scattered(self) -> bool:
        """Whether each curve is a single point."""
        return all(len(curve.x) == 1 for curve in self.curves)

    def ticks(self) -> list[float]:
        """The ticks of an x axis: the places of all points where they are few, round numbers on at
        most a decade, which has too few powers of ten; none for a longer one."""
        x = np.concatenate([curve.x for curve in self.curves])
        places = np.unique(x)
        if len(places) in FEW_PLACES and not (self.scattered or self.steps):
            return places.tolist()
        if not 0 < x.min() < x.max() <= 10 * x.min():
            return []
        power = 10.0 ** np.floor(np.log10(x.min()))
        round_ones = power * np.array([1, 1.5, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70])
        hit = round_ones[(round_ones >= x.min()) & (round_ones <= x.max())]
        for step in power / np.array([1, 2, 5, 10, 20, 50, 100]):
            if len(hit) < 3:
                first, last = np.round([x.min() / step, x.max() / step], 6)
                hit = step * np.arange(np.ceil(first), np.floor(last) + 1)
        return hit.tolist() if len(hit) > 2 else []

    def labelled(self, named: Callable[[str], str]) -> list[bool]:
        """Whether each curve, a single point, has its name beside it: a name may cover no other
        name and no other point, and earlier curves go first."""
        x = np.log10([curve.x[0] for curve in self.curves])
        y = np.array([curve.y[0] for curve in self.curves])
        at = [
            (value - value.min()) / (np.ptp(value) or 1.0) * size
            for value, size in ((x, POINTS_WIDE_PT), (y, POINTS_HIGH_PT))
        ]
        places = np.column_stack(at)  # (n_curves, 2), in pt
        boxes: list[np.ndarray] = []
        shown = []
        for i, (curve, place) in enumerate(zip(self.curves, places, strict=True)):
            end = place + (6.0 + widest(named(curve.label)), LABEL_PT / 2)
            box = np.array([place + (4.0, -LABEL_PT / 2), end])
            others = np.delete(places, i, axis=0)
            free = not ((others > box[0] - 2.0) & (others < box[1] + 2.0)).all(axis=1).any()
            free &= not any((box[0] < b[1]).all() and (b[0] < box[1]).all() for b in boxes)
            boxes += [box] * free
            shown.append(free)
        return shown

    def pdf(self, named: Callable[[str], str] = escape.label) -> bytes:
        """As PDF, the legend beside the axes; the title is for the caption. named: what a curve is
        called."""
        with fixed_style():
            return to_pdf(self._drawn(named), self.title)

    def _drawn(self, named: Callable[[str], str] = escape.label) -> Figure:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6.4, max(3.6, 0.17 * len(self.curves) + 0.6)))
        axes = figure.add_axes((0.11, 0.14, 0.57, 0.75))
        beside = self.labelled(named) if self.scattered else []
        for n, curve in enumerate(self.curves):
            axes.plot(
                curve.x,
                curve.y,
                label=named(curve.label),
                color=LIGHT[curve.look[0]],
                linestyle=DASHES[curve.look[1]],
                marker="" if self.steps else ".",
                linewidth=1.2,
                drawstyle="steps-post" if self.steps else "default",
            )
            if curve.band is not None:
                axes.fill_between(
                    curve.x, *curve.band, color=LIGHT[curve.look[0]], alpha=0.12, linewidth=0
                )
            if self.scattered and beside[n]:
                axes.annotate(
                    named(curve.label),
                    (curve.x[0], curve.y[0]),
                    xytext=(4, -2),
                    textcoords="offset points",
                    fontsize=7,
                    parse_math=False,
                )
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
        if ticks := self.ticks():
            axes.set_xticks(ticks)
            axes.minorticks_off()
        axes.set_xlabel(self.x, fontsize=8, parse_math=False)
        axes.set_ylabel(self.y, fontsize=8, parse_math=False)
        axes.tick_params(labelsize=7)
        if not self.scattered:
            legend = axes.legend(
                loc="upper left", bbox_to_anchor=(1.02, 1.0), fontsize=7, frameon=False
            )
            for text in legend.get_texts():
                text.set_parse_math(False)
        return figure

    def pgf(self, named: Callable[[str], str] = escape.label) -> str:
        """As a tikzpicture of pgfplots, in the font of the document. named: what a curve is
        called."""
        names = [escape.latex(named(curve.label)) for curve in self.curves]
        share = POINTS_AXIS if self.scattered else _share_beside(names)
        options = [
            f"width={share:.3g}\\linewidth, height=0.5\\linewidth, font=\\footnotesize, clip=false",
            f"xlabel={{{escape.latex(self.x)}}}, ylabel={{{escape.latex(self.y)}}}",
            "legend pos=outer north east, legend cell align=left",
            "legend style={draw=none, font=\\scriptsize}",
            "xmode=log, log ticks with fixed point, label style={font=\\scriptsize}",
            *(
                ["xtick={" + ", ".join(f"{x:g}" for x in ticks) + "}"]
                if (ticks := self.ticks())
                else []
            ),
            *(["const plot"] if self.steps else []),
            *(["enlarge x limits={upper, value=0.2}"] if self.scattered else []),
        ]
        lines = ["\\begin{tikzpicture}", "\\begin{axis}[" + ",\n  ".join(options) + "]"]
        beside = self.labelled(named) if self.scattered else []
        for n, curve in enumerate(self.curves):
            colour, dash = LIGHT[curve.look[0]], curve.look[1]
            pairs = zip(curve.x.tolist(), curve.y.tolist(), strict=True)
            points = " ".join(f"({x:.6g},{y:.6g})" for x, y in pairs if y == y)
            on = DASHES[dash][1] if dash and not self.scattered else ()
            pattern = " ".join(f"{'off' if i % 2 else 'on'} {w}pt" for i, w in enumerate(on))
            style = f"c{n}, thick" + (f", dash pattern={pattern}" if pattern else "")
            lines += [
                f"\\definecolor{{c{n}}}{{HTML}}{{{colour[1:].upper()}}}",
                *_pgf_band(curve, n),
                f"\\addplot[{style}, mark={'*' if self.scattered else 'none'}] "
                f"coordinates {{{points}}}"
                + (
                    f" node[right, font=\\scriptsize] {{{names[n]}}};"
                    if self.scattered and beside[n]
                    else ";"
                    if self.scattered
                    else f"; \\addlegendentry{{{names[n]}}}"
                ),
            ]
        return "\n".join([*lines, "\\end{axis}", "\\end{tikzpicture}%", ""])


def _pgf_band(curve: Curve, n: int) -> list[str]:
    """The band of a curve as a filled outline."""
    if curve.band is None:
        return []
    low, high = curve.band
    ends = [*zip(curve.x, low, strict=True), *zip(curve.x[::-1], high[::-1], strict=True)]
    outline = " ".join(f"({x:.6g},{y:.6g})" for x, y in ends)
    fill = f"draw=none, fill=c{n}, fill opacity=0.12, mark=none, forget plot"
    return [f"\\addplot[{fill}] coordinates {{{outline}}} -- cycle;"]


def _share_beside(names: Sequence[str]) -> float:
    """The width of an axis, as a share of the line, that leaves room for a legend of these names
    in \\scriptsize."""
    room = TEXT_WIDTH_PT - LEGEND_PT - max(width(name, 7.0) for name in names)
    return max(NARROWEST, room / (1.0 + LEGEND_GAP) / TEXT_WIDTH_PT)
