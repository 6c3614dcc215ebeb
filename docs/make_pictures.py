"""Draws docs/pictures/reference-*.svg: the leaderboard of the reference study that comes with the
package, for light and dark pages.

python docs/make_pictures.py            # writes both
python docs/make_pictures.py --check    # exit code 1 where a file is not what would be written
"""

from __future__ import annotations

import io
import sys
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from tabsweep.benchmark.results.entrants import results_file
from tabsweep.models.registry import MODELS
from tabsweep.reports.aggregation.cells import headline_cells, studies
from tabsweep.reports.aggregation.ranking_matrix import RankingMatrix, ranking_matrices
from tabsweep.reports.output.looks import FAMILIES, hue_of
from tabsweep.reports.output.plotting import fixed_style
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
SIZE = 8.0  # of the texts, pt
ROW = 10.5  # height of a model's row, pt
WIDTH = 300.0  # of the picture, pt: 400 pixels
NAMES = 115.0  # width of the models' names, pt
TOP = 22.0  # height of the title's line, pt
FOOT = 24.0  # height of the axis' numbers, pt


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
    n = len(matrix.models)
    height = TOP + ROW * n + FOOT
    about = f"Mean ranks of {n} models on {len(matrix.datasets)} datasets"
    with fixed_style():
        # Texts stay text; element ids follow from the salt instead of from random numbers.
        matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "tabsweep"})
        figure = Figure(figsize=(WIDTH / 72.0, height / 72.0), facecolor=page)
        title = f"{about} (1 is best)"
        place = (4 / WIDTH, 1 - 10 / height)
        figure.text(*place, title, va="center", size=SIZE, color=text, weight="bold")
        corner = (NAMES / WIDTH, FOOT / height)
        board = figure.add_axes((*corner, 1 - corner[0] - 6 / WIDTH, ROW * n / height))
        draw_leaderboard(board, matrix, text, faint, colours)
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


if __name__ == "__main__":
    ranking = reference_ranking()
    pictures = {FOLDER / f"reference-{mode}.svg": draw(ranking, mode) for mode in MODES}
    if "--check" in sys.argv:
        same = [path.exists() and path.read_text("utf-8") == svg for path, svg in pictures.items()]
        sys.exit(0 if all(same) else 1)
    for path, svg in pictures.items():
        path.write_text(svg, encoding="utf-8")
