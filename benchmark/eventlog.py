"""What happened in a run, when? One JSON line an event, for people and log collectors.

`logs/events.jsonl` is a convenience: the ledger alone decides what is true.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..sweeps.engine import utc_now
from ..sweeps.trial import DONE


class EventLog:
    """Appends events of the sweep; `listen` is a listener of the engine."""

    def __init__(self, run: Path) -> None:
        folder = run / "logs"
        folder.mkdir(parents=True, exist_ok=True)
        self._file = open(folder / "events.jsonl", "a", encoding="utf-8")

    def write(self, event: str, **details: Any) -> None:
        """One line, on disk when this returns."""
        line = {"time": utc_now(), "pid": os.getpid(), "event": event, **details}
        self._file.write(json.dumps(line, sort_keys=True, default=str) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def listen(self, event: str, details: Mapping[str, Any]) -> None:
        """Failures, retries and ended studies; finished trials stand in the ledger already."""
        if event == "retry":
            trial = details["trial"]
            self.write("retry", trial=trial.id, cause=details["cause"], model=trial.model)
        elif event == "study":
            study = details["study"]
            self.write("study", study=study.name, best=study.best(), loss=study.best_loss())
        elif event == "result" and details["result"].status != DONE:
            result, slot = details["result"], details["slot"]
            self.write(
                "no score",
                study=slot.study,
                stage=slot.stage,
                index=slot.index,
                cause=result.cause,
                message=result.message,
            )

    def close(self) -> None:
        self._file.close()
