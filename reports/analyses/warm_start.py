"""A sweep with a warm start beside one without, after equal numbers of trials."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from ..evidence import Evidence
from ..metrics import METRICS
from ..output import escape, footnotes
from ..output.gains import HEADER, NOTES, gain, gain_rows
from ..output.tables import Panel, ReportTable, Section, TableCell
from . import tuners

COLD, WARM = "without", "with"
PARTS = ("validation", "test")


def frame(evidence: Evidence, steps: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """One row per (part, n, dataset, model): `without` and `with`, the mean errors over the folds
    of what each study had chosen after n trials, and `gain`, 2 (without - with)/(without + with).

    steps: {COLD, WARM: `anytime.running`}. An error is 1 - score where more is better. Raises
    EvidenceError where no study is common to both.
    """
    found = tuners.frame(steps)
    metrics = [METRICS[evidence.headline(task)] for task in found["task"]]
    losses = zip(metrics, found["loss"], strict=True)
    found["validation"] = [m.error(m.sign * loss) for m, loss in losses]
    found["test"] = [m.error(score) for m, score in zip(metrics, found["test"], strict=True)]
    keys = ["n", "dataset", "task", "model"]
    long = found.melt([*keys, "tuner"], list(PARTS), var_name="part", value_name="error")
    wide = long.pivot(index=[*keys, "part"], columns="tuner", values="error").reset_index()
    wide.columns.name = None
    wide["gain"] = gain(wide[COLD].to_numpy(), wide[WARM].to_numpy())
    order = ["part", "n", "dataset", "task", "model", COLD, WARM, "gain"]
    by = ["part", "n", "dataset", "model"]
    return wide[order].sort_values(by, ascending=[False, True, True, True]).reset_index(drop=True)


def section(found: pd.DataFrame, notes: tuple[str, ...] = ()) -> Section:
    """The file `warm-start`. found: `frame`; notes: how the two sweeps began."""
    last = int(found["n"].max())
    by_n, by_model = [], []
    for part in PARTS:
        mine = found[found["part"] == part]
        at_n = {f"after {footnotes.count(n, 'trial')}": r for n, r in mine.groupby("n", sort=True)}
        by_n.append(Panel(_rows(at_n), part))
        of = mine[mine["n"] == last].groupby("model", sort=True)
        by_model.append(Panel(_rows({escape.label(str(model)): r for model, r in of}), part))
    how = (
        *NOTES,
        "Folds are averaged first, then the models of a dataset: one number per dataset. "
        "validation: the rows that both sweeps search on; test: of what validation had chosen.",
    )
    datasets = footnotes.count(found["dataset"].nunique(), "dataset")
    trials = footnotes.count(last, "trial")
    title = f"Gain of the warm start after equal numbers of trials, over all models: {datasets}."
    second = f"Gain of the warm start by model, after {trials}."
    tables = (
        ReportTable("warm-start", title, ("", *HEADER), tuple(by_n), (*notes, *how)),
        ReportTable("warm-start-models", second, ("model", *HEADER), tuple(by_model), how),
    )
    return Section("warm-start", "Warm start", tables, found)


def _rows(lines: Mapping[str, pd.DataFrame]) -> tuple[tuple[TableCell, ...], ...]:
    """A row for each name: the gains of these (dataset, model) pairs, one number per dataset."""
    means = {
        name: rows.groupby("dataset", sort=True)["gain"].mean().to_numpy(dtype=np.float64)
        for name, rows in lines.items()
    }
    return tuple(gain_rows(means))
