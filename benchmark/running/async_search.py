"""The studies of a sweep that Ray Tune searches (`--async`), set up from a request and a plan."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import fields

from ...sweeps.engine import Listener, Stop, Tally
from ...sweeps.ray_tune.async_search import Asynchronous
from ...sweeps.store.checkpoints import CheckpointFolder
from ...sweeps.store.ledger import Ledger, Record
from ...sweeps.study import Study
from ...sweeps.workers.trial_actor import Common
from ..errors import SweepError
from ..planning.plan import Plan
from .request import Request


def search(
    request: Request,
    plan: Plan,
    studies: Iterable[Study],
    ledger: Ledger,
    checkpoints: CheckpointFolder,
    *,
    n_workers: int | None,
    common: Common | None,
    retry: Callable[[Record], bool],
    lost: Collection[str],
    listener: Listener,
    stop: Stop,
    still_owner: Callable[[], None] = lambda: None,
) -> Asynchronous | None:
    """The search of the studies that the plan marks as asynchronous; None where it marks none.

    The order of calls: `replay` it with the engine of the other studies, `run` it once Ray is up,
    and then let the engine `admit` its studies for their evaluation. Raises SweepError without
    workers.
    """
    marked = {study.name for study in plan.studies if study.asynchronous and not study.reason}
    if not marked:
        return None
    how = plan.options.asynchronous
    assert how is not None
    if n_workers == 0:
        raise SweepError("--async needs workers: Ray Tune does not run in this process")
    return Asynchronous(
        [study for study in studies if study.name in marked],
        how,
        ledger=ledger,
        checkpoints=checkpoints,
        run_trial=request.run_trial,
        load=plan.payload,
        slots=n_workers,
        paths=request.paths,
        common=common,
        retry=retry,
        lost=lost,
        allow_code_change=request.options.allow_code_change,
        listener=listener,
        stop=stop,
        still_owner=still_owner,
    )


def total(one: Tally, other: Tally) -> Tally:
    """The sum of what two parts of a sweep did."""
    parts = {f.name: getattr(one, f.name) + getattr(other, f.name) for f in fields(Tally)}
    return Tally(**{**parts, "interrupted": one.interrupted or other.interrupted})
