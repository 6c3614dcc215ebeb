"""Settings of an asynchronous search: how trials are run, and with what."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..scheduling.interface import Stop
from ..workers.pool import RunTrial
from ..workers.trial_actor import Common


@dataclass(frozen=True)
class Settings:
    """What every Tuner of a search is made with.

    run_trial: (trial, data, checkpoints) -> Result.
    load: the data of a `Study.data_key`.
    slots: CPUs that trials may use; None: all.
    paths: search paths of modules on the workers.
    common: what every node must have in common with the driver's.
    stop: a request to end early.
    data: references of data that were put into Ray, by key.
    """

    run_trial: RunTrial
    load: Callable[[str], Any]
    slots: int | None
    paths: list[str]
    common: Common | None
    stop: Stop
    data: dict[str, Any] = field(default_factory=dict)
