"""The contents of a dataset's page: its scores, its tuning curves and its trials."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from ..aggregation.cells import COMPLETE
from ..metrics import METRICS, Metric
from ..output import escape, footnotes
from ..output.marks import ScoreText
from . import commands, figures
from .answers import of_answers
from .board import all_rounded, rounded
from .data_facts import about_data, notes_on
from .page import Source, importance
from .speed import seconds

MAX_TRIALS = 1000  # on a page; of more it shows the chosen, the failed and the first ones
MAX_TEXT = 500  # characters of a message
MAX_CONFIG = 4000  # characters of a configuration; a longer one loses the ends of its long values
MAX_VALUE = 80  # characters of a value in such a configuration
MAX_FEATURES = 20  # of a model's importances in a figure

_KEPT = ["model", "fold", "stage", "index", "seed", "status", "cause", "selected", "config"]
_KEPT += ["message", "fit_s", "cpu_s"]


def page(source: Source, name: str, trials: pd.DataFrame) -> dict[str, Any]:
    """The variables of the dataset's page; `trials` are its rows of the evidence."""
    evidence = source.evidence
    task = source.cells[name][0].task
    metric = METRICS[evidence.headline(task)]
    names = source.names
    at = names.index(name)
    rows = (evidence.meta.get("rows") or {}).get(name)
    shown, known = _shown(trials), evidence.importance
    return {
        "title": escape.one_line(name),
        "alone": False,
        **scores(source, name),
        "facts": [
            ("task", footnotes.TASK_TITLES[task]),
            ("metric", footnotes.metric_title(metric.name)),
            *([("rows", f"{rows:,}")] if rows else []),
            ("folds", str(max(cell.n_planned for cell in source.cells[name]))),
            ("protocol", (evidence.meta.get("protocol") or {}).get(name, "not stated")),
        ],
        "notes": notes_on(source, name),
        **about_data(source, name),
        "rows": rows,
        "subset": name in source.subset,
        "importance": [] if known is None else importance(known[known["dataset"] == name]),
        "n_trials": len(trials),
        "n_shown": len(shown),
        "before": _link(source, names[at - 1]) if at else None,
        "after": _link(source, names[at + 1]) if at + 1 < len(names) else None,
        "data": {"kind": "dataset", "metric": metric.label, "trials": _columns(shown, metric.name)},
    }


def scores(source: Source, name: str) -> dict[str, Any]:
    """The variables of scores.html.j2: a table of the models' scores, and figures of them."""
    cells = source.cells[name]
    metric = METRICS[source.evidence.headline(cells[0].task)]
    return {
        "metric": footnotes.metric_title(metric.name),
        "scores": _scores(source, cells, metric.name),
        "spread": "standard deviation" if name in source.evidence.overlapping else "standard error",
        "figures": [*_figures(source, name, cells, metric), *_features(source, name, metric)],
        **of_answers(source, name),
    }


def _link(source: Source, name: str) -> tuple[str, str]:
    return escape.one_line(name), source.files[name]


def _scores(source: Source, cells: Sequence[Any], metric_name: str) -> list[dict[str, Any]]:
    """One entry per model, best first; those without a complete score last, with the reason."""
    metric = METRICS[metric_name]
    means = [cell.mean for cell in cells if not math.isnan(cell.mean)]
    whole = [cell for cell in cells if cell.state == COMPLETE]
    score, places = ScoreText.of(metric_name, means, more=1).apart([cell.mean for cell in whole])
    place = dict(zip((cell.model for cell in whole), places, strict=True))
    entries = []
    for cell in cells:
        known = not math.isnan(cell.mean)
        cpu = source.cpu.get((cell.dataset, cell.model), math.nan)
        loss = metric.loss(cell.mean) if cell.state == COMPLETE else math.inf
        fit, predict = source.speed.get((cell.dataset, cell.model), (math.nan, math.nan))
        entries.append(
            {
                "model": escape.one_line(cell.model),
                "anchor": source.anchor(cell.model),
                "file": source.model_files.get(cell.model, ""),
                "family": source.family(cell.model)[0],
                "colour": source.looks[cell.model][0],
                "fit": seconds(fit),
                "predict": seconds(predict),
                "command": commands.explain(source.runs, cell.dataset, cell.model),
                "mean": score(cell.mean) or "–",
                "value": rounded(cell.mean) if known else "",
                "spread": score(cell.spread),
                "folds": source.folds(cell),
                "state": cell.state,
                "cause": cell.cause,
                "best": place.get(cell.model) == 1,
                "cpu": seconds(cpu),
                "order": (loss, cell.model),
            }
        )
    return sorted(entries, key=lambda entry: entry["order"])


