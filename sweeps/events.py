"""What an engine tells its listener while a sweep runs: a class an event."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .study import Slot
from .trial import Result, Trial

if TYPE_CHECKING:
    from .study import Study


@dataclass(frozen=True)
class TrialEnded:
    """A slot of a study has its result, which is durable. reused: it was there, or another slot's
    trial gave it; attempt: None where no worker ran it."""

    study: Study
    slot: Slot
    trial: Trial
    result: Result
    attempt: int | None = None
    worker: str = ""
    reused: bool = False


@dataclass(frozen=True)
class TrialLost:
    """A trial's worker died, of `cause`, and the trial runs again. output: what it had printed."""

    trial: Trial
    cause: str
    attempt: int
    worker: str
    output: str = ""


@dataclass(frozen=True)
class StudyEnded:
    """A study has all its results."""

    study: Study


@dataclass(frozen=True)
class Beat:
    """Comes every few seconds. workers: as the worker pool lists them (name, host, threads, gpus,
    trial, since_s, waiting); queued: how many trials wait."""

    workers: Sequence[Mapping[str, Any]]
    queued: int


@dataclass(frozen=True)
class WorkerJoined:
    """A worker process is there."""

    worker: str
    host: str
    pid: int


@dataclass(frozen=True)
class WorkerLost:
    """A worker process is gone."""

    worker: str
    host: str
    cause: str


@dataclass(frozen=True)
class NodeJoined:
    """A machine has joined the cluster."""

    host: str
    cpus: float
    gpus: float


@dataclass(frozen=True)
class NodeLost:
    """A machine has left the cluster; its trials run elsewhere."""

    host: str


@dataclass(frozen=True)
class Warned:
    """Something that a user should know."""

    message: str


News = WorkerJoined | WorkerLost | NodeJoined | NodeLost | Warned  # what a pool notices by itself
Event = TrialEnded | TrialLost | StudyEnded | Beat | News
Listener = Callable[[Event], None]
