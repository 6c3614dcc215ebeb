"""Searches that the papers' suites plan, and evidence of runs beside their tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
from tabsweep.benchmark.planning import suite as suites
from tabsweep.benchmark.planning.options import Options
from tabsweep.benchmark.planning.settings import Settings
from tabsweep.datasets import catalog
from tabsweep.reports.evidence import Evidence
from tabsweep.reports.facts import Facts
from tabsweep.sweeps.search.space import Space

METRICS = {"binary": "roc_auc", "multiclass": "accuracy", "regression": "rmse"}


def planned(suite: str, budget: str, model: str, dataset: str) -> tuple[str, Space, str, int]:
    """(name of the space, the space, the sampler, the number of trials) of a model's search."""
    settings = Settings(suites.load(suite), Options(budget=budget, models=(model,)))
    return settings.search(model, catalog.card(dataset).task, dataset)


def scored(
    values: Mapping[tuple[str, str], Sequence[float]],
    tasks: Mapping[str, str] | str,
    metrics: Mapping[str, str] = METRICS,
    **facts: object,
) -> Evidence:
    """A run of one fold: (dataset, model) -> test scores of its evaluation seeds, the first of
    which is also that of the one trial. tasks: of each dataset, or of all."""
    rows = []
    for (dataset, model), scores in values.items():
        task = tasks if isinstance(tasks, str) else tasks[dataset]
        for stage, part in (("tune", scores[:1]), ("eval", scores)):
            for i, score in enumerate(part):
                rows.append(
                    {
                        **{"dataset": dataset, "task": task, "fold": 0, "model": model},
                        **{"index": i, "stage": stage, "seed": i, "status": "done"},
                        **{"selected": stage == "tune", f"test_{metrics[task]}": score},
                    }
                )
    return Evidence.of(pd.DataFrame(rows), facts=Facts(metric=dict(metrics), **facts))
