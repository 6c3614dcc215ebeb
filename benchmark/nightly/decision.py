"""The decision rule of a night's A/B test: looks at 3, 6, 12 and 18 seeds, alpha spent over them.

The alphas add up to less than the .01 a night that the rule promises: real errors have heavier
tails than a t test assumes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from ...reports.regression.verdicts import (
    EQUAL,
    HARMLESS,
    WORSE,
    Change,
    change_of,
    verdicts,
)
from .step_result import NO_DATA

Pairs = Mapping[
    str, tuple[np.ndarray, np.ndarray]
]  # {dataset: errors of base and head, (n,), (n,)}


LOOKS = (3, 6, 12, 18)  # seeds a cell at each look
SPENDING = (0.0001, 0.0002, 0.0005, 0.001)  # one-sided alpha of each look, over all models by Holm
MIN_EFFECT = 0.01  # smallest mean change of the error that is worse


class Judge:
    """Sequential verdicts on several models: give `look` the pairs of the models in `open` until
    none is left."""

    def __init__(self, models: Iterable[str]) -> None:
        self.changes: dict[str, Change] = {}
        self.verdicts: dict[str, str] = dict.fromkeys(models, "")
        self.n_seeds: dict[str, int] = dict.fromkeys(self.verdicts, 0)
        self._look = 0

    @property
    def open(self) -> list[str]:
        """The models that need more seeds."""
        return [model for model, verdict in self.verdicts.items() if not verdict]

    @property
    def wanted(self) -> int:
        """Seeds a cell that the next look needs of the open models."""
        return LOOKS[self._look]

    def look(self, pairs: Mapping[str, Pairs]) -> None:
        """Judge with all pairs so far of every open model ({model: {dataset: (base, head)}}).

        A model without a pair could not be judged (NO_DATA), and needs no more seeds.
        """
        last = self._look == len(LOOKS) - 1
        for model in self.open:
            self.n_seeds[model] = LOOKS[self._look]
            if any(len(base) for base, _ in pairs.get(model, {}).values()):
                self.changes[model] = change_of(pairs[model])
            else:
                self.verdicts[model] = NO_DATA
        known = list(self.changes)
        found = verdicts(
            [self.changes[model] for model in known],
            min_effect=MIN_EFFECT,
            alpha=SPENDING[self._look],
        )
        for model, verdict in zip(known, found, strict=True):
            if self.verdicts[model]:
                continue
            if verdict in (EQUAL, WORSE, HARMLESS) or last:
                self.verdicts[model] = verdict
        self._look += 1
