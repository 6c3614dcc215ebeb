"""The lock of a run folder: one driver at a time, for as long as it lives.

The kernel's lock on `owner.lock` decides where the file system has locks: it is gone when its owner
is. Where it has none (some network file systems), a lease does: `owner.lease` is created
exclusively, and its owner increases a counter in it every few seconds. Another driver watches that
counter by its own monotonic clock, and takes over once it has not changed for half a minute. No two
clocks are ever compared, so a clock that jumps changes nothing.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import secrets
import socket
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from ...common.errors import ENVIRONMENT, Error

STALE_S = 30.0  # an owner whose counter has not changed for so long is dead
BEAT_S = 3.0
NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}


class RunLocked(Error):
    """Another driver owns the run folder; the message says which and since when."""

    id = "BENCH-E010"
    exit_code = ENVIRONMENT


class RunLock:
    """The lock of a run folder, or the lease where its file system has no locks.

    `check` says whether this process still owns the folder: a process that was stopped for longer
    than `stale_s` may have lost its lease. `note` gets the reason why `acquire` takes long.
    """

    def __init__(
        self,
        run: Path,
        *,
        stale_s: float = STALE_S,
        beat_s: float = BEAT_S,
        note: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.path = Path(run) / "owner.lock"
        self._file: IO[str] | None = None
        self._lease: Lease | None = None
        self._stale_s, self._beat_s, self._note = stale_s, beat_s, note

    def acquire(self) -> RunLock:
        """Raises RunLocked where another driver holds the folder."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        file = _open(self.path, "a+")
        try:
            _lock(file)
        except BlockingIOError:
            owner = _owner(file)
            file.close()
            raise RunLocked(_in_use(self.path.parent, owner)) from None
        except OSError as error:
            file.close()
            if error.errno not in NO_LOCKS:
                raise RunLocked(f"{self.path} cannot be locked ({error})") from None
            lease = Lease(self.path.with_name("owner.lease"), beat_s=self._beat_s)
            lease.take(self._stale_s, self._note)
            self._lease = lease
            _HELD.add(self)
            return self
        file.seek(0)
        file.truncate()
        json.dump(_myself(), file)
        file.flush()
        self._file = file
        _HELD.add(self)
        return self

    def check(self) -> None:
        """To be called before something is written: raises RunLocked where the folder is another
        driver's by now. Costs microseconds with a lock, the reading of a small file with a lease.
        """
        if self._lease is not None:
            self._lease.check()
        elif self._file is not None:
            mine = os.fstat(self._file.fileno())
            try:
                there = os.stat(self.path)
            except FileNotFoundError:
                if self.path.parent.exists():
                    return
                gone = f"{self.path.parent} was deleted or moved while its sweep ran"
                raise RunLocked(f"{gone}: the same command begins it again") from None
            if (there.st_dev, there.st_ino) != (mine.st_dev, mine.st_ino):
                raise RunLocked(f"{self.path} was replaced: another driver may be at work here")

    def release(self) -> None:
        """Release the folder; nothing happens where this process does not hold it."""
        if self._file is not None:
            self._file.truncate(0)
            self._file.close()
            self._file = None
        if self._lease is not None:
            self._lease.drop()
            self._lease = None

    def _let_go_in_fork(self) -> None:
        """In a process that was forked: only its parent owns the folder. The kernel's lock lasts
        until every copy of the descriptor is closed; closing this one releases nothing."""
        if self._file is not None:
            self._file.close()
        self._file = self._lease = None

    def __enter__(self) -> RunLock:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


_HELD: weakref.WeakSet[RunLock] = weakref.WeakSet()  # by this process


def _let_go_all_in_fork() -> None:
    for lock in list(_HELD):
        lock._let_go_in_fork()
    _HELD.clear()


os.register_at_fork(after_in_child=_let_go_all_in_fork)


