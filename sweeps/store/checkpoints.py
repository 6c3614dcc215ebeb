"""Checkpoints of unfinished fits: one file for each, replaced whole and checked when read.

A checkpoint is a cache of bytes that the model itself wrote: losing one costs time and nothing
else, so a damaged one is treated as absent. Nothing is unpickled here.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Protocol

from ...common.files import write_atomically

MAGIC = b"tabsweep checkpoint 1\n"
_KEY = re.compile(r"[0-9a-f]{8,64}")
_HEADER = re.compile(rb"([0-9]{1,9}) ([0-9a-f]{64})\n")


class Checkpoints(Protocol):
    """A store of (step, state) by key. Any method may raise where the store is out of reach."""

    def get(self, key: str) -> tuple[int, bytes] | None:
        """The last (step, state) that was put, or None."""

    def put(self, key: str, step: int, state: bytes) -> None:
        """Replaces what was there."""


def frame(step: int, state: bytes) -> bytes:
    """The bytes of a checkpoint file: a magic line, step and sha256 of both, the state."""
    return MAGIC + b"%d %s\n" % (step, _sum(step, state)) + state


def parse(data: bytes) -> tuple[int, bytes] | None:
    """(step, state) from the bytes of a file; None where `frame` did not write exactly these."""
    header = _HEADER.match(data, len(MAGIC)) if data.startswith(MAGIC) else None
    if header is None:
        return None
    step, state = int(header[1]), data[header.end() :]
    return (step, state) if header[2] == _sum(step, state) else None


def _sum(step: int, state: bytes) -> bytes:
    sha = hashlib.sha256(b"%d\n" % step)
    sha.update(state)
    return sha.hexdigest().encode()


class CheckpointFolder:
    """Checkpoints as files of one folder, which is made when the first is put."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def get(self, key: str) -> tuple[int, bytes] | None:
        """The last (step, state); a damaged or torn file is removed and counts as none."""
        file = self._file(key)
        try:
            data = file.read_bytes()
        except FileNotFoundError:
            return None
        kept = parse(data)
        if kept is None:
            file.unlink(missing_ok=True)
        return kept

    def put(self, key: str, step: int, state: bytes) -> None:
        """Durable when it returns; OSError (a full disk, say) leaves the last one in place."""
        file = self._file(key)
        self.path.mkdir(parents=True, exist_ok=True)
        write_atomically(file, frame(step, state))

    def drop(self, key: str) -> None:
        """Removes a key's file, whatever else the folder holds."""
        self._file(key).unlink(missing_ok=True)

    def remove_torn(self) -> None:
        """Remove what writers that were killed left half written; to be called where none
        writes."""
        for torn in self.path.glob(".*.checkpoint.*.tmp"):
            torn.unlink(missing_ok=True)

    def _file(self, key: str) -> Path:
        if not _KEY.fullmatch(key):
            raise ValueError(
                f"the key of a checkpoint must be 8 to 64 hexadecimal digits, got {key!r}"
            )
        return self.path / f"{key}.checkpoint"
