"""Greedy ensembles of stored predictions, chosen on the validation rows.

Forward selection with replacement on the validation rows (Caruana, Niculescu-Mizil, Crew and
Ksikes 2004, sec. 2 and 2.1). Only what is chosen is scored on test rows; nothing is fitted again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

ROUNDS = 50  # members at most, repetitions counted
LIBRARY = 100  # candidates at most: the best ones by validation score
MARGIN = 0.5  # of the targets' range, on each side of it
N_CHECKS = 5  # parts of the validation rows, each of which judges a choice made on the others

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


def greedy(
    predictions: Array, loss: Loss, *, rounds: int = ROUNDS, most: int | None = None
) -> Ensemble | None:
    """Forward selection with replacement: start with the best candidate, add in each of `rounds`
    rounds the candidate that gives the lowest loss of the mean, and keep the best prefix.

    `predictions` (n_candidates, n_rows, ...) are of the validation rows; `loss` maps a mean
    prediction to its loss, or to None if it is undefined. most: different candidates among the
    members at most. Ties go to the lower number and the shorter prefix. On these rows the ensemble
    is never worse than the best candidate. Returns None without candidates or if every loss is
    undefined.

    DIFF(Caruana 2004, sec. 2.2 and 2.3): it starts from the one best candidate, without bagging.
    """
    total = np.zeros(predictions.shape[1:])
    members: list[int] = []
    path: list[float] = []
    for n in range(1, (rounds if len(predictions) > 1 else 1) + 1):
        full = most is not None and len(set(members)) >= most
        allowed = sorted(set(members)) if full else range(len(predictions))
        found = [(loss((total + predictions[i]) / n), i) for i in allowed]
        known = [(value, i) for value, i in found if value is not None]
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


def bounds(y: Array) -> tuple[float, float]:
    """The least and the largest value that an ensemble of regressions takes from a member: the
    range of the targets y (n_rows,) and MARGIN of it on each side.

    A linear model or a network may be off by any amount on a row that is far from all others, and
    would carry the mean with it.

    >>> bounds(np.array([1.0, 3.0]))
    (0.0, 4.0)
    """
    low, high = float(np.min(y)), float(np.max(y))
    return low - MARGIN * (high - low), high + MARGIN * (high - low)


LossOn = Callable[[Array, Array], float | None]


def beats_the_best(
    predictions: Array, loss_on: LossOn, choose: Callable[[Array, Loss], Ensemble | None]
) -> bool:
    """Whether ensembles beat the best single candidate on rows that chose neither.

    The rows are cut into N_CHECKS parts, the same for the same number of rows; on all but one part
    `choose` makes an ensemble and the best candidate is found, and both predict that part. Their
    predictions of all parts are compared. `loss_on(rows, prediction)`: the loss of a prediction of
    these rows. False where a loss is undefined.
    """
    n_rows = predictions.shape[1]
    if len(predictions) < 2 or n_rows < N_CHECKS:
        return False
    part = np.random.default_rng(0).permutation(n_rows) % N_CHECKS
    mean, single = np.empty_like(predictions[0]), np.empty_like(predictions[0])
    for number in range(N_CHECKS):
        asked, others = np.flatnonzero(part == number), np.flatnonzero(part != number)
        chosen = choose(predictions[:, others], partial(loss_on, others))
        if chosen is None:
            return False
        mean[asked] = chosen.predict(predictions[:, asked])
        single[asked] = predictions[chosen.members[0], asked]  # the first is the best alone
    every = np.arange(n_rows)
    together, alone = loss_on(every, mean), loss_on(every, single)
    return together is not None and alone is not None and together < alone
