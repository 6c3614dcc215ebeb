"""Ray started by the command line before the driver's own libraries are imported."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from ...models import registry
from ..planning.options import Options
from ..planning.suite import Suite
from .cpus import check_workers
from .ray_session import RayStart


@contextmanager
def early_ray(chosen: Suite | None, options: Options) -> Iterator[RayStart | None]:
    """Ray on its way up for a new run of a suite, ended in any case; None where it is too early.

    It waits for what may turn out to need no workers, or to be refused with a message that should
    come at once: a run that exists, a dry run, a CSV, a cluster, a space or sampler that models may
    not have, and models that are not in the registry. Raises SweepError for more workers than this
    machine can carry.
    """
    workers = check_workers(options.workers, options.address)
    checked_later = options.space or options.sampler
    if chosen is None or options.dry_run or options.address != "local" or checked_later:
        yield None
        return
    options = options.on(chosen)
    budget = chosen.budget(options.budget)[1]
    folder = options.runs / str(options.name)
    if not known(map(budget.asked, options.models or budget.models)) or folder.exists():
        yield None
        return
    import numpy  # noqa: F401  (first, and whole: Ray and the driver both import it)

    ray = RayStart(workers, options.address, folder)
    ray.begin()
    try:
        yield ray
    finally:
        ray.end()


def known(models: Iterable[str]) -> bool:
    """Whether all models are registered ones."""
    return all(model in registry.MODELS for model in models)
