"""What the HTML pages share, and the contents of the first page, `index.html`."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ..aggregation import anytime, at_times
from ..aggregation.cells import COMPLETE
from ..aggregation.rank_tests import verdict
from ..aggregation.ranking_matrix import MIN_COVERAGE, RankingMatrix, scopes
from ..evidence import Evidence
from ..metrics import METRICS
from ..output import escape, footnotes
from ..output.tables import ReportTable, Section
from ..statistics.ranking import ELO_MEAN
from . import board, charts

SERIES_POINTS = 100  # of a curve
DIAGRAMS = "figures/critical-difference-"
MAX_BARS = 12  # hyperparameters of a model
ABOUT = (
    ("suite", "suite"),
    ("budget", "budget"),
    ("sampler", "sampler"),
    ("seed", "seed"),
    ("suite hash", "suite_hash"),
    ("code", "code"),
    ("lock file", "lock"),
    ("last record (UTC)", "last_record_utc"),
)


@dataclass(frozen=True)
class Source:
    """What all pages are made from: the evidence, and what the report has computed from it."""

    evidence: Evidence
    parts: Mapping[str, Section]
    names: list[str]  # of the datasets
    subset: frozenset[str]  # the independent, learnable ones
    headline: pd.DataFrame  # cells of each task's headline metric, one row per (dataset, model)
    cells: Mapping[str, list[Any]]  # its rows by dataset, as named tuples
    costs: pd.DataFrame  # one row per (dataset, model)
    cpu: Mapping[tuple[str, str], float]  # CPU seconds by (dataset, model)
    steps: pd.DataFrame  # anytime.running
    paths: Mapping[str, Mapping[str, np.ndarray]]  # anytime.by_trials
    files: Mapping[str, str]  # file name of each dataset's page

    @classmethod
    def of(cls, evidence: Evidence, parts: Sequence[Section]) -> Source:
        """From the evidence and the sections of its report."""
        named = {part.name: part for part in parts}
        scores, costs = named["scores"].frame, named["costs"].frame
        headline = scores[scores["headline"].astype(bool)].reset_index(drop=True)
        cells: dict[str, list[Any]] = {}
        for cell in headline.itertuples(index=False):
            cells.setdefault(cell.dataset, []).append(cell)
        pairs = zip(costs["dataset"], costs["model"], strict=True)
        names, steps = evidence.datasets(), anytime.running(evidence)
        return cls(
            evidence,
            named,
            names,
            frozenset(evidence.subset),
            headline,
            cells,
            costs,
            dict(zip(pairs, costs["cpu_s"].tolist(), strict=True)),
            steps,
            anytime.by_trials(steps),
            file_names(names),
        )


def file_names(datasets: Sequence[str]) -> dict[str, str]:
    """{dataset: file name of its page}, valid on every file system whatever the dataset's name."""
    found = {}
    for name in datasets:
        clean = re.sub(r"[^a-z0-9-]+", "-", name.lower())[:40].strip("-")
        if clean != name:
            digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
            clean = f"{clean}-{digest}".strip("-")
        found[name] = f"dataset-{clean}.html"
    return found


def index(source: Source, others: Sequence[str] = ()) -> dict[str, Any]:
    """The variables of the first page; `data` is the document that its script reads. `others`:
    names of further files of the report, of which the page links the diagrams."""
    evidence = source.evidence
    meta = evidence.meta
    data = board.data(evidence, source.headline, source.costs, source.steps, source.files)
    mine = _widest(source)
    cpu = _cpu(source, mine)
    return {
        "title": f"{meta.get('suite') or 'Results'}: comparison of models",
        "notes": [str(note) for note in meta.get("notes") or []],
        "verdict": verdict(mine),
        "lead": _lead(evidence),
        "setting": " ".join(
            line for line in footnotes.setting(evidence) if line.startswith("Setting:")
        ),
        "tiles": _tiles(source),
        "incomplete": bool((source.headline["state"] != COMPLETE).any()),
        "data": data,
        "standings": board.standings(mine, cpu),
        "ranked": {"datasets": len(mine.datasets), "of": mine.n_scope},
        "why": mine.why_not,
        "caption": _caption(evidence, mine),
        "curves": [*_curves(source, mine), *_at_equal_time(source)],
        "importance": importance(evidence.importance),
        "sections": [
            p
            for name, p in source.parts.items()
            if name not in ("look-first", "coverage", "leaderboard")
        ],
        "alarms": source.parts["look-first"],
        "coverage": source.parts["coverage"],
        "intervals": source.parts.get("leaderboard"),
        "diagrams": [name for name in sorted(others) if name.startswith(DIAGRAMS)],
        "datasets": [_dataset_row(source, name) for name in source.names],
        "links": {escape.label(name): file for name, file in source.files.items()},
        "protocols": footnotes.protocols(evidence, source.names),
        "about": [(title, meta[key]) for title, key in ABOUT if meta.get(key) not in (None, "")],
        "versions": sorted((meta.get("versions") or {}).items()),
        "environment": sorted((meta.get("environment") or {}).items()),
        "left_out": sorted((meta.get("left_out") or {}).items()),
    }


