"""A figure of pairwise wins: LaTeX by TikZ, PDF by Matplotlib, of the same numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from . import escape
from .looks import LIGHT
from .plotting import fixed_style, to_pdf
from .text_width import TEXT_WIDTH_PT, widest, width

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOUR = LIGHT[4]
DARKEST = 0.45  # share of the colour that a cell of all wins has


@dataclass(frozen=True)
class Wins:
    """How often the model of a row beats that of a column: shares (k, k) of the datasets."""

    models: Sequence[str]
    shares: np.ndarray

    title = "Pairwise wins"

    def pdf(self, named: Callable[[str], str] = escape.label) -> bytes:
        """As PDF, without a title, which is for the caption. named: what a model is called."""
        with fixed_style():
            return to_pdf(self._drawn(named), self.title)

    def _drawn(self, named: Callable[[str], str] = escape.label) -> Figure:
        from matplotlib.colors import LinearSegmentedColormap
        from matplotlib.figure import Figure

        k = len(self.models)
        shown = np.where(np.eye(k, dtype=bool), np.nan, self.shares)
        heads = [f"({i + 1})" for i in range(k)]
        names = [f"{h} {named(m)}" for h, m in zip(heads, self.models, strict=True)]
        left = max(1.9, 0.1 + max(map(widest, names)) / 72)  # inches
        wide, high = left + 0.1 + 0.36 * k, 0.3 + 0.25 * k  # .25 for heads
        figure = Figure(figsize=(wide, high))
        axes = figure.add_axes((left / wide, 0.02, 0.36 * k / wide, 0.25 * k / high - 0.02))
        colours = LinearSegmentedColormap.from_list("wins", ["#ffffff", COLOUR])
        axes.imshow(shown, cmap=colours, vmin=0.0, vmax=1.0 / DARKEST, aspect="auto")
        for i, j in np.argwhere(~np.isnan(shown)).tolist():
            axes.text(j, i, f"{100 * shown[i, j]:.0f}", ha="center", va="center", fontsize=7)
        axes.set_xticks(range(k), heads, fontsize=7)
        axes.set_yticks(range(k), names, fontsize=7, parse_math=False)
        axes.tick_params(length=0, top=False, labeltop=True, labelbottom=False)
        return figure

    def pgf(self, named: Callable[[str], str] = escape.label) -> str:
        """As a tikzpicture, in the font of the document. named: what a model is called."""
        names = [f"({i + 1}) {escape.latex(named(m))}" for i, m in enumerate(self.models)]
        left = (max(width(name, 7.0) for name in names) + 6.0) / TEXT_WIDTH_PT
        cell = min(0.055, (1.0 - left) / len(names))
        lines = [
            f"\\begin{{tikzpicture}}[x={cell:.3g}\\linewidth, y=-2.6ex, font=\\scriptsize]",
            f"\\definecolor{{wins}}{{HTML}}{{{COLOUR[1:].upper()}}}",
        ]
        for i, name in enumerate(names):
            lines.append(
                f"\\node[left] at (-0.5,{i}) {{{name}}}; \\node at ({i},-1) {{({i + 1})}};"
            )
            lines += [
                f"\\fill[wins!{100 * DARKEST * share:.0f}] ({j - 0.5},{i - 0.5}) rectangle +(1,1);"
                f" \\node at ({j},{i}) {{{100 * share:.0f}}};"
                for j, share in enumerate(self.shares[i].tolist())
                if i != j
            ]
        return "\n".join([*lines, "\\end{tikzpicture}%", ""])
