"""Split-conformal prediction of numbers: intervals and distributions from held-out residuals.

The residuals (target - prediction) of rows that a model was not fitted on, added to a prediction,
are its predictive distribution; between two of their order statistics lie at least the wanted share
of new targets (Vovk et al. 2005; Lei et al. 2018), where rows are exchangeable.
"""

from __future__ import annotations

import math

import numpy as np

LEVEL = 0.9  # of the intervals in reports


def interval(residuals: np.ndarray, level: float) -> tuple[float, float]:
    """(below, above): what is added to a prediction for the ends of its interval; residuals (n,).

    Infinite where there are too few residuals for the level.

    >>> interval(np.arange(-9.0, 10.0), 0.9)
    (-9.0, 9.0)
    """
    known = np.sort(residuals)
    n, tail = len(known), (1.0 - level) / 2.0
    # rounded before: 20 * 0.05 is a little more than 1
    below, above = math.floor(round((n + 1) * tail, 9)), math.ceil(round((n + 1) * (1 - tail), 9))
    if below < 1 or above > n:
        return -math.inf, math.inf
    return float(known[below - 1]), float(known[above - 1])


def crps(errors: np.ndarray, residuals: np.ndarray) -> float:
    """Mean continuous ranked probability score of the distributions prediction + residuals.

    errors (m,): target - prediction of the scored rows; residuals (n,). For each error e it is
    E|R - e| - E|R - R'| / 2 (Gneiting and Raftery 2007, eq. 21) over the residuals R, R'.

    >>> crps(np.array([1.0]), np.array([0.0, 2.0]))
    0.5
    """
    known = np.sort(residuals)
    n = len(known)
    sums = np.concatenate([[0.0], np.cumsum(known)])
    below = np.searchsorted(known, errors)  # residuals below each error
    distance = errors * (2 * below - n) + sums[-1] - 2 * sums[below]
    spread = 2.0 * np.sum((2 * np.arange(1, n + 1) - n - 1) * known) / n**2
    return float(np.mean(distance / n) - spread / 2.0)


def judged(y: np.ndarray, prediction: np.ndarray, residuals: np.ndarray) -> dict[str, float]:
    """What intervals and distributions are worth on rows; y, prediction (m,), residuals (n,).

    `coverage`, the share of targets inside; `width`, in units of the target; `pinball`, the mean
    pinball loss of the two ends; `crps`. NaN where there are too few residuals for LEVEL.
    """
    from sklearn.metrics import mean_pinball_loss

    below, above = interval(residuals, LEVEL)
    errors = y - prediction
    found = {"coverage": math.nan, "width": math.nan, "pinball": math.nan}
    if math.isfinite(below):
        tail = (1.0 - LEVEL) / 2.0
        ends = ((tail, below), (1.0 - tail, above))
        losses = [mean_pinball_loss(errors, np.full(len(y), e), alpha=a) for a, e in ends]
        inside = np.mean((errors >= below) & (errors <= above))
        found = {"coverage": inside, "width": above - below, "pinball": np.mean(losses)}
    return {**{k: float(v) for k, v in found.items()}, "crps": crps(errors, residuals)}
