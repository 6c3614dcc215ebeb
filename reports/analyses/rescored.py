"""What is a metric's value that no trial recorded? Scores of the chosen configurations, computed
again from the stored predictions and shown as the report shows its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from ..aggregation.cells import cells, pool, scopes, studies
from ..evidence import Evidence, EvidenceError
from ..metrics import METRICS, metric
from ..output.tables import Section
from ..sections.scores import section as scores_section


def with_metric(
    evidence: Evidence, name: str, values: Mapping[str, tuple[float | None, float | None]]
) -> Evidence:
    """The evidence with val_<name> and test_<name> as computed, {trial id: (val, test)}, and the
    metric as headline of its tasks; trials without a value lose theirs. Other tasks leave it.

    Which configuration was chosen stays as validation by the sweep's own metric chose it.
    """
    tasks = [task for task in evidence.tasks if task in metric(name).tasks]
    if not tasks:
        raise EvidenceError(f"{name} is a metric of {', '.join(METRICS[name].tasks)} alone")
    trials = evidence.trials[evidence.trials["task"].isin(tasks)]
    found = np.array([values.get(i, (None, None)) for i in trials["id"]], dtype=float)
    found = found.reshape(len(trials), 2)
    trials = trials.assign(**{f"val_{name}": found[:, 0], f"test_{name}": found[:, 1]})
    planned = evidence.planned[evidence.planned["task"].isin(tasks)]
    meta = {**evidence.meta, "metric": dict.fromkeys(tasks, name)}
    return replace(evidence, trials=trials, planned=planned, meta=meta, ensembles=None)


def section(evidence: Evidence, name: str, notes: Sequence[str] = ()) -> Section:
    """The file `metric-<name>`: the report's own score tables for `with_metric`'s evidence."""
    said = [
        *map(str, evidence.meta.get("notes") or []),
        f"{METRICS[name].label} was computed again from the stored predictions; the configurations "
        "are those that validation chose by the sweep's own metric.",
        *notes,
    ]
    evidence = replace(evidence, meta={**evidence.meta, "notes": said})
    table = studies(evidence)
    blocks = {
        (task, name): cells(evidence, table[table["task"] == task], name) for task in evidence.tasks
    }
    headline = pd.concat(blocks.values(), ignore_index=True)
    pools = [pool(evidence, headline, scope) for scope in scopes(evidence)]
    found = scores_section(evidence, blocks, pools)
    return replace(found, name=f"metric-{name.replace('_', '-')}", title=f"{METRICS[name].label}")
