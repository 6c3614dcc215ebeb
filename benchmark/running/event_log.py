"""What happened in a run, when, and what did its trials print? JSON lines, for people and programs.

    logs/events.jsonl   start, end, studies, failures, retries, workers that came and went, warnings
    logs/trials.jsonl   one line a trial that printed anything, failed, or lost its worker

Both are a convenience: the ledger alone decides what is true. A log that cannot be written costs
one warning and never the sweep. A file that has grown to 64 MB is put aside as `NAME.1`, in the
place of the one before. `docs/operations.md` describes the fields.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ...sweeps.store.records import utc_now
from ...sweeps.trial import DONE, FAILED, Trial

ROOM = 64 * 2**20  # bytes in one file
INFO, WARNING, ERROR = "info", "warning", "error"
LEVELS = {
    "retry": WARNING,
    "lost worker": WARNING,
    "lost node": WARNING,
    "warning": WARNING,
    "abort": ERROR,
}


class JsonLines:
    """Appends lines to a file of bounded size."""

    def __init__(self, path: Path, *, sync: bool, warn: Callable[[str], None]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._sync = sync
        self._warn = warn
        self._file: int | None = None
        self._torn = False
        self._lost = 0

    def write(self, line: Mapping[str, Any]) -> None:
        data = json.dumps(line, sort_keys=True, default=str).encode() + b"\n"
        try:
            self._append(b"\n" + data if self._torn else data)
        except OSError as error:
            self._lost += 1
            if self._lost == 1:
                self._warn(f"{self.path} is not complete: {error}")

    def _append(self, data: bytes) -> None:
        if self._file is None:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._file = os.open(self.path, flags, 0o644)
        self._torn = True
        while data:
            data = data[os.write(self._file, data) :]
        self._torn = False
        if self._sync:
            os.fsync(self._file)
        if os.fstat(self._file).st_size >= ROOM:
            self.close()
            os.replace(self.path, self.path.with_name(f"{self.path.name}.1"))

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


class EventLog:
    """Appends events of the sweep; `listen` is a listener of the engine. `warn` hears once of a
    log that cannot be written."""

    def __init__(self, run: Path, warn: Callable[[str], None] = lambda text: None) -> None:
        self._events = JsonLines(run / "logs" / "events.jsonl", sync=True, warn=warn)
        # Not synced: what a trial printed is not worth milliseconds of every trial.
        self._trials = JsonLines(run / "logs" / "trials.jsonl", sync=False, warn=warn)
        self._host = socket.gethostname()
        self._hosts: dict[str, str] = {}  # of workers

    def write(self, event: str, *, level: str | None = None, **details: Any) -> None:
        """One line, on disk when this returns. `level` as LEVELS has it, or "info"."""
        level = level or LEVELS.get(event, INFO)
        own = {"time": utc_now(), "pid": os.getpid(), "level": level, "event": event}
        self._events.write({"host": self._host, **details, **own})

    def listen(self, event: str, details: Mapping[str, Any]) -> None:
        """What the engine and the pool tell; finished trials stand in the ledger already."""
        if event == "retry":
            trial = details["trial"]
            about = {"study": _study(trial), "cause": details["cause"], **self._where(details)}
            self.write("retry", trial=trial.id, **about)
            self._trials.write(
                {
                    "time": utc_now(),
                    "trial": trial.id,
                    "status": "died",
                    "output": details.get("output", ""),
                    **about,
                }
            )
        elif event == "study":
            study = details["study"]
            self.write("study", study=study.name, best=study.best(), loss=study.best_loss())
        elif event == "result":
            self._result(details)
        elif event in ("worker", "node", "lost worker", "lost node", "warning"):
            if event == "worker":
                self._hosts[details["worker"]] = details["host"]
            self.write(event, **details)

    def _result(self, details: Mapping[str, Any]) -> None:
        result, slot, trial = details["result"], details["slot"], details.get("trial")
        about = {
            "study": slot.study,
            "stage": slot.stage,
            "index": slot.index,
            "trial": trial.id if trial else None,
            "cause": result.cause,
            "message": result.message,
            **self._where(details),
        }
        failed = result.status == FAILED
        if result.status != DONE:
            self.write("no score", level=ERROR if failed else INFO, **about)
        output = "\n".join(part for part in (result.output, result.log) if part)
        if output or failed:
            line = {"time": utc_now(), "status": result.status, "output": output, **about}
            self._trials.write(line)

    def _where(self, details: Mapping[str, Any]) -> dict[str, Any]:
        """On which worker and host a trial ran, and the how-manieth time."""
        worker = details.get("worker")
        host = self._hosts.get(worker, self._host) if worker else None
        return {"attempt": details.get("attempt"), "worker": worker, "host": host}

    def close(self) -> None:
        self._events.close()
        self._trials.close()


def _study(trial: Trial) -> str:
    return f"{trial.dataset}/{trial.fold}/{trial.model}"
