"""The log of a ledger: one record a line, with its checksum; a failed append leaves no trace."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from ...common.errors import ENVIRONMENT, Error
from ...common.files import sync_folder
from ..trial import canonical

Record = dict[str, Any]

PIECE = 1 << 23  # bytes of a log that are read at once
LONGEST = 1 << 26  # bytes of a line: no record of ours is as long, a file from someone else may be
WINDOW = 1 << 16  # bytes that are read to get one record: those that follow come with it


class LedgerError(Error):
    """The store cannot be read or written; the message says which file and what to do."""

    id = "BENCH-E011"
    exit_code = ENVIRONMENT


def encode(record: Mapping[str, Any]) -> bytes:
    """One line of the log: checksum, blank, canonical JSON, newline."""
    return line_of(canonical(record).encode())


def line_of(text: bytes) -> bytes:
    """The line for a record that is JSON text already."""
    return b"%08x %s\n" % (zlib.crc32(text), text)


def text_of(line: bytes) -> bytes | None:
    """The JSON text in a line, or None where the line is torn or its checksum wrong."""
    if not line.endswith(b"\n") or len(line) < 12 or line[8:9] != b" ":
        return None
    text = line[9:-1]
    return text if line[:8] == b"%08x" % zlib.crc32(text) else None


def decode(line: bytes) -> Record | None:
    """The record in a line, or None where the line is torn, its checksum wrong or it no record."""
    text = text_of(line)
    if text is None:
        return None
    try:
        record = json.loads(text)
    except ValueError:
        return None
    return record if isinstance(record, dict) and isinstance(record.get("kind"), str) else None


class LogReader:
    """A log that is read by place; it may grow meanwhile."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._window = 0, b""  # the bytes that were read last, and where they begin

    def size(self) -> int:
        """The bytes of the file. Raises LedgerError where it cannot be read."""
        try:
            return self.path.stat().st_size
        except OSError as error:
            raise LedgerError(f"cannot read {self.path}: {error}") from None

    def text(self, start: int) -> bytes:
        """The JSON text of the record whose line begins at `start`. Raises LedgerError where its
        checksum is wrong: the file was damaged, or replaced since it was opened."""
        first, data = self._window
        at = start - first
        end = data.find(b"\n", at) if 0 <= at < len(data) else -1
        length = WINDOW
        while end < 0:
            first, data, at = start, b"".join(self.pieces(start, start + length)), 0
            end = data.find(b"\n")
            if end < 0 and len(data) < length:
                break
            self._window = first, data
            length *= 4
        text = text_of(data[at : end + 1])
        if text is None:
            raise LedgerError(
                f"the record at byte {start} of {self.path} fails its checksum: the file is "
                "damaged, or was replaced meanwhile; `bench verify` says what is whole"
            )
        return text

    def pieces(self, start: int, end: int) -> Iterator[bytes]:
        """The bytes from one place to another, in pieces; fewer where the file ends before."""
        try:
            with open(self.path, "rb", buffering=0) as file:
                file.seek(start)
                while start < end and (data := file.read(min(PIECE, end - start))):
                    start += len(data)
                    yield data
        except OSError as error:
            raise LedgerError(f"cannot read {self.path}: {error}") from None

    def crc32(self, start: int, end: int) -> int:
        """The checksum of the bytes from one place to another."""
        crc = 0
        for data in self.pieces(start, end):
            crc = zlib.crc32(data, crc)
        return crc

    def lines(self, start: int, end: int) -> Iterator[tuple[int, bytes]]:
        """(start, bytes) of each line between two places of the file. The last line may be torn.
        Raises LedgerError if a line is longer than LONGEST."""
        rest = b""
        for data in self.pieces(start, end):
            *whole, rest = (rest + data).split(b"\n")
            for line in whole:
                yield start, line + b"\n"
                start += len(line) + 1
            if len(rest) > LONGEST:
                raise LedgerError(f"{self.path}: the line at byte {start} is no record: too long")
        if rest:
            yield start, rest


def write_without(path: Path, damaged: Iterable[tuple[int, bytes]]) -> None:
    """Replace a log by one without the damaged lines: [(where each begins, its bytes)]."""
    log, temporary, start = LogReader(path), path.with_name(f".{path.name}.{os.getpid()}.tmp"), 0
    try:
        with open(temporary, "wb") as file:
            for at, line in [*damaged, (log.size(), b"")]:
                file.writelines(log.pieces(start, at))
                start = at + len(line)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def open_to_append(path: Path) -> BinaryIO:
    """Open a file for appending, and for reading what it holds; the folder of a new one is flushed
    to disk."""
    existed = path.exists()
    file = open(path, "a+b")
    if not existed:
        sync_folder(path.parent)
    return file


class LogFile:
    """A log that is open for appending."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._synced = True
        self.file = open_to_append(path)

    def append(self, data: bytes, *, sync: bool) -> None:
        """Write lines. Raises OSError (disk full, say) with the file cut back to what it held."""
        before = self.file.tell()
        try:
            self.file.write(data)
            self.file.flush()
            self._synced = False
            if sync:
                self.sync()
        except OSError:
            self._cut(before)
            raise

    def sync(self) -> None:
        """Make durable what was appended. Raises OSError."""
        if not self._synced:
            os.fsync(self.file.fileno())
            self._synced = True

    def _cut(self, length: int) -> None:
        try:
            self.file.close()
        except OSError:
            pass  # the buffer that could not be written is to be dropped
        os.truncate(self._path, length)
        self.file = open_to_append(self._path)

    def close(self) -> None:
        """Make durable what was appended last, and close the file; may raise OSError where a buffer
        cannot be written."""
        try:
            self.sync()
        finally:
            self.file.close()
