"""What the engine and its callers exchange: requests to stop, reused results, counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...common.errors import Error
from ..study import Slot
from ..trial import DONE, FAILED, Result


class SourceChanged(Error):
    """Finished slots have other trial ids now: code, data or versions changed since they ran.

    `count` is the number of finished slots that would have to run again.
    """

    id = "BENCH-E006"

    def __init__(self, changed: list[Slot], known: Iterable[Slot]) -> None:
        # Slots after a changed one in a sequential study cannot be checked: they count too.
        first = {(slot.study, slot.stage): slot.index for slot in reversed(changed)}
        self.count = sum(s.index >= first.get((s.study, s.stage), s.index + 1) for s in known)
        super().__init__(
            f"{self.count} finished cells of this run were computed by other code, data or library "
            f"versions (first: {changed[0]}). Go back to those, start another run with bench "
            "sweep --name NAME, or pass --allow-code-change to run these cells again"
        )


@dataclass
class Stop:
    """A request to end early: `soon` submits no more trials, `now` also waits for none."""

    soon: bool = False
    now: bool = False


@dataclass(frozen=True)
class Reused:
    """A finished trial of another run: that run's name, the result, further keys of its record."""

    origin: str
    result: Result
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Tally:
    """What a call of `run` did, in slots; `fit_s` is the sum of seconds of fitting and predicting.

    `ran` + `reused` = `done` + `failed` + `unsupported`.
    """

    ran: int = 0
    reused: int = 0
    done: int = 0
    failed: int = 0
    unsupported: int = 0
    fit_s: float = 0.0
    interrupted: bool = False

    def add(self, result: Result, *, reused: bool) -> None:
        """Count a slot that has ended; seconds are not added here."""
        self.reused += reused
        self.ran += not reused
        self.done += result.status == DONE
        self.failed += result.status == FAILED
        self.unsupported += result.status not in (DONE, FAILED)
