"""Draws docs/pictures: reference-*.svg, the leaderboard of the reference study that comes with the
package, and by-size-*.svg, mean ranks against training rows, for light and dark pages.

python docs/make_pictures.py            # writes them
python docs/make_pictures.py --check    # exit code 1 where a file is not what would be written
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from tabsweep.benchmark.results.entrants import results_file
from tabsweep.models.registry import MODELS
from tabsweep.reports.aggregation import by_size
from tabsweep.reports.aggregation.by_size import Ranked
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


def draw(
    about: str, n_rows: int, beside: tuple[float, float], mode: str, into: Callable[..., None]
) -> str:
    """A picture as SVG: a title, and axes of `n_rows` rows of text with so many points `beside`
    them at the left and right, which `into(axes, text, faint, colours)` fills."""
    page, text, faint, colours = MODES[mode]
    height = TOP + ROW * n_rows + FOOT
    with fixed_style():
        # Texts stay text; element ids follow from the salt instead of from random numbers.
        matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "tabsweep"})
        figure = Figure(figsize=(WIDTH / 72.0, height / 72.0), facecolor=page)
        title = f"{about} (1 is best)"
        place = (4 / WIDTH, 1 - 10 / height)
        figure.text(*place, title, va="center", size=SIZE, color=text, weight="bold")
        left, right = (points / WIDTH for points in beside)
        axes = figure.add_axes((left, FOOT / height, 1 - left - right, ROW * n_rows / height))
        into(axes, text, faint, colours)
        out = io.BytesIO()
        names = {"Title": about, "Creator": "tabsweep", "Date": None}
        figure.savefig(out, format="svg", metadata=names)
        return out.getvalue().decode("utf-8")


def leaderboard(matrix: RankingMatrix, mode: str) -> str:
    """The picture of the reference study."""
    n = len(matrix.models)
    about = f"Mean ranks of {n} models on {len(matrix.datasets)} datasets"
    return draw(about, n, (115.0, 6.0), mode, partial(draw_leaderboard, matrix))


def slopes(ranked: Sequence[Ranked], mode: str) -> str:
    """The picture of the study by training size."""
    n = len(ranked[-1].models)
    about = f"Mean ranks of {n} models by training rows"
    return draw(about, n, (26.0, 128.0), mode, partial(draw_slopes, ranked))


def draw_slopes(
    ranked: Sequence[Ranked], axes: Axes, text: str, faint: str, colours: tuple[str, ...]
) -> None:
    """A line a model from the smallest size to the largest, with its mean rank at both ends, in the
    order there, and its name at the right."""
    n, last = len(ranked[-1].models), len(ranked) - 1
    mean = [dict(zip(one.models, one.mean, strict=True)) for one in ranked]
    for model in ranked[-1].models:
        colour = colours[hue_of(family_of(model))]
        places = [ranked[0].models.index(model) + 1, ranked[-1].models.index(model) + 1]
        axes.plot(range(last + 1), [of[model] for of in mean], "o-", ms=2.5, lw=1.1, color=colour)
        for x, place, side in ((0, places[0], -1), (last, places[1], 1)):
            align = "right" if side < 0 else "left"
            y = mean[x][model]
            axes.plot([x, x + 0.13 * side], [y, place], lw=0.5, color=colour, clip_on=False)
            name = f"{y:.1f}  {model}" if side > 0 else f"{y:.1f}"
            at = x + 0.16 * side
            axes.text(at, place, name, ha=align, va="center", size=SIZE, color=colour)
    axes.set_xticks(range(last + 1), [f"{one.size:,}" for one in ranked])
    axes.set_yticks([])
    axes.set_ylim(n + 0.6, 0.4)
    axes.set_xlim(-0.13, last + 0.13)
    axes.set_facecolor("none")
    axes.grid(axis="x", color=faint, lw=0.5)
    axes.tick_params(axis="both", length=0, labelcolor=text, labelsize=SIZE)
    axes.spines[:].set_visible(False)


def draw_leaderboard(
    matrix: RankingMatrix, axes: Axes, text: str, faint: str, colours: tuple[str, ...]
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
    from make_by_size import complete  # which imports this module

    ranking = reference_ranking()
    by_training_rows = by_size.ranked(by_size.sized(complete()))
    pictures = {FOLDER / f"reference-{mode}.svg": leaderboard(ranking, mode) for mode in MODES}
    pictures |= {FOLDER / f"by-size-{mode}.svg": slopes(by_training_rows, mode) for mode in MODES}
    if "--check" in sys.argv:
        same = [path.exists() and path.read_text("utf-8") == svg for path, svg in pictures.items()]
        sys.exit(0 if all(same) else 1)
    for path, svg in pictures.items():
        path.write_text(svg, encoding="utf-8")
