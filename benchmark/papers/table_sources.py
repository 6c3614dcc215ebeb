"""What stands behind each published table: a suite, an experiment, or why nothing does."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from .catalog import papers, published_tables
from .published_values import n_values


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
    compared = published_tables(folder)
    option = "" if folder is None else f" --paper {folder}"
    for paper in papers(folder):
        for name, table in paper.file.table.items():
            n, metric, command = n_values(paper, name), table.measures, ""
            if table.suite:
                metric = compared[name].label
            if table.suite or table.measures:
                command = f"bench reproduce {name}{option}"
            elif table.experiment:
                command = f"bench experiment {table.experiment}{option}"
            yield TableSource(
                name, table.title, metric, n, table.suite, table.experiment, command, table.why
            )
