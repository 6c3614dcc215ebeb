"""What a sweep tells its listener beside the engine's events (`sweeps/events.py`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...sweeps.events import Event

if TYPE_CHECKING:
    from ...sweeps.store.ledger import Ledger
    from ..planning.plan import Plan
    from .heartbeat import Heartbeat


@dataclass(frozen=True)
class Waiting:
    """The first trial waits for this; "" for nothing any more."""

    what: str


@dataclass(frozen=True)
class Planned:
    """The plan is written. known: trials that ended in earlier calls; left: {study: trials yet to
    end}; workers: None for all that a cluster has."""

    plan: Plan
    ledger: Ledger
    known: int
    left: Mapping[str, int]
    workers: int | None
    heartbeat: Heartbeat


@dataclass(frozen=True)
class Started:
    """The ledger has all that the trials need; they begin."""


SweepEvent = Event | Waiting | Planned | Started
SweepListener = Callable[[SweepEvent], None]
