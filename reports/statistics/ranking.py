"""Ranks of models over datasets, and the figures of a leaderboard that follow from scores or ranks.

Every function takes a matrix of shape (n_datasets, n_models), one number per dataset and model:
losses, of which the lower is better, or ranks. NaN raises ValueError: the caller drops the dataset
or imputes the cell, and notes it in the table.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from .distributions import rankdata

TIE_TOLERANCE = 1e-9  # of two scores, see `equal`
TIES = (
    f"Scores that differ by less than {TIE_TOLERANCE:g} of the larger count as equal; equal scores "
    "share their average rank."
)
ELO_MEAN = 1000.0  # mean Elo of the models

Array = np.ndarray


def _matrix(losses: Array) -> Array:
    """The losses as float64."""
    matrix = np.asarray(losses, dtype=np.float64)
    if matrix.ndim != 2:
        raise ValueError(f"losses must have shape (n_datasets, n_models), not {matrix.shape}")
    if np.isnan(matrix).any():
        raise ValueError("losses hold a missing cell; drop the dataset or impute the cell")
    return matrix


def equal(a: ArrayLike, b: ArrayLike) -> Array:  # of shapes that broadcast -> of bool
    """Whether scores tie: they are equal, or differ by rounding of their own size, at most
    TIE_TOLERANCE of the larger of the two. Other scores have no influence.

    >>> equal(np.array([0.1 + 0.2, 1e-12, np.nan]), np.array([0.3, 2e-12, np.nan])).tolist()
    [True, False, False]
    """
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    size = np.maximum(np.abs(a), np.abs(b))
    with np.errstate(invalid="ignore"):  # infinity - infinity
        return (a == b) | (np.isfinite(size) & (np.abs(a - b) <= TIE_TOLERANCE * size))


def differences(a: Array, b: Array) -> Array:  # (n,), (n,) -> (n,)
    """a - b, 0 where the two are `equal`.

    >>> differences(np.array([0.1 + 0.2, 0.5]), np.array([0.3, 0.25])).tolist()
    [0.0, 0.25]
    """
    return np.where(equal(a, b), 0.0, a - b)


def snap(values: Array) -> Array:  # (..., n) -> the same shape
    """Values with every run of neighbours in sorted order that are `equal` set to the run's
    smallest, so that 0.1 + 0.2 and 0.3 tie whatever the digits (plain rounding has edges)."""
    values = np.asarray(values, dtype=np.float64)
    if values.shape[-1] < 2:
        return values.copy()
    order = np.argsort(values, axis=-1, kind="stable")
    ordered = np.take_along_axis(values, order, axis=-1)
    tie = equal(ordered[..., :-1], ordered[..., 1:])
    place = np.broadcast_to(np.arange(values.shape[-1]), values.shape).copy()
    place[..., 1:][tie] = 0
    heads = np.take_along_axis(ordered, np.maximum.accumulate(place, axis=-1), axis=-1)
    snapped = np.empty_like(values)
    np.put_along_axis(snapped, order, heads, axis=-1)
    return snapped


def ranks(
    losses: Array, *, ties: str = "average"
) -> Array:  # (n_datasets, n_models) -> the same shape
    """Rank of every model on every dataset, 1 = best.

    Near-equal losses share their average rank; `ties`: another word of `distributions.rankdata`.

    >>> ranks(np.array([[0.1 + 0.2, 0.3, 0.5]])).tolist()
    [[1.5, 1.5, 3.0]]
    """
    matrix = _matrix(losses)
    if not matrix.size:
        return matrix
    return rankdata(snap(matrix), ties)


def standard_error(values: Array) -> Array:
    """s / sqrt(n) (ddof 1) along the first axis; ValueError for fewer than two values."""
    values = np.asarray(values, dtype=np.float64)
    n = len(values)
    if n < 2:
        raise ValueError(f"a standard error needs at least 2 values, not {n}")
    return values.std(axis=0, ddof=1) / math.sqrt(n)


def win_rate(rank: Array) -> Array:  # (n_datasets, n_models) -> the same shape
    """Share of its opponents that each model beats on each dataset; a tie counts one half."""
    n_models = rank.shape[1]
    if n_models < 2:
        raise ValueError("a win rate needs an opponent; there is one model")
    return (n_models - rank) / (n_models - 1)


def places(values: Sequence[float], direction: str) -> list[int]:
    """One more than the number of better values; near-equal ones share their place.

    >>> places([0.9, 0.8, 0.9, 0.7], "max")
    [1, 3, 1, 4]
    """
    losses = np.asarray(values, dtype=np.float64) * (-1.0 if direction == "max" else 1.0)
    distinct = np.unique(snap(losses), return_inverse=True, return_counts=True)
    better = np.cumsum(distinct[2]) - distinct[2]
    return (better[distinct[1]] + 1).tolist()


def normalised(errors: Array) -> Array:  # (n_datasets, n_models) -> the same, in [0, 1]
    """1 for the best error of a dataset, 0 for the worst; 1 for all where all are equal.

    Depends on which models are compared. Near-equal errors count as equal.
    """
    errors = snap(_matrix(errors))
    worst, best = errors.max(axis=1, keepdims=True), errors.min(axis=1, keepdims=True)
    span = worst - best
    return np.where(span > 0, (worst - errors) / np.where(span > 0, span, 1.0), 1.0)


def improvability(errors: Array) -> Array:  # (n_datasets, n_models) -> the same, in [0, 1]
    """1 - best error / own error on each dataset; 0 where they are equal or nearly so."""
    errors = snap(_matrix(errors))
    if (errors < 0).any():
        raise ValueError("improvability needs errors of at least 0")
    best = errors.min(axis=1, keepdims=True)
    return np.where(errors > 0, 1.0 - best / np.where(errors > 0, errors, 1.0), 0.0)


def elo(rank: Array) -> Array:  # (n_datasets, n_models) -> (n_models,)
    """Bradley-Terry strengths on Elo's scale (400 log10), their mean ELO_MEAN."""
    n_datasets, n_models = rank.shape
    if n_models < 2:
        raise ValueError("a rating needs an opponent; there is one model")
    return elo_of_wins((n_models - rank).sum(axis=0)[None], n_datasets)[0]


