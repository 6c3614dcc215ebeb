"""What the HTML pages share, and the contents of the first page, `index.html`."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ..aggregation import anytime
from ..aggregation.cells import COMPLETE, PARTIAL, UNSUPPORTED
from ..aggregation.ranking_matrix import MIN_COVERAGE, RankingMatrix, widest
from ..evidence import Evidence
from ..metrics import METRICS
from ..output import escape, footnotes
from ..output.looks import FAMILIES, SHADES, Look, hue_of, looks, looks_of_others
from ..output.marks import ScoreText
from ..output.tables import Section, upright
from ..sections import out_of_fold
from ..sections.leaderboard import HEADS, IMPUTED, MIN_BOOTSTRAP, interval_text
from ..statistics.ranking import ELO_MEAN
from . import board, commands, figures, sizes, speed

if TYPE_CHECKING:
    from ..report import Parts

OF_SEVERAL = ("scores", "tests")  # what a page on one dataset does not show


@dataclass(frozen=True)
class Source:
    """What all pages are made from: the evidence, and what the report has computed from it."""

    evidence: Evidence
    parts: Mapping[str, Section]
    names: list[str]  # of the datasets
    headline: pd.DataFrame  # cells of each task's headline metric, one row per (dataset, model)
    cells: Mapping[str, list[Any]]  # its rows by dataset, as named tuples
    costs: pd.DataFrame  # one row per (dataset, model)
    cpu: Mapping[tuple[str, str], float]  # CPU seconds by (dataset, model)
    widest: RankingMatrix  # what the leaderboard shows before anything is filtered
    timed: pd.DataFrame  # at_times.ranks_at
    paths: Mapping[str, Mapping[str, np.ndarray]]  # anytime.by_trials
    files: Mapping[str, str]  # file name of each dataset's page
    model_files: Mapping[str, str]  # of each model's page

    @classmethod
    def of(cls, evidence: Evidence, parts: Parts) -> Source:
        """From the evidence and the parts of its report."""
        named = {part.name: part for part in parts.sections}
        scores, costs = named["scores"].frame, named["costs"].frame
        headline = scores[scores["headline"].astype(bool)].reset_index(drop=True)
        cells: dict[str, list[Any]] = {}
        for cell in headline.itertuples(index=False):
            cells.setdefault(cell.dataset, []).append(cell)
        pairs = zip(costs["dataset"], costs["model"], strict=True)
        names = evidence.datasets()
        return cls(
            evidence,
            named,
            names,
            headline,
            cells,
            costs,
            dict(zip(pairs, costs["cpu_s"].tolist(), strict=True)),
            widest(parts.matrices),
            parts.timed,
            anytime.by_trials(parts.steps),
            file_names(names),
            file_names(evidence.models, "model"),
        )

    def family(self, model: str) -> tuple[str, str, str]:
        """Family, summary (without the marks of code) and paper of a model; of an unknown one
        "external" and nothing."""
        family, summary, paper = self.evidence.facts.families.get(model, ("external", "", ""))
        return family, summary.replace("`", ""), paper

    @cached_property
    def looks(self) -> dict[str, Look]:
        """{model: (colour, dash)}, see `looks.looks`."""
        return looks(self.evidence.models, self.evidence.facts.families)

    @cached_property
    def dataset_looks(self) -> dict[str, Look]:
        """{dataset: (colour, dash)}, see `looks.looks_of_others`."""
        return looks_of_others(self.names)

    def hue(self, model: str) -> int:
        """The number of the colour of the model's family, as of its chip."""
        return SHADES * hue_of(self.family(model)[0])

    @cached_property
    def full_names(self) -> dict[str, str]:
        """{shortened name: full name} of names that the report's tables shorten."""
        labels = {name: escape.label(name) for name in (*self.names, *self.evidence.models)}
        return {
            cut: escape.one_line(name)
            for name, cut in labels.items()
            if cut != escape.one_line(name)
        }

    def anchor(self, model: str) -> str:
        """The id of a model's row on a dataset's page."""
        return "of-" + self.model_files[model].removeprefix("model-").removesuffix(".html")

    def entry(self, cell: Any, score: ScoreText) -> dict[str, Any]:
        """What the pages of a dataset and of a model both say of a cell: its score as `score`
        writes it, the folds and seeds behind it, its state, its costs and the command."""
        place = cell.dataset, cell.model
        few = self.evidence.fewer_seeds.get(place)
        seeds = f", {few[0]} of {few[1]} seeds" if few else ""
        fit, predict = self.speed.get(place, _UNKNOWN)
        return {
            "mean": score(cell.mean) or "–",
            "spread": score(cell.spread),
            "folds": f"{cell.n_folds} of {cell.n_planned}{seeds}",
            "state": cell.state,
            "cause": cell.cause,
            "fit": speed.seconds(fit),
            "predict": speed.seconds(predict),
            "cpu": speed.seconds(self.cpu.get(place, math.nan)),
            "command": commands.explain(self.evidence.facts.runs, *place),
        }

    @cached_property
    def speed(self) -> dict[tuple[str, str], tuple[float, float]]:
        """Seconds per 1,000 rows, see `speed.per_1000_rows`."""
        return speed.per_1000_rows(self.evidence)

    @cached_property
    def _by_model(self) -> tuple[np.ndarray, np.ndarray]:
        """(row numbers of the trials in the order of their models, where each model's begin)."""
        number, studies = self.evidence.study_numbers
        codes = np.searchsorted(self.evidence.models, studies["model"].to_numpy(dtype=object))
        codes = codes.astype(np.int32)[number]
        order = np.argsort(codes, kind="stable")
        bounds = np.arange(len(self.evidence.models) + 1)
        return order, np.searchsorted(codes[order], bounds)

    def rows_of(self, model: str) -> np.ndarray:
        """Numbers of the model's rows in the evidence's trials, ascending."""
        order, bounds = self._by_model
        at = self.evidence.models.index(model)
        return order[bounds[at] : bounds[at + 1]]


