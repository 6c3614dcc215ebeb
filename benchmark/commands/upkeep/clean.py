"""`bench clean`: files of a run that the ledger can bring back or that crashes left behind.

`ledger/` and `predictions/` are the run: nothing here ever touches them.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from ....sweeps.store.ledger import LedgerError
from ....sweeps.store.run_lock import RunLock, RunLocked, owner_of
from ...arguments import SEVERAL_RUNS
from ...console import NOTHING, OK, Console, common, size
from ...errors import NoRun, SweepError, check_run
from ...results.run_status import status_of

# What each option means, as names in the run folder.
PARTS: dict[str, tuple[str, ...]] = {
    "report": ("report",),
    "tracking": ("mlflow.db", "mlflow.db-wal", "mlflow.db-shm", "mlartifacts", "tracking"),
    "checkpoints": ("checkpoints", "tune"),
    "logs": ("logs",),
    "quarantine": ("quarantine",),
}
TEMPORARY = (".*.tmp", "owner.lease.*")  # of writers that were killed


@dataclass(frozen=True)
class Item:
    """A file or a whole folder that is removed."""

    path: Path
    bytes: int
    files: int


def _part(name: str, help: str) -> Any:
    return click.option(f"--{name}", "parts", multiple=True, flag_value=name, help=help)


@click.command()
@SEVERAL_RUNS
@_part("report", "The tables.")
@_part("tracking", "MLflow's files.")
@_part("checkpoints", "Saved states of fits.")
@_part("logs", "Irreversible: events, output.")
@_part("quarantine", "Irreversible: damaged records.")
@click.option("--all", "everything", is_flag=True, help="All of these.")
@click.option("--dry-run", is_flag=True, help="Show what would be removed; remove nothing.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@common
def clean(
    console: Console,
    runs: Sequence[Path],
    everything: bool,
    parts: Iterable[str],
    dry_run: bool,
    yes: bool,
) -> int:
    """Remove files of runs that are not needed any more, or those named by options.

    Without options: files that crashes left behind, and the checkpoints of a finished run. The
    ledger, the predictions and a run in use are never touched. Tables and MLflow's files can be
    made again from the ledger (bench report, bench track sync).
    """
    parts = tuple(PARTS if everything else parts)
    skipped: dict[Path, str] = {}
    for run in runs:
        check_run(run)
        if run.is_symlink():
            raise NoRun(f"{run} is a link: name the folder itself, {run.resolve()}")
        if (owner := owner_of(run)) is not None:
            who = f"process {owner.get('pid', '?')} on {owner.get('host', '?')}"
            skipped[run] = f"{run} is in use by {who}: stop it, or wait until it ends"
    if len(skipped) == len(runs):
        raise RunLocked("; ".join(skipped.values()))
    for text in skipped.values():
        console.warn(text)
    goes: dict[Path, list[Item]] = {}
    for run in runs:
        if run not in skipped and (items := what_goes(run, parts, console)):
            goes[run] = items
    total = sum(item.bytes for items in goes.values() for item in items)
    document = {
        "runs": {str(path): list(map(asdict, items)) for path, items in goes.items()},
        "skipped": {str(path): reason for path, reason in skipped.items()},
        "bytes": total,
        "removed": False,
    }
    console.data(document)
    for items in goes.values():
        for item in items:
            console.say(f"{size(item.bytes):>9}  {item.path}")
    if not goes:
        console.say("nothing to remove")
        return NOTHING
    if dry_run:
        console.say(f"{size(total):>9}  in all; nothing was removed (--dry-run)")
        return OK
    if not yes:
        if console.json or not sys.stdin.isatty():
            raise SweepError("--yes is needed to remove these, or --dry-run to look only")
        click.confirm(f"{size(total)} in all. Remove them?", abort=True, err=True)
    removed = 0
    for folder, items in goes.items():
        removed += remove(folder, items, console)
    console.data({**document, "removed": True, "bytes": removed})
    console.say(f"{size(removed):>9}  removed")
    return OK


def what_goes(run: Path, parts: Iterable[str], console: Console) -> list[Item]:
    """What the options mean in this run; without any, what is left over in it."""
    names = [name for part in parts for name in PARTS[part]]
    if not names and all_done(run, console):
        names = [*PARTS["checkpoints"], "live.json"]  # no fit will go on from them
    paths = [run / name for name in names]
    for pattern in TEMPORARY:
        paths.extend(sorted(run.glob(pattern)))
    items = []
    for path in dict.fromkeys(paths):
        if path.is_symlink():
            console.warn(f"{path} is a link: left alone")
        elif path.exists():
            items.append(measure(path))
    return items


def all_done(run: Path, console: Console) -> bool:
    """Whether every planned trial has ended. A run that cannot be read, which is printed, and a run
    without a plan count as unfinished."""
    try:
        return status_of(run).finished
    except LedgerError as error:
        console.warn(f"{error}; only what killed writers left there is removed")
        return False


def measure(path: Path) -> Item:
    """The bytes of a file, or of all files below a folder; links count as themselves."""
    if not path.is_dir():
        return Item(path, path.lstat().st_size, 1)
    total = files = 0
    for folder, _, names in os.walk(path):
        for name in names:
            total += os.lstat(os.path.join(folder, name)).st_size
            files += 1
    return Item(path, total, files)


def remove(run: Path, items: Iterable[Item], console: Console) -> int:
    """Remove the items while the run is locked; returns their bytes."""
    removed = 0
    try:
        with RunLock(run, note=console.warn):
            for item in items:
                if item.path.is_symlink() or not item.path.exists():
                    continue  # not what it was
                if item.path.is_dir():
                    shutil.rmtree(item.path)  # goes into no link
                else:
                    item.path.unlink()
                removed += item.bytes
    except RunLocked as error:
        console.warn(f"{error}; nothing of it was removed")
    return removed