def elo_of_wins(
    wins: Array, n_games: int, start: float | Array = ELO_MEAN
) -> Array:  # (S, k) -> (S, k)
    """Elo of S leagues of k models in which every pair met `n_games` times; ties are half wins.

    If all pairs met equally often, the likelihood depends only on each model's number of wins. If
    some models lost no game to the others (`separable`), their strength is infinite; then one tie
    is added to every pair. Newton's method from `start` (Elo), each step limited to a factor of
    e^2 in a strength.
    """
    n_models = wins.shape[1]
    extra = 1.0 * separable(wins, n_games)[:, None]
    share = (wins + 0.5 * (n_models - 1) * extra) / (n_games + extra)
    log_strength = np.broadcast_to(start - ELO_MEAN, wins.shape) * (math.log(10.0) / 400.0)
    diagonal = np.arange(n_models)
    for _ in range(100):
        strength = np.exp(log_strength)
        chance = strength[:, :, None] / (strength[:, :, None] + strength[:, None, :])
        slope = chance * (chance - 1.0)
        slope[:, diagonal, diagonal] -= slope.sum(axis=2)
        # Strengths are known up to a factor: a constant added to the matrix makes it invertible.
        excess = share - (chance.sum(axis=2) - 0.5)
        step = np.linalg.solve(slope + 1.0 / n_models, excess[:, :, None])[:, :, 0]
        log_strength = log_strength + np.clip(step, -2.0, 2.0)
        if np.abs(step).max() < 1e-5:  # the next step would be about its square
            break
    return ELO_MEAN + (log_strength - log_strength.mean(axis=1, keepdims=True)) * (
        400.0 / math.log(10.0)
    )


def separable(wins: Array, n_games: int) -> Array:  # (S, k) -> (S,) bool
    """Whether some models of each league won every game against all the others.

    The m models with the most wins have n_games * (m (m - 1) / 2 + m (k - m)) wins exactly where
    they lost none to the rest (Landau 1953).
    """
    k = wins.shape[1]
    m = np.arange(1, k)
    most = n_games * (m * (m - 1) / 2.0 + m * (k - m))
    best = np.cumsum(-np.sort(-wins, axis=1), axis=1)[:, :-1]
    return (best >= most - 1e-6).any(axis=1)
