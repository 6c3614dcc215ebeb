"""A `Beat` every few seconds, and a warning where trials wait and none can run."""

from __future__ import annotations

import time

from ..events import Beat, Listener, Warned
from ..workers.pool import WorkerPool

BEAT_S = 2.0  # between two of them
PATIENCE_S = 30.0  # without a running trial until the warning


class Heartbeat:
    """Tells a listener which workers do what, and warns where none has room for any trial."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._last_beat = 0.0
        self._last_work = time.monotonic()  # when a trial ran last; a warning moves it on

    def beat(self, pool: WorkerPool, queued: int, *, ended: int = 0) -> None:
        """Call this in every round of the loop.

        queued: trials without a worker plus studies with a trial to open. ended: trials that ended
        in this round; a trial that ran in this process never counts as running."""
        now = time.monotonic()
        if pool.running() or ended or not queued:
            self._last_work = now
        elif now - self._last_work > PATIENCE_S:
            self._last_work = now + 10 * PATIENCE_S
            text = f"{queued} trials or studies wait: no machine has room for any of them"
            self._listener(Warned(text))
        if now - self._last_beat > BEAT_S:
            self._last_beat = now
            self._listener(Beat(pool.workers(), queued))
