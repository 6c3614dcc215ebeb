"""Results of chosen models and datasets alone: what is computed from them is among them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from ...common.text import did_you_mean, first_few
from ..evidence import Evidence, EvidenceError


def only(evidence: Evidence, models: Iterable[str] = (), datasets: Iterable[str] = ()) -> Evidence:
    """The evidence of these models and datasets, () for all; ranks and tests that are computed from
    it are among them. EvidenceError for an unknown name."""
    chosen = {"model": all_of("model", models, evidence.models)}
    chosen["dataset"] = all_of("dataset", datasets, evidence.datasets())

    def cut(frame: pd.DataFrame) -> pd.DataFrame:
        keys = [key for key in chosen if key in frame]
        there = np.logical_and.reduce([frame[key].isin(chosen[key]) for key in keys])
        return frame[there].reset_index(drop=True)

    return evidence.changed(cut)


def all_of(what: str, chosen: Iterable[str], known: list[str]) -> set[str]:
    """The chosen names, all that are known where none is chosen. EvidenceError for another one."""
    for name in (names := set(chosen)) - set(known):
        raise EvidenceError(
            f"no {what} of the results is called {name!r}{did_you_mean(name, known)}; "
            f"they have: {first_few(dict.fromkeys(known), 40)}"
        )
    return names or set(known)
