"""The leaderboard of the first page: losses, states and costs of every cell.

The page recomputes every figure for the models and datasets that are chosen on it (`ranks.js`), by
the rules of `aggregation/ranking_matrix.py` and `statistics/`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ..aggregation.cells import COMPLETE
from ..aggregation.rank_tests import MIN_DATASETS_FRIEDMAN, MIN_MODELS_FRIEDMAN
from ..aggregation.ranking_matrix import MIN_COVERAGE
from ..evidence import Evidence
from ..metrics import METRICS
from ..output import escape, footnotes
from ..statistics.ranking import ELO_MEAN, TIE_TOLERANCE
from ..statistics.tests import ALPHA, nemenyi_q


def data(
    evidence: Evidence,
    headline: pd.DataFrame,
    costs: pd.DataFrame,
    files: Mapping[str, str],
) -> dict[str, Any]:
    """The leaderboard's document.

    `headline`: cells of each task's headline metric; `costs`: a row per (dataset, model) with
    `cpu_s`; `files`: page of each dataset. The losses, by dataset and model, are lower for better
    and None where the cell is not complete.
    """
    models, datasets, subset = evidence.models, evidence.datasets(), set(evidence.subset)
    rows = evidence.facts.rows
    task_of = dict(zip(headline["dataset"], headline["task"], strict=True))
    planned = ~pd.isna(_grid(headline, "state", datasets, models))
    return {
        "kind": "index",
        "models": [escape.one_line(m) for m in models],
        "own": [escape.one_line(m) for m in evidence.own],
        "datasets": [
            {
                "name": escape.one_line(d),
                "file": files[d],
                "task": task_of[d],
                "rows": rows.get(d),
                "subset": d in subset,
                "planned": "".join("+" if there else "-" for there in planned[i]),
            }
            for i, d in enumerate(datasets)
        ],
        "tasks": {t: footnotes.TASK_TITLES[t] for t in evidence.tasks},
        "losses": _losses(evidence, headline, datasets, models),
        "cpu": _numbers(_grid(costs, "cpu_s", datasets, models), 6),
        "q": [None, None, *(round(nemenyi_q(k, ALPHA), 9) for k in range(2, len(models) + 1))],
        "rules": {
            "min_coverage": MIN_COVERAGE,
            "tolerance": TIE_TOLERANCE,
            "centre": ELO_MEAN,
            "fewest_models": MIN_MODELS_FRIEDMAN,
            "fewest_datasets": MIN_DATASETS_FRIEDMAN,
        },
    }


def _grid(
    frame: pd.DataFrame, value: str, datasets: list[str], models: list[str]
) -> np.ndarray:  # (n_datasets, n_models), NaN where there is no row
    wide = frame.pivot(index="dataset", columns="model", values=value)
    return wide.reindex(index=datasets, columns=models).to_numpy()


def _losses(
    evidence: Evidence, cells: pd.DataFrame, datasets: list[str], models: list[str]
) -> list[list[float | None]]:
    signs = {t: METRICS[evidence.headline(t)].sign for t in evidence.tasks}
    loss = cells["mean"].where(cells["state"] == COMPLETE) * cells["task"].map(signs)
    return _numbers(_grid(cells.assign(loss=loss), "loss", datasets, models), 12)


def _numbers(grid: np.ndarray, digits: int) -> list[list[float | None]]:
    return [all_rounded(row, digits) for row in grid.astype(float).tolist()]


def all_rounded(values: Sequence[float], digits: int = 12) -> list[float | None]:
    """The numbers with so many significant digits; None for NaN."""
    texts = ((len(values) * f" %.{digits}g") % tuple(values)).split()
    return [None if text == "nan" else float(text) for text in texts]
