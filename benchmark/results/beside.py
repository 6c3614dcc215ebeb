"""Published results beside a run's own: joined where they are comparable, else set apart.

A published score is comparable where it is of the same rows: the run used the added dataset that
the entrant's card names (`bench data add`), with the authors' split and the card's numbers of rows,
and the entrant has the run's metric on it. Of an entrant that was exported from runs of our own
(`bench beside export`), data, protocol and folds are the same. All other scores compare protocols
as well as methods. They are ranked with nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ...common.text import one_line
from ...datasets.errors import DataError
from ...reports.aggregation.cells import cells, studies
from ...reports.evidence import Evidence
from ...sweeps.store.ledger import Ledger
from ..planning.plan_record import SINGLE, plan_in
from .entrants import DatasetFacts, ResultsFile, results_file
from .evidence_builder import noting

OURS = ""  # source of a row of this run
COLUMNS = ["dataset", "metric", "source", "model", "score", "spread", "n", "same_rows", "reason"]


@dataclass(frozen=True)
class RunDataset:
    """A dataset of a run, as its plan describes it. added: the added dataset that it is, or "".
    sizes: rows to train, validate and test, of each fold; folds: their numbers. rows: the sha256 of
    the data; drawn: (protocol, seed of the folds); fits: what its scores are of."""

    name: str
    task: str
    protocol: str
    added: str = ""
    sizes: tuple[tuple[int, ...], ...] = ()
    rows: str = ""
    drawn: tuple[str, ...] = ()
    folds: tuple[int, ...] = ()
    fits: str = SINGLE

    @property
    def split(self) -> str:
        """Its split in words."""
        rows = "/".join(map(str, self.sizes[0])) if self.sizes else "an unknown number of"
        folds = f", {len(self.sizes)} folds" if len(self.sizes) > 1 else ""
        return f"{self.protocol}, {rows} rows{folds}"


@dataclass(frozen=True)
class Beside:
    """A run with published results. evidence: the run's, with comparable results added as models of
    their own. apart: the other scores (COLUMNS; `reason` says why they are not comparable)."""

    evidence: Evidence
    apart: pd.DataFrame


def run_datasets(runs: Sequence[Path]) -> dict[str, RunDataset]:
    """The datasets of runs, by name. Raises LedgerError."""
    datasets = {}
    for run in runs:
        plan = plan_in(Ledger(run))
        for name, described in plan.datasets.items():
            datasets[name] = RunDataset(
                name,
                described.task,
                described.protocol,
                described.added,
                tuple(tuple(sizes) for sizes in described.sizes),
                described.sha256,
                plan.drawn(name),
                tuple(plan.folds_of(name)),
                plan.fits.get(name, SINGLE),
            )
    return datasets


def marked(method: str, source: str) -> str:
    """The name of a published method in a table.

    >>> marked("catboost", "rtdl")
    'catboost [rtdl]'
    """
    return f"{method} [{source}]"


def why_not(ours: RunDataset, theirs: DatasetFacts, task: str, metric: str, has: bool) -> str:
    """Why a published score on a dataset is not comparable with ours, or "" if it is.

    task: the published dataset's. metric: the run's headline; has: whether a score of this
    metric was published.
    """
    if task != ours.task:
        return f"other task: {task}, not {ours.task}"
    if not has:
        return f"no published {metric}"
    if ours.fits != (theirs.fits or SINGLE):
        return f"other fits: {ours.fits} here, {theirs.fits or SINGLE} there"
    if theirs.rows:
        return _other_rows(ours, theirs)
    if not (ours.added and ours.protocol == "official"):
        return f"other split: here {ours.split}; the authors' own there"
    if theirs.added and ours.added != theirs.added:
        return f"other rows: here the added dataset {ours.added}; theirs would be {theirs.added}"
    if not (theirs.added and theirs.sizes):
        return "the authors' split is not known: their card names no added dataset, or not its rows"
    if [list(sizes) for sizes in ours.sizes] != [theirs.sizes]:
        rows = "/".join(map(str, theirs.sizes))
        return f"other split: here {ours.split}; {rows} rows there"
    return ""


def _other_rows(ours: RunDataset, theirs: DatasetFacts) -> str:
    """`why_not` of results of our own, whose card knows the data and the folds."""
    if ours.rows != theirs.rows:
        return f"other data: sha256 {ours.rows[:12]}... here, {theirs.rows[:12]}... there"
    here, there = (" with seed ".join(filter(None, drawn)) for drawn in (ours.drawn, theirs.drawn))
    if here != there:
        return f"other split: {here} here, {there} there"
    more = sorted(set(ours.folds) - set(theirs.folds))
    return f"no results on the folds {', '.join(map(str, more))}" if more else ""


def with_published(
    evidence: Evidence, datasets: Mapping[str, RunDataset], names: Sequence[str]
) -> Beside:
    """The evidence of a run with the results of entrants beside it.

    names: of entrants that come with the package, or folders of one's own. Raises DataError for an
    unknown or damaged one, EvidenceError for results that break a law.
    """
    entrants = [(name, results_file(Path(name))) for name in names]
    files = {file.card.mark or Path(name).name: file for name, file in entrants}
    if len(files) < len(names):
        raise DataError(f"two entrants have the same name: {', '.join(names)}")
    joined, apart = evidence, list[pd.DataFrame]()
    for source, file in files.items():
        if not file.card.datasets:
            raise DataError(
                f"{one_line(source)}: its card names no dataset of ours ([datasets.NAME] with "
                "ours = ...), so nothing can be put beside it"
            )
        theirs = file.evidence()
        pairs = _pairs(evidence, datasets, file, theirs)
        same = [pair for pair in pairs if not pair.reason]
        if same:
            mark = joined.models if file.is_ours else theirs.models
            named = {m: marked(m, source) if m in mark else m for m in theirs.models}
            joined = _joined(joined, theirs, same, named, datasets)
            joined = _told_of(joined, file, source)
        rest = [pair for pair in pairs if pair.reason]
        apart += [_apart(theirs, evidence, pair, source, file.card.means_of) for pair in rest]
        joined = noting(joined, *_notes(file, source, same, joined))
    ours = sorted({row for frame in apart for row in frame["dataset"].unique()})
    frames = [frame for frame in (_own(evidence, ours), *apart) if len(frame)]
    frame = pd.concat(frames, ignore_index=True) if apart else pd.DataFrame(columns=COLUMNS)
    return Beside(joined, frame[COLUMNS])


def _told_of(joined: Evidence, file: ResultsFile, source: str) -> Evidence:
    """The evidence with a sentence on how the models of a source were tuned."""
    said = {source: f"models of {file.card.title or source}, {file.budget()}."}
    return joined.knowing(tuned={**joined.facts.tuned, **said})


def _notes(file: ResultsFile, source: str, same: Sequence[_Pair], joined: Evidence) -> list[str]:
    ranked = ", ".join(pair.ours for pair in same) or "none"
    means = [f"Each value of [{source}] is a mean of {file.card.means_of} runs."]
    who = f"Models marked [{source}] are published results, not trials of this run"
    if file.is_ours and same:
        tuned = joined.facts.tuned[source].rstrip(".")
        who = f"Not trials of this run: {tuned}; [{source}] marks those that the run has, too"
    return [
        f"{who}; comparable with ours (same rows, same metric) on: {ranked}.",
        *(means if file.card.means_of else []),
        *file.notes,
    ]


@dataclass(frozen=True)
class _Pair:
    """A published dataset and ours beside it; reason: why they are not comparable, "" where they
    are."""

    theirs: str
    ours: str
    reason: str


def _pairs(
    evidence: Evidence, datasets: Mapping[str, RunDataset], file: ResultsFile, theirs: Evidence
) -> list[_Pair]:
    """The published datasets with those of ours that they are, by name."""
    tasks = dict(theirs.planned[["dataset", "task"]].drop_duplicates().itertuples(index=False))
    pairs = []
    for name, facts in sorted(file.card.datasets.items()):
        rows = theirs.trials[theirs.trials["dataset"] == name]
        for _, ours in sorted(datasets.items()) if name in tasks else ():
            if ours.name == facts.ours or (ours.added and ours.added == facts.added):
                metric = evidence.headline(ours.task)
                has = f"test_{metric}" in rows and bool(rows[f"test_{metric}"].notna().any())
                why = why_not(ours, facts, tasks[name], metric, has)
                pairs.append(_Pair(name, ours.name, why))
    return pairs


def _joined(
    evidence: Evidence,
    theirs: Evidence,
    pairs: Sequence[_Pair],
    named: Mapping[str, str],
    datasets: Mapping[str, RunDataset],
) -> Evidence:
    """The evidence with the published trials of the pairs as models of their own, on the folds that
    the run has. named: {published method: its name beside ours}."""

    def on_ours(frame: pd.DataFrame) -> pd.DataFrame:
        copies = [
            frame[
                (frame["dataset"] == pair.theirs) & frame["fold"].isin(datasets[pair.ours].folds)
            ].assign(dataset=pair.ours)
            for pair in pairs
        ]
        return pd.concat(copies, ignore_index=True)  # one of theirs may be several of ours

    shown = {m: name + named[m].removeprefix(m) for m, name in theirs.facts.names.items()}
    theirs = theirs.knowing(names=shown)
    beside = theirs if evidence.ensembles is not None else theirs.but(ensembles=None)
    return evidence.joined(beside.changed(on_ours).called(named))


def _apart(
    theirs: Evidence, ours: Evidence, pair: _Pair, source: str, means_of: int
) -> pd.DataFrame:
    """The published scores of a dataset in the run's metric (or in what there is), a row a method:
    the mean over folds of the means over seeds; for a single fold, the deviation over its seeds."""
    trials = theirs.trials[theirs.trials["dataset"] == pair.theirs]
    task = str(trials["task"].iloc[0])
    wanted = ours.headline(task) if task in ours.tasks else theirs.headline(task)
    held = [m for m in (wanted, *theirs.test_metrics(task)) if f"test_{m}" in trials]
    metric = next((m for m in held if trials[f"test_{m}"].notna().any()), held[0])
    scored = trials.dropna(subset=[f"test_{metric}"]).groupby(["model", "fold"])
    folds = scored[f"test_{metric}"].agg(["mean", "std", "size"]).groupby("model")
    spread = folds["std"].first().where(folds.size() == 1)
    rows = pd.DataFrame({"score": folds["mean"].mean(), "spread": spread, "n": folds["size"].min()})
    rows = rows.rename_axis("model").reset_index()
    if means_of:  # each line is a mean already
        rows = rows.assign(n=means_of, spread=np.nan)
    return rows.assign(
        dataset=pair.ours, metric=metric, source=source, same_rows=False, reason=pair.reason
    )[COLUMNS]


def _own(evidence: Evidence, datasets: Sequence[str]) -> pd.DataFrame:
    """Our complete scores on the datasets, in the same form; spread over folds is not given."""
    table = studies(evidence)
    frames = []
    for task in evidence.tasks:
        metric = evidence.headline(task)
        mine = cells(evidence, table[table["task"] == task], metric)
        mine = mine[mine["dataset"].isin(datasets) & mine["mean"].notna()]
        frames.append(
            pd.DataFrame(
                {
                    "dataset": mine["dataset"], "metric": metric, "source": OURS,
                    "model": mine["model"], "score": mine["mean"], "spread": np.nan,
                    "n": 1, "same_rows": True, "reason": "",
                }
            )
        )  # fmt: skip
    return pd.concat(frames, ignore_index=True)


def listed() -> list[dict[str, Any]]:
    """The entrants that come with the package, as `bench beside list` prints them."""
    from .entrants import FOLDER, entrant_names, read_card

    cards = []
    for name in entrant_names():
        card = read_card(FOLDER / name)
        cards.append(
            {
                "name": name, "title": card.title, "reference": card.reference,
                "source": card.source, "commit": card.commit or "not recorded",
                "licence": card.licence, "datasets": len(card.datasets),
                "with_split": sum(bool(d.sizes) for d in card.datasets.values()),
            }
        )  # fmt: skip
    return cards
