"""A plan that fits into a number of minutes on this machine: `--minutes` of one's own tables."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from ...common.counting import count
from ...sweeps.store.ledger import Ledger
from ...sweeps.store.run_folder import is_run
from ..planning.costs.estimate import TRIAL_S, TrialCosts
from ..planning.plan import Plan
from ..planning.plan_record import last_plan
from ..planning.portfolio import Slot, budget_of, slots_for
from .data import gather
from .request import Request

SPARE = 0.8  # of the minutes is planned for; estimates of a fit are off by a third
REPORT_S = 10.0  # of the tables and the page, and what is done once
PROBE_S = 0.15  # of the probe's fit where costs were measured, an AMD EPYC with both threads busy
PROBED_S = 2.0  # on the clock: beside other processes a single fit says little
SLOWEST, FASTEST = 20.0, 0.5  # what is believed of the probe's time, as a multiple of PROBE_S


def with_minutes(request: Request, workers: int) -> Request:
    """The request with a plan that is expected to end within `options.minutes`; unchanged without
    them. workers: CPUs for trials.

    The slots of the portfolio are taken in their order, each that still fits, by the costs that
    ship with the product and the speed of this machine now. The plan is written into the run, and
    a run that has one goes on with it: what runs is decided by the plan, not by a clock.
    """
    minutes = request.options.minutes
    if minutes is None:
        return request
    name = f"{minutes:g}-minutes"
    options = replace(request.options, budget=name, name=None)
    options = replace(options, name=request.options.name or f"{request.suite.name}-{name}")
    folder = options.runs / str(options.name)
    if is_run(folder) and (plan := last_plan(Ledger(folder))) is not None:
        return replace(request, suite=plan.suite, options=options)
    n_rows = max(own.table.n_rows for own in request.tables.values())
    slots = _asked(slots_for(n_rows, usual=False), request.options.models)
    request = replace(request, options=options)
    tried = budget_of(slots, n_rows, "every model of the portfolio once")
    made = request.suite.model_copy(update={"budgets": {name: tried}, "default_budget": name})
    taken, left, factor = _choose(replace(request, suite=made), slots, minutes, max(1, workers))
    names = list(dict.fromkeys(slot.model for slot in left if slot.model not in _models(taken)))
    note = (
        f"Planned for {minutes:g} min on {count(max(1, workers), 'CPU')}, {factor:.2g} times as "
        f"slow as where costs were measured; models left out: {', '.join(names) or 'none'}."
    )
    budget = budget_of(taken, n_rows, note)
    made = made.model_copy(update={"budgets": {name: budget}})
    return replace(request, suite=made)


def _asked(slots: list[Slot], models: tuple[str, ...]) -> list[Slot]:
    """The slots of the models that were named, all where none was; a model without any has one."""
    known = {slot.model for slot in slots}
    more = [Slot(model, trials) for trials in (1, 4) for model in models if model not in known]
    return [slot for slot in slots if not models or slot.model in models] + more


def _models(slots: list[Slot]) -> set[str]:
    return {slot.model for slot in slots}


def _choose(
    request: Request, slots: list[Slot], minutes: float, workers: int
) -> tuple[list[Slot], list[Slot], float]:
    """(slots that fit, those that do not, how many times slower this machine is). The first slot is
    always taken."""
    data, left_out, notes = gather(request)
    plan = Plan(request.suite, request.options, data, left_out, notes)
    costs, factor = TrialCosts(plan), slowness(workers)
    seconds: dict[str, float] = {}  # of one fit on each dataset and fold, by model
    chosen: dict[str, float] = {}  # of one of the configuration whose bag is made
    longest: dict[str, float] = {}
    for study in plan.studies:
        if not study.reason:
            cost = costs(study)
            one, most = (factor * (s + TRIAL_S) for s in (cost.seconds, cost.most))
            seconds[study.model] = seconds.get(study.model, 0.0) + one
            chosen[study.model] = chosen.get(study.model, 0.0) + most
            longest[study.model] = max(most, longest.get(study.model, 0.0))
    wall = 60.0 * SPARE * minutes - factor * (request.start_s + REPORT_S)
    room, members = wall * workers, max(1, plan.n_members)
    taken: list[Slot] = []
    left: list[Slot] = []
    trials: dict[str, int] = {}
    for slot in slots:
        if slot.model not in seconds:
            continue
        had = trials.get(slot.model, 0)
        takes = (slot.trials - had) * seconds[slot.model]
        takes += 0.0 if had else members * chosen[slot.model]
        fits_wall = longest[slot.model] * (members + slot.trials) <= wall
        if taken and (takes > room or not fits_wall):
            left.append(slot)
            continue
        room -= takes
        trials[slot.model] = slot.trials
        taken.append(slot)
    return taken, left, factor


def slowness(workers: int) -> float:
    """How many times as long as where costs were measured a fit takes here and now, by the mean of
    fits of LightGBM for PROBED_S seconds, so many at once as there are workers."""
    import numpy as np
    import pandas as pd

    from ...models import registry

    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(2000, 20)), columns=[f"x{i}" for i in range(20)])
    y = rng.normal(size=len(frame))
    how: dict[str, Any] = {"task": "regression", "seed": 0, "threads": 1, "n_estimators": 100}
    registry.make_model("lightgbm", **how).fit(frame, y)  # imports the library

    def mean_s(number: int) -> float:
        began, n_fits, took = time.perf_counter(), 0, 0.0
        while took < PROBED_S:
            registry.make_model("lightgbm", **how).fit(frame, y)
            n_fits, took = n_fits + 1, time.perf_counter() - began
        return took / n_fits

    with ThreadPoolExecutor(workers) as pool:  # the library's code runs beside Python's
        mean = float(np.mean(list(pool.map(mean_s, range(workers)))))
    return float(np.clip(mean / PROBE_S, FASTEST, SLOWEST))
