"""Ensembles of evaluation seeds, scored from the test predictions that a run has stored.

Disjoint groups of five evaluation seeds, in their order (Gorishniy et al. 2021, sec. 4.3): their
probabilities, or predictions, are averaged. For regression the paper averages in standardised units
of the target, which is the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...reports.evidence import STUDY
from ...sweeps.store.ledger import LedgerError
from ...sweeps.study_state import EVAL
from ...sweeps.trial import DONE
from .evidence_builder import noting
from .stored_predictions import blocks_of

if TYPE_CHECKING:
    from ...reports.evidence import Evidence
    from .stored_predictions import Block, Predicted

SIZE = 5


def with_ensembles(evidence: Evidence, runs: Iterable[str | Path]) -> Evidence:
    """The evidence with `ensembles`; unchanged where no study has five seeds that all finished.

    The targets are read from the datasets again. A dataset that is not available, or is not what
    the run had, is left out with a note.
    """
    import pandas as pd

    seeds = evidence.trials[evidence.trials["stage"] == EVAL]
    studies = (seeds["status"] == DONE).groupby([seeds[name] for name in STUDY])
    finished = studies.agg(["all", "size"])
    whole = set(finished.index[finished["all"] & (finished["size"] >= SIZE)])
    if not whole:
        return evidence  # the ledgers need not be read again
    counted = set(seeds["id"])
    blocks, left_out = blocks_of(runs, stage=EVAL)
    rows: dict[str, list[dict[str, Any]]] = {}
    damage: dict[str, str] = {}
    for block in blocks:
        trials = sorted(block.trials, key=lambda trial: (trial.model, trial.index))
        for model in dict.fromkeys(trial.model for trial in trials):
            if (block.dataset, block.fold, model) in whole:
                mine = [trial for trial in trials if trial.model == model and trial.id in counted]
                try:
                    made = _scored(block, mine, evidence.headline(block.task))
                except LedgerError as error:
                    damage[block.dataset] = str(error)
                else:
                    rows.setdefault(block.dataset, []).extend(made)
    notes = [f"No ensembles on {name}: {why}" for name, why in {**left_out, **damage}.items()]
    known = [row for name, made in rows.items() if name not in damage for row in made]
    evidence = noting(evidence, *notes, damage=[f"{name}: {why}" for name, why in damage.items()])
    return evidence.but(ensembles=pd.DataFrame(known) if known else None)


def _scored(block: Block, trials: list[Predicted], metric: str) -> list[dict[str, Any]]:
    """One row per ensemble of a study's evaluations: its number, its seeds and its test scores.
    Raises LedgerError where predictions are gone."""
    from ...reports.metrics import score_all

    y, weights = block.y["test"], block.weights["test"]
    rows = []
    for start in range(0, len(trials) - SIZE + 1, SIZE):
        members = trials[start : start + SIZE]
        mean = np.mean([trial.arrays("test")["test"] for trial in members], axis=0)
        scores = score_all(
            block.task, y, mean, block.n_classes, weights, chosen=metric, costs=block.costs
        )
        rows.append(
            {
                **{"dataset": block.dataset, "task": block.task, "fold": block.fold},
                **{"model": members[0].model, "index": start // SIZE},
                "seeds": ", ".join(str(trial.seed) for trial in members),
                **{f"test_{name}": value for name, value in scores.items()},
            }
        )
    return rows
