"""`bench publish`: runs as a static site with their leaderboard, a report for each, and the trials.

A board is the report of all runs that can share one, in which the newest run counts where several
have computed a cell (`evidence_of`, newest_first); what its newest run changed stands beside it.
"""

from __future__ import annotations

import gzip
import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ....common.files import write_atomically
from ...arguments import DATA, SEVERAL_RUNS
from ...console import ENVIRONMENT, OK, Console, common, count, size, split_names
from ...errors import SweepError, check_run

if TYPE_CHECKING:
    import pandas as pd

    from ....reports.output.tables import Section
    from ...results.run_status import RunStatus

HERE = Path(__file__).parent
MARK = "site.json"  # a file that says that a folder is such a site
BOARD = "board"
HIDDEN = ["message", "origin", "cpu"]  # of a trial: may name folders and machines of the sweep
DOWNLOADS = (
    ("trials.csv.gz", "a row for every trial of every run: configuration, scores, seconds, memory"),
    (f"{BOARD}/scores.csv", "the scores of the leaderboard, unrounded"),
)


@dataclass(frozen=True)
class Run:
    """A run that is published. name: what the site calls it; place: its folder there; trials: the
    rows of `load_results`."""

    path: Path
    name: str
    place: str
    status: RunStatus
    trials: pd.DataFrame

    @property
    def last(self) -> str:
        """The time of its last trial, "" before the first."""
        return max(self.trials["time"], default="") if "time" in self.trials else ""


@click.command()
@SEVERAL_RUNS
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FOLDER",
    help="Folder of the site: a new one, an empty one, or an earlier site, which is replaced.",
)
@click.option(
    "--title", default="Leaderboard", show_default=True, help="Heading of the first page."
)
@click.option(
    "--beside",
    multiple=True,
    metavar="NAME[,NAME]",
    help="Published results to show beside the runs' (bench beside list), or a folder of yours.",
)
@DATA
@common
def publish(
    console: Console, runs: Sequence[Path], out: Path, beside: Sequence[str], **how: Any
) -> int:
    """Write a static site of one or several runs: a leaderboard of all of them, the report of each,
    and the trials as CSV.

    \b
    bench publish runs/first runs/second --out site/

    Runs may share datasets and models: of each cell the newest run that completed it counts, and
    the page says what the newest run changed. Runs of another metric, seed or data have a
    leaderboard of their own. Any static host can serve the folder; its pages load nothing from
    elsewhere. The same runs give the same bytes.
    """
    files, damage = write_site(runs, out, beside=split_names(beside), **how)
    page = out / "index.html"
    n_bytes = sum(path.stat().st_size for path in files)
    console.say(f"{count(len(files), 'file')}, {size(n_bytes)}, in {out}")
    console.say_page([page])
    console.say("put the folder on any static host; it asks for nothing from outside")
    for text in damage:
        console.tell(f"damaged: {text}")
    console.data({"files": [str(path) for path in files], "page": str(page), "damage": damage})
    return ENVIRONMENT if damage else OK


def write_site(
    paths: Sequence[Path], out: Path, *, title: str, **how: Any
) -> tuple[list[Path], list[str]]:
    """Write the site of runs into the folder `out`: (its files, what of the runs is damaged).

    The site is made in a folder beside `out` and moved into place, its page last; an earlier site
    goes, and what others put beside it stays. how: options of `make_report`. Raises SweepError for
    a folder that holds something else, and what `make_report` raises.
    """
    from ...outcome.run_report import make_report

    check_out(out)
    runs = read_runs(paths)
    beside = out.absolute().parent
    beside.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=beside) as folder:
        staging, damage = Path(folder), list[str]()
        for run in runs:
            shown = [f"runs/{run.name}"]  # no folder of this machine
            report = make_report([run.path], staging / "runs" / run.place, shown=shown, **how)
            damage += [f"{run.name}: {text}" for text in report.damage]
        boards = []
        for n, group in enumerate(groups_of(runs), start=1):
            shown, together = [f"runs/{run.name}" for run in group], [run.path for run in group]
            place = BOARD if n == 1 else f"{BOARD}-{n}"
            made = make_report(together, staging / place, shown=shown, newest_first=True, **how)
            boards.append(Board(place, group, made.sections, changes_in(group)))
        write_atomically(staging / "trials.csv.gz", _trials_of(runs), sync=False)
        page = _page(title, runs, boards)
        write_atomically(staging / "index.html", page.encode("utf-8"), sync=False)
        write_atomically(staging / ".nojekyll", b"", sync=False)  # GitHub leaves files as they are
        write_atomically(staging / MARK, b'{"made_by": "tabsweep"}\n', sync=False)
        return move(staging, out), damage


def read_runs(paths: Sequence[Path]) -> list[Run]:
    """The runs, newest first; one that is named twice counts once. Names are those of the folders,
    with -2, -3, ... where two would have one address. Raises NoRun, LedgerError."""
    from ...results.evidence_builder import load_results
    from ...results.run_status import status_of

    read = []
    for path in dict.fromkeys(path.resolve() for path in paths):
        check_run(path)
        read.append(Run(path, path.name, "", status_of(path), load_results(path)))
    read.sort(key=lambda run: (run.last, run.name, str(run.path)))
    named: dict[str, Run] = {}
    for run in read:
        name, n = run.name, 1
        while (place := re.sub(r"[^A-Za-z0-9._-]+", "-", name)).casefold() in named:
            name, n = f"{run.name}-{n + 1}", n + 1
        named[place.casefold()] = Run(run.path, name, place, run.status, run.trials)
    return [*named.values()][::-1]


