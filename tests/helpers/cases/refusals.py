"""Calls of `bench` that must be refused in one line, before anything is written."""

from __future__ import annotations

from pathlib import Path

from calls import bench, contents
from small_sweeps import FAST

SMALL = ("--suite", "smoke", "--dataset", "iris", "--model", "knn", "--folds", 1, *FAST)


def refused(id: str, *args: object, code: int = 2) -> str:
    """The one line with which a call is refused; nothing was written."""
    before = contents(Path.cwd())
    found = bench(*args)
    assert (found.code, found.out) == (code, ""), found
    lines = [line for line in found.err.splitlines() if not line.startswith("warning: ")]
    assert len(lines) == 1 and lines[0].startswith(f"error {id}: "), found.err
    assert lines[0].isprintable()
    assert contents(Path.cwd()) == before
    return lines[0].removeprefix(f"error {id}: ")
