"""The contents of a dataset's page: its scores, its tuning curves, its data and its trials."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from ..aggregation.cells import COMPLETE
from ..alarms.finding import is_constant
from ..metrics import METRICS, Metric
from ..output import escape, footnotes
from ..output.marks import CONSTANT, ScoreText
from . import commands, figures, sizes
from .answers import of_answers
from .board import all_rounded
from .page import Source, neighbours, own_names

MAX_TRIALS = 1000  # on a page; of more it shows the chosen, the failed and the first ones
MAX_TEXT = 500  # characters of a message
MAX_CONFIG = 4000  # of a configuration
MAX_CLASSES = 24  # with a bar
MAX_FEATURES = 20  # of a model's importances in a figure
NO_COUNTS = (
    "This run keeps no counts of the data: a version before this one started it. The passport has "
    "them:"
)

_KEPT = ["model", "fold", "stage", "index", "seed", "status", "cause", "selected", "config"]
_KEPT += ["message", "fit_s", "cpu_s"]


def page(source: Source, name: str, trials: pd.DataFrame) -> dict[str, Any]:
    """The variables of the dataset's page; `trials` are its rows of the evidence."""
    evidence = source.evidence
    task = source.cells[name][0].task
    metric = METRICS[evidence.headline(task)]
    rows = evidence.facts.rows.get(name)
    shown = _shown(trials)
    return {
        "title": escape.one_line(name),
        "alone": False,
        **scores(source, name),
        "facts": [
            ("task", footnotes.TASK_TITLES[task]),
            ("metric", footnotes.metric_title(metric.name)),
            *([("rows", f"{rows:,}")] if rows else []),
            ("folds", str(max(cell.n_planned for cell in source.cells[name]))),
            ("protocol", evidence.facts.protocol.get(name, "not stated")),
        ],
        "notes": _notes(source, name),
        **_data(source, name),
        "rows": rows,
        "subset": name in evidence.subset,
        "n_trials": len(trials),
        "n_shown": len(shown),
        **neighbours(source.files, name),
        "data": {
            "kind": "dataset",
            "own": own_names(source),
            "metric": metric.label,
            "trials": _columns(shown, metric.name),
        },
    }


def scores(source: Source, name: str) -> dict[str, Any]:
    """The variables of scores.html.j2: a table of the models' scores, and figures of them."""
    cells = source.cells[name]
    metric = METRICS[source.evidence.headline(cells[0].task)]
    return {
        "metric": footnotes.metric_title(metric.name),
        "scores": _scores(source, cells, metric.name),
        "spread": "standard deviation" if name in source.evidence.overlapping else "standard error",
        "figures": [
            *_figures(source, name, cells, metric),
            *sizes.of_one(source.evidence, name, source.looks),
            *_features(source, name, metric),
        ],
        **of_answers(source, name),
    }


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
        loss = metric.loss(cell.mean) if cell.state == COMPLETE else math.inf
        entries.append(
            {
                **source.entry(cell, score),
                "model": escape.one_line(cell.model),
                "own": cell.model in source.evidence.own,
                "anchor": source.anchor(cell.model),
                "file": source.model_files[cell.model],
                "family": source.family(cell.model)[0],
                "colour": source.looks[cell.model][0],
                "value": all_rounded([cell.mean])[0] if known else "",
                "best": place.get(cell.model) == 1,
                "order": (loss, cell.model),
            }
        )
    entries.sort(key=lambda entry: entry["order"])
    dataset, models = cells[0].dataset, source.evidence.models
    constant = source.evidence.facts.constants.get(dataset, {}).get(metric_name)
    if constant is None or any(map(is_constant, models)):
        return entries
    told = dict.fromkeys(("spread", "folds", "state", "cause", "fit", "predict", "cpu"), "")
    told |= dict.fromkeys(("command", "anchor", "file", "family", "colour", "value"), "")
    return [
        *entries,
        {**told, "model": CONSTANT, "mean": score(constant), "best": False, "own": False},
    ]


def _figures(
    source: Source, name: str, cells: Sequence[Any], metric: Metric
) -> list[dict[str, str]]:
    label = metric.label
    scored = [cell for cell in cells if not math.isnan(cell.mean)]
    made = []
    if scored:
        unit, percent = metric.factor, ", %" * metric.percent
        rows = [
            figures.Row(cell.model, unit * cell.mean, unit * cell.spread, source.looks[cell.model])
            for cell in sorted(scored, key=lambda cell: (metric.loss(cell.mean), cell.model))
        ]
        kind = "standard deviation" if name in source.evidence.overlapping else "standard error"
        title, x = f"Test {label}", f"test {label}{percent}"
        note = "Mean over folds." if max(cell.n_folds for cell in scored) > 1 else ""
        made.append(figures.rows(rows, title=title, note=note, x=x, whisker=kind))
    paths = source.paths.get(name, {})
    if not any(len(p) > 1 for p in paths.values()):
        return made
    lines = [
        (
            p[-1, 1],
            figures.Series(
                m, figures.thin(p * (1.0, metric.sign * metric.factor)), source.looks[m]
            ),
        )
        for m, p in paths.items()
    ]
    lines.sort(key=lambda pair: (pair[0], pair[1].name))
    note = (
        "Mean over folds of the best validation score so far. Configurations are chosen by it; "
        "it is not the test score."
    )
    title, x = f"Best validation {label} against trials", "configurations tried"
    drawn = figures.lines(
        [line for _, line in lines],
        title=title,
        note=note,
        x=x,
        y=f"validation {label}{', %' * metric.percent}",
        log_x=2,
    )
    return [*made, drawn]