def file_names(names: Sequence[str], kind: str = "dataset") -> dict[str, str]:
    """{dataset or model: file name of its page}, valid on every file system whatever the name."""
    found = {}
    for name in names:
        clean = re.sub(r"[^a-z0-9-]+", "-", name.lower())[:40].strip("-")
        if clean != name:
            digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
            clean = f"{clean}-{digest}".strip("-")
        found[name] = f"{kind}-{clean}.html"
    return found


def neighbours(files: Mapping[str, str], name: str) -> dict[str, tuple[str, str] | None]:
    """{"before": (name, file), "after": (name, file)} of the pages beside that of `name`."""
    links = [None, *((escape.one_line(other), file) for other, file in files.items()), None]
    at = list(files).index(name)
    return {"before": links[at], "after": links[at + 2]}


def own_names(source: Source) -> list[str]:
    """The user's own models, as figures name them."""
    return [escape.one_line(model) for model in source.evidence.own]


def index(source: Source) -> dict[str, Any]:
    """The variables of the first page; `data` is the document that its script reads."""
    evidence = source.evidence
    facts = evidence.facts
    alone = len(source.names) == 1  # no ranks: its scores stand in the leaderboard's place
    # Of one table the models are compared out of fold: by all rows but the test part's.
    first = [source.parts[out_of_fold.NAME]] if alone and out_of_fold.NAME in source.parts else []
    data = board.data(evidence, source.headline, source.costs, source.files)
    mine = source.widest
    there = {source.hue(model) for model in evidence.models}
    standings = _standings(source)
    elo = {entry["model"]: entry["ends"] for entry in standings}
    data |= {
        "pages": [source.model_files[m] for m in evidence.models],
        "looks": [source.looks[m] for m in evidence.models],
        "speed": {
            kind: [
                board.all_rounded(
                    [source.speed.get((d, m), _UNKNOWN)[i] for m in evidence.models], 4
                )
                for d in source.names
            ]
            for i, kind in enumerate(("fit", "predict"))
        },
        "elo": [board.all_rounded(elo[m], 6) if m in elo else None for m in evidence.models],
    }
    links = {escape.label(name): file for name, file in source.files.items()}
    shown = {escape.label(name): [escape.label(name)] for name in source.names}
    for table in source.parts["scores"].tables:
        for row in (row for panel in table.panels for row in panel.rows if row[0].text in shown):
            shown[row[0].text].append(row[0].text + row[0].mark)  # as a column's heading has it
    links |= {head: links[name] for name, heads in shown.items() for head in heads}
    anchors = {  # of the cells that were planned: the others have no row to lead to
        (head, escape.label(cell.model)): source.anchor(cell.model)
        for name in source.names
        for head in shown[escape.label(name)]
        for cell in source.cells[name]
    }
    return {
        "title": f"{facts.title or facts.suite or 'Results'}: comparison of models",
        "notes": [*facts.notes],
        "verdict": (first or [source.parts["leaderboard"]])[0].remarks[0],
        "first": first,
        "lead": _lead(evidence),
        "setting": " ".join(
            line for line in footnotes.setting(evidence) if line.startswith("Setting:")
        ),
        **_coverage(source),
        "alone": alone,
        "data": {"kind": "index", "own": own_names(source)} if alone else data,
        "next": [commands.fit(facts.runs), commands.features(facts.runs, source.names[0])]
        if alone and facts.of_datasets.get(source.names[0], {}).get("own")
        else [],
        "standings": standings,
        "families": [(name, SHADES * i) for i, name in enumerate(FAMILIES) if SHADES * i in there],
        "models": [_model_row(source, name) for name in evidence.models],
        "anchors": anchors,
        "own": [escape.label(model) for model in evidence.own],
        "ranked": {"datasets": len(mine.datasets), "of": mine.n_scope},
        "why": mine.why_not,
        "caption": _caption(evidence, mine),
        "at_equal_time": [] if alone else _at_equal_time(source),
        "by_size": [] if alone else sizes.of_all(evidence),
        "sections": [
            replace(p, tables=tuple(map(upright, p.tables))) if name == "scores" else p
            for name, p in source.parts.items()
            if name not in ("look-first", "coverage", "leaderboard", *(OF_SEVERAL * alone))
            and p not in first
        ],
        "alarms": source.parts["look-first"],
        "coverage": source.parts["coverage"],
        "intervals": source.parts["leaderboard"],
        "boards": _boards(source.parts["leaderboard"]),
        "datasets": [_dataset_row(source, name) for name in source.names],
        "links": links,
        "protocols": footnotes.protocols(evidence, source.names),
        "about": [*footnotes.about(evidence).items()],
        "versions": sorted(facts.versions.items()),
        "environment": sorted(facts.environment.items()),
        "left_out": sorted(facts.left_out.items()),
    }


