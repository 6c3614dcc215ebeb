"""Greedy ensembles of stored predictions, chosen on the validation rows.

Forward selection with replacement on the validation rows (Caruana, Niculescu-Mizil, Crew and
Ksikes 2004, sec. 2 and 2.1). Only what is chosen is scored on test rows; nothing is fitted again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

ROUNDS = 50  # members at most, repetitions counted
LIBRARY = 100  # candidates at most: the best ones by validation score

Array = np.ndarray
Loss = Callable[[Array], float | None]


@dataclass(frozen=True)
class Ensemble:
    """`members`: the chosen candidates' numbers in the order of choice, with repetitions;
    `losses`: the validation loss after each choice."""

    members: tuple[int, ...]
    losses: tuple[float, ...]

    def predict(self, predictions: Array) -> Array:  # (n_candidates, n_rows, ...) -> (n_rows, ...)
        """The mean of the members' predictions."""
        return predictions[list(self.members)].mean(axis=0)


def greedy(predictions: Array, loss: Loss) -> Ensemble | None:
    """Forward selection with replacement: start with the best candidate, add in each of ROUNDS
    rounds the candidate that gives the lowest loss of the mean, and keep the best prefix.

    `predictions` (n_candidates, n_rows, ...) are of the validation rows; `loss` maps a mean
    prediction to its loss, or to None if it is undefined. Ties go to the lower number and the
    shorter prefix. On these rows the ensemble is never worse than the best candidate. Returns None
    without candidates or if every loss is undefined.

    DIFF(Caruana 2004, sec. 2.2 and 2.3): it starts from the one best candidate, without bagging.
    """
    total = np.zeros(predictions.shape[1:])
    members: list[int] = []
    path: list[float] = []
    for n in range(1, (ROUNDS if len(predictions) > 1 else 1) + 1):
        found = [loss((total + candidate) / n) for candidate in predictions]
        known = [(value, i) for i, value in enumerate(found) if value is not None]
        if not known:
            break
        value, best = min(known)
        members.append(best)
        path.append(value)
        total = total + predictions[best]
    if not path:
        return None
    end = path.index(min(path)) + 1
    return Ensemble(tuple(members[:end]), tuple(path[:end]))
