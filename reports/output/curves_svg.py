"""Figures of curves with a legend, as SVG; the same numbers give the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from . import escape
from .looks import LIGHT, Look, looks_of_others
from .plotting import fixed_style, to_svg

# Matplotlib's forms of the dashes in html/draw.js.
DASHES = ("-", (0, (7, 3)), (0, (2, 2)), (0, (9, 3, 2, 3)), (0, (14, 4)), (0, (3, 6)))


@dataclass(frozen=True)
class Curve:
    """A named line through points (x, y), both (n,); NaN leaves a gap. `look`: its colour and
    dash, by default those of its place; `dashed`: a grey reference line."""

    label: str
    x: np.ndarray
    y: np.ndarray
    look: Look | None = None
    dashed: bool = False


def curves_svg(
    curves: Sequence[Curve],
    title: str,
    x_label: str,
    y_label: str,
    *,
    log_x: bool = False,
    base: int = 2,
) -> str:
    """The curves over one pair of axes as SVG, the legend beside them. `base`: of `log_x`."""
    from matplotlib.figure import Figure

    with fixed_style():
        figure = Figure(figsize=(6.4, max(3.6, 0.17 * len(curves) + 0.6)))
        axes = figure.add_axes((0.11, 0.14, 0.57, 0.75))
        others = looks_of_others([curve.label for curve in curves if not curve.dashed])
        for curve in curves:
            colour, dash = curve.look or others.get(curve.label, (0, 1))
            axes.plot(
                curve.x,
                curve.y,
                label=escape.label(curve.label),
                color="#888888" if curve.dashed else LIGHT[colour],
                linestyle=DASHES[dash],
                marker="" if curve.dashed else ".",
                linewidth=1.2,
            )
        if log_x:
            axes.set_xscale("log", base=base)
            axes.xaxis.set_major_formatter("{x:g}")
        axes.set_title(title, fontsize=9, parse_math=False)
        axes.set_xlabel(x_label, fontsize=8, parse_math=False)
        axes.set_ylabel(y_label, fontsize=8, parse_math=False)
        axes.tick_params(labelsize=7)
        legend = axes.legend(
            loc="upper left", bbox_to_anchor=(1.02, 1.0), fontsize=7, frameon=False
        )
        for text in legend.get_texts():
            text.set_parse_math(False)
        return to_svg(figure, title)
