"""Scores of finished trials, computed again from the predictions that a run has stored."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...reports.metrics import score_all
from ...sweeps.store.ledger import Ledger, LedgerError
from ...sweeps.store.records import latest_results
from ...sweeps.study_state import EVAL
from ...sweeps.trial import DONE
from ..bag_members import scored_fold
from ..errors import SweepError
from ..planning.plan_record import plan_in
from .evidence_builder import noting
from .stored_predictions import PARTS, planned_data

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from ...datasets.protocols import Fold
    from ...datasets.table import Table
    from ...reports.evidence import Evidence

CLOSE = 1e-9  # of scores, relatively: processors add up in other orders
MOST = 2000  # trials that count, up to which a report computes their scores again

Scores = dict[str, dict[str, float | None]]
DataOf = Callable[[str], "tuple[Table, Mapping[int, Fold]]"]


class WrongScores(LedgerError):
    """A record's scores do not follow from its predictions; `scores` do (None: none)."""

    def __init__(self, why: str, scores: Scores | None = None) -> None:
        super().__init__(why)
        self.scores = scores


def score_parts(table: Table, fold: Fold, predictions: Mapping[str, np.ndarray]) -> Scores:
    """The metrics of the table on "val" and "test", from the predictions alone."""
    rows = {"val": fold.val, "test": fold.test}
    return {
        part: score_all(
            table.task,
            table.target[rows[part]],
            values,
            table.n_classes,
            table.weights_of(rows[part]),
            chosen=table.metric,
            costs=table.costs,
        )
        for part, values in predictions.items()
    }


def rescored(table: Table, fold: Fold, predictions: Mapping[str, np.ndarray]) -> Scores:
    """`score_parts` of predictions from a file. Raises WrongScores if they do not match the fold's
    rows."""
    if set(predictions) != set(PARTS):
        raise WrongScores(f"its predictions are of {', '.join(sorted(predictions)) or 'no part'}")
    for part, values in predictions.items():
        rows = len(getattr(fold, part))
        if len(values) != rows:
            raise WrongScores(f"{len(values)} predictions for {rows} rows of {part}")
    try:
        return score_parts(table, fold, predictions)
    except (ValueError, IndexError) as error:
        raise WrongScores(f"its predictions cannot be scored: {error}") from None


def check_scores(record: Mapping[str, Any], scores: Scores) -> None:
    """Raises WrongScores if a record's scores are not `scores`, those of its predictions."""
    for part, expected in scores.items():
        recorded = record.get(part)
        if not isinstance(recorded, Mapping) or set(recorded) != set(expected):
            raise WrongScores(f"its scores on {part} are not those of its task", scores)
        for metric, value in expected.items():
            if not _same(there := recorded[metric], value):
                why = f"{metric} on {part} is {there!r}, its predictions have {value!r}"
                raise WrongScores(why, scores)


def _same(there: Any, value: float | None) -> bool:
    if value is None:
        return there is None
    number = isinstance(there, int | float) and not isinstance(there, bool)
    return number and math.isclose(there, value, rel_tol=CLOSE, abs_tol=CLOSE)


class ScoreCheck:
    """Compares records with their predictions. data_of: gives the table and folds of a dataset, or
    raises SweepError, LedgerError, LookupError, ValueError or OSError; `left_out` names a dataset
    without them, with the reason."""

    def __init__(self, data_of: DataOf) -> None:
        self._data_of = cache(data_of)
        self.left_out: dict[str, str] = {}

    @classmethod
    def of_run(cls, ledger: Ledger) -> ScoreCheck:
        """The check of a run; targets are read again."""
        where: dict[str, Any] = {"runs": ledger.run.parent, "features": False}
        return cls(lambda dataset: planned_data(plan_in(ledger), dataset, **where))

    @property
    def notes(self) -> list[str]:
        """Sentences that name the datasets left out, with the reasons."""
        return [
            f"Scores on {dataset} were not compared with their predictions: {why}"
            for dataset, why in self.left_out.items()
        ]

    def __call__(self, record: Mapping[str, Any], predictions: Mapping[str, np.ndarray]) -> None:
        """Raises WrongScores."""
        dataset = record["dataset"]
        if dataset in self.left_out:
            return
        try:
            table, folds = self._data_of(dataset)
            fold = scored_fold(table, folds[record["fold"]], record.get("fidelity"))
        except (SweepError, LedgerError, LookupError, ValueError, OSError) as error:
            self.left_out[dataset] = str(error)
            return
        check_scores(record, rescored(table, fold, predictions))


def with_true_scores(evidence: Evidence, runs: Iterable[Path]) -> Evidence:
    """The evidence with scores computed from the predictions of its counted trials. A trial with
    other scores in its record is named as damage; datasets without data or predictions here are
    named in the notes."""
    counted = evidence.trials["selected"].to_numpy(dtype=bool) | evidence.having("stage", EVAL)
    counted &= evidence.having("status", DONE)
    wanted = set(evidence.trials.loc[counted, "id"])
    if len(wanted) > MOST:
        return noting(
            evidence,
            f"The scores of {len(wanted):,} trials, more than {MOST:,}, were not compared with "
            "their predictions: bench verify does it.",
        )
    trials, damage, notes = evidence.trials, [], []
    for run in runs:
        ledger = Ledger(Path(run))
        check = ScoreCheck.of_run(ledger)
        for id, at in latest_results(ledger).items():
            if id not in wanted:
                continue
            record = ledger.at(at)
            try:
                check(record, ledger.predictions.get(record["predictions"]))
            except WrongScores as error:
                damage.append(f"{record['study']} ({id}): {error}")
                trials = _with_scores(trials, id, error.scores)
            except LedgerError as error:
                check.left_out.setdefault(record["dataset"], str(error))
        notes += check.notes
    evidence = evidence if trials is evidence.trials else evidence.but(trials=trials)
    return noting(evidence, *notes, damage=damage)


def _with_scores(trials: pd.DataFrame, id: str, scores: Scores | None) -> pd.DataFrame:
    """The trials, one of them with these scores."""
    trials = trials.copy()
    mine = trials["id"] == id
    for part, known in (scores or {}).items():
        for metric, value in known.items():
            if f"{part}_{metric}" in trials:
                trials.loc[mine, f"{part}_{metric}"] = math.nan if value is None else value
    return trials
