"""Seconds in which this process could run: those that it was stopped or its machine paused do not
count.

`docker pause`, SIGSTOP, `scontrol suspend` and the pause of a virtual machine stop a sweep with all
its trials, and the monotonic clock goes on. By that clock every trial would be overdue afterwards.
"""

from __future__ import annotations

import threading
import time

TICK_S = 1.0
STILL_S = 5.0  # without a tick: longer than a busy machine leaves a process without a turn
BUSY = 0.1  # CPU seconds per second from which on a process without a tick ran all the same


class _AwakeClock:
    """A thread looks at the clock every second, so that a process that is merely busy (it loads a
    table, it waits for a disk) is not taken for one that stood still. C code that keeps Python's
    lock holds up the thread too: its CPU time tells."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ticker: threading.Thread | None = None
        self._last, self._cpu = time.monotonic(), time.process_time()
        self._still_s = 0.0

    def now(self) -> float:
        with self._lock:
            if self._ticker is None or not self._ticker.is_alive():  # none survives a fork
                self._last, self._cpu = time.monotonic(), time.process_time()
                self._ticker = threading.Thread(target=self._tick, daemon=True, name="awake-clock")
                self._ticker.start()
            return self._look()

    def _look(self) -> float:
        now, cpu = time.monotonic(), time.process_time()
        gap = now - self._last
        if gap > STILL_S and cpu - self._cpu < BUSY * gap:
            self._still_s += gap
        self._last, self._cpu = now, cpu
        return now - self._still_s

    def _tick(self) -> None:
        while True:
            time.sleep(TICK_S)
            with self._lock:
                self._look()


_CLOCK = _AwakeClock()


def awake_s() -> float:
    """The monotonic clock in seconds, which stands while this process cannot run."""
    return _CLOCK.now()
