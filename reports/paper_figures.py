"""The figures of the folder paper/: one plot a name, as a LaTeX figure of pgfplots and as PDF."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from .aggregation.ranking_matrix import RankingMatrix
from .evidence import Evidence
from .output import escape, footnotes
from .output.curves import Curve, Plot
from .output.looks import Look, looks
from .output.wins import Wins

MOST = 12  # curves of a figure
MOST_FACTOR = 10.0  # of an error over the best one, on the axis of a profile


def plots(
    evidence: Evidence,
    matrix: RankingMatrix,
    costs: pd.DataFrame,
    against: Mapping[str, Plot | None],
) -> dict[str, tuple[Plot | Wins, str]]:
    """{name: (plot, caption)}: performance profiles, pairwise wins, mean rank against cost, and of
    `against` "time", mean rank at equal time, and "by-size", errors against training rows; those
    for which there are numbers. `matrix`: of the widest scope; `costs`: a row with `cpu_s` for each
    dataset and model. Curves and wins are those of the MOST best models and of the user's own."""
    drawn: dict[str, tuple[Plot | Wins, str]] = {}
    if matrix.why_not:
        return drawn
    of = looks(evidence.models, evidence.facts.families)
    n = footnotes.count(len(matrix.datasets), "dataset")
    order = matrix.order()[0]
    best = [m for i, m in enumerate(order) if i < MOST or m in evidence.own]
    ours = " and ours" * (len(best) > MOST)
    only = f" The {MOST} models with the best mean ranks{ours}." * (len(order) > len(best))
    if len(matrix.datasets) > 1:
        drawn["profiles"] = (
            _profiles(of, matrix, best),
            f"Performance profiles (Dolan and More 2002) over {n}: the share of datasets on which "
            "a model's error is at most a factor of the best model's." + only,
        )
        drawn["pairwise-wins"] = (
            _wins(matrix, best),
            f"Percent of {n} on which the model of the row has the better score; ties count one "
            "half." + only,
        )
    if cost := _cost(of, matrix, costs, evidence.own):
        drawn["rank-against-cost"] = (
            cost,
            f"Mean rank over {n} against the CPU seconds of all trials on them; names where there "
            "is room.",
        )
    if (time := against.get("time")) is not None:
        time = replace(time, curves=[curve for curve in time.curves if curve.label in best])
        drawn["time"] = time, f"{time.title}: after T CPU seconds of each study." + only
    if (sizes := against.get("by-size")) is not None:
        drawn["by-size"] = sizes, f"{sizes.title}: {sizes.y}; bands: 95 % over resampled datasets."
    return drawn


def to_latex(name: str, plot: Plot | Wins, caption: str, named: Callable[[str], str]) -> str:
    """A figure of pgfplots; the comment says how to take the PDF instead."""
    return (
        "% Needs \\usepackage{pgfplots}; without it: \\includegraphics{" + name + ".pdf} of the "
        "same numbers.\n"
    ) + figure(name, plot.pgf(named), caption)


def figure(name: str, drawn: str, caption: str) -> str:
    """A figure across the page."""
    return (
        f"\\begin{{figure*}}[tp]\n\\centering\n{drawn}\\caption{{{escape.latex(caption)}}}\n"
        f"\\label{{fig:{name}}}\n\\end{{figure*}}\n"
    )


def _profiles(of: dict[str, Look], matrix: RankingMatrix, models: list[str]) -> Plot:
    errors = matrix.errors  # (n_datasets, n_models)
    best = errors.min(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        factors = np.where(errors == best, 1.0, errors / best)
    factors = factors[:, [matrix.models.index(model) for model in models]]
    end = min(MOST_FACTOR, float(factors[np.isfinite(factors)].max(initial=1.0)))
    curves = []
    for model, own in zip(models, factors.T, strict=True):
        x = np.unique([1.0, *own[own <= end], end])
        curves.append(Curve(model, x, np.array([(own <= at).mean() for at in x]), of[model]))
    return Plot(curves, "Performance profiles", "error / best error", "share of datasets", True)


def _wins(matrix: RankingMatrix, models: list[str]) -> Wins:
    rank = matrix.ranks()[:, [matrix.models.index(model) for model in models]]
    own, other = rank[:, :, None], rank[:, None, :]
    return Wins(models, ((own < other) + 0.5 * (own == other)).mean(axis=0))


def _cost(
    of: dict[str, Look], matrix: RankingMatrix, costs: pd.DataFrame, own: list[str]
) -> Plot | None:
    """The user's own models come first, whose names have room before others."""
    total = costs[costs["dataset"].isin(matrix.datasets)].groupby("model")["cpu_s"].sum()
    curves = [
        Curve(model, np.array([total[model]]), np.array([rank]), of[model])
        for model, rank in sorted(
            zip(*matrix.order(), strict=True), key=lambda of: of[0] not in own
        )
        if total.get(model, 0.0) > 0
    ]
    if not curves:
        return None
    return Plot(curves, "Mean rank against cost", "CPU seconds of all trials", "mean rank")
