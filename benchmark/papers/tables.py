"""Which published tables are stored, and what makes ours beside each?"""

from __future__ import annotations

from dataclasses import dataclass

from ...reports import published
from ...reports.reproduction import comparison
from ..commands.reproduce import EXPERIMENTS as MEASURED
from ..commands.reproduce import SUITES
from ..console import OK, Console
from ..errors import SweepError
from .experiments import EXPERIMENTS

# Stored, and nothing of ours stands beside: why.
WHY = {
    "npt-table-1": "its means follow from Tables 8, 10 and 11, as a test computes them",
    "npt-table-4": "ablations: the suite npt-ablations runs such rows",
    "npt-table-5": "ablations: the suite npt-ablations runs such rows",
    "npt-table-14": "the datasets' own figures",
    "npt-table-15": "the datasets' own figures",
    "npt-table-16": "counts of configurations, shown beside Tables 8 to 12",
    "hopular-table-a3": "the datasets' own figures",
    "hopular-table-a4": "the datasets' own figures",
    "rtdl-table-1": "the datasets' own figures",
    "rtdl-table-18": "the datasets' own figures",
    "rtdl-repo-means": "means from the authors' repository, shown in Tables 2 and 3",
    "cheatt-table-6": "the datasets' own figures",
}
NOTHING = "nothing here makes it yet"


@dataclass(frozen=True)
class Way:
    """A published table: its values, our metric, the command that sets ours beside, or why none."""

    table: str
    title: str
    metric: str
    cells: int
    suite: str = ""
    experiment: str = ""
    command: str = ""
    why: str = ""


def name_of(paper: str, table: str) -> str:
    """
    >>> name_of("npt", "8"), name_of("hopular", "A.7"), name_of("rtdl", "repo_means")
    ('npt-table-8', 'hopular-table-a7', 'rtdl-repo-means')
    """
    short = table.lower().replace(".", "").replace("_", "-")
    return f"{paper}-table-{short}" if short[-1].isdigit() else f"{paper}-{short}"


def ways() -> list[Way]:
    """Every published table: those that `bench reproduce` makes, those that an experiment sets
    beside its own, and the others with the reason."""
    stored = {name_of(*key): key for key in published.names()}
    beside = {
        name_of(*_key(file)): experiment
        for experiment in EXPERIMENTS.values()
        for file in experiment.beside
    }
    found = []
    for name, what in comparison.REPRODUCTIONS.items():
        theirs = published.load(what.paper, what.table)
        theirs = theirs[theirs["method"].str.endswith(what.only)]
        n, command = int(theirs["value"].notna().sum()), f"bench reproduce {name}"
        found.append(Way(name, what.title, what.label, n, SUITES[name], command=command))
    for name, (title, metric, experiment) in MEASURED.items():
        found.append(
            Way(
                name, title, metric, _cells(stored[name]), "", experiment, f"bench reproduce {name}"
            )
        )
    done = {way.table for way in found}
    for name, key in sorted(stored.items(), key=lambda item: _order(item[1])):
        if name in done:
            continue
        title = f"{comparison.PAPERS.get(key[0], key[0])}, {_title(key[1])}"
        if name in beside:
            experiment = beside[name].name
            way = Way(
                name, title, "", _cells(key), "", experiment, f"bench experiment {experiment}"
            )
        else:
            way = Way(name, title, "", _cells(key), why=WHY.get(name, NOTHING))
        found.append(way)
    return found


def _key(file: str) -> tuple[str, str]:
    paper, _, table = file.partition("_")
    return paper, table.removeprefix("table")


def _title(table: str) -> str:
    return f"Table {table}" if table[-1].isdigit() else table.replace("_", " ")


def _order(key: tuple[str, str]) -> tuple[str, bool, str]:
    paper, table = key
    return paper, not table[-1].isdigit(), table.zfill(8)


def _cells(key: tuple[str, str]) -> int:
    table = published.load(*key)
    return int(table["value"].notna().sum()) if "value" in table else len(table)


def list_tables(face: Console) -> int:
    """`bench reproduce --list`."""
    found = ways()
    face.data(
        [
            {k: v for k, v in vars(way).items() if v != "" or k in ("table", "title")}
            for way in found
        ]
    )
    made = [way for way in found if way.command]
    face.table(
        ["table", "what", "metric", "values", "suite or experiment", "command"],
        [[w.table, w.title, w.metric, w.cells, w.suite or w.experiment, w.command] for w in made],
    )
    face.say("\nstored, without anything of ours beside:")
    face.table(
        ["table", "what", "values", "why"],
        [[w.table, w.title, w.cells, w.why] for w in found if not w.command],
    )
    return OK


def refuse_others(table: str) -> None:
    """Say the way to a published table that `bench reproduce` does not make. Raises SweepError."""
    way = next((way for way in ways() if way.table == table), None)
    if way is None or way.command.startswith("bench reproduce"):
        return
    what = (
        f"is set beside ours by: {way.command}" if way.command else f"is not made here: {way.why}"
    )
    raise SweepError(f"{table} {what}; `bench reproduce --list` says what is")
