"""What stands behind each table and figure: a suite, an experiment, a command, or why nothing does.

All tables and figures of the papers at hand are listed, also those without stored numbers.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from .catalog import PaperEntry, entries
from .published_values import n_values, plain_table


@dataclass(frozen=True)
class Source:
    """A table or figure (`kind`) of a paper: how many of its numbers are stored (`cells`), what of
    ours stands beside it (`metric`), the command that shows ours, or why there is none."""

    name: str
    kind: str
    paper: str
    reference: str
    title: str
    metric: str = ""
    cells: int = 0
    suite: str = ""
    experiment: str = ""
    command: str = ""
    why: str = ""

    @property
    def is_reproduced(self) -> bool:
        """Whether `bench reproduce` makes it."""
        return self.command.split()[1:3] == ["reproduce", self.name]


def sources(folder: Path | None = None) -> list[Source]:
    """Every table and figure of the built-in papers, or of the one in `folder`, paper by paper.

    Within a paper: first those that `bench reproduce` makes, then those that another command shows,
    then the others."""
    found = [source_of(entry, folder) for entry in entries(folder)]
    papers = list(dict.fromkeys(source.paper for source in found))
    return sorted(
        found, key=lambda s: (papers.index(s.paper), not s.is_reproduced, not s.command, s.kind)
    )


def source_of(entry: PaperEntry, folder: Path | None = None) -> Source:
    """What shows one table or figure of ours. folder: the folder of its paper, for a paper that is
    not built in."""
    name, given = entry.name, entry.entry
    option = "" if folder is None else f" --paper {shlex.quote(str(folder))}"
    metric, cells, command = "", 0, given.command
    if entry.is_table:
        cells = n_values(entry.paper, name) if entry.paper.file.table[name].published else 0
        metric = plain_table(entry.paper, name).values if given.suite else ""
    if metric or given.experiment:
        command = f"bench reproduce {name}{option}"
    elif given.suite:
        own = entry.paper.suite_file(given.suite)
        suite = str(own) if folder is not None and own.is_file() else given.suite
        command = shlex.join(["bench", "sweep", "--suite", suite, "--budget", given.budget])
    return Source(
        name=name,
        kind="table" if entry.is_table else "figure",
        paper=entry.paper.name,
        reference=entry.paper.file.reference,
        title=given.title,
        metric=metric,
        cells=cells,
        suite=given.suite,
        experiment=given.experiment,
        command=command,
        why=given.why,
    )
