"""Seconds in which this process could run: those that it was stopped or its machine paused do not
count.

`docker pause`, SIGSTOP, `scontrol suspend` and the pause of a virtual machine stop a sweep with all
its trials, and the monotonic clock goes on. By that clock every trial would be overdue afterwards.
"""

from __future__ import annotations

import threading
import time

TICK_S = 1.0
MOST_S = 5.0  # between two looks; a busy machine leaves a process seldom longer without a turn
BUSY = 0.1  # CPU seconds per second from which on a process between two looks ran all the same


class _AwakeClock:
    """A thread looks at the clock every second; of a longer gap the first MOST_S seconds count. C
    code that keeps Python's lock holds up the thread, too: its CPU time tells."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ticker: threading.Thread | None = None
        self._last, self._cpu = time.monotonic(), time.process_time()
        self._awake_s = 0.0

    def now(self) -> float:
        with self._lock:
            now, cpu = time.monotonic(), time.process_time()
            gap = now - self._last
            ran = cpu - self._cpu >= BUSY * gap
            self._awake_s += gap if ran else min(gap, MOST_S)
            self._last, self._cpu = now, cpu
            if self._ticker is None or not self._ticker.is_alive():  # none survives a fork
                self._ticker = threading.Thread(target=self._tick, daemon=True, name="awake-clock")
                self._ticker.start()
            return self._awake_s

    def _tick(self) -> None:
        while True:
            time.sleep(TICK_S)
            self.now()


_CLOCK = _AwakeClock()


def awake_s() -> float:
    """A clock in seconds, which stands while this process cannot run."""
    return _CLOCK.now()
