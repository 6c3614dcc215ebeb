"""Slots whose results are known without a run: of this run, or copied from another one."""

from __future__ import annotations

from collections.abc import Callable

from ..study import Slot, Study
from ..trial import Result, Trial
from .interface import Reused
from .trial_records import Batch, TrialRecords


class KnownResults:
    """Collects slots with known results and writes them with one sync: there may be thousands.

    `reuse`: a finished trial of another run that answers this one, or None.
    """

    def __init__(self, records: TrialRecords, reuse: Callable[[Trial], Reused | None]) -> None:
        self._records = records
        self._reuse = reuse
        self._batch = Batch(records)
        self._copied: dict[str, Result] = {}  # not written yet, by trial id
        self._found: list[tuple[Study, Slot, Trial, Result]] = []

    def find(self, study: Study, slot: Slot, trial: Trial) -> bool:
        """Whether the result of a slot is known; `write` returns it then."""
        result = self._of_this_run(slot, trial) or self._of_another_run(slot, trial)
        if result is not None:
            self._found.append((study, slot, trial, result))
        return result is not None

    def _of_this_run(self, slot: Slot, trial: Trial) -> Result | None:
        if not self._records.ended(trial) and trial.id not in self._copied:
            return None
        if self._records.slots.get(slot, ("", 0))[0] != trial.id:
            self._batch.link(slot, trial)
        return self._copied.get(trial.id) or self._records.result(trial)

    def _of_another_run(self, slot: Slot, trial: Trial) -> Result | None:
        reused = self._reuse(trial) if trial.id not in self._records.retried else None
        if reused is None:
            return None
        self._batch.result([slot], trial, reused.result, origin=reused.origin, **reused.more)
        self._copied[trial.id] = reused.result
        return reused.result

    def write(self) -> list[tuple[Study, Slot, Trial, Result]]:
        """Make durable what was found since the last call, and return it: only then may anybody
        learn of it."""
        self._batch.write()
        found, self._found = self._found, []
        self._batch, self._copied = Batch(self._records), {}
        return found
