"""Atomic, durable replacement of files, and their checksum."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A hidden file of this call beside `path`, which replaces `path` at the end. An error deletes
    it and leaves `path` as it was."""
    # A name for each call: threads, and hosts that share the folder, may write the same file.
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_atomically(path: Path, data: bytes, *, sync: bool = True) -> None:
    """Replace a file so that a reader or a crash sees the old bytes or the new, never a mixture.

    The data go to a hidden file of this call in the same folder, are flushed to disk, and are
    renamed into place; the folder is flushed as well. `sync=False` leaves out both flushes: for
    files that can be written again at once, such as a heartbeat. Raises OSError (a full disk, say),
    and the file is then as it was.
    """
    with replacing(path) as temporary, open(temporary, "xb") as file:
        file.write(data)
        if sync:
            file.flush()
            os.fsync(file.fileno())
    if sync:
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Flush a folder's entries to disk, so that a renamed or new file survives a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file of any size, as 64 hex digits. Raises OSError."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
