"""Greedy ensembles of a fold's stored predictions, chosen on its validation rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ...sweeps.store.ledger import LedgerError
from ...sweeps.study_state import TUNE

if TYPE_CHECKING:
    from ...reports.metrics import Metric
    from .stored_predictions import Block, Predicted


@dataclass(frozen=True)
class Ensembled:
    """An ensemble of `candidates`. `weights`: {candidate's number: how often it was chosen};
    `scores`: {"val", "test"}, None where the metric is undefined."""

    candidates: Sequence[Predicted]
    weights: dict[int, int]
    scores: dict[str, float | None] = field(default_factory=dict)

    @property
    def members(self) -> dict[str, int]:
        """{trial id: how often it was chosen}."""
        return {self.candidates[i].id: n for i, n in self.weights.items()}


def candidates_of(trials: Iterable[Predicted]) -> list[Predicted]:
    """The tuning trials with a validation score, the best first, each result once: at most
    LIBRARY of them."""
    from ...reports.analyses.ensemble_selection import LIBRARY

    known = [t for t in trials if t.stage == TUNE and not np.isnan(t.loss)]
    known.sort(key=lambda t: (t.loss, t.model, t.index))
    return list({t.id: t for t in reversed(known)}.values())[::-1][:LIBRARY]


def ensembled(
    block: Block,
    candidates: Sequence[Predicted],
    metric: Metric,
    arrays: dict[str, dict[str, np.ndarray]] | None = None,
) -> Ensembled | None:
    """The greedy ensemble of candidates, None where the metric is undefined on validation rows.

    arrays: {trial id: its predictions by part}, read here where it lacks them. Raises LedgerError
    where predictions are gone.
    """
    from ...reports.analyses.ensemble_selection import greedy

    arrays = {} if arrays is None else arrays
    for trial in candidates:
        if trial.id not in arrays:
            arrays[trial.id] = trial.arrays()
    parts = {p: np.stack([arrays[t.id][p] for t in candidates]) for p in ("val", "test")}

    def loss(prediction: np.ndarray) -> float | None:
        value = metric.value(block.y["val"], prediction, block.weights["val"], block.costs)
        return None if value is None else metric.loss(value)

    found = greedy(parts["val"], loss)
    if found is None:
        return None
    weights = {i: found.members.count(i) for i in sorted(set(found.members))}
    scores = {
        part: metric.value(
            block.y[part], found.predict(parts[part]), block.weights[part], block.costs
        )
        for part in ("val", "test")
    }
    return Ensembled(candidates, weights, scores)


def ensemble_row(
    block: Block | None,
    candidates: Sequence[Predicted],
    metric: Metric,
    arrays: dict[str, dict[str, Any]],
    damage: list[str],
) -> dict[str, Any]:
    """The greedy ensemble of candidates as columns of a row, or the reason why there is none."""
    if block is None:
        return {"reason": "no stored predictions that could be read"}
    if not candidates:
        return {"reason": "no trial with predictions"}
    try:
        found = ensembled(block, candidates, metric, arrays)
    except LedgerError as error:
        damage.append(f"{block.dataset}: {error}")  # as where ensembles of seeds are made
        return {"reason": f"stored predictions are gone or damaged: {error}"}
    if found is None:
        return {"reason": "the metric is undefined on these validation rows"}
    score = found.scores["test"]
    return {
        "score": score,
        "val": found.scores["val"],
        "n_candidates": len(candidates),
        "n_members": len(found.weights),
        "members": json.dumps(_by_weight(found.members)),
        "reason": "" if score is not None else "the metric is undefined on these test rows",
    }


def _by_weight(members: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(members.items(), key=lambda item: (-item[1], item[0])))
