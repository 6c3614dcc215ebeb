"""Draws docs/pictures/reference-*.svg: the leaderboard and the critical-difference diagram of the
reference study that comes with the package, for light and dark pages.

python docs/make_pictures.py            # writes both
python docs/make_pictures.py --check    # exit code 1 where a file is not what would be written
"""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from tabsweep.benchmark.results.entrants import results_file
from tabsweep.models.registry import MODELS
from tabsweep.reports.aggregation.cells import headline_cells, studies
from tabsweep.reports.aggregation.rank_tests import why_no_friedman
from tabsweep.reports.aggregation.ranking_matrix import RankingMatrix, ranking_matrices
from tabsweep.reports.output.looks import FAMILIES, hue_of
from tabsweep.reports.output.plotting import fixed_style
from tabsweep.reports.sections.critical_difference import Drawing, diagram
from tabsweep.reports.statistics.ranking import standard_error

NAME = "uci-small-reference"
FOLDER = Path(__file__).with_name("pictures")
MODES = {  # {mode: (page, text, faint, one colour for each of FAMILIES)}
    "light": (
        *("#ffffff", "#1d2025", "#c9ccd1"),
        ("#196a3d", "#a2501c", "#175396", "#93309f", "#6d686a", "#7b752d"),
    ),
    "dark": (
        *("#15171b", "#e6e8eb", "#4a505a"),
        ("#5fd38d", "#ee9a64", "#8ab4ff", "#d99be0", "#a9a3a5", "#cfd06a"),
    ),
}
SIZE = 7.0  # of the texts, pt
ROW = 9.5  # height of a model's row in the leaderboard, pt
BOARD = 250.0  # width of the leaderboard, pt
GAP = 25.0  # between the leaderboard and the diagram, pt
TOP = 22.0  # height of the line of titles, pt


def reference_ranking() -> RankingMatrix:
    """The losses of the models that have a score on at least 80 % of the study's independent,
    learnable datasets."""
    evidence = results_file(Path(NAME)).evidence()
    made = ranking_matrices(evidence, headline_cells(evidence, studies(evidence)))
    return [matrix for matrix in made if matrix.scope.subset][-1]


def family_of(model: str) -> str:
    """The family of a model of the study, which may have a name of its own there."""
    ours = results_file(Path(NAME)).card.models.get(model, model)
    return MODELS[ours].family if ours in MODELS else "external"


def draw(matrix: RankingMatrix, mode: str) -> str:
    """The picture as SVG."""
    page, text, faint, colours = MODES[mode]
    models, _ = matrix.order()
    why_not = why_no_friedman(matrix)
    right = None if why_not else diagram(matrix)
    width = BOARD + GAP + (right.width if right else 0.0)
    height = TOP + max(ROW * len(models) + 30.0, right.height if right else 0.0)
    about = f"Mean ranks of {len(models)} models on {len(matrix.datasets)} datasets"
    with fixed_style():
        # Texts stay text; element ids follow from the salt instead of from random numbers.
        matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "tabsweep"})
        figure = Figure(figsize=(width / 72.0, height / 72.0), facecolor=page)
        sheet = figure.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(height, 0))
        sheet.axis("off")
        style: dict[str, Any] = {
            "va": "center",
            "fontsize": SIZE,
            "color": text,
            "parse_math": False,
        }
        sheet.text(4, 10, f"{about} (1 is best)", weight="bold", **style)
        board = figure.add_axes(
            (100.0 / width, 30.0 / height, (BOARD - 100.0) / width, 1 - (TOP + 30.0) / height)
        )
        draw_leaderboard(board, matrix, text, faint, colours)
        x = BOARD + GAP
        if right:
            sheet.text(x, 10, "Bars join models that Nemenyi's test does not tell apart", **style)
            draw_diagram(sheet, right, x, text)
        else:
            said = f"(critical differences: {why_not.removeprefix('n/a: ')})"
            sheet.text(4, height - 6, said, **style)
        out = io.BytesIO()
        names = {"Title": about, "Creator": "tabsweep", "Date": None}
        figure.savefig(out, format="svg", metadata=names)
        return out.getvalue().decode("utf-8")


def draw_leaderboard(
    axes: Axes, matrix: RankingMatrix, text: str, faint: str, colours: tuple[str, ...]
) -> None:
    """Models from the best to the worst: mean rank and standard error over the datasets."""
    models, mean = matrix.order()
    error = dict(zip(matrix.models, standard_error(matrix.ranks()), strict=True))
    hues = [hue_of(family_of(model)) for model in models]
    for y, (model, x, hue) in enumerate(zip(models, mean, hues, strict=True)):
        axes.errorbar(
            x, y, xerr=error[model], fmt="o", ms=3.2, lw=1.0, color=colours[hue], zorder=3
        )
    axes.set_yticks(np.arange(len(models)), models)
    axes.set_ylim(len(models) - 0.4, -0.6)
    axes.set_xlim(0, len(models) + 1)
    axes.set_facecolor("none")
    axes.grid(axis="x", color=faint, lw=0.5)
    axes.tick_params(axis="both", length=0, labelcolor=text, labelsize=SIZE)
    for label, hue in zip(axes.get_yticklabels(), hues, strict=True):
        label.set_color(colours[hue])
    axes.spines[:].set_visible(False)
    present = [hue for hue in range(len(FAMILIES)) if hue in hues]
    axes.legend(
        [axes.plot([], [], "o", ms=3.2, color=colours[hue])[0] for hue in present],
        [FAMILIES[hue].replace("gbdt", "boosted trees") for hue in present],
        loc="upper right",
        fontsize=SIZE,
        labelcolor=text,
        frameon=False,
        handletextpad=0.1,
    )


def draw_diagram(sheet: Axes, drawing: Drawing, left: float, color: str) -> None:
    """The critical-difference diagram of the report, `left` pt from the sheet's left edge."""
    for one in drawing.lines:
        x, y = [left + one.x1, left + one.x2], [TOP + one.y1, TOP + one.y2]
        sheet.plot(x, y, lw=one.width, color=color, solid_capstyle="butt")
    for t in drawing.texts:
        sheet.text(
            left + t.x,
            TOP + t.y,
            t.text,
            ha=t.anchor,
            va="center",
            fontsize=SIZE,
            color=color,
            parse_math=False,
        )


if __name__ == "__main__":
    ranking = reference_ranking()
    pictures = {FOLDER / f"reference-{mode}.svg": draw(ranking, mode) for mode in MODES}
    if "--check" in sys.argv:
        same = [path.exists() and path.read_text("utf-8") == svg for path, svg in pictures.items()]
        sys.exit(0 if all(same) else 1)
    for path, svg in pictures.items():
        path.write_text(svg, encoding="utf-8")
