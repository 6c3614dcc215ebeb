"""What the counted trials of a run on one dataset answered to its test rows."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...reports.statistics.conformal import judged
from ...sweeps.store.ledger import LedgerError
from .stored_predictions import blocks_of

if TYPE_CHECKING:
    from ...reports.evidence import Evidence

MOST = 1_000_000  # test rows of all models together


def with_answers(evidence: Evidence, runs: Iterable[Path]) -> Evidence:
    """The evidence with the fact `answers`, where it is about one dataset: the test rows of all
    folds together, of each fold the first trial that counts; and of a regression with `intervals`,
    what those by validation residuals are worth. A model whose predictions are gone is left out;
    nothing is added where the dataset cannot be read."""
    if len(evidence.datasets()) != 1:
        return evidence
    blocks, _ = blocks_of(runs, only=evidence.datasets()[0])
    blocks = [block for block in blocks if block.bag] or blocks
    answers: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    intervals: dict[str, dict[str, float]] = {}
    n_rows = 0
    for model in evidence.models:
        parts, worth = [], []
        for block in blocks:
            mine = [trial for trial in block.trials if trial.counts and trial.model == model]
            if not mine:
                continue
            try:
                first = min(mine, key=lambda trial: trial.index)
                arrays = first.arrays()
                parts.append((block.y["test"], arrays["test"]))
                if block.task == "regression":
                    residuals = block.y["val"] - arrays["val"]
                    worth.append(judged(*parts[-1], residuals))
            except LedgerError:
                break
        if len(parts) == len(blocks) and parts:
            y, answer = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
            n_rows += len(y)
            answers[model] = y, answer
            if worth:
                intervals[model] = {k: float(np.mean([w[k] for w in worth])) for k in worth[0]}
    if not answers or n_rows > MOST:
        return evidence
    return evidence.knowing(answers=answers, intervals=intervals)
