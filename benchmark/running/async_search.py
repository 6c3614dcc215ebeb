"""Which studies of a sweep are searched by Ray Tune (`--async`), and with what?"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields
from typing import TYPE_CHECKING

from ...sweeps.engine import Listener, Stop, Tally
from ...sweeps.ray_tune.async_search import Asynchronous
from ...sweeps.store.checkpoints import CheckpointFolder
from ...sweeps.store.ledger import Ledger, Record
from ...sweeps.study import Study
from ...sweeps.workers.trial_actor import Common
from ..errors import SweepError
from ..planning.plan import Plan

if TYPE_CHECKING:
    from .sweep import Request


def search(
    request: Request,
    plan: Plan,
    studies: Iterable[Study],
    ledger: Ledger,
    checkpoints: CheckpointFolder,
    *,
    slots: int | None,
    common: Common | None,
    retry: Callable[[Record], bool],
    listener: Listener,
    stop: Stop,
    still_owner: Callable[[], None] = lambda: None,
) -> Asynchronous | None:
    """The search of the studies that the plan marks as asynchronous; None where it marks none.

    `replay` it beside the engine of the other studies; once Ray is up, `run` it before that engine
    runs, and let the engine `admit` its studies for their evaluation. Raises SweepError without
    workers.
    """
    marked = {study.name for study in plan.studies if study.asynchronous and not study.reason}
    if not marked:
        return None
    how = plan.options.asynchronous
    assert how is not None
    if slots == 0:
        raise SweepError("--async needs workers: Ray Tune does not run in this process")
    return Asynchronous(
        [study for study in studies if study.name in marked],
        how,
        ledger=ledger,
        checkpoints=checkpoints,
        run_trial=request.run_trial,
        load=plan.payload,
        slots=slots,
        paths=request.paths,
        common=common,
        retry=retry,
        allow_code_change=request.allow_code_change,
        listener=listener,
        stop=stop,
        still_owner=still_owner,
    )


def total(one: Tally, other: Tally) -> Tally:
    """What two parts of a sweep did together."""
    parts = {f.name: getattr(one, f.name) + getattr(other, f.name) for f in fields(Tally)}
    return Tally(**{**parts, "interrupted": one.interrupted or other.interrupted})
