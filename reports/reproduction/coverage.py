"""Sentences at the head of a comparison: ensembles, and the budgets of both sides."""

from __future__ import annotations

import pandas as pd

from ..evidence import Evidence
from ..output.footnotes import count
from ..output.tables import fixed
from ..sections.seeds import ENSEMBLE
from .published_table import PublishedTable


def sentences(evidence: Evidence, published: PublishedTable, frame: pd.DataFrame) -> list[str]:
    """The number of ensembles, and the budgets of both sides. frame: the comparison's."""
    budget = evidence.meta.get("budget")
    lines = []
    if published.shape == "ensembles" and evidence.ensembles is not None:
        n = evidence.ensembles.groupby(["dataset", "fold", "model"]).size()
        lines.append(f"Ours: {_span(n, ENSEMBLE)} of seeds per cell; their spread is over these.")
    used = f"Budget used: {budget}." if budget else "Budget used: not recorded."
    return [*lines, " ".join([used, *_configurations(evidence, frame)])]


def _configurations(evidence: Evidence, frame: pd.DataFrame) -> list[str]:
    """Configurations that a cell of theirs, and a study of ours, was chosen from."""
    tuned = evidence.trials[evidence.trials["stage"] == "tune"]
    if "published_configs" in frame:
        own = set(frame.loc[frame["ours"].notna(), "model"])
        tuned = tuned[tuned["model"].isin(own)]
    found = []
    if len(tuned):
        counts = tuned.groupby(["dataset", "fold", "model"]).size()
        seconds = tuned["cpu_s"].sum()
        cost = f", {fixed(seconds / 3600.0, 2)} CPU-hours" if seconds > 0 else ""
        found.append(f"Ours: {_span(counts, 'configuration')} tried per study{cost}.")
    if "published_configs" in frame and frame["published_configs"].notna().any():
        theirs = frame.loc[frame["ours"].notna(), "published_configs"].dropna()
        if len(theirs):
            found.append(f"Published: {_span(theirs, 'configuration')} per cell.")
    return found


def _span(counts: pd.Series, word: str) -> str:
    low, high = int(counts.min()), int(counts.max())
    return count(low, word) if low == high else f"{low} to {high} {word}s"