def _lead(evidence: Evidence) -> str:
    """One sentence: the number of models and datasets, and the metrics."""
    tasks = [
        f"{len(evidence.datasets(t))} {footnotes.TASK_TITLES[t]}"
        f" ({METRICS[evidence.headline(t)].label})"
        for t in evidence.tasks
    ]
    models = footnotes.plural(len(evidence.models), "model")
    datasets = footnotes.plural(len(evidence.datasets()), "dataset")
    return f"{models} on {datasets}: {', '.join(tasks)}."


def _tiles(source: Source) -> list[dict[str, Any]]:
    """The counts shown before any score: complete cells and studies, failures, open studies."""
    frame = source.parts["coverage"].frame
    sums = {name: int(frame[name].sum()) for name in frame.columns if name.startswith("folds")}
    trials, failed = int(frame["trials_recorded"].sum()), int(frame["trials_failed"].sum())
    whole = int((source.headline["state"] == COMPLETE).sum())
    planned = len(source.headline)
    wanted = sums["folds"] - sums["folds_unsupported"]
    return [
        _tile(f"{whole} of {planned}", "cells (model, dataset) complete", whole == planned),
        _tile(
            f"{sums['folds_complete']} of {wanted}",
            "supported studies with a score",
            sums["folds_complete"] == wanted,
        ),
        _tile(str(failed), f"failed of {footnotes.plural(trials, 'trial')}", failed == 0),
        _tile(str(sums["folds_open"]), "studies still open", sums["folds_open"] == 0),
    ]


def _tile(value: str, label: str, good: bool) -> dict[str, Any]:
    return {"value": value, "label": label, "good": good}


def _widest(source: Source) -> RankingMatrix:
    """The matrix of the widest scope: what the leaderboard shows before anything is filtered."""
    whole = [s for s in scopes(source.evidence) if not s.subset][-1]
    return RankingMatrix.of(source.evidence, source.headline, whole)


def _cpu(source: Source, mine: RankingMatrix) -> dict[str, float]:
    here = source.costs[source.costs["dataset"].isin(mine.datasets)]
    sums = here.groupby("model", sort=True)["cpu_s"].sum(min_count=1)
    return {str(model): float(value) for model, value in sums.items()}


def _caption(evidence: Evidence, mine: RankingMatrix) -> list[str]:
    """Notes on how to read the leaderboard: metrics, coverage, ties and the figures."""
    metrics = "; ".join(
        f"{footnotes.TASK_TITLES[t]} by {METRICS[evidence.headline(t)].label}"
        for t in evidence.tasks
    )
    return [
        f"Ranked by test score: {metrics}.",
        f"Ranked are the models with a complete score on at least {100 * MIN_COVERAGE:g} % of "
        "the chosen datasets, on the datasets on which all of them have one. Every figure depends "
        "on which models and datasets are chosen.",
        footnotes.TIES,
        "Mean rank ± its standard error over datasets, s/√N. Win rate: share of (opponent, "
        "dataset) pairs won, ties count one half. Elo: Bradley-Terry strengths, mean "
        f"{ELO_MEAN:g}. Score: 1 for the best and 0 for the worst of a dataset, mean. "
        "CPU: seconds of all trials on the ranked datasets.",
    ]


def _dataset_row(source: Source, name: str) -> dict[str, Any]:
    cells = source.cells[name]
    task = cells[0].task
    return {
        "name": escape.label(name),
        "file": source.files[name],
        "task": footnotes.TASK_TITLES[task],
        "metric": METRICS[source.evidence.headline(task)].label,
        "rows": (source.evidence.meta.get("rows") or {}).get(name),
        "whole": sum(cell.state == COMPLETE for cell in cells),
        "planned": len(cells),
        "best": footnotes.join((cell.model for cell in cells if cell.best), limit=3),
    }


# --- tuning over all datasets ---------------------------------------------------------------------


