"""Published values beside ours, cell by cell, as a frame."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from ..aggregation.cells import COMPLETE, PARTIAL, cells, studies
from ..evidence import Evidence
from ..metrics import METRICS
from ..sections import seeds
from ..statistics.ranking import TIE_TOLERANCE, standard_error
from .published_table import PublishedTable

NOT_HERE = "not in this run"
WITHIN = 2.0  # joint standard errors


def comparison_frame(evidence: Evidence, what: PublishedTable) -> pd.DataFrame:
    """One row per published cell, in the paper's order: published, ours and their difference."""
    theirs = what.rows
    table = studies(evidence)
    ours: dict[tuple[str, str, str], Any] = {}
    for metric in dict.fromkeys(what.measures[m].metric for m in theirs["metric"]):
        mine = table[table["task"].isin(METRICS[metric].tasks)]
        block = cells(evidence, mine, metric) if f"test_{metric}" in mine else _no_cells()
        if what.replicates and len(block):
            block = _over_seeds(evidence, what, block, metric)
        ours |= {(metric, r.dataset, r.model): r for r in block.itertuples(index=False)}
    trials = table.groupby(["dataset", "model"], sort=True)["n_recorded"].agg(["min", "max"])
    rows = []
    for cell in theirs.itertuples(index=False):
        model, measure = what.model_of(cell.method), what.measures[cell.metric]
        metric = measure.metric
        own = ours.get((metric, cell.dataset, model))
        row = {
            "paper": what.paper,
            "table": what.table,
            "dataset": cell.dataset,
            "method": cell.method,
            "model": model,
            "metric": metric,
            "published": cell.value,
            "published_se": _published_error(cell),
            "published_n": int(cell.n_repeats) if not math.isnan(cell.n_repeats) else None,
            "published_configs": what.configurations.get((cell.dataset, cell.method)),
            "published_std": cell.spread if cell.spread_kind == "std" else None,
        }
        found = _ours(evidence, what, cell, own, row["published_se"], measure.unit)
        stand_in = what.stand_ins.get(cell.dataset, "")
        other = f"stand-in: {stand_in}" if stand_in else ""
        note = "; ".join(filter(None, (cell.remark, other, str(found["note"]))))
        rows.append({**row, **found, "note": note})
        if own is not None:
            low, high = trials.loc[(cell.dataset, model)]
            rows[-1]["trials"] = str(low) if low == high else f"{low} to {high}"
    columns = """paper table dataset method model metric published published_se published_n
        published_configs ours ours_se n_folds n_planned trials difference joint_se
        difference_in_joint_se within_two note""".split()
    if what.deviations:
        columns[7:7] = ["published_std"]
        columns[columns.index("n_folds") : columns.index("n_folds")] = ["ours_std", "n_runs"]
    return pd.DataFrame(rows, columns=columns)


def printed_cells(what: PublishedTable, frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of a comparison's frame that the paper has, without controls of ours."""
    if not what.control:
        return frame
    return frame[~frame["note"].str.contains(what.control, regex=False)]


def _no_cells() -> pd.DataFrame:
    """An empty frame, for evidence without the metric."""
    return pd.DataFrame(columns=["dataset", "model"])


def _over_seeds(
    evidence: Evidence, what: PublishedTable, block: pd.DataFrame, metric: str
) -> pd.DataFrame:
    """The cells with the standard error (`spread`) and the population standard deviation (`std`)
    over the runs of one fold, and their number `n`.

    Runs are the evaluation seeds; for the shape `ensembles` they are ensembles of seeds, the mean
    is theirs, and a cell without ensembles is left out. Both are NaN for several folds or one run.
    """
    runs = evidence.trials[evidence.trials["stage"] == "eval"]
    if what.shape == "ensembles":
        nothing = pd.DataFrame(columns=["dataset", "model", f"test_{metric}"])
        runs = nothing if evidence.ensembles is None else evidence.ensembles
        if f"test_{metric}" not in runs:
            runs = nothing
    scores = runs.groupby(["dataset", "model"], sort=True)[f"test_{metric}"]
    found = {key: np.asarray(v, dtype=float) for key, v in scores}
    rows = []
    for r in block.itertuples(index=False):
        values = found.get((r.dataset, r.model), np.empty(0))
        known = len(values) > 0 and bool(np.isfinite(values).all())
        if what.shape == "ensembles" and not (known and r.n_planned == 1):
            continue
        whole = r.n_planned == 1 and len(values) > 1 and known
        mean = float(values.mean()) if what.shape == "ensembles" else r.mean
        error = float(standard_error(values)) if whole else math.nan
        std = seeds.population_std(values) if whole else math.nan
        rows.append({**r._asdict(), "mean": mean, "spread": error, "std": std, "n": len(values)})
    return pd.DataFrame(rows, columns=[*block.columns, "std", "n"])


def _published_error(cell: Any) -> float | None:
    """Standard error of a published cell, or None."""
    spread, kind, n = cell.spread, cell.spread_kind, cell.n_repeats
    if math.isnan(spread) or kind not in ("sem", "std"):
        return None
    if kind == "sem":
        return float(spread)
    return float(spread) / math.sqrt(n) if n and not math.isnan(n) else None


def _ours(
    evidence: Evidence,
    what: PublishedTable,
    cell: Any,
    own: Any,
    error: float | None,
    unit: float,
) -> dict[str, object]:
    if own is None:
        return {"note": what.absent.get(cell.method, NOT_HERE)}
    state, n = own.state, own.n_folds
    counts = {"n_folds": n, "n_planned": own.n_planned}
    if state not in (COMPLETE, PARTIAL):
        return {**counts, "note": f"ours: {state} {own.cause}".strip()}
    ours = unit * own.mean
    spread = unit * own.spread
    overlaps = own.dataset in evidence.overlapping and not what.replicates
    ours_error = None if math.isnan(spread) or overlaps else spread
    difference = ours - cell.value
    found = {**counts, "ours": ours, "ours_se": ours_error, "difference": difference}
    if what.deviations:
        found |= {"ours_std": None if math.isnan(own.std) else unit * own.std, "n_runs": own.n}
    notes = [f"ours: {n} of {own.n_planned} folds"] if state == PARTIAL else []
    if error is None:
        notes.append("n/a: no published standard error")
    if ours_error is None:
        why = "has no replicates" if what.replicates else f"rests on {n} fold"
        notes.append("n/a: our folds overlap" if overlaps else f"n/a: ours {why}")
    if error is not None and ours_error is not None:
        joint = math.hypot(error, ours_error)
        if joint > TIE_TOLERANCE * abs(ours):  # seeds that change nothing leave rounding
            size = difference / joint
            found.update(joint_se=joint, difference_in_joint_se=size)
            found["within_two"] = bool(abs(size) <= WITHIN)
        else:
            notes.append("n/a: both standard errors are 0")
    return {**found, "note": "; ".join(notes)}