class Lease:
    """A file that names the owner of the folder, with a counter that the owner keeps increasing.

    The counter is written into the file that was created, never under its name: an owner that was
    replaced writes into a file that nobody reads any more.
    """

    def __init__(self, path: Path, *, beat_s: float) -> None:
        self.path = path
        self.token = secrets.token_hex(16)
        self._beat_s = beat_s
        self._text = {**_myself(), "token": self.token}
        self._file: int | None = None
        self._beats = 0
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def take(self, stale_s: float, note: Callable[[str], None]) -> None:
        """Create the lease, or take one over whose counter stands still. Raises RunLocked where it
        changes, or another process was faster."""
        while self._follows_a_dead_one(stale_s, note):
            # another process that saw the same dead lease may remove this one in its place
            time.sleep(stale_s / 10)
            if self._is_mine(_read(self.path)):
                break
            assert self._file is not None
            os.close(self._file)
            self._file = None
        self._thread = threading.Thread(target=self._keep, daemon=True, name="tabsweep-lease")
        self._thread.start()

    def _follows_a_dead_one(self, stale_s: float, note: Callable[[str], None]) -> bool:
        """Create the lease; whether another one, whose owner is dead, was removed for it."""
        removed = False
        while not self._create():
            seen = _read(self.path)
            if seen is None:
                continue  # its owner has just gone
            note(
                f"{self.path.parent} has a file system without locks and may be in use by "
                f"{_who(_parse(seen))}: watching it for {stale_s:g} s"
            )
            began = time.monotonic()
            while time.monotonic() - began < stale_s:
                time.sleep(min(0.5, stale_s / 20))
                now = _read(self.path)
                if now != seen:
                    break
            else:
                self._remove(seen)
                removed = True
                continue
            if now is not None:
                raise RunLocked(_in_use(self.path.parent, _parse(now)))
        return removed

    def _is_mine(self, text: bytes | None) -> bool:
        return _parse(text or b"").get("token") == self.token

    def _create(self) -> bool:
        try:
            file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        except FileExistsError:
            return False
        self._file = file
        try:
            self._beat()
        except OSError:  # disk full: no other driver is to wait for a lease without an owner
            os.unlink(self.path)
            os.close(file)
            self._file = None
            raise
        return True

    def _remove(self, seen: bytes) -> None:
        """Remove a dead owner's lease, and only that one: other processes may be doing the same."""
        aside = self.path.with_name(f"owner.lease.{self.token}")
        if _read(self.path) != seen:
            return
        with suppress(FileNotFoundError):
            os.rename(self.path, aside)
            if _read(aside) != seen:  # a new lease of another process: put it back
                with suppress(OSError):
                    os.link(aside, self.path)
            os.unlink(aside)

    def _beat(self) -> None:
        assert self._file is not None
        self._beats += 1
        text = json.dumps({**self._text, "beat": f"{self._beats:012d}"})
        os.pwrite(self._file, text.encode(), 0)
        os.fsync(self._file)

    def _keep(self) -> None:
        while not self._over.wait(self._beat_s):
            with suppress(OSError):  # a full disk, a server that is away: the next beat may come
                self._beat()

    def check(self) -> None:
        """Raises RunLocked where the file is gone or names another owner."""
        text = _read(self.path)
        if not self._is_mine(text):
            raise RunLocked(
                f"this process stood still for so long that {self.path.parent} was taken over"
                f"{f' by {_who(_parse(text))}' if text else ''}: nothing more is written here"
            )

    def drop(self) -> None:
        """Stop the counter, and remove the lease where it is still this process's."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        if self._file is not None:
            with suppress(RunLocked, OSError):
                self.check()
                os.unlink(self.path)
            os.close(self._file)
            self._file = None


def _myself() -> dict[str, Any]:
    return {"pid": os.getpid(), "host": socket.gethostname(), "since": time.time()}


def _open(path: Path, mode: str) -> IO[str]:
    try:
        return open(path, mode, encoding="utf-8")
    except IsADirectoryError:
        raise RunLocked(f"{path} is a folder, and no lock of a sweep: remove it") from None


def _lock(file: IO[str]) -> None:
    """Take the lock, in several attempts: `owner_of` in another process holds it for a moment."""
    for patience in reversed(range(10)):
        try:
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not patience:
                raise
            time.sleep(0.05)


def owner_of(run: Path) -> dict[str, Any] | None:
    """The live owner of a run folder ({pid, host, since}), or None where nobody holds it.

    A lease names a process, but does not say whether it lives: if so, its counter, "beat", changes.
    """
    path = Path(run) / "owner.lock"
    if not path.exists():
        return None
    with _open(path, "r") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in NO_LOCKS:
                return _owner(file)
            lease = _read(path.with_name("owner.lease"))
            return None if lease is None else _parse(lease)
        fcntl.flock(file, fcntl.LOCK_UN)
    return None


def _in_use(run: Path, owner: dict[str, Any]) -> str:
    return (
        f"{run} is in use by {_who(owner)}: wait for it or stop it; bench sweep --name NAME starts "
        "another run"
    )


def _who(owner: dict[str, Any]) -> str:
    since = owner.get("since")
    age = max(0, int(time.time() - since)) if isinstance(since, int | float) else "?"
    return f"process {owner.get('pid', '?')} on {owner.get('host', '?')}, started {age} s ago"


def _owner(file: IO[str]) -> dict[str, Any]:
    file.seek(0)
    return _parse(file.read().encode())


def _read(path: Path) -> bytes | None:
    """The bytes of a small file as they are now, None without one."""
    try:
        with open(path, "rb") as file:
            return file.read(4096)
    except FileNotFoundError:
        return None


def _parse(text: bytes) -> dict[str, Any]:
    try:
        owner = json.loads(text or b"{}")
    except ValueError:
        return {}
    return owner if isinstance(owner, dict) else {}
