"""The papers at hand: the built-in folders or one given by path, their tables and experiments."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ...common.text import one_line, suggest
from ...reports.reproduction.published_table import PublishedTable
from ..errors import UnknownExperiment
from ..planning import suite as suites
from . import paper_file
from .experiment_result import ExperimentResult, Setting, Size
from .paper_file import FOLDER, Paper, PaperError, read_paper
from .published_values import n_values, plain_table, published_table


@dataclass(frozen=True)
class Experiment:
    """An experiment of a paper. entry: what paper.toml says of it; published: the tables and
    figures of the paper that it shows."""

    name: str
    paper: Paper
    entry: paper_file.ExperimentEntry
    published: tuple[str, ...] = ()

    def in_words(self, size: Size) -> str:
        """Description of a size and its rough cost."""
        tiny = "all steps of the reduced size on a few rows; the numbers mean nothing"
        return {"tiny": tiny, "reduced": self.entry.reduced, "full": self.entry.full}[size]

    def function(self, size: Size) -> Callable[[Setting], ExperimentResult]:
        """The function that runs the experiment at a size. Raises PaperError for an unknown module,
        function or size, and whatever the module raises on import.

        `SIZES` of the function's module has the keyword arguments of each size; a function whose
        module has no SIZES is called with the setting alone.
        """
        run = self.paper.function(f"experiment.{self.name}.run")
        module = sys.modules[run.__module__]
        sizes = getattr(module, "SIZES", {size: {}})
        if size not in sizes:
            raise PaperError(f"{module.__file__}: SIZES has no size {size!r}")
        return partial(run, **sizes[size])


def papers(folder: Path | None = None) -> list[Paper]:
    """The built-in papers by name, or the one in `folder`. Raises PaperError."""
    if folder is not None:
        return [read_paper(folder)]
    return [read_paper(path.parent) for path in sorted(FOLDER.glob(f"*/{paper_file.FILE}"))]


class PublishedTables(Mapping[str, PublishedTable]):
    """{name: published table} for the tables that a suite reproduces; a table is read on first
    use."""

    def __init__(self, papers: Sequence[Paper]) -> None:
        self._papers = {
            name: paper
            for paper in papers
            for name, t in paper.file.table.items()
            if t.suite and t.shape not in ("costs", "times")
        }

    def __getitem__(self, name: str) -> PublishedTable:
        return published_table(self._papers[name], name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._papers)

    def __len__(self) -> int:
        return len(self._papers)


def published_tables(folder: Path | None = None, datasets: Collection[str] = ()) -> PublishedTables:
    """Published tables to compare runs with, of the built-in papers or of the paper in `folder`.
    datasets: names in the run; a stand-in replaces a paper's dataset that the run lacks."""
    return PublishedTables([paper.for_run(datasets) for paper in papers(folder)])


@dataclass(frozen=True)
class PaperEntry:
    """A table or figure of a paper: its name and its entry in paper.toml. folder: the paper's
    folder, None for a built-in paper."""

    name: str
    paper: Paper
    entry: paper_file.Entry
    folder: Path | None = None

    @property
    def is_table(self) -> bool:
        """Whether it is a table, not a figure."""
        return self.name in self.paper.file.table

    @property
    def is_reproduced(self) -> bool:
        """Whether `bench reproduce` makes it."""
        return bool(self.entry.experiment or self.is_table and self.entry.suite)

    @property
    def command(self) -> str:
        """The command that shows our counterpart, "" if there is none."""
        if self.is_reproduced:
            words = ["bench", "reproduce", self.name]
            return shlex.join([*words, *(["--paper", str(self.folder)] if self.folder else [])])
        if not self.entry.suite:
            return self.entry.command
        own = self.paper.suite_file(self.entry.suite)
        suite = str(own) if self.folder and own.is_file() else self.entry.suite
        return shlex.join(["bench", "sweep", "--suite", suite, "--budget", self.entry.budget])

    def to_data(self) -> dict[str, Any]:
        """The entry as `bench reproduce --list` prints it, without empty fields. cells: how many
        published numbers are stored; metric: our metric beside them."""
        entry, stored = self.entry, self.is_table and self.paper.file.table[self.name].published
        reproduced = self.is_table and entry.suite
        known = {
            "name": self.name,
            "kind": "table" if self.is_table else "figure",
            "paper": self.paper.name,
            "title": entry.title,
            "reference": self.paper.file.reference,
            "metric": plain_table(self.paper, self.name).values if reproduced else "",
            "cells": n_values(self.paper, self.name) if stored else 0,
            **{"suite": entry.suite, "experiment": entry.experiment},
            **{"command": self.command, "why": entry.why},
        }
        return {key: value for key, value in known.items() if value}


def entries(folder: Path | None = None) -> list[PaperEntry]:
    """Every table and figure of the built-in papers, or of the paper in `folder`. Within a paper:
    entries that `bench reproduce` makes, entries that another command shows, the rest; figures
    before tables."""
    found: list[PaperEntry] = []
    for paper in papers(folder):
        mine = [
            PaperEntry(name, paper, entry, folder) for name, entry in paper.file.entries.items()
        ]
        found += sorted(mine, key=lambda e: (not e.is_reproduced, not e.command, e.is_table))
    return found


def find_entry(name: str, folder: Path | None = None) -> PaperEntry:
    """The table or figure of that name; ValueError with a suggestion."""
    known = {entry.name: entry for entry in entries(folder)}
    if name not in known:
        raise ValueError(f"no table or figure {one_line(name)!r}; {suggest(name, known)}")
    return known[name]


def suite_of(table: PaperEntry) -> suites.Suite:
    """The suite behind a table or figure: the paper's own, or one that comes with the package."""
    own = table.paper.suite_file(table.entry.suite)
    return suites.load(str(own) if own.is_file() else table.entry.suite)


def experiments(folder: Path | None = None) -> dict[str, Experiment]:
    """The experiments of the built-in papers, or of the one in `folder`, by name."""
    found = {}
    for paper in papers(folder):
        for name, experiment in paper.file.experiment.items():
            own = [n for n, entry in paper.file.entries.items() if entry.experiment == name]
            found[name] = Experiment(name, paper, experiment, tuple(own))
    return found


def find_experiment(name: str, folder: Path | None = None) -> Experiment:
    """The experiment of that name. Raises UnknownExperiment, with a suggestion."""
    known = experiments(folder)
    if name not in known:
        raise UnknownExperiment(f"unknown experiment {one_line(name)!r}; {suggest(name, known)}")
    return known[name]
