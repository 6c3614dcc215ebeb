"""What is a sweep doing right now? `live.json` in its folder, the driver's heartbeat.

It says what no record does: which worker runs what since when, and how much waits. Nobody decides
anything by it, and a sweep whose heartbeat cannot be written goes on.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...common.files import write_atomically
from ...sweeps.store.records import utc_now

EVERY_S = 2.0
MOST_BYTES = 4 * 2**20  # of a heartbeat that is read; it may be somebody else's file
RUNNING = "running"


class Live:
    """The writing side. `beat` may be called at every turn of a loop."""

    def __init__(self, run: Path, *, every_s: float = EVERY_S) -> None:
        self.path = Path(run) / "live.json"
        self.every_s = every_s
        self._beats = 0
        self._next = time.monotonic()

    def due(self) -> bool:
        return time.monotonic() >= self._next

    def beat(
        self,
        *,
        workers: Callable[[], list[dict[str, Any]]] | Iterable[dict[str, Any]] = (),
        queue: Callable[[], Mapping[str, int]] | Mapping[str, int] | None = None,
        **more: Any,
    ) -> None:
        """Write what there is, if the last time was long enough ago.

        `workers` as `WorkerPool.workers` has them (name, host, threads, gpus, trial, since_s,
        waiting),
        `queue` numbers by name ({"studies": 12}); both may be functions, called when it is time.
        """
        if self.due():
            self._write(
                RUNNING,
                workers=list(workers() if callable(workers) else workers),
                queue=dict((queue() if callable(queue) else queue) or {}),
                **more,
            )

    def listen(self, event: str, details: Mapping[str, Any]) -> None:
        """A listener of the engine, whose "beat" comes every few seconds."""
        if event == "beat":
            self.beat(workers=details["workers"], queue={"queued": details["queued"]})

    def end(self, state: str) -> None:
        """The last word: "ended", "interrupted" or "aborted"; nobody works any more."""
        self._write(state, workers=[], queue={})

    def _write(self, state: str, **details: Any) -> None:
        self._beats += 1
        self._next = time.monotonic() + self.every_s
        found = {
            "state": state,
            "beat": self._beats,
            "every_s": self.every_s,
            "time": utc_now(),
            "pid": os.getpid(),
            "host": socket.gethostname(),
            **details,
        }
        data = json.dumps(found, default=str).encode()
        with suppress(OSError):  # a heartbeat that cannot be written is no reason to end a sweep
            write_atomically(self.path, data, sync=False)


def read_live(run: Path) -> dict[str, Any] | None:
    """The last heartbeat, None where there is none that can be read."""
    try:
        with open(Path(run) / "live.json", "rb") as file:
            found = json.loads(file.read(MOST_BYTES))
    except (OSError, ValueError):
        return None
    if not isinstance(found, dict) or not isinstance(found.get("beat"), int):
        return None
    workers, queue = found.get("workers"), found.get("queue")
    known = workers if isinstance(workers, list) else []
    found["workers"] = [worker for worker in known if isinstance(worker, dict)]
    found["queue"] = queue if isinstance(queue, dict) else {}
    return found