def _lead(evidence: Evidence) -> str:
    """One sentence: the number of models and datasets, and the metrics."""
    tasks = [
        f"{len(evidence.datasets(t))} {footnotes.TASK_TITLES[t]}"
        f" ({METRICS[evidence.headline(t)].label})"
        for t in evidence.tasks
    ]
    models = footnotes.count(len(evidence.models), "model")
    datasets = footnotes.count(len(evidence.datasets()), "dataset")
    return f"{models} on {datasets}: {', '.join(tasks)}."


def _boards(leaderboard: Section) -> str:
    """The heading of the report's leaderboards: what they have that the page's first has not."""
    words = ["Leaderboards by task"]
    if any(HEADS["interval"] in table.header for table in leaderboard.tables):
        words.append("with intervals")
    if (leaderboard.frame["view"] == IMPUTED).any():
        words.append("with missing cells imputed")
    return ", ".join(words)


def _coverage(source: Source) -> dict[str, Any]:
    """The counts shown before any score: complete cells and studies, failures, open studies; a
    cell that a model does not support is a planned absence and no alarm, nor is one of fewer folds
    than other models have, if all that were planned have a score."""
    frame = source.parts["coverage"].frame
    sums = {name: int(frame[name].sum()) for name in frame.columns if name.startswith("folds")}
    trials, failed = int(frame["trials_recorded"].sum()), int(frame["trials_failed"].sum())
    cells = source.headline.merge(frame[["dataset", "model", "folds"]], on=["dataset", "model"])
    state = cells["state"]
    some = int(((state == PARTIAL) & (cells["n_folds"] == cells["folds"])).sum())
    whole, absent = int((state == COMPLETE).sum()) + some, int((state == UNSUPPORTED).sum())
    wanted = len(state) - absent
    studies = sums["folds"] - sums["folds_unsupported"]
    said = [f"{absent} not supported"] * (absent > 0)
    said += [f"{some} on fewer folds than others"] * (some > 0)
    planned = f" ({', '.join(said)}, as planned)" if said else ""
    left = "open" if source.evidence.facts.runs else "without a result"  # which no run planned
    counts = [
        (f"{whole} of {wanted} cells complete{planned}", whole < wanted),
        (
            f"{sums['folds_complete']} of {studies} studies with a score",
            sums["folds_complete"] < studies,
        ),
        (f"{failed} failed of {footnotes.count(trials, 'trial')}", failed > 0),
        (f"{sums['folds_open']} studies {left}", sums["folds_open"] > 0),
    ]
    return {"counts": counts, "alarm": any(bad for _, bad in counts)}


_UNKNOWN = (math.nan, math.nan)


