"""Several runs as one evidence: each cell (dataset, model) from the newest run that completed it.

Runs may share datasets and models. Scores of two runs stand in one column only where the dataset's
content, its protocol, the seed of the split, and the folds are the same; a dataset of another
setting gets a column of its own, such as `iris (2)`. No cell is mixed from two runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import check_run

if TYPE_CHECKING:
    import pandas as pd

    from ....reports.evidence import Evidence
    from ...results.beside import RunDataset

CELLS = ("dataset", "model", "run", "metric", "mean", "spread", "state", "counted", "own")

Key = tuple[str, ...]


@dataclass(frozen=True)
class Run:
    """A run that is published: its name on the site, its plan, and its evidence."""

    name: str
    path: Path
    plan: Mapping[str, Any]
    evidence: Evidence

    @property
    def last(self) -> str:
        """The time of its last record, "" before the first."""
        return str(self.evidence.meta.get("last_record_utc") or "")

    def key(self, dataset: str) -> Key:
        """What has to be equal for scores on the dataset to be comparable."""
        from ...planning.plan_record import drawn_by

        described = self.plan["datasets"][dataset]
        studies = [s for s in self.plan["studies"] if s["dataset"] == dataset]
        protocol, seed = drawn_by(self.plan, dataset)
        folds = ",".join(map(str, sorted({s["fold"] for s in studies})))
        return dataset, described["sha256"], protocol, seed, folds


@dataclass(frozen=True)
class Combined:
    """The runs as one. `cells` has every cell of every run (CELLS; `own` is the dataset's name in
    the run, `counted` marks those in the evidence). `labels` are the datasets' names here by (run,
    dataset). `own` describes each one as `beside.with_published` needs it. `notes` say what was put
    together and how."""

    evidence: Evidence
    cells: pd.DataFrame
    labels: Mapping[tuple[str, str], str]
    own: Mapping[str, RunDataset]
    notes: tuple[str, ...]


def slug(name: str) -> str:
    """A run's name as that of a folder in an address.

    >>> slug("uci-small.quick"), slug("Läufe 3")
    ('uci-small.quick', 'L-ufe-3')
    """
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name)


def read_runs(paths: Iterable[Path]) -> list[Run]:
    """The runs, oldest first; one that is named twice counts once. Names are those of the folders,
    with -2, -3, ... where two would have one address. Raises NoRun, LedgerError, EvidenceError."""
    from ....sweeps.store.ledger import Ledger
    from ...planning.plan_record import plan_in
    from ...results.evidence_builder import evidence_of

    found = []
    for path in dict.fromkeys(path.resolve() for path in paths):
        check_run(path)
        evidence = evidence_of([path])
        evidence = evidence.but(meta={**evidence.meta, "runs": [f"runs/{path.name}"]})
        found.append(Run(path.name, path, plan_in(Ledger(path)), evidence))
    found.sort(key=lambda run: (run.last, run.name, str(run.path)))
    taken: set[str] = set()
    named = []
    for run in found:
        name, n = run.name, 1
        while slug(name).casefold() in taken:
            name, n = f"{run.name}-{n + 1}", n + 1
        taken.add(slug(name).casefold())
        named.append(replace(run, name=name))
    return named


def combine(runs: Sequence[Run]) -> Combined:
    """The runs, oldest first, as one evidence. A run whose metric of a task is not the newest run's
    is left out of the evidence for that task's datasets, and a note says so."""

    metrics: dict[str, str] = {}
    for run in reversed(runs):  # the newest first
        for task in run.evidence.tasks:
            metrics.setdefault(task, run.evidence.headline(task))
    notes: list[str] = []
    labels = _labels(runs, metrics, notes)
    table = _cells(runs, labels)
    chosen = _chosen(table)
    table = table.assign(
        counted=[
            chosen.get((d, m)) == r
            for d, m, r in zip(table["dataset"], table["model"], table["run"], strict=True)
        ]
    )
    several = table[table["dataset"] != ""].groupby(["dataset", "model"]).size()
    if n := int((several > 1).sum()):
        notes.append(
            f"{n} of {len(several)} cells were computed by several runs; the newest run that "
            "completed one counts, the others are listed under Repeated cells."
        )
    evidence = (
        runs[0].evidence if len(runs) == 1 else _evidence(runs, labels, chosen, metrics, notes)
    )
    return Combined(evidence, table[list(CELLS)], labels, _own(runs, labels), tuple(notes))


def _labels(
    runs: Sequence[Run], metrics: Mapping[str, str], notes: list[str]
) -> dict[tuple[str, str], str]:
    """{(run, dataset): the dataset's name on the site}; of several settings the newest has the
    plain name. "" where the run's metric is another one."""
    keys: dict[str, list[Key]] = {}
    found: dict[tuple[str, str], str] = {}
    for run in reversed(runs):
        other = {t for t in run.evidence.tasks if run.evidence.headline(t) != metrics[t]}
        for dataset, described in sorted(run.plan["datasets"].items()):
            if described["task"] in other:
                found[run.name, dataset] = ""
                continue
            known = keys.setdefault(dataset, [])
            key = run.key(dataset)
            if key not in known:
                known.append(key)
            number = known.index(key) + 1
            found[run.name, dataset] = dataset if number == 1 else f"{dataset} ({number})"
        if other:
            named = ", ".join(f"{t} by {run.evidence.headline(t)}" for t in sorted(other))
            notes.append(f"Run {run.name} is on its own page alone for its metric: {named}.")
    for dataset, known in sorted(keys.items()):
        for number, (_, sha256, protocol, seed, folds) in enumerate(known, start=1):
            if len(known) > 1:
                label = dataset if number == 1 else f"{dataset} ({number})"
                n = len(folds.split(","))
                drawn = f", seed {seed}" if seed else ""
                notes.append(
                    f"{label}: protocol {protocol}{drawn}, {n} fold{'s' * (n > 1)}, content "
                    f"{sha256[:8]}; not comparable with the other {dataset}."
                )
    return found


