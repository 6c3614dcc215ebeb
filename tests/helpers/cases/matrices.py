"""Evidence and ranking matrices made from a matrix of scores, for tests of the reports."""

from __future__ import annotations

import numpy as np
import pandas as pd
from tabsweep.reports.aggregation.cells import cells, studies
from tabsweep.reports.aggregation.ranking_matrix import ranking_matrices
from tabsweep.reports.evidence import Evidence
from tabsweep.reports.facts import Facts


def evidence(scores, models=None, *, task="binary", metric="accuracy", **facts):
    """(n_datasets, n_models) or (n_datasets, n_models, n_folds) scores, NaN where there is none.

    Every (dataset, model, fold) is planned; datasets are d00, d01, ..., models m0, m1, ...
    """
    scores = np.asarray(scores, dtype=float)
    scores = scores[:, :, None] if scores.ndim == 2 else scores
    models = models or [f"m{j}" for j in range(scores.shape[1])]
    rows, plan = [], []
    for (i, j, fold), value in np.ndenumerate(scores):
        place = {"dataset": f"d{i:02}", "task": task, "fold": fold, "model": models[j]}
        plan.append({**place, "n_trials": 1})
        if np.isnan(value):
            continue
        trial = {"index": 0, "stage": "tune", "seed": 0, "status": "done", "selected": True}
        rows.append({**place, **trial, f"test_{metric}": value})
    known = Facts(metric={task: metric}, **facts)
    return Evidence.of(pd.DataFrame(rows), pd.DataFrame(plan), known)


def headline(made):
    """(studies, cells of the headline metric) of the evidence's only task."""
    table = studies(made)
    return table, cells(made, table, made.headline(made.tasks[0]))


def matrices(made):
    """The ranking matrix of every scope."""
    return ranking_matrices(made, headline(made)[1])
