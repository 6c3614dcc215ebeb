"""What stands behind each published table: a suite, an experiment, or why nothing does."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from .catalog import PaperTable, papers
from .published_values import n_values, published_table


@dataclass(frozen=True)
class TableSource:
    """A published table: its numbers (`cells`), our metric, the command that sets ours beside them,
    or why there is none."""

    table: str
    title: str
    metric: str
    cells: int
    suite: str = ""
    experiment: str = ""
    command: str = ""
    why: str = ""


def table_sources(folder: Path | None = None) -> list[TableSource]:
    """Every published table of the built-in papers, or of the one in `folder`: first those that
    `bench reproduce` makes, then those that an experiment sets beside its own, then the others."""
    return sorted(_sources(folder), key=_order)


def _order(source: TableSource) -> tuple[bool, bool]:
    return not source.command.startswith("bench reproduce"), not source.command


def _sources(folder: Path | None) -> Iterable[TableSource]:
    for paper in papers(folder):
        for name, entry in paper.file.table.items():
            yield source_of(PaperTable(name, paper, entry), folder)


def source_of(table: PaperTable, folder: Path | None = None) -> TableSource:
    """What stands behind one table. folder: where its paper is, unless it is a built-in one."""
    name, entry = table.name, table.entry
    option = "" if folder is None else f" --paper {folder}"
    metric, command = entry.measures, ""
    if entry.suite:
        metric = published_table(table.paper, name).label
    if entry.suite or entry.measures:
        command = f"bench reproduce {name}{option}"
    elif entry.experiment:
        command = f"bench experiment {entry.experiment}{option}"
    return TableSource(
        table=name,
        title=entry.title,
        metric=metric,
        cells=n_values(table.paper, name),
        suite=entry.suite,
        experiment=entry.experiment,
        command=command,
        why=entry.why,
    )
