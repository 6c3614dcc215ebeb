"""Greedy ensembles of stored predictions: of a study's trials, and of the models of a table."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ...sweeps.store.ledger import LedgerError
from ...sweeps.study_state import TUNE

if TYPE_CHECKING:
    from pathlib import Path

    from ...reports.evidence import Evidence
    from ...reports.metrics import Metric
    from .stored_predictions import Block, Predicted

CANDIDATES, MEMBERS, ROUNDS = 25, 8, 25  # models at most; of them in an ensemble; rounds of choice


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


@dataclass(frozen=True)
class TableEnsemble:
    """`weights`: {model: its share}, the largest first. `val`: the score out of fold, of `n_rows`
    predictions; `single`: that of the best model alone, `best`. `test`: the score on the test part
    of each fold, None where it is undefined. `taken`: the ensemble also beats the best model on
    rows that chose neither, so it is what a fit takes. `residuals` (n_rows,): target - prediction
    of a regression."""

    weights: dict[str, float]
    val: float
    single: float
    best: str
    test: dict[int, float | None]
    n_rows: int
    taken: bool
    residuals: np.ndarray | None


def bags_on(blocks: Sequence[Block]) -> dict[str, list[Predicted]]:
    """{model: the trial that counts of each block} of the models with one in every block of bags,
    which are of one dataset. Blocks of single fits are left out."""
    bagged = [block for block in blocks if block.bag]
    found: dict[str, list[Predicted]] = {}
    for block in bagged:
        for trial in sorted(block.trials, key=lambda trial: (trial.model, trial.index)):
            if trial.counts and not np.isnan(trial.loss):
                found.setdefault(trial.model, []).append(trial)
    return {model: mine for model, mine in sorted(found.items()) if len(mine) == len(bagged)}


def table_ensemble(blocks: Sequence[Block], metric: Metric) -> TableEnsemble | None:
    """The ensemble on a dataset, of all its folds; None where fewer than two models have bags on
    all folds, or the metric is undefined. Raises LedgerError where predictions are gone."""
    from ...reports.analyses.ensemble_selection import beats_the_best, greedy

    bagged = [block for block in blocks if block.bag]
    bags = bags_on(bagged)
    ordered = sorted(bags, key=lambda model: (sum(t.loss for t in bags[model]), model))[:CANDIDATES]
    if len(ordered) < 2:
        return None
    y = np.concatenate([block.y["val"] for block in bagged])
    parts = [w for block in bagged if (w := block.weights["val"]) is not None]
    weights = np.concatenate(parts) if parts else None
    arrays = {
        model: [
            {part: np.clip(values, *block.bounds) for part, values in trial.arrays().items()}
            for trial, block in zip(bags[model], bagged, strict=True)
        ]
        for model in ordered
    }
    val = np.stack([np.concatenate([one["val"] for one in arrays[m]]) for m in ordered])

    def loss_on(rows: np.ndarray, prediction: np.ndarray) -> float | None:
        share = None if weights is None else weights[rows]
        value = metric.value(y[rows], prediction, share, bagged[0].costs)
        return None if value is None else metric.loss(value)

    choose = partial(greedy, rounds=ROUNDS, most=MEMBERS)
    chosen = choose(val, partial(loss_on, np.arange(len(y))))
    if chosen is None:
        return None
    shares = Counter(ordered[i] for i in chosen.members)
    test = {}
    for number, block in enumerate(bagged):
        predicted = chosen.predict(np.stack([arrays[m][number]["test"] for m in ordered]))
        test[block.fold] = metric.value(
            block.y["test"], predicted, block.weights["test"], block.costs
        )
    return TableEnsemble(
        weights={model: n / len(chosen.members) for model, n in shares.most_common()},
        val=metric.loss(chosen.losses[-1]),  # a loss's loss is the score again
        single=metric.loss(chosen.losses[0]),
        best=ordered[chosen.members[0]],
        test=test,
        n_rows=len(y),
        taken=len(shares) > 1 and beats_the_best(val, loss_on, choose),
        residuals=y - chosen.predict(val) if bagged[0].task == "regression" else None,
    )


def with_bags(evidence: Evidence, runs: Iterable[Path]) -> Evidence:
    """The evidence with the fact `bags` (see `reports/sections/out_of_fold.py`), where runs have
    any. A dataset whose predictions are gone is named as damage."""
    from ...reports.metrics import METRICS
    from .evidence_builder import noting
    from .stored_predictions import blocks_of

    blocks, left_out = blocks_of(runs, bags=True)
    bags: dict[str, Any] = {}
    damage = []
    for dataset in dict.fromkeys(block.dataset for block in blocks):
        mine = [block for block in blocks if block.dataset == dataset]
        try:
            found = table_ensemble(mine, METRICS[evidence.headline(mine[0].task)])
        except LedgerError as error:
            damage.append(f"{dataset}: {error}")
            continue
        n_rows = sum(len(block.y["val"]) for block in mine)
        bags[dataset] = {"weights": {}, "n_rows": n_rows}
        if found is not None:
            known = [value for value in found.test.values() if value is not None]
            bags[dataset] |= {
                "weights": found.weights,
                "val": found.val,
                "test": float(np.mean(known)) if len(known) == len(mine) else math.nan,
                "taken": found.taken,
            }
    notes = [f"No bags on {name}: {why}" for name, why in left_out.items()] if bags else []
    evidence = noting(evidence, *notes, damage=damage)
    return evidence.knowing(bags=bags) if bags else evidence
