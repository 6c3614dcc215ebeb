"""The heartbeat of a sweep's driver: `live.json` in the run's folder.

It has what no record of the ledger has: which worker runs which trial since when, how many trials
wait, and the seconds that the sweep is expected to take yet. Only displays read it; a sweep whose
heartbeat cannot be written continues.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...common.files import write_atomically
from ...sweeps.events import Beat, Event
from ...sweeps.store.records import utc_now

MOST_BYTES = 4 * 2**20  # read of a heartbeat; the file may be something else
RUNNING = "running"


class Heartbeat:
    """Writes `live.json` at every `Beat`. `left_s`: the seconds to go, as the display of the
    driver has them; None where nobody estimates them."""

    def __init__(self, run: Path) -> None:
        self.path = Path(run) / "live.json"
        self.left_s: Callable[[], float] | None = None
        self._beats = 0

    def listen(self, event: Event) -> None:
        """A listener of the engine."""
        if isinstance(event, Beat):
            queue = {"queued": event.queued}
            left = {} if self.left_s is None else {"left_s": round(self.left_s(), 1)}
            self._write(RUNNING, workers=list(event.workers), queue=queue, **left)

    def end(self, state: str) -> None:
        """Write the final state: "ended", "interrupted" or "aborted"."""
        self._write(state, workers=[], queue={})

    def _write(self, state: str, **details: Any) -> None:
        self._beats += 1
        beat = {
            "state": state,
            "beat": self._beats,
            "time": utc_now(),
            "pid": os.getpid(),
            "host": socket.gethostname(),
            **details,
        }
        data = json.dumps(beat, default=str).encode()
        with suppress(OSError):  # a sweep continues without its heartbeat
            write_atomically(self.path, data, sync=False)


def read_live(run: Path) -> dict[str, Any] | None:
    """The last heartbeat of a run; None where there is none, or it cannot be read."""
    try:
        with open(Path(run) / "live.json", "rb") as file:
            live = json.loads(file.read(MOST_BYTES))
    except (OSError, ValueError):
        return None
    if not isinstance(live, dict) or not isinstance(live.get("beat"), int):
        return None
    workers, queue = live.get("workers"), live.get("queue")
    known = workers if isinstance(workers, list) else []
    live["workers"] = [
        worker
        for worker in known
        if isinstance(worker, dict) and isinstance(worker.get("since_s"), int | float)
    ]
    live["queue"] = queue if isinstance(queue, dict) else {}
    return live
