"""Ensembles of evaluation seeds, scored from the test predictions that a run has stored.

Disjoint groups of five evaluation seeds, in their order (Gorishniy et al. 2021, sec. 4.3): their
probabilities, or predictions, are averaged. For regression the paper averages in standardised units
of the target, which is the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...sweeps.store.ledger import Ledger, LedgerError, Record
from ...sweeps.store.records import latest_results
from ...sweeps.study_state import EVAL
from ...sweeps.trial import DONE
from ..errors import SweepError
from .evidence_builder import planned_rows

if TYPE_CHECKING:
    from ...datasets.protocols import Fold
    from ...datasets.table import Table
    from ...reports.evidence import Evidence

SIZE = 5
KEY = ("dataset", "fold", "model", "index")  # of an ensemble


def with_ensembles(
    evidence: Evidence,
    runs: Iterable[str | Path],
    *,
    mirror: str | Path | None = None,
    cache: str | Path | None = None,
) -> Evidence:
    """The evidence with `ensembles`; unchanged where no study has five seeds.

    The targets are read from the datasets again. A dataset that is not available, or is not what
    the run had, is left out with a note.
    """
    import pandas as pd

    seeds = evidence.trials[evidence.trials["stage"] == EVAL]
    if not (seeds.groupby(["dataset", "fold", "model"]).size() >= SIZE).any():
        return evidence  # the ledgers need not be read again
    rows: list[dict[str, Any]] = []
    notes: list[str] = []
    damage: list[str] = []
    for run in runs:
        ledger = Ledger(Path(run))
        plan, found = planned_rows(ledger)
        groups = _groups(found)
        for dataset in sorted({study["dataset"] for study in groups.values()}):
            mine = {k: v for k, v in groups.items() if v["dataset"] == dataset}
            try:
                known = planned_data(plan, dataset, mirror=mirror, cache=cache)
                rows += _scored(ledger, mine.values(), *known)
            except (ValueError, OSError, LedgerError) as error:  # DataError is a ValueError
                notes.append(f"No ensembles on {dataset}: {error}")
                if isinstance(error, LedgerError):
                    damage.append(f"{dataset}: {error}")
    if not rows and not notes:
        return evidence
    # a study of several runs has the same ensembles in each
    rows = list({tuple(row[name] for name in KEY): row for row in rows}.values())
    meta = {**evidence.meta, "notes": [*(evidence.meta.get("notes") or []), *notes]}
    meta["damage"] = [*(evidence.meta.get("damage") or []), *damage]
    return evidence.but(ensembles=pd.DataFrame(rows) if rows else None, meta=meta)


def _groups(rows: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """{study: dataset, task, fold, model, and the `ids` of its evaluations in order}, of the
    studies whose evaluations all finished and are at least SIZE."""
    found: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        if row["stage"] == EVAL:
            found[row["study"]].append(row)
    groups = {}
    for study, runs in found.items():
        runs = sorted(runs, key=lambda row: row["index"])
        if len(runs) >= SIZE and all(row["status"] == DONE for row in runs):
            described = {name: runs[0][name] for name in ("dataset", "task", "fold", "model")}
            groups[study] = {**described, "ids": [row["id"] for row in runs]}
    return groups


def planned_data(plan: Record, dataset: str, **where: Any) -> tuple[Table, dict[int, Fold]]:
    """The table and folds of a dataset of a plan. Raises ValueError where they have changed, and
    for a file of the run that is gone."""
    from ..planning.own_tables import planned_table
    from ..planning.plan import choose_folds

    described = plan["datasets"][dataset]
    try:
        table = planned_table(dataset, described, **where)
    except SweepError as error:
        raise ValueError(error) from None
    if table.sha256 != described["sha256"]:
        raise ValueError("the data is not what the run was made with")
    table = replace(table, metric=plan["metric"][table.task])
    return table, choose_folds(
        table, described["protocol"], seed=plan["options"]["seed"], folds=None
    )


def _scored(
    ledger: Ledger, groups: Iterable[Mapping[str, Any]], table: Table, folds: Mapping[int, Fold]
) -> list[dict[str, Any]]:
    """One row per ensemble: its study, its number and its test scores."""
    from ...reports.metrics import score_all

    results = latest_results(ledger)
    rows = []
    for group in groups:
        test = folds[group["fold"]].test
        y, weights = table.target[test], table.weights_of(test)
        ids = group["ids"]
        for start in range(0, len(ids) - SIZE + 1, SIZE):
            records = [ledger.at(results[id]) for id in ids[start : start + SIZE]]
            parts = [r["predictions"] for r in records]
            arrays = [ledger.get_predictions({"test": part["test"]})["test"] for part in parts]
            mean = np.mean(arrays, axis=0)
            also = {"chosen": table.metric, "costs": table.costs}
            scores = score_all(table.task, y, mean, table.n_classes, weights, **also)
            rows.append(
                {
                    **{name: group[name] for name in ("dataset", "task", "fold", "model")},
                    "index": start // SIZE,
                    "seeds": ", ".join(str(record["seed"]) for record in records),
                    **{f"test_{name}": value for name, value in scores.items()},
                }
            )
    return rows
