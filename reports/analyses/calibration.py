"""Calibration of predicted probabilities: expected calibration error, reliability, Brier score."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..evidence import Evidence, EvidenceError
from ..output import escape, footnotes
from ..output.curves_svg import Curve, curves_svg
from ..output.tables import Panel, ReportTable, Section, TableCell

BINS = 15  # Guo et al. 2017, sec. 4

Array = np.ndarray


@dataclass(frozen=True)
class Reliability:
    """A reliability curve: rows, mean confidence and accuracy of each bin, all (n_bins,), NaN for
    an empty bin. Rows with weights count by them, divided by their mean. Confidence
    is the probability of the predicted class.
    """

    n: Array
    confidence: Array
    accuracy: Array

    @property
    def ece(self) -> float:
        """Expected calibration error (Guo et al. 2017, eq. 3): mean over the rows of the distance
        between accuracy and confidence of their bin."""
        there = self.n > 0
        gaps = np.abs(self.accuracy[there] - self.confidence[there])
        return float(np.average(gaps, weights=self.n[there]))


def reliability(
    y: Array, proba: Array, bins: int = BINS, weights: Array | None = None
) -> Reliability:  # (n,), (n, C), (n,)
    """The reliability curve of predicted probabilities; `y` holds class codes. `weights`: how much
    each row counts beside the others, 0 or more; None: all alike.

    Bins have equal width; bin i holds confidences in (i / bins, (i + 1) / bins]. Raises ValueError
    without rows.

    >>> curve = reliability(np.array([0, 1]), np.array([[0.8, 0.2], [0.8, 0.2]]), bins=10)
    >>> round(curve.ece, 3), curve.n.tolist()[7]
    (0.3, 2)
    """
    if not len(y):
        raise ValueError("a reliability curve needs rows")
    confidence = proba.max(axis=1)
    right = (proba.argmax(axis=1) == y).astype(np.float64)
    # Rounding: a confidence on an edge belongs to the bin below it, whatever its last bit.
    at = np.clip(np.ceil(np.round(confidence * bins, 9)).astype(int) - 1, 0, bins - 1)
    each = 1.0
    n = np.bincount(at, minlength=bins)
    if weights is not None:
        each = weights / weights.mean()
        n = np.bincount(at, each, minlength=bins)
    with np.errstate(invalid="ignore"):
        means = [np.bincount(at, each * w, minlength=bins) / n for w in (confidence, right)]
    return Reliability(n, *means)


def brier(
    y: Array, proba: Array, weights: Array | None = None
) -> float:  # (n,), (n, C), (n,) -> in [0, 2]
    """Mean over the rows, by their weights where they have some, of the squared distance between
    probabilities and outcome (Brier 1950).

    DIFF(scikit-learn, brier_score_loss): summed over both classes of a binary task too, as Brier
    has it: twice the value for one class.
    """
    outcome = np.zeros_like(proba, dtype=np.float64)
    outcome[np.arange(len(y)), y] = 1.0
    return float(np.average(np.sum(np.square(proba - outcome), axis=1), weights=weights))


def pooled(parts: list[Reliability]) -> Reliability:
    """The curve of the rows of several curves taken together."""
    n = np.sum([part.n for part in parts], axis=0)
    with np.errstate(invalid="ignore"):
        means = [
            np.sum([np.where(part.n, getattr(part, name), 0.0) * part.n for part in parts], axis=0)
            / n
            for name in ("confidence", "accuracy")
        ]
    return Reliability(n, *means)


# --- the analysis' part ---------------------------------------------------------------------------

Study = tuple[dict[str, object], Array, Array, Array | None]  # what it is, y, proba, weights
FIGURES = ("ece", "brier", "confidence", "accuracy")
HEADS = {"ece": "ECE ↓", "brier": "Brier ↓", "confidence": "confidence", "accuracy": "accuracy ↑"}


def section(evidence: Evidence, found: list[Study]) -> Section:
    """The file `calibration`. `found`: (study, y, proba, weights), `study` with dataset, task,
    fold, model and seed, `weights` None where all rows count alike; several seeds of a
    study count once, by their mean. Raises EvidenceError if `found` is empty."""
    if not found:
        raise EvidenceError(
            "no finished study has predicted probabilities, so there is no calibration"
        )
    frame = pd.DataFrame([{**facts, **_figures(y, p, weights)} for facts, y, p, weights in found])
    frame = frame.sort_values(["dataset", "fold", "model", "seed"], kind="stable")
    keys = ["dataset", "task", "model", "fold"]
    folds = frame.groupby(keys, sort=True)[list(FIGURES)].mean()
    means = folds.groupby(keys[:3], sort=True).mean().reset_index()
    panels = []
    for dataset, part in means.groupby("dataset", sort=True):
        best = {name: part[name].min() for name in ("ece", "brier")}
        rows = [
            (
                TableCell(escape.label(r.model)),
                *(
                    TableCell(f"{getattr(r, name):.4f}", bold=getattr(r, name) == best.get(name))
                    for name in FIGURES
                ),
            )
            for r in part.itertuples(index=False)
        ]
        panels.append(Panel(tuple(rows), escape.label(str(dataset))))
    notes = (
        *footnotes.setting(evidence),
        f"ECE: expected calibration error of the predicted class (Guo et al. 2017), {BINS} bins of "
        "equal width, of each fold's test rows, then the mean over the folds. With few test rows "
        "even a well calibrated model has a positive ECE. Brier: summed over the classes, 0 to 2.",
        "The configurations that validation chose; nothing was fitted again. The lowest ECE and "
        "Brier score of a dataset are bold, which does not mean statistically significant.",
    )
    title = "Calibration on the test rows, mean over the folds."
    header = ("model", *HEADS.values())
    table = ReportTable("calibration", title, header, tuple(panels), notes)
    remarks = (verdict(means),)
    return Section("calibration", "Calibration", (table,), frame.reset_index(drop=True), remarks)


def verdict(means: pd.DataFrame) -> str:
    """Which model is calibrated best, and which worst, in a sentence. `means`: a row per (dataset,
    model) with its `ece`; the datasets that have every model count."""
    wide = means.pivot(index="dataset", columns="model", values="ece").dropna()
    if not len(wide):
        return "No verdict: no dataset has probabilities of every model."
    ece = wide.mean().sort_values(kind="stable")
    over = f"over {footnotes.count(len(wide), 'dataset')}"
    first = f"{ece.index[0]} {ece.iloc[0]:.4f}"
    if len(ece) == 1:
        return f"Expected calibration error {over}: {first}."
    last = f"{ece.index[-1]} {ece.iloc[-1]:.4f}"
    return f"Expected calibration error, mean {over}: lowest {first}, highest {last}."


def _figures(y: Array, proba: Array, weights: Array | None) -> dict[str, float]:
    curve = reliability(y, proba, weights=weights)
    share = curve.n / curve.n.sum()
    sums = {k: float(np.nansum(share * getattr(curve, k))) for k in ("confidence", "accuracy")}
    return {"n_rows": len(y), "ece": curve.ece, "brier": brier(y, proba, weights), **sums}


def curves(found: list[Study]) -> pd.DataFrame:
    """One row per (model, bin) of the test rows of all datasets, folds and seeds together; `n` is
    the number of rows, by weight beside the mean weight of their part."""
    rows = []
    for model in sorted({str(facts["model"]) for facts, *_ in found}):
        own = [study for study in found if study[0]["model"] == model]
        curve = pooled([reliability(y, p, weights=weights) for _, y, p, weights in own])
        for i, (n, confidence, accuracy) in enumerate(
            zip(curve.n, curve.confidence, curve.accuracy, strict=True)
        ):
            edges = {"from": i / len(curve.n), "to": (i + 1) / len(curve.n)}
            figures = {"n": n.item(), "confidence": confidence, "accuracy": accuracy}
            rows.append({"model": model, "bin": i, **edges, **figures})
    return pd.DataFrame(rows)


def figure(found: list[Study]) -> str:
    """The reliability curves as SVG: accuracy over confidence; the diagonal is perfect."""
    drawn = [Curve("perfect", np.array([0.0, 1.0]), np.array([0.0, 1.0]), dashed=True)]
    for model, part in curves(found).groupby("model", sort=True):
        there = part[part["n"] > 0]
        drawn.append(
            Curve(str(model), there["confidence"].to_numpy(), there["accuracy"].to_numpy())
        )
    return curves_svg(drawn, "Reliability of the predicted class", "confidence", "accuracy")
