"""Seconds of fits and predictions per 1,000 rows, of the configurations that count."""

from __future__ import annotations

import numpy as np

from ..aggregation.cells import counting
from ..evidence import STUDY, Evidence

FIT, PREDICT, MEASURED = "fit_s", "predict_s", "predict_1k_s"


def per_1000_rows(evidence: Evidence) -> dict[tuple[str, str], tuple[float, float]]:
    """{(dataset, model): (fit, predict)}: median seconds per 1,000 rows, over the folds and seeds.

    Of the trials whose test scores count: the evaluation runs, or the chosen tuning trial. A fit is
    divided by the rows that it learns from. Predictions are those of a batch of 1,000 rows, where
    the trial measured it; else those of the validation and test rows, divided by their number. NaN
    where seconds or rows (the fact `of_datasets`) are not known.
    """
    sizes = {
        name: facts["sizes"]
        for name, facts in evidence.facts.of_datasets.items()
        if facts.get("sizes")
    }
    counts = counting(evidence) & evidence.having("status", "done")
    rows = evidence.trials.loc[counts, [*STUDY, FIT, PREDICT, MEASURED]]
    rows = rows[rows["dataset"].isin(list(sizes)) | rows[MEASURED].notna()]
    if not len(rows):
        return {}
    train, val, test = (
        rows["dataset"].map({name: found[i] for name, found in sizes.items()}).astype(float)
        for i in range(3)
    )
    usual = 1000.0 * rows[PREDICT] / (val + test).replace(0.0, np.nan)
    rows = rows.assign(
        fit=1000.0 * rows[FIT] / train.replace(0.0, np.nan),
        predict=rows[MEASURED].where(rows[MEASURED].notna(), usual),
    )
    found = rows.groupby(["dataset", "model"], sort=True)[["fit", "predict"]].median()
    return {
        (str(dataset), str(model)): (float(fit), float(predict))
        for (dataset, model), fit, predict in zip(
            found.index, found["fit"], found["predict"], strict=True
        )
    }


def seconds(value: float) -> str:
    """Seconds with about two digits; "n/a" for NaN.

    >>> seconds(0.0002), seconds(0.0123), seconds(2.345), seconds(1234.5)
    ('<0.001', '0.012', '2.3', '1,234')
    """
    if value != value:
        return "n/a"
    if value >= 10:
        return f"{value:,.0f}"
    if value >= 1:
        return f"{value:.1f}"
    return f"{value:.3f}" if value >= 0.0005 else "<0.001"
