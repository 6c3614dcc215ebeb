"""Folders of runs, told from other folders by the files of their ledgers; standard library only."""

from __future__ import annotations

from pathlib import Path

LEDGER_FILES = ("MANIFEST.json", "segment-*.parquet", "tail-*.jsonl")


def is_run(folder: Path) -> bool:
    """Whether a folder holds a ledger; one whose manifest was lost is a ledger still."""
    return any(True for name in LEDGER_FILES for _ in (folder / "ledger").glob(name))


def runs_below(folder: Path) -> list[Path]:
    """The runs directly below a folder, sorted."""
    found = {path.parents[1] for name in LEDGER_FILES for path in folder.glob(f"*/ledger/{name}")}
    return sorted(found)
