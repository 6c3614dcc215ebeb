"""Facts on folds that a plan keeps: the sizes of the parts, and the scores of a constant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ...reports.metrics import METRICS, score_all
from .own_models import nothing_counts

if TYPE_CHECKING:
    from ...datasets.protocols import Fold
    from ...datasets.table import Table


def fold_facts(table: Table, folds: Mapping[int, Fold]) -> dict[str, Any]:
    """sizes: rows to train, validate and test, of each fold in order. constant: {metric: mean test
    score over the folds} of the training rows' mean (the quantile where the table's metric is the
    pinball loss of one), or of the frequencies of their classes; a metric without a meaning on a
    fold is left out, a fold with a part of no weight, too."""
    known = [fold for _, fold in sorted(folds.items())]
    scores = [
        constant_scores(table, fold) for fold in known if not nothing_counts(table.weights, fold)
    ]
    return {
        "sizes": [[len(fold.train), len(fold.val), len(fold.test)] for fold in known],
        "constant": {
            name: float(np.mean([one[name] for one in scores]))
            for name in (scores[0] if scores else ())
            if all(one[name] is not None for one in scores)
        },
    }


def constant_scores(table: Table, fold: Fold) -> dict[str, float | None]:
    """Every metric on a fold's test rows of the constant of its training rows."""
    weights, y = table.weights_of(fold.train), table.target[fold.train]
    if table.task == "regression":
        q = METRICS[table.metric].quantile if table.metric else None
        if q is None:
            answer = np.average(y, weights=weights)
        elif weights is None:
            answer = np.quantile(y, q)
        else:
            answer = np.quantile(y, q, weights=weights, method="inverted_cdf")
        answers = np.full(len(fold.test), answer)
    else:
        shares = np.bincount(y, weights, minlength=table.n_classes)
        answers = np.tile(shares / shares.sum(), (len(fold.test), 1))
    return score_all(
        table.task,
        table.target[fold.test],
        answers,
        table.n_classes,
        table.weights_of(fold.test),
        chosen=table.metric,
        costs=table.costs,
    )
