"""Who owns a run folder? One driver at a time, on one host, for as long as it lives."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from pathlib import Path
from typing import IO, Any


class RunLocked(Exception):
    """Another driver owns the run folder; the message says which and since when."""


class RunLock:
    """An advisory lock on `owner.lock` that the kernel drops when its owner dies.

    The file's text names the owner for people; it is not what decides.
    """

    def __init__(self, run: Path) -> None:
        self.path = Path(run) / "owner.lock"
        self._file: IO[str] | None = None

    def acquire(self) -> RunLock:
        """Raises RunLocked where another driver holds the folder."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        file = open(self.path, "a+")
        try:
            _lock(file)
        except BlockingIOError:
            owner = _owner(file)
            file.close()
            age = max(0, int(time.time() - owner.get("since", time.time())))
            raise RunLocked(
                f"{self.path.parent} is in use by process {owner.get('pid', '?')} on "
                f"{owner.get('host', '?')}, started {age} s ago: wait for it, stop it, or choose "
                "another --name"
            ) from None
        except OSError as error:  # a network file system without locks, say
            file.close()
            raise RunLocked(
                f"{self.path} cannot be locked ({error}): choose a --runs folder on a file system "
                "with locks"
            ) from None
        file.seek(0)
        file.truncate()
        json.dump({"pid": os.getpid(), "host": socket.gethostname(), "since": time.time()}, file)
        file.flush()
        self._file = file
        return self

    def release(self) -> None:
        if self._file is not None:
            self._file.truncate(0)
            self._file.close()
            self._file = None

    def __enter__(self) -> RunLock:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


def _lock(file: IO[str]) -> None:
    """Take the lock; somebody who only looks (`owner_of`) holds it for a moment."""
    for patience in reversed(range(10)):
        try:
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not patience:
                raise
            time.sleep(0.05)


def owner_of(run: Path) -> dict[str, Any] | None:
    """The live owner of a run folder ({pid, host, since}), or None where nobody holds it."""
    path = Path(run) / "owner.lock"
    if not path.exists():
        return None
    with open(path) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return _owner(file)
        fcntl.flock(file, fcntl.LOCK_UN)
    return None


def _owner(file: IO[str]) -> dict[str, Any]:
    file.seek(0)
    try:
        owner = json.loads(file.read() or "{}")
    except ValueError:
        return {}
    return owner if isinstance(owner, dict) else {}