def _figures(
    source: Source, name: str, cells: Sequence[Any], metric: Metric
) -> list[dict[str, str]]:
    label = metric.label
    scored = [cell for cell in cells if not math.isnan(cell.mean)]
    made = []
    if scored:
        rows = [
            figures.Row(cell.model, cell.mean, cell.spread, source.looks[cell.model])
            for cell in sorted(scored, key=lambda cell: (metric.loss(cell.mean), cell.model))
        ]
        kind = "standard deviation" if name in source.evidence.overlapping else "standard error"
        note = f"Mean over folds; the whisker is one {kind} on either side."
        made.append(figures.rows(rows, title=f"Test {label}", note=note, x=f"test {label}"))
    paths = source.paths.get(name, {})
    if not any(len(p) > 1 for p in paths.values()):
        return made
    sign = metric.sign  # from a loss to a score
    note = (
        "Mean over folds of the best validation score so far. Configurations are chosen by it; "
        "it is not the test score."
    )
    for column, title, x, base in (
        (0, "trials", "configurations tried", 2),
        (1, "time", "wall seconds", 10),
    ):
        lines = [
            (
                p[-1, 2],
                figures.Series(m, figures.thin(p[:, [column, 2]] * (1.0, sign)), source.looks[m]),
            )
            for m, p in paths.items()
            if np.isfinite(p[:, column]).all()
        ]
        if lines:
            lines.sort(key=lambda pair: (pair[0], pair[1].name))
            drawn = figures.lines(
                [line for _, line in lines],
                title=f"Best validation {label} against {title}",
                note=note,
                x=x,
                y=f"validation {label}",
                log_x=base,
            )
            made.append(drawn)
    return made


def _features(source: Source, name: str, metric: Metric) -> list[dict[str, str]]:
    """What each model loses on test rows without a feature, where that was computed."""
    known = (source.evidence.meta.get("features") or {}).get(name)
    made = []
    for model, mine in () if known is None else known.groupby("model", sort=False):
        rows = [
            figures.Row(row.feature, row.importance, row.std, source.looks[model])
            for row in mine.head(MAX_FEATURES).itertuples()
        ]
        more = f" The {MAX_FEATURES} largest of {len(mine)}." if len(mine) > MAX_FEATURES else ""
        note = (
            f"Mean over {mine['folds'].max()} folds of what {model} loses on test rows where the "
            f"feature is shuffled; the whisker is one standard deviation over folds.{more}"
        )
        x = f"loss of test {metric.label}"
        made.append(figures.rows(rows, title=f"Features of {model}", note=note, x=x))
    return made


# --- trials ---------------------------------------------------------------------------------------


def _shown(trials: pd.DataFrame) -> pd.DataFrame:
    """All trials, or MAX_TRIALS of them: the chosen, then the failed, then the lowest indices."""
    if len(trials) <= MAX_TRIALS:
        return trials
    urgency = np.where(trials["selected"], 0, np.where(trials["status"] == "failed", 1, 2))
    order = np.lexsort((np.arange(len(trials)), trials["index"], urgency))
    return trials.iloc[np.sort(order[:MAX_TRIALS])]


def _columns(trials: pd.DataFrame, metric_name: str) -> dict[str, list[Any]]:
    """The trials by column, texts made visible and cut, numbers rounded."""
    columns = {name: trials[name].tolist() for name in _KEPT}
    for name in ("model", "cause", "stage", "status"):
        columns[name] = [escape.one_line(v) if v else "" for v in columns[name]]
    columns["message"] = [_cut(v) for v in columns["message"]]
    columns["config"] = [_whole(v) for v in columns["config"]]
    columns["seed"] = [str(v) for v in columns["seed"]]  # may exceed what a script counts exactly
    for part in ("val", "test"):
        scores = f"{part}_{metric_name}"
        values = trials[scores].tolist() if scores in trials else [math.nan] * len(trials)
        columns[part] = all_rounded(values, 6)
    for name in ("fit_s", "cpu_s"):
        columns[name] = all_rounded(columns[name], 4)
    return columns


def _whole(config: str) -> str:
    """The configuration; of one that is too long the whole names, and the beginnings of values."""
    if len(config) <= MAX_CONFIG:
        return escape.one_line(config)
    try:
        parsed = json.loads(config)
    except ValueError:
        return escape.one_line(config)[: MAX_CONFIG - 1] + "…"
    if not isinstance(parsed, dict):
        return escape.one_line(config)[: MAX_CONFIG - 1] + "…"
    short = {}
    for name, value in parsed.items():
        text = value if isinstance(value, str) else json.dumps(value)
        short[name] = value if len(text) <= MAX_VALUE else text[: MAX_VALUE - 1] + "…"
    return escape.one_line(json.dumps(short, ensure_ascii=False))


def _cut(text: str) -> str:
    shown = escape.one_line(text)
    return shown if len(shown) <= MAX_TEXT else shown[: MAX_TEXT - 1] + "…"