def _curves(source: Source, mine: RankingMatrix) -> list[dict[str, str]]:
    """Figures of the validation score against trials and seconds, averaged over datasets."""
    shares = {
        name: _shares(source.paths.get(name, {}), mine.models)
        for name in mine.datasets
        if source.paths.get(name)
    }
    whole = [s for s in shares.values() if len(s) == len(mine.models)]
    if not whole or not any(len(p) > 1 for s in whole for p in s.values()):
        return []
    by_n, by_s = [], []
    for model in mine.models:
        length = min(len(s[model]) for s in whole)
        points = np.mean([s[model][:length] for s in whole], axis=0)
        by_n.append(charts.Series(model, thin(points[:, [0, 2]])))
        if np.isfinite(points[:, 1]).all():
            by_s.append(charts.Series(model, thin(points[:, [1, 2]])))
    y = "share of the way to the best"
    note = (
        f"Mean over {footnotes.plural(len(whole), 'dataset')}: 0 is the worst first configuration "
        "of any model on a dataset, 1 the best validation score that any model reached. Validation "
        "scores, not test scores."
    )
    found = []
    for lines, title, x, base in (
        (by_n, "Best validation score against trials", "configurations tried per study", 2),
        (by_s, "Best validation score against time", "wall seconds per study", 10),
    ):
        if lines:
            lines = sorted(lines, key=lambda line: (-line.points[-1][1], line.name))
            drawn = charts.lines(lines, title=title, x=x, y=y, log_x=base)
            found.append({"title": title, "svg": drawn, "note": note})
    return found


def _at_equal_time(source: Source) -> list[dict[str, str]]:
    """The figure of mean ranks against the CPU seconds of a study."""
    steps = at_times.spent(source.evidence)
    cells = at_times.cells_at(steps, source.headline, at_times.times(steps))
    found = at_times.ranks_at(source.evidence, cells)
    if found["time"].nunique() < 2:
        return []
    lines = []
    for model, part in found[found["scored"] > 0].groupby("model", sort=True):
        points = tuple(zip(part["time"].tolist(), part["mean_rank"].tolist(), strict=True))
        lines.append(charts.Series(str(model), points))
    lines.sort(key=lambda line: (line.points[-1][1], line.name))
    title = "Mean rank at equal time"
    drawn = charts.lines(lines, title=title, x="CPU seconds per study", y="mean rank", log_x=10)
    note = "Test scores; 1 is the best. A line begins where its model has its first score."
    return [{"title": title, "svg": drawn, "note": note}]


def _shares(paths: Mapping[str, np.ndarray], models: Sequence[str]) -> dict[str, np.ndarray]:
    """Each model's curve with its losses as shares of the way from worst start to best end."""
    here = {m: paths[m] for m in models if m in paths}
    if not here:
        return {}
    worst = max(float(p[0, 2]) for p in here.values())
    best = min(float(p[-1, 2]) for p in here.values())
    span = worst - best
    shares = {}
    for model, points in here.items():
        share = (worst - points[:, 2]) / span if span > 0 else np.ones(len(points))
        shares[model] = np.column_stack([points[:, :2], share])
    return shares


def thin(points: np.ndarray) -> tuple[tuple[float, float], ...]:
    """The points (x, y) of a step curve where y changes, and its two ends; at most SERIES_POINTS,
    evenly chosen."""
    change = np.append(True, points[1:, 1] != points[:-1, 1])
    change[-1] = True
    points = points[change]
    if len(points) > SERIES_POINTS:
        even = np.linspace(0, len(points) - 1, SERIES_POINTS).round().astype(int)
        points = points[even]
    return tuple(map(tuple, points.tolist()))


def importance(frame: pd.DataFrame | None) -> list[dict[str, str]]:
    """One figure per model: the share of the validation score's variance that each hyperparameter
    explains, mean over the datasets of the frame (`Evidence.importance`)."""
    if frame is None or not len(frame):
        return []
    found = []
    for model, rows in frame.groupby("model", sort=True):
        share = rows.groupby("parameter", sort=True)["importance"].sum() / rows["dataset"].nunique()
        share = share.sort_values(ascending=False, kind="stable")
        name = escape.label(str(model))
        bars = [charts.Dot(str(p), float(v)) for p, v in share.head(MAX_BARS).items()]
        n = int(rows.drop_duplicates("dataset")["n_trials"].sum())
        more = f"; {len(share) - MAX_BARS} more hyperparameters" if len(share) > MAX_BARS else ""
        note = f"From {footnotes.plural(n, 'trial')} on "
        note += f"{footnotes.plural(rows['dataset'].nunique(), 'dataset')}{more}."
        drawn = charts.bars(bars, title=f"Hyperparameters of {name}", x="share of the variance")
        found.append({"title": name, "svg": drawn, "note": note})
    return found


def tables_of(section: Section) -> tuple[ReportTable, ...]:
    """The tables of a section that a page shows: those of its Markdown."""
    return tuple(table for table in section.tables if "md" in table.outputs)
