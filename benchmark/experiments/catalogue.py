"""Which experiments are there? Data; an experiment's module is imported when it runs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Experiment:
    """One of the papers' experiments that is no sweep.

    run: "module:function" below this folder, called with a `Setting`, returns an `Outcome`.
    beside: published tables (file names without .csv in reports/published) that stand beside ours.
    reduced, full: what the two sizes are and roughly cost.
    """

    name: str
    title: str
    source: str
    run: str
    reduced: str
    full: str
    beside: tuple[str, ...] = ()


EXPERIMENTS: dict[str, Experiment] = {
    e.name: e
    for e in (
    )
}
