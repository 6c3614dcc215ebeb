"""Greedy ensembles of a fold's stored predictions, chosen on its validation rows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...sweeps.store.ledger import LedgerError
from ...sweeps.study_state import TUNE

if TYPE_CHECKING:
    from ...reports.metrics import Metric
    from .stored_predictions import Block, Predicted


def candidates_of(trials: Iterable[Predicted]) -> list[Predicted]:
    """The trials of a search with a validation score, the best first, each result once: at most
    LIBRARY of them."""
    from ...reports.analyses.ensemble_selection import LIBRARY

    known = [t for t in trials if t.stage == TUNE and not np.isnan(t.loss)]
    known.sort(key=lambda t: (t.loss, t.model, t.index))
    return list({t.id: t for t in reversed(known)}.values())[::-1][:LIBRARY]


def ensemble_row(
    block: Block | None,
    candidates: Sequence[Predicted],
    metric: Metric,
    damage: list[str],
) -> dict[str, Any]:
    """The greedy ensemble of candidates as columns of a row, or the reason why there is none.

    damage: gets a line where predictions are gone.
    """
    from ...reports.analyses.ensemble_selection import greedy

    if block is None:
        return {"reason": "no stored predictions that could be read"}
    if not candidates:
        return {"reason": "no trial with predictions"}
    try:
        arrays = [trial.arrays() for trial in candidates]
    except LedgerError as error:
        damage.append(f"{block.dataset}: {error}")  # as where ensembles of seeds are made
        return {"reason": f"stored predictions are gone or damaged: {error}"}
    parts = {p: np.stack([mine[p] for mine in arrays]) for p in ("val", "test")}

    def score(part: str, prediction: np.ndarray) -> float | None:
        return metric.value(block.y[part], prediction, block.weights[part], block.costs)

    def loss(prediction: np.ndarray) -> float | None:
        value = score("val", prediction)
        return None if value is None else metric.loss(value)

    chosen = greedy(parts["val"], loss)
    if chosen is None:
        return {"reason": "the metric is undefined on these validation rows"}
    val, test = (score(part, chosen.predict(parts[part])) for part in ("val", "test"))
    weights = Counter(candidates[i].id for i in chosen.members)
    members = dict(sorted(weights.items(), key=lambda item: (-item[1], item[0])))
    return {
        "score": test,
        "val": val,
        "n_candidates": len(candidates),
        "n_members": len(weights),
        "members": json.dumps(members),
        "reason": "" if test is not None else "the metric is undefined on these test rows",
    }
