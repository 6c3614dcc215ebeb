"""A dataset's figures from stored predictions: ROC, precision and recall, confusion, residuals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..analyses.intervals import FEW, HEADS, texts
from ..metrics import METRICS
from ..output import escape
from . import figures
from .page import Source

MOST_CLASSES = 12
MOST_CURVES = 4  # more of them are a tangle
MOST_POINTS = 400  # of a figure's curve or cloud
TOGETHER = "Test rows of all folds together, each as its fold's chosen configuration answered."

Answers = Mapping[str, tuple[np.ndarray, np.ndarray]]  # {model: (targets, predictions)}


def of_answers(source: Source, name: str) -> dict[str, Any]:
    """{"answered": figures, "confusion": a table or None, "worth": that of the intervals or
    None} of the dataset, empty without answers."""
    answers: Answers = source.evidence.facts.answers
    nothing: dict[str, Any] = {"answered": [], "confusion": None, "worth": None}
    task = source.cells[name][0].task
    metric = METRICS[source.evidence.headline(task)]
    cells = [
        cell for cell in source.cells[name] if cell.model in answers and cell.mean == cell.mean
    ]
    if not cells:
        return nothing
    order = [c.model for c in sorted(cells, key=lambda c: (metric.loss(c.mean), c.model))]
    if task == "regression":
        drawn = [_predicted(source, order[0], answers)]
        return nothing | {"answered": drawn, "worth": _worth(source, order)}
    drawn = _curves(source, order, answers) if task == "binary" else []
    facts = source.evidence.facts.of_datasets.get(name) or {}
    confusion = _confusion(order[0], answers, facts.get("classes"))
    return nothing | {"answered": drawn, "confusion": confusion}


def _curves(source: Source, order: list[str], answers: Answers) -> list[dict[str, str]]:
    """ROC and precision against recall of the MOST_CURVES best models and the user's own, the best
    first."""
    roc, recall = [], []
    own = source.evidence.own
    drawn = [m for i, m in enumerate(order) if i < MOST_CURVES or m in own]
    ours = " and ours" * (len(drawn) > MOST_CURVES)
    few = f" The {MOST_CURVES} best models{ours}." * (len(drawn) < len(order))
    for model in drawn:
        y, proba = answers[model]
        threshold, code = np.unique(-proba[:, 1], return_inverse=True)
        hits = np.cumsum(np.bincount(code, y, minlength=len(threshold)))  # at each threshold
        alarms = np.cumsum(np.bincount(code, minlength=len(threshold)))
        positive, look = max(1, int(y.sum())), source.looks[model]
        negative = max(1, len(y) - positive)
        points = np.column_stack([(alarms - hits) / negative, hits / positive])
        points = figures.evenly(np.vstack([np.zeros((1, 2)), points]), MOST_POINTS)
        roc.append(figures.Series(model, points.tolist(), look))
        points = np.column_stack([hits / positive, hits / alarms])
        points = figures.evenly(np.vstack([[[0.0, points[0, 1]]], points]), MOST_POINTS)
        recall.append(figures.Series(model, points.tolist(), look))
    how: dict[str, Any] = {"note": TOGETHER + few, "straight": True}
    return [
        figures.lines(roc, title="ROC", x="false positives", y="true positives", **how),
        figures.lines(recall, title="Precision and recall", x="recall", y="precision", **how),
    ]


def _confusion(
    model: str, answers: Answers, classes: Mapping[str, Any] | None
) -> dict[str, Any] | None:
    """How many rows of each class the model takes for which; None for many classes."""
    y, proba = answers[model]
    n = proba.shape[1]
    if n > MOST_CLASSES:
        return None
    names = list(classes) if classes and len(classes) == n else [str(code) for code in range(n)]
    counts = np.zeros((n, n), dtype=int)
    np.add.at(counts, (y.astype(int), proba.argmax(axis=1)), 1)
    shares = counts / np.maximum(1, counts.sum(axis=1, keepdims=True))
    return {
        "model": escape.one_line(model),
        "names": [escape.one_line(name) for name in names],
        "rows": [
            (name, [(int(k), round(4 * share)) for k, share in zip(line, part, strict=True)])
            for name, line, part in zip(names, counts, shares, strict=True)
        ],
        "note": f"Rows: the true class; columns: the most probable one. {TOGETHER}",
    }


def _worth(source: Source, order: list[str]) -> dict[str, Any] | None:
    """Coverage, width, pinball loss and CRPS of the models' intervals."""
    known = source.evidence.facts.intervals
    models = [model for model in order if model in known]
    if not models:
        return None
    columns = [texts([known[model][key] for model in models]) for key in HEADS]
    named = map(escape.one_line, models)
    rows = [(name, list(row)) for name, row in zip(named, zip(*columns, strict=True), strict=True)]
    few = any(known[model]["coverage"] != known[model]["coverage"] for model in models)
    return {"heads": [*HEADS.values()], "rows": rows, "note": f" {FEW}" * few}


def _predicted(source: Source, model: str, answers: Answers) -> dict[str, str]:
    """Predicted against true values of the best model, of at most MOST_POINTS rows."""
    y, value = (np.ravel(part).astype(float) for part in answers[model])
    pairs = figures.evenly(np.column_stack([y, value]), MOST_POINTS)
    more = f" {len(pairs)} of {len(y):,} rows." if len(pairs) < len(y) else ""
    return figures.points(
        pairs,
        source.looks[model],
        title=f"Predicted against true: {model}",
        note=f"{TOGETHER}{more} On the line a prediction is right.",
        x="true",
        y="predicted",
    )
