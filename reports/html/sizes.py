"""Figures of test errors against training rows: of all datasets, and of one with what it says."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from ..aggregation import by_size
from ..evidence import Evidence
from ..metrics import METRICS
from ..output.looks import Look
from ..sections.by_size import plot, sentence
from . import figures

X = "training rows"
BANDED = 3  # lines with a band on a dataset's page: more of them hide each other


def of_all(evidence: Evidence) -> list[dict[str, str]]:
    """The figure of the section by size."""
    drawn = plot(evidence)
    if drawn is None:
        return []
    lines = []
    for curve in drawn.curves:
        low, high = curve.band or (curve.y, curve.y)
        points = [*zip(curve.x.tolist(), curve.y.tolist(), strict=True)]
        band = [*zip(curve.x.tolist(), low.tolist(), high.tolist(), strict=True)]
        lines.append(figures.Series(curve.label, points, curve.look, band))
    note = f"{drawn.y}; mean over datasets; bands: 95 % intervals over resamples of the datasets."
    said = {"title": drawn.title, "note": note[0].upper() + note[1:], "y": "normalised error"}
    return [figures.lines(lines, **said, x=X, log_x=10, straight=True)]


def of_one(evidence: Evidence, dataset: str, looks: Mapping[str, Look]) -> list[dict[str, str]]:
    """Would more rows help: each model's test error against training rows, and a sentence."""
    if not by_size.has_sizes(evidence):
        return []
    folds = by_size.sized(evidence)
    mine = folds[folds["dataset"] == dataset]
    if mine["size"].nunique() < 2:
        return []
    metric = METRICS[evidence.headline(str(mine["task"].iloc[0]))]
    of_size: pd.DataFrame = mine.groupby(["model", "size"])["test"].agg(["mean", "min", "max"])
    lines = []
    for model, found in of_size.groupby("model"):
        found = found.reset_index()
        points = found[["size", "mean"]].to_numpy(dtype=float)
        band = found[["size", "min", "max"]].to_numpy(dtype=float)
        lines.append(figures.Series(str(model), points.tolist(), looks[str(model)], band.tolist()))
    lines.sort(key=lambda line: (line.points[-1][1], line.name))
    lines = [
        line if place < BANDED else figures.Series(line.name, line.points, line.look)
        for place, line in enumerate(lines)
    ]
    y = f"test 1 - {metric.label}" if metric.bounded else f"test {metric.label}"
    note = (
        f"{sentence(evidence, folds, dataset)} Mean over the draws of a size; bands of the first "
        f"{BANDED}: from the best to the worst draw."
    )
    title = "Would more rows help?"
    return [figures.lines(lines, title=title, note=note, x=X, y=y, log_x=10, straight=True)]
