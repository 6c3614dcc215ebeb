"""Measured costs in the ledgers of runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from ....models.registry_entries import MODELS
from ....sweeps.store.ledger import Ledger
from ....sweeps.trial import DONE
from ..plan_record import last_plan
from .measured import Cost, Work, settings_of

TICK_S = 0.01  # in which the CPU seconds of a fit are counted
Defaults = Callable[[str], Mapping[str, Any]]


def costs_in(ledger: Ledger, defaults: Defaults) -> dict[tuple[str, bool], list[Cost]]:
    """{(model, whether on a GPU): costs} of the whole fits in a run, equal works together.
    defaults(model): its settings where a configuration is silent.

    Seconds are of the CPU; on a GPU those of the clock.
    """
    plan = last_plan(ledger)
    if plan is None:
        return {}
    groups: dict[tuple[Any, ...], list[Mapping[str, float]]] = defaultdict(list)
    of = plan.variants
    on_gpus = plan.options.device == "cuda"
    n_train = {
        (name, fold): sizes[0]
        for name, described in plan.datasets.items()
        for fold, sizes in zip(plan.folds_of(name), described.sizes, strict=False)
    }
    for record in ledger.records("result"):
        rows = n_train.get((record["dataset"], int(record["fold"])))
        if rows is None or record.get("fidelity") or record["status"] != DONE:
            continue
        described = plan.datasets[record["dataset"]]
        name: str = record["model"]
        model = of.get(name, name)
        gpu = on_gpus and model in MODELS and MODELS[model].gpu_mb > 0
        shape = rows, described.n_features, max(1, len(described.classes))
        settings = settings_of(record["config"], defaults(model))
        groups[model, gpu, tuple(settings.items()), shape].append(record["costs"])
    costs: dict[tuple[str, bool], list[Cost]] = defaultdict(list)
    for (model, gpu, settings_items, shape), trials in groups.items():
        clock = sum(t.get("fit_s", 0.0) + t.get("predict_s", 0.0) for t in trials) / len(trials)
        cpu = sum(t.get("cpu_s", 0.0) for t in trials) / len(trials)
        seconds = clock if gpu else max(cpu, TICK_S / 2)
        costs[model, gpu].append(Cost(Work(dict(settings_items), *shape), len(trials), seconds))
    return dict(costs)
