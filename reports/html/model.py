"""The contents of a model's page: its cells, failures, tuning and configurations."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pandas as pd

from ..aggregation.cells import COMPLETE
from ..metrics import METRICS
from ..output import escape, footnotes
from ..output.marks import ScoreText
from ..output.tables import decimals_for, fixed
from ..statistics.ranking import places
from . import figures
from .page import Source, neighbours

MAX_BARS = 12  # hyperparameters in the figure of their importance
MAX_CHOSEN = 200  # configurations in the list of the chosen ones
STEPS = {"n_estimators": "boosting rounds", "max_iter": "boosting rounds"}  # of learning curves


def page(source: Source, name: str) -> dict[str, Any]:
    """The variables of the model's page."""
    evidence = source.evidence
    family, summary, paper = source.family(name)
    rows = source.rows_of(name)
    selected = evidence.trials["selected"].to_numpy(dtype=bool)
    cells = [
        cell for variables in source.cells.values() for cell in variables if cell.model == name
    ]
    cells.sort(key=lambda cell: cell.dataset)
    failed = evidence.trials.iloc[rows[evidence.having("status", "failed")[rows]]]
    whole = sum(cell.state == COMPLETE for cell in cells)
    return {
        "title": escape.one_line(name),
        "family": (family, source.hue(name)),
        "facts": [
            *([("what it is", summary)] if summary else []),
            *([("paper", paper)] if paper else []),
            ("complete cells", f"{whole} of {len(cells)}"),
            ("trials", f"{len(rows):,}, {len(failed):,} failed"),
        ],
        "cells": [_cell(source, cell) for cell in cells],
        "curves": _learning(source, name),
        "importance": _importance(source, name),
        "data": {},
        **neighbours(source.model_files, name),
        **_chosen(source, rows[selected[rows]]),
    }


def _cell(source: Source, cell: Any) -> dict[str, Any]:
    """The model's score on a dataset, its place there and its costs."""
    metric_name = source.evidence.headline(cell.task)
    metric = METRICS[metric_name]
    rivals = [c for c in source.cells[cell.dataset] if c.state == COMPLETE]
    means = [c.mean for c in rivals] or [cell.mean]
    score = ScoreText.of(metric_name, means, more=1)
    in_order = places([c.mean for c in rivals], metric.direction)
    place_of = dict(zip((c.model for c in rivals), in_order, strict=True))
    return {
        **source.entry(cell, score),
        "dataset": escape.one_line(cell.dataset),
        "file": f"{source.files[cell.dataset]}#{source.anchor(cell.model)}",
        "metric": footnotes.metric_title(metric_name),
        "best": bool(cell.best),
        "place": f"{place_of[cell.model]} of {len(rivals)}" if cell.state == COMPLETE else "–",
    }


def _pairs(config: str) -> list[tuple[str, str]]:
    """A configuration as names and values; the text itself where it is no JSON object."""
    try:
        parsed = json.loads(config)
    except ValueError:
        parsed = None
    if not isinstance(parsed, dict):
        return [("", config)] if config else []
    return [(name, _shortly(value)) for name, value in parsed.items()]


def _shortly(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return value if isinstance(value, str) else json.dumps(value)


def _chosen(source: Source, rows: np.ndarray) -> dict[str, Any]:
    """The configurations that validation chose, `rows` of the trials, MAX_CHOSEN at most."""
    trials = source.evidence.trials
    needed = ["dataset", "task", "fold", "index", "config"]
    heads = [source.evidence.headline(task) for task in source.evidence.tasks]
    scores = [f"{part}_{name}" for name in dict.fromkeys(heads) for part in ("val", "test")]
    needed += [name for name in scores if name in trials]
    chosen = []
    for row in trials[needed].iloc[rows[:MAX_CHOSEN]].to_dict("records"):
        name = source.evidence.headline(row["task"])
        scale = METRICS[name].factor
        val, test = (row.get(f"{part}_{name}") for part in ("val", "test"))
        chosen.append(
            {
                "dataset": escape.one_line(row["dataset"]),
                "file": source.files[row["dataset"]],
                "fold": row["fold"],
                "index": row["index"],
                "val": _score(val, scale),
                "test": _score(test, scale),
                "config": _pairs(str(row["config"])),
            }
        )
    return {"chosen": chosen, "n_chosen": len(rows)}


def _score(value: float | None, scale: float) -> str:
    if value is None or math.isnan(value):
        return "–"
    return fixed(scale * value, decimals_for([scale * value], 4))


def _learning(source: Source, name: str) -> list[dict[str, str]]:
    """Validation loss against steps, of chosen fits; of several datasets as shares of the fall."""
    curves = source.evidence.facts.curves.get(name) or []
    if not curves:
        return []
    alone = len(curves) == 1
    lines = []
    for curve in curves:
        points = np.array(curve["points"], dtype=float)
        first, lowest = points[0, 1], points[:, 1].min()
        if not alone and first > lowest:
            points[:, 1] = np.maximum((first - points[:, 1]) / (first - lowest), -0.5)
        elif not alone:
            continue
        dataset = curve["dataset"]
        line = figures.Series(dataset, points.tolist(), source.dataset_looks[dataset])
        lines.append((float(points[-1, 1]), line))
    if not lines:
        return []
    lines.sort(key=lambda pair: (-pair[0], pair[1].name))
    by = " or ".join(sorted({STEPS.get(curve["by"], str(curve["by"])) for curve in curves}))
    note = (
        "Validation loss after each step of the fit that validation chose, on the first fold."
        if alone
        else "On the first fold of each dataset, the fit that validation chose: 0 is its loss on "
        "the validation rows at the first step, 1 the lowest; a curve that turns down overfits. "
        "Values below −0.5 are drawn at −0.5."
    )
    drawn = figures.lines(
        [line for _, line in lines],
        title="Learning curves of chosen fits",
        note=note,
        x=by,
        y="validation loss" if alone else "share of the loss reduction",
    )
    return [drawn]


def _importance(source: Source, name: str) -> list[dict[str, str]]:
    """The importance of each hyperparameter (`Evidence.importance`)."""
    known = source.evidence.importance
    rows = pd.DataFrame() if known is None else known[known["model"] == name]
    if not len(rows):
        return []
    bars = [
        figures.Row(str(row.parameter), float(row.importance))
        for row in rows.head(MAX_BARS).itertuples()
    ]
    more = f"; {len(rows) - MAX_BARS} more hyperparameters" if len(rows) > MAX_BARS else ""
    note = f"From {footnotes.count(int(rows['n_trials'].iloc[0]), 'trial')}{more}."
    title, x = "Hyperparameter importance", "share of the explained variance"
    return [figures.rows(bars, title=title, note=note, x=x, bars=True)]
