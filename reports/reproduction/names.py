"""Another tool's results fitted to a published table: its names, and its metrics as headlines."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

import pandas as pd

from ...common.text import did_you_mean, first_few, one_line
from ..evidence import Evidence, EvidenceError
from .published_table import PublishedTable


def separated(name: str) -> str:
    """A name with hyphens for underscores and spaces.

    >>> separated("higgs_small")
    'higgs-small'
    """
    return re.sub(r"[-_ ]+", "-", name.strip())


def fitted(
    evidence: Evidence,
    published: PublishedTable,
    aliases: Mapping[str, str],
    keep: Collection[str] = (),
) -> tuple[Evidence, list[str]]:
    """(the evidence with the names that the comparison uses and the table's metrics as headlines of
    their tasks, hints for its notes).

    A method of the table is known by the paper's name, by our model's name, by an alias, and by
    any of these with other separators; a variant keeps its ending. Names that differ in case are
    told apart, with a hint. aliases: other name -> the paper's. keep: methods that keep their name.
    Raises EvidenceError where two names of the evidence would become one.
    """
    methods = {m: published.model_of(m) for m in dict.fromkeys(published.rows["method"])}
    methods |= {model: model for model in methods.values()}
    methods |= {other: methods[name] for other, name in aliases.items() if name in methods}
    datasets = {name: name for name in published.dataset_names()}
    datasets |= {other: name for other, name in aliases.items() if name in datasets}
    others = [name for name in evidence.models if name not in keep]
    models, model_hints = _renames(others, methods, "method")
    named, dataset_hints = _renames(_datasets(evidence), datasets, "dataset")
    made = evidence.called(models, named, metric=_headlines(evidence, published))
    return made, [*model_hints, *dataset_hints]


def with_models_of(evidence: Evidence, run: Evidence, models: Iterable[str]) -> Evidence:
    """The (fitted) evidence with these models of a run on its datasets. Raises EvidenceError."""
    chosen, datasets = set(models), set(evidence.datasets())

    def mine(frame: pd.DataFrame) -> pd.DataFrame:
        return frame[frame["model"].isin(chosen) & frame["dataset"].isin(datasets)]

    notes = [*evidence.facts.notes, *run.facts.notes]
    return evidence.joined(run.changed(mine), notes=notes)


def _headlines(evidence: Evidence, published: PublishedTable) -> dict[str, str]:
    """The metric of each task: the table's first that the task's trials have, else their own."""
    found = {task: evidence.headline(task) for task in evidence.facts.metric}
    for task in evidence.tasks:
        held = evidence.test_metrics(task)
        theirs = [m.metric for m in published.measures.values() if m.metric in held]
        found[task] = theirs[0] if theirs else found[task]
    return found


def _datasets(evidence: Evidence) -> list[str]:
    """The datasets of runs and of ensembles."""
    more = () if evidence.ensembles is None else evidence.ensembles["dataset"]
    return sorted({*evidence.datasets(), *more})


def _renames(
    names: Iterable[str], known: Mapping[str, str], what: str
) -> tuple[dict[str, str], list[str]]:
    """({name: its name in the comparison}, hints on names that the table lacks)."""
    by_separator = {separated(name): ours for name, ours in known.items()}
    found: dict[str, str] = {}
    for name in names:
        ours = known.get(name) or by_separator.get(separated(name))
        if ours is None:
            continue
        twin = next((other for other, own in found.items() if own == ours), None)
        if twin is not None:
            raise EvidenceError(
                f"{what}s {one_line(twin, 60)!r} and {one_line(name, 60)!r} are both the table's "
                f"{ours!r}; leave one out"
            )
        found[name] = ours
    hints = []
    others = [name for name in names if name not in found]
    folded = {separated(name).casefold(): name for name in known}
    free = sorted(name for name, ours in known.items() if ours not in found.values())
    rest = []
    for name in others:
        near = folded.get(separated(name).casefold())
        if near is None:
            hint = did_you_mean(name, free) if len(others) <= 50 else ""
            rest.append(f"{one_line(name, 60)}{hint}")
            continue
        hints.append(
            f"The {what} {one_line(name, 60)!r} is not the table's {near!r}, as names are told "
            f"apart by case; if it is, write {near!r}."
        )
    if rest:
        way = "; --model NAME makes a method a row" if what == "method" else ""
        hints.append(f"Not in this table: {what}s {first_few(rest, 12)}{way}.")
    return {name: ours for name, ours in found.items() if name != ours}, hints
