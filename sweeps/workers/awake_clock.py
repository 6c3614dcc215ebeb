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


class _AwakeClock:
    """A thread looks at the clock every second; of a longer gap the first MOST_S seconds count."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ticker: threading.Thread | None = None
        self._last = time.monotonic()
        self._awake_s = 0.0

    def now(self) -> float:
        with self._lock:
            now = time.monotonic()
            self._awake_s += min(now - self._last, MOST_S)
            self._last = now
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
