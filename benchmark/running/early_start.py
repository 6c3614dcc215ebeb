"""Ray started by the command line before the driver's own libraries are imported."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ...models import registry
from ..planning.suite import Suite
from .cpus import check_workers
from .ray_session import RayStart


@contextmanager
def early_ray(chosen: Suite | None, given: Mapping[str, Any]) -> Iterator[RayStart | None]:
    """Ray on its way up for a new run of a suite, ended in any case; None where it is too early.

    It waits for what may turn out to need no workers, or to be refused with a message that should
    come at once: a run that exists, a dry run, a CSV, a cluster, a space or sampler that models may
    not have, and models that are not in the registry. Raises SweepError for more workers than this
    machine can carry.
    """
    workers, address = check_workers(given["workers"], given["address"]), given["address"]
    checked_later = given["space"] or given["sampler"]
    if chosen is None or given["dry_run"] or address != "local" or checked_later:
        yield None
        return
    budget = chosen.budget(given["budget"])[1]
    if not known(map(budget.asked, given["models"] or budget.models)):
        yield None
        return
    folder = given["runs"] / (given["name"] or f"{chosen.name}-{chosen.budget(given['budget'])[0]}")
    if folder.exists():
        yield None
        return
    import numpy  # noqa: F401  (first, and whole: Ray and the driver both import it)

    ray = RayStart(workers, address, folder)
    ray.begin()
    try:
        yield ray
    finally:
        ray.end()


def known(models: Iterable[str]) -> bool:
    """Whether all models are registered ones."""
    return all(model in registry.MODELS for model in models)