def _features(source: Source, name: str, metric: Metric) -> list[dict[str, str]]:
    """What each model loses on test rows without a feature, where that was computed."""
    known = source.evidence.facts.features.get(name)
    made, looks = [], source.looks
    where = "rows out of fold" if name in source.evidence.facts.bags else "test rows"
    first = next(iter(looks.values()))  # an ensemble is no model with a colour of its own
    for model, mine in () if known is None else known.groupby("model", sort=False):
        rows = [
            figures.Row(row.feature, row.importance, row.std, looks.get(model, first))
            for row in mine.head(MAX_FEATURES).itertuples()
        ]
        more = f" The {MAX_FEATURES} largest of {len(mine)}." if len(mine) > MAX_FEATURES else ""
        note = (
            f"Mean over {mine['folds'].max()} folds of what {model} loses on {where} where the "
            f"feature is shuffled.{more}"
        )
        title, x = f"Features of {model}", f"loss of {metric.label}"
        whisker = "standard deviation over folds"
        made.append(figures.rows(rows, title=title, note=note, x=x, whisker=whisker))
    return made


# --- the data ------------------------------------------------------------------------------------


def _data(source: Source, name: str) -> dict[str, Any]:
    """The variables of the sections on the data; `data_known` is False for another tool's results,
    of which nothing is known but the scores."""
    facts = source.evidence.facts.of_datasets.get(name)
    if facts is None:
        return {"data_known": False}
    classes = facts["classes"]
    counted = [n for n in classes.values() if n is not None]
    return {
        "data_known": True,
        "card": [
            (title, value)
            for title, value in (
                ("title", facts["title"]),
                ("target", facts.get("target")),
                ("features", _feature_kinds(facts)),
                ("classes", str(len(classes)) if classes else None),
                ("rows to train / validate / test", _sizes(facts["sizes"])),
                ("licence", facts.get("licence")),
                ("citation", facts.get("citation")),
                ("source", facts.get("origin")),
                ("files", " · ".join(facts.get("addresses") or [])),
                ("remark", facts.get("remark")),
            )
            if value
        ],
        "own": facts["own"],
        "classes": _balance(classes) if counted else None,
        "features": [
            {
                "name": escape.one_line(feature["name"]),
                "kind": feature["kind"],
                "distinct": _count(feature["n_distinct"]),
                "missing": _count(feature["n_missing"]),
            }
            for feature in facts["features"]
        ],
        "n_features": facts["n_features"] or len(facts["features"]),
        "counted": None if facts["passport"] else NO_COUNTS,
        "n_rows_counted": facts["n_rows_counted"],
        "flags": [
            *(
                {"severity": "warning", "id": "", "detail": warning}
                for warning in facts["warnings"]
                if not any(warning.endswith(flag["detail"]) for flag in facts["flags"])
            ),
            *facts["flags"],
        ],
        "passport": "" if facts["own"] else commands.passport(facts["added"] or name),
    }


def _notes(source: Source, name: str) -> list[str]:
    """The notes of the report that are about this dataset, or about all."""
    about = source.evidence.facts.notes_of
    notes = [*source.evidence.facts.notes]
    return [note for note in notes if name in about.get(note, [name])]


def _count(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"


def _feature_kinds(facts: dict[str, Any]) -> str | None:
    n = facts["n_features"]
    if n is None:
        return None
    kinds = [feature["kind"] for feature in facts["features"]]
    if len(kinds) != n:
        return f"{n:,}"
    words = [f"{kinds.count(kind)} {kind}" for kind in ("numeric", "categorical") if kind in kinds]
    return f"{n:,} ({', '.join(words)})" if words else f"{n:,}"


def _sizes(sizes: list[float] | None) -> str | None:
    if not sizes:
        return None
    whole = all(size == round(size) for size in sizes)
    shown = " / ".join(f"{size:,.0f}" for size in sizes)
    return shown if whole else f"{shown} (mean over the folds)"


def _balance(classes: dict[str, int | None]) -> dict[str, str]:
    """A figure of the share of each class."""
    counts = {name: n or 0 for name, n in classes.items()}
    total = max(1, sum(counts.values()))
    order = sorted(counts, key=lambda name: (-counts[name], name))
    bars = [figures.Row(f"{name} ({counts[name]:,})", counts[name] / total) for name in order]
    smallest, largest = counts[order[-1]], counts[order[0]]
    ratio = f"; the largest has {largest / smallest:.3g} times the rows of the smallest" * bool(
        smallest and smallest != largest
    )
    note = f"{len(order)} classes, rows in brackets{ratio}."
    if len(order) > MAX_CLASSES:
        note += f" Shown are the {MAX_CLASSES} largest."
    return figures.rows(
        bars[:MAX_CLASSES], title="Class balance", note=note, x="share of the rows", bars=True
    )


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
    columns["message"] = [_cut(v, MAX_TEXT) for v in columns["message"]]
    columns["config"] = [_cut(v, MAX_CONFIG) for v in columns["config"]]
    columns["seed"] = [str(v) for v in columns["seed"]]  # may exceed what a script counts exactly
    for part in ("val", "test"):
        scores = f"{part}_{metric_name}"
        values = trials[scores].tolist() if scores in trials else [math.nan] * len(trials)
        columns[part] = all_rounded(values, 6)
    for name in ("fit_s", "cpu_s"):
        columns[name] = all_rounded(columns[name], 4)
    return columns


def _cut(text: str, most: int) -> str:
    shown = escape.one_line(text)
    return shown if len(shown) <= most else shown[: most - 1] + "…"
