"""Prediction intervals of regressions, by the residuals of each fold's validation rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from ..evidence import Evidence, EvidenceError
from ..output import escape, footnotes
from ..output.tables import Panel, ReportTable, Section, TableCell, decimals_for, fixed
from ..statistics.conformal import LEVEL, judged

HEADS = {
    "coverage": "coverage",
    "width": "width",
    "pinball": "pinball loss ↓",
    "crps": "CRPS ↓",
}

FEW = f"n/a: too few validation rows for intervals of {LEVEL:.0%}."
STUDY = ["dataset", "task", "model"]

Arrays = Mapping[str, np.ndarray]  # {"val", "test"}: (n,)


def section(
    evidence: Evidence, answers: Sequence[tuple[dict[str, object], Arrays, Arrays]]
) -> Section:
    """The file `intervals`. `answers`: (study, targets, predictions), `study` with dataset, task,
    fold, model and seed. Raises EvidenceError if `answers` is empty."""
    if not answers:
        raise EvidenceError("no finished study is a regression, so there are no intervals")
    frame = pd.DataFrame(
        [
            {**facts, **judged(y["test"], value["test"], y["val"] - value["val"])}
            for facts, y, value in answers
        ]
    ).sort_values(["dataset", "fold", "model", "seed"], kind="stable")
    folds = frame.groupby([*STUDY, "fold"])[list(HEADS)].mean()  # several seeds of one count once
    means = folds.groupby(STUDY).mean().reset_index()
    notes = (
        *footnotes.setting(evidence),
        f"Split-conformal intervals of {LEVEL:.0%}: the prediction and order statistics of the "
        "fold's residuals on validation rows (Vovk et al. 2005); coverage is the share of test "
        "targets inside, width is in units of the target. The configuration was chosen on the same "
        "validation rows, which lowers the coverage a little.",
        "Pinball loss: mean of the two ends. CRPS: of the prediction and all of these residuals. "
        "The lowest of a dataset are bold. All rows count alike.",
        *([FEW] if means["coverage"].isna().any() else []),
    )
    title = "Prediction intervals on the test rows, mean over the folds."
    table = ReportTable("intervals", title, ("model", *HEADS.values()), _panels(means), notes)
    covered = means["coverage"].dropna()
    remark = (
        f"Intervals of {LEVEL:.0%} cover {covered.mean():.1%} of the test targets, mean over "
        "models and datasets; the furthest is off by "
        f"{100 * (covered - LEVEL).abs().max():.1f} points."
    )
    if not len(covered):
        remark = f"No fold has enough validation rows for intervals of {LEVEL:.0%}."
    return Section("intervals", "Intervals", (table,), frame.reset_index(drop=True), (remark,))


def texts(column: Sequence[float]) -> list[str]:
    """The values of a column, with four significant digits of the smallest."""
    decimals = decimals_for(column, 4)
    return ["n/a" if value != value else fixed(value, decimals) for value in column]


def _panels(means: pd.DataFrame) -> tuple[Panel, ...]:
    """A panel a dataset, its lowest losses bold."""
    panels = []
    for dataset, part in means.groupby("dataset", sort=True):
        best = part[["pinball", "crps"]].min()
        columns = [[TableCell(escape.label(model)) for model in part["model"]]]
        for name in HEADS:
            values = part[name].tolist()
            pairs = zip(texts(values), values, strict=True)
            columns.append([TableCell(text, bold=v == best.get(name)) for text, v in pairs])
        panels.append(Panel(tuple(zip(*columns, strict=True)), escape.label(str(dataset))))
    return tuple(panels)
