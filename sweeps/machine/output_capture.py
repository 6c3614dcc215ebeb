"""Captured output of a trial: all that reaches descriptors 1 and 2, bounded, also after a crash.

The descriptors themselves are redirected, so that C libraries, child processes, `print`, logging
and a crash's traceback land in one file, in order; `tail_of` reads what a killed worker printed.
"""

from __future__ import annotations

import ctypes
import faulthandler
import fcntl
import io
import os
import re
import stat
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

LIMIT = 16_384  # bytes of a trial's output that are kept
DISK_LIMIT = 64 * 2**20  # bytes that a trial's output may take on the disk while it runs
ABANDONED_S = 600.0  # since the last line of a dead worker, until when its driver has read it
NOTE = 64  # bytes that the line about what was left out takes at most
_MODULES = re.compile(r"^Extension modules: .*\n?", re.MULTILINE)  # kilobytes in a crash report


class Captured:
    """The output of one trial; `text` may be called during the trial and after it."""

    def __init__(self) -> None:
        self._file: int | None = None
        self._head = b""  # the beginning, once the file had to be shortened
        self._dropped = 0
        self._text = ""
        self._lock = threading.Lock()

    def text(self) -> str:
        """Head, "... N bytes left out ..." and tail; at most LIMIT characters, no NUL."""
        with self._lock:
            return self._text if self._file is None else self._read()

    def _read(self) -> str:
        assert self._file is not None
        size = os.fstat(self._file).st_size
        if not size and not self._dropped:
            return ""
        head = self._head or os.pread(self._file, LIMIT, 0)
        return shortened(head, self._tail(size), self._dropped + size)

    def _tail(self, size: int) -> bytes:
        assert self._file is not None
        return os.pread(self._file, LIMIT, max(0, size - LIMIT))

    def _open(self, path: Path) -> int:
        self._file = _new_file(path)
        return self._file

    def _finish(self) -> None:
        with self._lock:
            if self._file is not None:
                with suppress(OSError):
                    self._text = self._read()
                os.close(self._file)
                self._file = None

    def trim(self) -> None:
        """Cut a file that grew beyond DISK_LIMIT back to its tail: a trial that prints for hours
        must not fill its node's disk. Its writers append, so they go on behind the tail."""
        with self._lock:
            if self._file is None or (size := os.fstat(self._file).st_size) <= DISK_LIMIT:
                return
            self._head = self._head or os.pread(self._file, LIMIT, 0)
            tail = self._tail(size)
            os.ftruncate(self._file, 0)
            os.write(self._file, tail)
            self._dropped += size - len(tail)


def shortened(head: bytes, tail: bytes, size: int) -> str:
    """`size` bytes of output as text, of which `head` and `tail` hold the ends.

    >>> shortened(b"abc", b"abc", 3)
    'abc'
    """
    if size <= LIMIT and len(tail) >= size:
        return _clean(tail)
    first = (LIMIT - NOTE) // 4
    last = LIMIT - NOTE - first
    note = f"\n... {size - first - last} bytes left out ...\n"
    return _clean(head[:first]) + note + _clean(tail[-last:])


def _clean(data: bytes) -> str:
    return data.decode("utf-8", errors="replace").replace("\0", "")


def tail_of(path: Path) -> str:
    """The output in the file of a dead worker, shortened like `Captured.text`; "" without one."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            return ""
        tail = os.pread(file, LIMIT, max(0, found.st_size - LIMIT))
        text = shortened(os.pread(file, LIMIT, 0), tail, found.st_size)
        return _MODULES.sub("", text)
    except OSError:
        return ""
    finally:
        os.close(file)


def remove_abandoned(folder: Path) -> None:
    """Remove the files of trials that were killed with their children and whose output nobody
    fetched: the driver that would have has died, too."""
    for path in folder.glob("*.out"):
        with suppress(OSError):
            file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                if time.time() - os.fstat(file).st_mtime > ABANDONED_S:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.unlink(path)
            finally:
                os.close(file)


@contextmanager
def captured(path: Path) -> Iterator[Captured]:
    """Redirect descriptors 1 and 2 of this process into one file while the block runs.

    The file has the name `path` until the block ends, and keeps it where the process dies in the
    block. Output that cannot be kept (no room for the file) is lost; the block runs anyway. Not
    for several threads at once: a process has one descriptor 1.
    """
    output = Captured()
    before = sys.stdout, sys.stderr
    _flush(*before)
    saved = [_duplicate(number) for number in (1, 2)]
    try:
        file = output._open(path)
        os.dup2(file, 1)
        os.dup2(file, 2)
        sys.stdout, sys.stderr = _streams()
        faulthandler.enable(file=2, all_threads=False)
        with _watched(output):
            yield output
    finally:
        _flush(sys.stdout, sys.stderr, *before)
        sys.stdout, sys.stderr = before
        for number, old in zip((1, 2), saved, strict=True):
            if old is None:
                with suppress(OSError):
                    os.close(number)
            else:
                os.dup2(old, number)
                os.close(old)
        output._finish()
        with suppress(OSError):
            os.unlink(path)


def _new_file(path: Path) -> int:
    """A descriptor of an empty file that only this process knows. It appends, so that processes
    and threads cannot overwrite each other's lines."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with suppress(FileNotFoundError):
            os.unlink(path)  # of a worker that died, whose children may still write there
        file = os.open(path, flags, 0o600)
        with suppress(OSError):  # held as long as the trial or a child of it may write
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return file
    except OSError:
        return os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)


def _duplicate(number: int) -> int | None:
    try:
        return os.dup(number)
    except OSError:  # a process without standard output, a daemon's
        return None


_made: list[io.TextIOWrapper] = []


def _streams() -> tuple[io.TextIOWrapper, io.TextIOWrapper]:
    """Streams on descriptors 1 and 2 that lose nothing when the process is killed, whatever the
    locale. One pair for the process: a logging handler made in one trial works in the next."""
    if not _made or any(stream.closed for stream in _made):
        _made[:] = [
            io.TextIOWrapper(
                io.FileIO(number, "w", closefd=False),  # type: ignore[arg-type]
                encoding="utf-8",
                errors="backslashreplace",
                write_through=True,
            )
            for number in (1, 2)
        ]
    return _made[0], _made[1]


def _flush(*streams: object) -> None:
    for stream in streams:
        with suppress(Exception):  # a trial may have replaced or closed its streams
            stream.flush()  # type: ignore[attr-defined]
    if _C_STDOUT is not None:
        _C.fflush(_C_STDOUT)


try:
    _C = ctypes.CDLL(None)
    _C_STDOUT: ctypes.c_void_p | None = ctypes.c_void_p.in_dll(_C, "stdout")
except (OSError, ValueError, TypeError):  # not a system with glibc's or musl's names
    _C_STDOUT = None


# ---------------------------------------------------------------------- a bound while it runs

_watching: Captured | None = None
_watcher: threading.Thread | None = None


@contextmanager
def _watched(output: Captured) -> Iterator[None]:
    global _watching, _watcher
    before, _watching = _watching, output
    if _watcher is None or not _watcher.is_alive():  # threads do not survive a fork
        _watcher = threading.Thread(target=_watch, daemon=True, name="tabsweep-output")
        _watcher.start()
    try:
        yield
    finally:
        _watching = before


def _watch() -> None:
    while True:
        time.sleep(1.0)
        output = _watching
        if output is not None:
            with suppress(OSError):
                output.trim()