def _standings(source: Source) -> list[dict[str, Any]]:
    """The rows of the report's leaderboard over all datasets, the best first: what the page shows
    before anything is filtered, and without scripts."""
    board, mine = source.parts["leaderboard"].frame, source.widest
    shown = (board["scope"] == mine.scope.name) & (board["datasets"] == mine.scope.selection)
    shown &= (board["view"] == "complete") & (board["note"] == "")
    here = source.costs[source.costs["dataset"].isin(mine.datasets)]
    cpu = here.groupby("model", sort=True)["cpu_s"].sum(min_count=1)
    entries = []
    for row in board[shown].itertuples(index=False):
        model, low, high = str(row.model), float(row.elo_low), float(row.elo_high)
        rates = np.array([source.speed.get((d, model), _UNKNOWN) for d in mine.datasets])
        known = [column[~np.isnan(column)] for column in rates.T]
        fit, predict = (float(np.median(c)) if len(c) else math.nan for c in known)
        entries.append(
            {
                "model": model,
                "own": model in source.evidence.own,
                "file": source.model_files[model],
                "colour": source.looks[model][0],
                "mean": row.mean_rank,
                "se": row.mean_rank_se,
                "win": row.win_rate,
                "elo": row.elo,
                "ends": (low, high),
                "interval": "" if math.isnan(low) else interval_text(low, high),
                "score": row.normalised,
                "best": row.n_best,
                "fit": speed.seconds(fit),
                "predict": speed.seconds(predict),
                "cpu": speed.seconds(float(cpu.get(model, math.nan))),
            }
        )
    return entries


def _model_row(source: Source, name: str) -> dict[str, Any]:
    cells = [cell for found in source.cells.values() for cell in found if cell.model == name]
    rows = source.rows_of(name)
    return {
        "name": escape.one_line(name),
        "own": name in source.evidence.own,
        "file": source.model_files[name],
        "family": source.family(name)[0],
        "hue": source.hue(name),
        "summary": source.family(name)[1],
        "complete": f"{sum(cell.state == COMPLETE for cell in cells)} of {len(cells)}",
        "best": sum(bool(cell.best) for cell in cells),
        "trials": len(rows),
        "failed": int((source.evidence.having("status", "failed")[rows]).sum()),
    }


def _caption(evidence: Evidence, mine: RankingMatrix) -> list[str]:
    """Notes on how to read the leaderboard: metrics, coverage, ties and the figures."""
    return [
        f"Ranked by test score: {footnotes.headlines(evidence, evidence.tasks)}.",
        f"Ranked are the models with a complete score on at least {100 * MIN_COVERAGE:g} % of "
        "the chosen datasets, on the datasets on which all of them have one. Every figure depends "
        "on which models and datasets are chosen.",
        footnotes.TIES,
        "Mean rank ± its standard error over datasets, s/√N. Win rate: share of (opponent, "
        "dataset) pairs won, ties count one half. Elo: Bradley-Terry strengths, mean "
        f"{ELO_MEAN:g}. Score: 1 for the best and 0 for the worst of a dataset, mean. "
        "CPU: seconds of all trials on the ranked datasets.",
        "In brackets: 95 % interval of the Elo of all models, over resamples of all datasets, "
        f"where at least {MIN_BOOTSTRAP} are ranked.",
        "Fit and predict: seconds per 1,000 rows of the configurations whose test scores count, "
        "median over the ranked datasets. Predictions: a batch of 1,000 rows where that was "
        "measured, else the validation and test rows; on small tables that is mostly what a call "
        "costs. Other trials ran beside them.",
    ]


def _dataset_row(source: Source, name: str) -> dict[str, Any]:
    cells = source.cells[name]
    task = cells[0].task
    return {
        "name": escape.one_line(name),
        "file": source.files[name],
        "task": footnotes.TASK_TITLES[task],
        "metric": METRICS[source.evidence.headline(task)].label,
        "rows": source.evidence.facts.rows.get(name),
        "complete": f"{sum(cell.state == COMPLETE for cell in cells)} of {len(cells)}",
        "best": footnotes.join((cell.model for cell in cells if cell.best), limit=3),
    }


def _at_equal_time(source: Source) -> list[dict[str, str]]:
    """The figure of mean ranks against the CPU seconds of a study."""
    found = source.timed
    if found["time"].nunique() < 2:
        return []
    lines = []
    for model, part in found[found["scored"] > 0].groupby("model", sort=True):
        points = tuple(zip(part["time"].tolist(), part["mean_rank"].tolist(), strict=True))
        lines.append(figures.Series(str(model), points, source.looks[str(model)]))
    lines.sort(key=lambda line: (line.points[-1][1], line.name))
    note = "Test scores; 1 is the best. A line begins where its model has its first score."
    title, x = "Mean rank at equal time", "CPU seconds per study"
    return [figures.lines(lines, title=title, note=note, x=x, y="mean rank", log_x=10)]
