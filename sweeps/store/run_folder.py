"""Folders of runs, and the names of the files of a ledger; standard library only."""

from __future__ import annotations

from pathlib import Path

LOG = "log.jsonl"
COLUMNS = "columns.bin"


def ledger_files(run: Path) -> list[str]:
    """The names of all files in the folder of a run's ledger, sorted, hidden ones left out: a
    crash may leave some behind, and file systems make some."""
    try:
        names = sorted(path.name for path in (run / "ledger").iterdir())
    except OSError:
        return []
    return [name for name in names if not name.startswith(".")]


def is_run(folder: Path) -> bool:
    """Whether a folder is that of a run: its ledger has a file, readable or not. A ledger that
    lost its log is refused where it is opened; nothing begins anew in its place."""
    return bool(ledger_files(folder))


def runs_below(folder: Path) -> list[Path]:
    """The runs directly below a folder, sorted."""
    return sorted(path.parent for path in folder.glob("*/ledger") if is_run(path.parent))
