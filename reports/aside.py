"""Can a large report use a second core? A part of it is computed in a copy of the process.

Threads would take turns, as the work is Python's. The copy is made by fork, which costs nothing of
the millions of rows that both read. It only saves time: where there is no fork, other threads run
or the copy dies, the same work is done here.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from types import TracebackType
from typing import Any, Generic, TypeVar

T = TypeVar("T")

FROM_TRIALS, FROM_STUDIES = 200_000, 2_000  # with fewer of both, a report takes a second or two
PATIENCE_S = 60.0  # for a copy that should have ended long ago
CHUNK = 2**20


def is_worth_it(n_trials: int, n_studies: int) -> bool:
    """Whether a copy would save time, and can be made: Linux copies a process safely while a
    single thread of Python runs in it, and no library that answers to a network is loaded."""
    return (
        (n_trials >= FROM_TRIALS or n_studies >= FROM_STUDIES)
        and sys.platform == "linux"
        and threading.active_count() == 1
        and not sys.modules.keys() & {"grpc", "ray"}
        and len(os.sched_getaffinity(0)) > 1
    )


class Aside(Generic[T]):
    """`work()`, begun in a copy of this process if `apart`, else done when its result is wanted.

    Its result must be picklable, and the same wherever and whenever it is computed. Use it in a
    `with` block, at whose end the copy is gone.
    """

    def __init__(self, work: Callable[[], T], *, apart: bool) -> None:
        self._work = work
        self._pid = 0
        self._pipe = -1
        self._began = time.monotonic()
        if apart:
            self._begin()

    def _begin(self) -> None:
        reading, writing = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python counts pyarrow's threads
            try:
                pid = os.fork()
            except OSError:  # no room for another process
                os.close(reading)
                os.close(writing)
                return
        if pid == 0:
            os.close(reading)
            _answer(self._work, writing)
        os.close(writing)
        self._pid, self._pipe = pid, reading

    def result(self) -> T:
        """What the work returns; raises what it raises."""
        if not self._pid:
            return self._work()
        data = self._received()
        if data is None:
            self._end(kill=True)
        if not data or self._end() != 0:
            return self._work()
        found: T = pickle.loads(data)
        return found

    def _received(self) -> bytes | None:
        """All that the copy has written, None where it has fallen silent without an end."""
        parts: list[bytes] = []
        until = time.monotonic() + max(PATIENCE_S, 10.0 * (time.monotonic() - self._began))
        poll = select.poll()
        poll.register(self._pipe, select.POLLIN)
        while True:
            if not poll.poll(1000.0 * max(0.0, until - time.monotonic())):
                return None
            part = os.read(self._pipe, CHUNK)
            if not part:
                return b"".join(parts)
            parts.append(part)

    def _end(self, *, kill: bool = False) -> int | None:
        """The copy's status, 0 where it did its work; None if there is none."""
        if not self._pid:
            return None
        if kill:
            os.kill(self._pid, signal.SIGKILL)
        os.close(self._pipe)
        _, status = os.waitpid(self._pid, 0)
        self._pid = 0
        return status

    def __enter__(self) -> Aside[T]:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end(kill=True)


def _answer(work: Callable[[], Any], pipe: int) -> None:
    """What the copy does: the work, its result into the pipe, and the end of the process, without
    anything that is meant to happen once at the end of the original."""
    status = 1
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        data = memoryview(pickle.dumps(work(), protocol=pickle.HIGHEST_PROTOCOL))
        while data:
            data = data[os.write(pipe, data) :]
        status = 0
    except BaseException:  # the original does the work again, and says what is wrong with it
        pass
    finally:
        os._exit(status)
