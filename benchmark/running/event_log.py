"""The logs of a run as JSON lines: events of the sweep, and the output of its trials.

    logs/events.jsonl   start, end, studies, failures, retries, workers that came and went, warnings
    logs/trials.jsonl   one line per trial that printed anything, failed, or lost its worker

Both are for reading only: results are taken from the ledger alone. A log that cannot be written
costs one warning and never the sweep. A file of 64 MB is renamed to `NAME.1`, replacing the one
before. `docs/operations.md` describes the fields.

Not `logging.handlers.RotatingFileHandler`: its buffered stream keeps a line that failed on a full
disk and writes it later or in part, it neither syncs nor refuses symbolic links (O_NOFOLLOW), and
it prints its own errors. Here a line is one `write` (and `fsync`) or is lost whole.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ...sweeps.events import (
    Event,
    NodeJoined,
    NodeLost,
    StudyEnded,
    TrialEnded,
    TrialLost,
    Warned,
    WorkerJoined,
    WorkerLost,
)
from ...sweeps.store.records import utc_now
from ...sweeps.trial import DONE, FAILED

MAX_BYTES = 64 * 2**20  # of a file
INFO, WARNING, ERROR = "info", "warning", "error"
LEVELS = {
    "retry": WARNING,
    "lost worker": WARNING,
    "lost node": WARNING,
    "warning": WARNING,
    "abort": ERROR,
}
NAMES = {  # of what a worker pool reports
    WorkerJoined: "worker",
    WorkerLost: "lost worker",
    NodeJoined: "node",
    NodeLost: "lost node",
    Warned: "warning",
}


# Not synced: thousands of workers may come or go at once, and the driver would wait for the disk
# once for each. They are on disk with the next event that is synced.
UNSYNCED = ("worker", "lost worker")


class JsonLines:
    """Appends JSON objects, one per line, to a file of bounded size. `warn` is called once, with
    the first error."""

    def __init__(self, path: Path, *, warn: Callable[[str], None]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._warn = warn
        self._file: int | None = None
        self._torn = False
        self._lost = 0

    def write(self, line: Mapping[str, Any], *, sync: bool) -> None:
        """Append one line; an OSError is counted and not raised. sync: it is on disk when this
        returns."""
        data = json.dumps(line, sort_keys=True, default=str).encode() + b"\n"
        try:
            self._append(b"\n" + data if self._torn else data, sync)
        except OSError as error:
            self._lost += 1
            if self._lost == 1:
                self._warn(f"{self.path} is not complete: {error}")

    def _append(self, data: bytes, sync: bool) -> None:
        if self._file is None:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._file = os.open(self.path, flags, 0o644)
        self._torn = True
        while data:
            data = data[os.write(self._file, data) :]
        self._torn = False
        if sync:
            os.fsync(self._file)
        if os.fstat(self._file).st_size >= MAX_BYTES:
            self.close()
            os.replace(self.path, self.path.with_name(f"{self.path.name}.1"))

    def close(self) -> None:
        """Close the file; the next `write` opens it again."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


class EventLog:
    """Both logs of a run; `listen` is a listener of the engine. `warn` is called once for a log
    that cannot be written."""

    def __init__(self, run: Path, warn: Callable[[str], None] = lambda text: None) -> None:
        self._events = JsonLines(run / "logs" / "events.jsonl", warn=warn)
        self._trials = JsonLines(run / "logs" / "trials.jsonl", warn=warn)
        self._host = socket.gethostname()
        self._hosts: dict[str, str] = {}  # of workers

    def write(self, event: str, *, level: str | None = None, **details: Any) -> None:
        """Append an event, on disk when this returns unless it is one of UNSYNCED. `level`: default
        from LEVELS, else "info"."""
        level = level or LEVELS.get(event, INFO)
        own = {"time": utc_now(), "pid": os.getpid(), "level": level, "event": event}
        self._events.write({"host": self._host, **details, **own}, sync=event not in UNSYNCED)

    def listen(self, event: Event) -> None:
        """Log an event of the engine or the worker pool; results without output or failure are in
        the ledger alone."""
        match event:
            case TrialLost(trial, cause):
                about = {"study": trial.place, "cause": cause, **self._where(event)}
                self.write("retry", trial=trial.id, **about)
                self._tell_trial(trial=trial.id, status="died", output=event.output, **about)
            case StudyEnded(study):
                best = study.state.best
                self.write("study", study=study.name, best=best, loss=study.state.best_loss)
            case TrialEnded(reused=False):
                self._result(event)
            case WorkerJoined() | WorkerLost() | NodeJoined() | NodeLost() | Warned():
                if isinstance(event, WorkerJoined):
                    self._hosts[event.worker] = event.host
                self.write(NAMES[type(event)], **vars(event))

    def _result(self, event: TrialEnded) -> None:
        result, slot = event.result, event.slot
        about = {
            "study": slot.study,
            "stage": slot.stage,
            "index": slot.index,
            "trial": event.trial.id,
            "cause": result.cause,
            "message": result.message,
            **self._where(event),
        }
        failed = result.status == FAILED
        if result.status != DONE:
            self.write("no score", level=ERROR if failed else INFO, **about)
        output = "\n".join(part for part in (result.output, result.log) if part)
        warned = result.info.get("warnings")
        if output or failed or warned:
            if warned:  # {category: how many the fit gave}
                about["warnings"] = dict(warned)
            self._tell_trial(status=result.status, output=output, **about)

    def _tell_trial(self, **line: Any) -> None:
        """Append a line on a trial, not synced: that would cost every trial milliseconds."""
        self._trials.write({"time": utc_now(), **line}, sync=False)

    def _where(self, event: TrialEnded | TrialLost) -> dict[str, Any]:
        """The attempt number of a trial, its worker and its host."""
        host = self._hosts.get(event.worker, self._host) if event.worker else None
        return {"attempt": event.attempt, "worker": event.worker, "host": host}

    def close(self) -> None:
        """Close both files."""
        self._events.close()
        self._trials.close()