@dataclass(frozen=True)
class Board:
    """A report of runs together. place: its folder in the site; changes: what the newest run
    changed, None for a single run."""

    place: str
    runs: Sequence[Run]
    sections: Sequence[Section]
    changes: Section | None

    @property
    def title(self) -> str:
        """The suites of its runs."""
        return ", ".join(dict.fromkeys(run.status.suite for run in self.runs))

    @property
    def verdict(self) -> str:
        """What its leaderboard says in a sentence."""
        return next(part for part in self.sections if part.name == "leaderboard").remarks[0]


def groups_of(runs: Sequence[Run]) -> list[list[Run]]:
    """The runs, newest first, in groups that can share a table: metric, seed, data and folds."""
    from ....sweeps.store.ledger import Ledger
    from ...planning.plan_record import plan_in
    from ...results.evidence_builder import agree

    groups: list[list[tuple[Run, Any]]] = []
    for run in runs:
        plan = plan_in(Ledger(run.path))
        for group in groups:
            try:
                for _, other in group:
                    agree(other, plan, content=True)
            except ValueError:
                continue
            group.append((run, plan))
            break
        else:
            groups.append([(run, plan)])
    return [[run for run, _ in group] for group in groups]


def changes_in(group: Sequence[Run]) -> Section | None:
    """What the newest run of a group changed: compared with the last one before it of the same
    suite and budget, by the decision of `bench compare`; None without such a run."""
    from ....reports.regression.run_diff import compare_runs
    from ....reports.regression.run_diff_section import section
    from ...results.evidence_builder import evidence_of

    new = group[0]
    kind = new.status.suite, new.status.budget
    before = [run for run in group[1:] if (run.status.suite, run.status.budget) == kind]
    if not before:
        return None
    evidence = evidence_of([before[0].path]), evidence_of([new.path])
    return section(compare_runs(*evidence, names=(before[0].name, new.name)))


def _trials_of(runs: Sequence[Run]) -> bytes:
    """The trials of all runs as one CSV, packed."""
    import pandas as pd

    from ....reports.output.files import to_csv

    rows = [run.trials.drop(columns=HIDDEN, errors="ignore").assign(run=run.name) for run in runs]
    frame = pd.concat(rows, ignore_index=True)
    frame.insert(0, "run", frame.pop("run"))
    return gzip.compress(to_csv(frame).encode("utf-8"), mtime=0)


def _page(title: str, runs: Sequence[Run], boards: Sequence[Board]) -> str:
    """The first page: the leaderboard of the newest run's board and what that run changed, links to
    the other boards, the list of runs, the downloads."""
    from ....reports.html.write import other_page
    from ....reports.output.tables import upright

    first = boards[0]
    shown = {part.name: part for part in first.sections}
    found = [shown["leaderboard"], shown["scores"]]
    changes = [first.changes] if first.changes is not None else []
    variables = {
        "title": title,
        "verdict": first.verdict,
        "sections": [
            {
                "name": "changes" if part in changes else part.name,
                "title": f"What changed: {part.title}" if part in changes else part.title,
                "remarks": part.remarks if part in changes else (),
                "tables": tuple(map(upright, part.tables)),
            }
            for part in [*changes, *found]
        ],
        "board": f"{first.place}/html/index.html",
        "boards": [
            {
                "title": board.title,
                "link": f"{board.place}/html/index.html",
                "verdict": board.verdict,
                "changes": board.changes.remarks if board.changes is not None else (),
            }
            for board in boards[1:]
        ],
        "runs": [
            {
                "name": run.name,
                "link": f"runs/{run.place}/html/index.html",
                "last": run.last[:16].replace("T", " "),
                "suite": run.status.suite,
                "budget": run.status.budget,
                "datasets": run.status.datasets,
                "models": run.status.models,
                "trials": f"{run.status.done:,}",
                "failed": f"{sum(run.status.failed.values()):,}",
            }
            for run in runs
        ],
        "downloads": DOWNLOADS,
    }
    return other_page(HERE / "site.html.j2", variables)


# ---------------------------------------------------------------------- the folder


def check_out(out: Path) -> None:
    """Raises SweepError for a file, and for a folder that holds something and no earlier site."""
    if out.exists() and not out.is_dir():
        raise SweepError(f"--out {out} is a file: name a folder for the site")
    if out.is_dir() and any(out.iterdir()) and not (out / MARK).is_file():
        raise SweepError(
            f"--out {out} holds other files and no site (no {MARK}): name an empty folder, or one "
            "that does not exist yet"
        )


def move(staging: Path, out: Path) -> list[Path]:
    """Move the finished site into `out`, in place of what stands there of an earlier one; its
    files."""
    files = sorted(p.relative_to(staging) for p in staging.rglob("*") if p.is_file())
    out.mkdir(parents=True, exist_ok=True)
    boards = sorted(path.name for path in staging.glob(f"{BOARD}*"))
    for old in {path.name for path in out.glob(f"{BOARD}*") if path.is_dir()} - {*boards}:
        os.replace(out / old, staging / f"old {old}")  # of an earlier site with more of them
    for name in ("runs", *boards, "trials.csv.gz", ".nojekyll", MARK, "index.html"):
        if (out / name).is_dir():
            os.replace(out / name, staging / f"old {name}")
        os.replace(staging / name, out / name)
    return [out / path for path in files]
