"""Evidence with a metric that no trial recorded, computed from the stored predictions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ..evidence import Evidence, EvidenceError
from ..metrics import METRICS, metric


def with_metric(
    evidence: Evidence, name: str, values: Mapping[str, tuple[float | None, float | None]]
) -> Evidence:
    """The evidence with the columns val_<name> and test_<name> and the metric as its headline.

    `values`: {trial id: (val, test)}; trials without an entry have no score. Tasks without this
    metric are left out. The chosen configurations stay those that validation chose by the sweep's
    own metric. Raises EvidenceError if no task has the metric.
    """
    tasks = [task for task in evidence.tasks if task in metric(name).tasks]
    if not tasks:
        raise EvidenceError(f"{name} is a metric of {', '.join(METRICS[name].tasks)} only")
    trials = evidence.trials[evidence.trials["task"].isin(tasks)]
    found = np.array([values.get(i, (None, None)) for i in trials["id"]], dtype=float)
    found = found.reshape(len(trials), 2)
    trials = trials.assign(**{f"val_{name}": found[:, 0], f"test_{name}": found[:, 1]})
    planned = evidence.planned[evidence.planned["task"].isin(tasks)]
    facts = replace(evidence.facts, metric=dict.fromkeys(tasks, name))
    return replace(evidence, trials=trials, planned=planned, facts=facts, ensembles=None)
