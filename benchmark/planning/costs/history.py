"""Measured costs in the ledgers of runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from ....models.registry_entries import MODELS
from ....sweeps.store.ledger import Ledger, Record
from ....sweeps.trial import DONE
from ..plan_record import last_plan
from .measured import Cost, Work, settings_of

TICK_S = 0.01  # in which the CPU seconds of a fit are counted
Defaults = Callable[[str], Mapping[str, Any]]


def costs_in(
    ledger: Ledger, defaults: Defaults, *, gpu: bool = False, timeouts: bool = True
) -> dict[str, list[Cost]]:
    """{model: costs} of the whole fits in a run, equal works together. gpu: those on GPUs instead
    of those on CPUs. defaults(model): its settings where a configuration is silent.

    A trial that ran into its time limit cost what it had used by then; it is left out without
    `timeouts`. Seconds are of the CPU; on a GPU those of the clock.
    """
    plan = last_plan(ledger)
    if plan is None:
        return {}
    groups: dict[tuple[Any, ...], list[tuple[float, float, float]]] = defaultdict(list)
    of = _models_of(plan)
    for record in ledger.records("result"):
        model = of.get(record["model"], record["model"])
        if record["dataset"] not in plan["datasets"] or record.get("fidelity"):
            continue
        if gpu != (plan["options"]["device"] == "cuda" and _uses_gpu(model)):
            continue
        cost = _seconds(record)
        if cost is None or not (timeouts or record["status"] == DONE):
            continue
        settings = settings_of(record["config"], defaults(model))
        shape = _shape(plan["datasets"][record["dataset"]], int(record["fold"]))
        groups[model, tuple(settings.items()), shape].append(cost)
    costs: dict[str, list[Cost]] = defaultdict(list)
    for (model, settings_items, shape), trials in groups.items():
        cpu, clock = (sum(trial[i] for trial in trials) for i in (0, 1))
        seconds = clock / len(trials) if gpu else max(cpu / len(trials), TICK_S / 2)
        work = Work(dict(settings_items), *shape)
        mb = max(trial[2] for trial in trials)
        costs[model].append(Cost(work, len(trials), seconds, mb))
    return dict(costs)


def _seconds(record: Record) -> tuple[float, float, float] | None:
    """(CPU seconds, seconds of the clock, peak MB); None for a trial that says nothing of costs."""
    costs = record["costs"]
    if record["status"] == DONE:
        clock = costs.get("fit_s", 0.0) + costs.get("predict_s", 0.0)
        return costs.get("cpu_s", clock), clock, costs.get("peak_ram_mb", 0.0)
    if record["cause"] == "timeout" and "cpu_s" in costs:
        return costs["cpu_s"], costs["cpu_s"], costs.get("peak_ram_mb", 0.0)
    return None


def _models_of(plan: Record) -> dict[str, str]:
    """{name in the run: registered model} of variants under a name of their own."""
    budget = plan["suite"]["budgets"].get(plan["options"]["budget"]) or {}
    return {
        name: search["of"]
        for name, search in (budget.get("model") or {}).items()
        if search.get("of")
    }


def _uses_gpu(model: str) -> bool:
    return model in MODELS and MODELS[model].gpu_mb > 0


def _shape(dataset: Mapping[str, Any], fold: int) -> tuple[int, int, int]:
    sizes = dataset.get("sizes")  # plans of the first versions have none: most splits train on 2/3
    rows = sizes[fold if fold < len(sizes) else 0][0] if sizes else round(dataset["n_rows"] / 1.5)
    return rows, dataset["n_features"], max(1, len(dataset["classes"]))
