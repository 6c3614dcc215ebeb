"""Each model's default, tuned and ensembled results on the folds of runs, without any fit.

The default is a study's first trial, where the budget begins with the model's default
configuration; the tuned result is the study's score in all other tables; the ensemble is a greedy
one of the study's stored predictions, chosen on validation rows. What a run does not hold is left
open, with the reason.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...sweeps.study_state import TUNE
from ...sweeps.trial import DONE
from ..results.greedy_ensembles import candidates_of, ensemble_row
from ..results.stored_predictions import blocks_of

if TYPE_CHECKING:
    import pandas as pd

    from ...reports.evidence import Evidence
    from ...reports.metrics import Metric

MOST_TRIALS = 2000  # with which a report makes these tables unasked; their cost grows with trials


@dataclass(frozen=True)
class Regimes:
    """`frame`: the columns of `reports.sections.regimes`; `notes`: datasets without predictions;
    `damage`: predictions that were found damaged."""

    frame: pd.DataFrame
    notes: list[str] = field(default_factory=list)
    damage: list[str] = field(default_factory=list)


def regimes_of(
    evidence: Evidence,
    runs: Sequence[Path],
    *,
    only: str | None = None,
) -> Regimes:
    """The results of `evidence`, of these runs, by regime.

    only: the one dataset wanted. Raises LedgerError for no run.
    """
    import pandas as pd

    from ...reports.aggregation.cells import studies
    from ...reports.metrics import metric
    from ...reports.sections.regimes import COLUMNS, DEFAULT, ENSEMBLED, TUNED

    begins = set(evidence.facts.default_first)
    table = studies(evidence)
    table = table if only is None else table[table["dataset"] == only]
    trials = evidence.trials[evidence.having("stage", TUNE)]
    firsts = {
        (r.dataset, r.fold, r.model): r
        for r in trials[trials["index"] == 0].itertuples(index=False)
    }
    counts = trials.groupby(["dataset", "fold", "model"], sort=True).size().to_dict()
    blocks, left_out = blocks_of(runs, only=only)
    notes = [f"Without {dataset}: {why}" for dataset, why in left_out.items()]
    by_fold = {(b.dataset, b.fold): b for b in sorted(blocks, key=lambda b: b.bag, reverse=True)}
    rows: list[dict[str, Any]] = []
    damage: list[str] = []
    for (dataset, fold), of_fold in table.groupby(["dataset", "fold"], sort=True):
        task = str(of_fold["task"].iloc[0])
        head = metric(evidence.headline(task))
        block = by_fold.get((dataset, fold))
        base = {"dataset": dataset, "task": task, "fold": fold, "metric": head.name}
        for study in of_fold.itertuples(index=False):
            place = {**base, "model": study.model}
            first = firsts.get((dataset, fold, study.model))
            begun = study.model in begins
            rows.append({**place, "regime": DEFAULT, **_default(study, first, begun, head)})
            score = getattr(study, f"test_{head.name}")
            n_tried = counts.get((dataset, fold, study.model), 0)
            tuned = {"score": score, "reason": _open(study), "n_candidates": n_tried}
            rows.append({**place, "regime": TUNED, **tuned})
            mine = [t for t in block.trials if t.model == study.model] if block else []
            ensemble = ensemble_row(block, candidates_of(mine), head, damage)
            if study.state == "unsupported":
                ensemble = {"reason": _open(study)}
            rows.append({**place, "regime": ENSEMBLED, **ensemble})
    frame = pd.DataFrame(rows).reindex(columns=COLUMNS)
    frame["reason"] = frame["reason"].fillna("")
    return Regimes(frame, notes, list(dict.fromkeys(damage)))


def _default(study: Any, first: Any, begun: bool, head: Metric) -> dict[str, Any]:
    """The default configuration's result in a study that begins with it, `begun`."""
    if study.state == "unsupported":
        return {"reason": _open(study)}
    if not begun:
        return {"reason": "not measured: the study does not begin with the default configuration"}
    if first is None:
        return {"reason": "open: the default configuration has not run yet"}
    if first.status != DONE:
        return {"reason": f"failed: the default configuration ({first.cause or first.status})"}
    score = getattr(first, f"test_{head.name}")
    val = getattr(first, f"val_{head.name}", None)
    ids = json.dumps({first.id: 1})
    return {"score": score, "val": val, "n_candidates": 1, "n_members": 1, "members": ids}


def _open(study: Any) -> str:
    """Why a study has no score, or "" if it has one."""
    if study.state == "complete":
        return ""
    return f"{study.state}: {study.cause}" if study.cause else str(study.state)