def _cells(runs: Sequence[Run], labels: Mapping[tuple[str, str], str]) -> pd.DataFrame:
    """Every run's cells of the headline metrics, runs oldest first."""
    import pandas as pd

    from ....reports.aggregation.cells import headline_cells, studies

    frames = []
    for run in runs:
        found = headline_cells(run.evidence, studies(run.evidence))
        frames.append(
            found.assign(
                run=run.name,
                own=found["dataset"],
                dataset=[labels[run.name, name] for name in found["dataset"]],
                metric=[run.evidence.headline(task) for task in found["task"]],
            )
        )
    return pd.concat(frames, ignore_index=True)


def _chosen(table: pd.DataFrame) -> dict[tuple[str, str], str]:
    """{(dataset, model): the newest run that completed the cell, else the newest run}."""
    from ....reports.aggregation.cells import COMPLETE

    found: dict[tuple[str, str], tuple[bool, str]] = {}
    columns = (table[name] for name in ("dataset", "model", "run", "state"))
    for dataset, model, run, state in zip(*columns, strict=True):  # the oldest first
        whole = state == COMPLETE
        if dataset and (whole or not found.get((dataset, model), (False, ""))[0]):
            found[dataset, model] = whole, run
    return {cell: run for cell, (_, run) in found.items()}


def _evidence(
    runs: Sequence[Run],
    labels: Mapping[tuple[str, str], str],
    chosen: Mapping[tuple[str, str], str],
    metrics: Mapping[str, str],
    notes: Sequence[str],
) -> Evidence:
    import pandas as pd

    from ....reports.evidence import Evidence

    frames: dict[str, list[pd.DataFrame]] = {"trials": [], "planned": []}
    for run in runs:
        for kind, kept in frames.items():
            frame: pd.DataFrame = getattr(run.evidence, kind)
            named = [labels[run.name, str(name)] for name in frame["dataset"]]
            models = frame["model"].astype(str).tolist()
            mine = [chosen.get(cell) == run.name for cell in zip(named, models, strict=True)]
            kept.append(frame.assign(dataset=named)[mine])
    trials, planned = (
        pd.concat([f for f in kept if len(f)] or kept[:1], ignore_index=True)
        for kept in frames.values()
    )
    for metric in metrics.values():
        if f"test_{metric}" not in trials:
            trials[f"test_{metric}"] = float("nan")
    return Evidence.of(trials, planned, _meta(runs, labels, metrics, notes))


def _meta(
    runs: Sequence[Run],
    labels: Mapping[tuple[str, str], str],
    metrics: Mapping[str, str],
    notes: Sequence[str],
) -> dict[str, Any]:
    """The settings of all runs together; versions and machine are the newest run's."""
    from ...results.evidence_builder import independent

    newest = runs[-1].evidence.meta
    of_label: dict[str, tuple[Run, str]] = {}
    for run in runs:  # the newest stays
        for dataset in run.plan["datasets"]:
            if label := labels[run.name, dataset]:
                of_label[label] = run, dataset
    described = {}
    for label, (run, dataset) in of_label.items():
        about = run.plan["datasets"][dataset]
        twins = [*about.get("overlaps", []), *([dataset] if dataset != label else [])]
        described[label] = {**about, "overlaps": twins}
    subset, why = independent(described)

    def by_label(key: str) -> dict[str, Any]:
        held = {
            label: (run.evidence.meta.get(key) or {}).get(dataset)
            for label, (run, dataset) in sorted(of_label.items())
        }
        return {label: value for label, value in held.items() if value is not None}

    def joined(key: str) -> str:
        texts = (str(run.evidence.meta.get(key) or "") for run in reversed(runs))
        return "; ".join(dict.fromkeys(filter(None, texts)))

    first = [
        model
        for model in sorted({m for run in runs for m in run.evidence.models})
        if all(
            model in (run.evidence.meta.get("default_first") or [])
            for run in runs
            if model in run.evidence.models
        )
    ]
    seeds = {run.plan["options"]["seed"] for run in runs}
    budgets = {str(run.evidence.meta.get("budget")) for run in runs}
    every = [*notes]
    if len(budgets) > 1:
        every.append("The runs have different budgets, which the list of runs names.")
    every += [note for run in reversed(runs) for note in run.evidence.meta.get("notes") or []]
    return {
        **{k: v for k, v in newest.items() if k in ("versions", "environment", "lock")},
        "suite": joined("suite"),
        "budget": joined("budget"),
        "sampler": joined("sampler"),
        "code": joined("code"),
        "seed": seeds.pop() if len(seeds) == 1 else None,
        "metric": dict(metrics),
        "protocol": by_label("protocol"),
        "rows": by_label("rows"),
        "test_over_train": by_label("test_over_train"),
        "overlapping": [
            label
            for label, (run, dataset) in sorted(of_label.items())
            if dataset in (run.evidence.meta.get("overlapping") or [])
        ],
        "subset": subset,
        "subset_note": why,
        "default_first": first,
        "damage": [text for run in runs for text in run.evidence.meta.get("damage") or []],
        "notes": list(dict.fromkeys(every)),
        "last_record_utc": runs[-1].last,
    }


def _own(runs: Sequence[Run], labels: Mapping[tuple[str, str], str]) -> dict[str, RunDataset]:
    from ...results.beside import run_datasets

    found = {}
    for run in runs:
        for dataset, facts in run_datasets([run.path]).items():
            if label := labels[run.name, dataset]:
                found[label] = replace(facts, name=label)
    return found
