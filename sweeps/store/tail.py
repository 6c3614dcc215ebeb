"""The tail of a ledger: one record a line, with its checksum; a failed append leaves no trace."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..trial import canonical
from . import append_files

Record = dict[str, Any]


def encode(record: Mapping[str, Any]) -> bytes:
    """One line of the tail: checksum, blank, canonical JSON, newline."""
    return line_of(canonical(record).encode())


def line_of(text: bytes) -> bytes:
    """The line for a record that is JSON text already."""
    return b"%08x %s\n" % (zlib.crc32(text), text)


def decode(line: bytes) -> Record | None:
    """The record in a line, or None where the line is torn or its checksum wrong."""
    if not line.endswith(b"\n") or len(line) < 12 or line[8:9] != b" ":
        return None
    text = line[9:-1]
    if line[:8] != b"%08x" % zlib.crc32(text):
        return None
    try:
        record = json.loads(text)
    except ValueError:
        return None
    return record if isinstance(record, dict) and isinstance(record.get("kind"), str) else None


@dataclass
class TailContents:
    """What the bytes of a tail hold: records, their lines, and the bytes that are no record."""

    records: list[Record] = field(default_factory=list)
    lines: list[bytes] = field(default_factory=list)
    torn: bytes = b""

    @property
    def texts(self) -> list[bytes]:
        """The JSON text of each record."""
        return [line[9:-1] for line in self.lines]


def parse_tail(data: bytes) -> TailContents:
    """Split the bytes of a tail into whole records and torn bytes."""
    found, torn = TailContents(), []
    for line in data.splitlines(keepends=True):
        record = decode(line)
        if record is None:
            torn.append(line)
        else:
            found.lines.append(line)
            found.records.append(record)
    found.torn = b"".join(torn)
    return found


class TailFile:
    """A tail that is open for appending."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._synced = True
        self.file = append_files.open_to_append(path)

    def append(self, data: bytes, *, sync: bool) -> None:
        """Write lines. Raises OSError (disk full, say) with the file cut back to what it held."""
        before = self.file.tell()
        try:
            self.file.write(data)
            self.file.flush()
            if sync:
                os.fsync(self.file.fileno())
            self._synced = sync
        except OSError:
            self._cut(before)
            raise

    def _cut(self, length: int) -> None:
        try:
            self.file.close()
        except OSError:
            pass  # the buffer that could not be written is to be dropped
        os.truncate(self._path, length)
        self.file = append_files.open_to_append(self._path)

    def close(self) -> None:
        """Make durable what was appended last, and close the file; may raise OSError where a buffer
        cannot be written."""
        try:
            if not self._synced:
                os.fsync(self.file.fileno())
        finally:
            self.file.close()
