"""Learning curves of chosen trials, read from a run's records for the pages of the models."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...sweeps.store.ledger import Ledger
from ...sweeps.store.records import latest_results

if TYPE_CHECKING:
    import pandas as pd

    from ...reports.evidence import Evidence

MOST_CURVES = 10  # of a model, of evenly chosen datasets
MOST_RECORDS = 200_000  # in the runs; more are not searched
# In a trial's info: {"by": what the steps count, "points": [[step, validation loss], ...]}.
CURVE = "curve"


def with_curves(evidence: Evidence, runs: Iterable[str | Path]) -> Evidence:
    """The fact `curves`: {model: [{dataset, fold, by, points}]}, the validation loss against the
    training steps of the chosen fits, for models that are trained in steps.

    At most MOST_CURVES per model. None are added if the runs hold more than MOST_RECORDS records.
    Raises LedgerError.
    """
    wanted = _chosen(evidence.trials)
    if not len(wanted) or len(evidence.trials) > MOST_RECORDS:  # a record or more for each
        return evidence
    ledgers = [Ledger(Path(run)) for run in runs]
    if sum(map(len, ledgers)) > MOST_RECORDS:
        return evidence
    curves: dict[str, list[dict[str, Any]]] = {}
    places = [(ledger, latest_results(ledger)) for ledger in ledgers]
    for row in wanted.to_dict("records"):
        ledger, at = next(((of, p[row["id"]]) for of, p in places if row["id"] in p), (None, 0))
        curve = ledger.at(at)["info"].get(CURVE) if ledger is not None else None
        if curve is not None and len(curve["points"]) > 1:
            entry = {"dataset": row["dataset"], "fold": row["fold"], **curve}
            curves.setdefault(row["model"], []).append(entry)
    return evidence.knowing(curves=curves) if curves else evidence


def _chosen(trials: pd.DataFrame) -> pd.DataFrame:
    """model, dataset, fold and id of the chosen trials of each dataset's first fold, MOST_CURVES of
    a model at most."""
    rows = trials.loc[trials["selected"].to_numpy(dtype=bool), ["model", "dataset", "fold", "id"]]
    rows = rows.drop_duplicates(["model", "dataset"]).sort_values(["model", "dataset"])
    number = rows.groupby("model").cumcount().to_numpy()
    size = rows.groupby("model")["id"].transform("size").to_numpy()
    kept = np.minimum(size, MOST_CURVES)
    # of n rows those where the count of k evenly spaced ones goes up
    return rows[(number + 1) * kept // size > number * kept // size]
