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
from .published_table import PublishedTable, published_error

NOT_HERE = "not in this run"
WITHIN = 2.0  # joint standard errors
NO_CELLS = pd.DataFrame(columns=["dataset", "model"])  # of evidence without the metric


def comparison_frame(evidence: Evidence, what: PublishedTable) -> pd.DataFrame:
    """One row per published cell, in the paper's order: published, ours and their difference."""
    theirs = what.rows
    table = studies(evidence)
    ours: dict[tuple[str, str, str], Any] = {}
    for metric in dict.fromkeys(what.measures[m].metric for m in theirs["metric"]):
        mine = table[table["task"].isin(METRICS[metric].tasks)]
        if what.shape == "ensembles":
            block = _ensembles(evidence, metric)
        else:
            alone = f"test_{metric}" in mine and evidence.facts.kind != seeds.ENSEMBLE
            block = cells(evidence, mine, metric) if alone else NO_CELLS
            if what.replicates and len(block):
                block = _over_seeds(evidence, block, metric)
        ours |= {(metric, r.dataset, r.model): r for r in block.itertuples(index=False)}
    trials = table.groupby(["dataset", "model"], sort=True)["n_recorded"].agg(["min", "max"])
    counts = {key: sorted(set(pair)) for key, pair in zip(trials.index, trials.values, strict=True)}
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
            "published_decimals": int(cell.decimals),
            "published_se": published_error(cell.spread, cell.spread_kind, cell.n_repeats),
            "published_n": int(cell.n_repeats) if not math.isnan(cell.n_repeats) else None,
            "published_configs": what.configurations.get((cell.dataset, cell.method)),
            "published_std": cell.spread if cell.spread_kind == "std" else None,
        }
        found = (
            {"note": what.absent.get(cell.method) or _absence(evidence, what, cell.dataset, model)}
            if own is None
            else _ours(evidence, what, cell, own, row["published_se"], measure.unit)
        )
        stand_in = what.stand_ins.get(cell.dataset, "")
        other = f"stand-in: {stand_in}" if stand_in else ""
        note = "; ".join(filter(None, (cell.remark, other, str(found["note"]))))
        rows.append({**row, **found, "note": note})
        if own is not None:
            rows[-1]["trials"] = " to ".join(map(str, counts.get((cell.dataset, model), [])))
    columns = """paper table dataset method model metric published published_decimals published_se
        published_n published_configs ours ours_se n_folds n_planned trials difference joint_se
        difference_in_joint_se within_two note""".split()
    if what.deviations:
        columns[8:8] = ["published_std"]
        columns[columns.index("n_folds") : columns.index("n_folds")] = ["ours_std", "n_runs"]
    return pd.DataFrame(rows, columns=columns)


def printed_cells(what: PublishedTable, frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of a comparison's frame that have a published value in the table itself: no extra
    rows and no values that cannot be read."""
    return frame[frame["published"].notna() & ~frame["note"].map(what.is_extra).astype(bool)]


def _over_seeds(evidence: Evidence, block: pd.DataFrame, metric: str) -> pd.DataFrame:
    """The cells with the standard error (`spread`) and the population standard deviation (`std`)
    over the evaluation seeds of one fold, and their number `n`. Both are NaN for several folds or
    one seed."""
    runs = evidence.trials[evidence.trials["stage"] == "eval"]
    scores = runs.groupby(["dataset", "model"], sort=True)[f"test_{metric}"]
    found = {key: np.asarray(v, dtype=float) for key, v in scores}
    rows = []
    for r in block.itertuples(index=False):
        values = found.get((r.dataset, r.model), np.empty(0))
        error, std = _deviations(values) if r.n_planned == 1 else (math.nan, math.nan)
        rows.append({**r._asdict(), "spread": error, "std": std, "n": len(values)})
    return pd.DataFrame(rows, columns=[*block.columns, "std", "n"])


def _ensembles(evidence: Evidence, metric: str) -> pd.DataFrame:
    """Cells as of `_over_seeds`, whose runs are the ensembles of one fold. A cell without ensembles
    is left out, and one whose ensembles are of several folds."""
    alone = evidence.facts.kind == seeds.ENSEMBLE
    runs = evidence.trials if alone else evidence.ensembles
    if runs is None or f"test_{metric}" not in runs:
        return NO_CELLS
    planned = evidence.planned.groupby(["dataset", "model"])["fold"].nunique()
    rows = []
    for (dataset, model), part in runs.groupby(["dataset", "model"], sort=True):
        values = part[f"test_{metric}"].to_numpy(dtype=float)
        n_folds = max(part["fold"].nunique(), planned.get((dataset, model), 1))
        if n_folds > 1 or not np.isfinite(values).all():
            continue
        error, std = _deviations(values)
        counts = {"n_folds": 1, "n_planned": 1, "state": COMPLETE, "cause": "", "n": len(values)}
        named = {"dataset": dataset, "model": model, "mean": float(values.mean())}
        rows.append({**named, "spread": error, "std": std, **counts})
    columns = "dataset model mean spread std n_folds n_planned state cause n".split()
    return pd.DataFrame(rows, columns=columns)


def _deviations(values: np.ndarray) -> tuple[float, float]:
    """(standard error, population standard deviation) of runs; NaN for fewer than two."""
    if len(values) < 2 or not np.isfinite(values).all():
        return math.nan, math.nan
    return float(standard_error(values)), seeds.population_std(values)


def _absence(evidence: Evidence, what: PublishedTable, dataset: str, model: str) -> str:
    """Why a published cell has no value of ours."""
    plan = evidence.planned
    if not ((plan["dataset"] == dataset) & (plan["model"] == model)).any():
        return NOT_HERE
    if what.shape == "ensembles":
        return "no ensembles in this run"
    alone = evidence.facts.kind == seeds.ENSEMBLE
    return "ours: ensembles only" if alone else "not scored by this metric in this run"


def _ours(
    evidence: Evidence,
    what: PublishedTable,
    cell: Any,
    own: Any,
    error: float | None,
    unit: float,
) -> dict[str, object]:
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
            # the published value is any that rounds to its digits
            beyond = abs(difference) - 0.5 * 10.0**-cell.decimals * (1.0 + TIE_TOLERANCE)
            found["within_two"] = bool(beyond <= WITHIN * joint)
        else:
            notes.append("n/a: both standard errors are 0")
    return {**found, "note": "; ".join(notes)}
