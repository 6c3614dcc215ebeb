"""Optuna's TPE sampler on a history of arrays: the same proposals to the bit, many times faster.

Optuna's sampler spends its time in three places: it turns every old trial into numbers for each
proposal, it sorts the trials for each parameter under a condition, and it evaluates the density of
24 candidates under every old trial with one call of a Python function for each number. The first
two are kept here between proposals. For the third, only which candidate is best counts: a density
computed with whole arrays decides that wherever the best is ahead of the others by more than the
two ways to compute it can differ, and Optuna's own decides the rest.

Estimators, draws and random numbers are Optuna's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution
from optuna.samplers import TPESampler
from optuna.samplers._tpe.parzen_estimator import _ParzenEstimator
from optuna.samplers._tpe.probability_distributions import _BatchedCategoricalDistributions
from optuna.samplers._tpe.sampler import default_gamma
from scipy.special import ndtr

# How far the best candidate has to be ahead of the next one in the logarithm of the ratio of
# densities; both ways to compute it are exact to about 1e-10.
MARGIN = 1e-6
# Whole numbers closer than this share of their range are left to Optuna: see `log_masses`.
NARROW = 1e-7
FIRST_ROWS = 64  # of the arrays, doubled when full


class History:
    """Finished trials as arrays, in the order of their index; what the sampler sees as its study.

    columns: {label: (n,) numbers of a parameter, NaN where it was absent}.
    losses: (n,) losses of the trials that succeeded; failed ones are left out, as Optuna does.
    """

    def __init__(self, distributions: Mapping[str, BaseDistribution]) -> None:
        self._distributions = dict(distributions)
        self._n = 0
        self._losses = np.empty(FIRST_ROWS)
        self._columns = {label: np.full(FIRST_ROWS, np.nan) for label in distributions}
        self._below: np.ndarray | None = None

    def __len__(self) -> int:
        return self._n

    def add(self, numbers: Mapping[str, float], loss: float) -> None:
        """Append a trial that succeeded."""
        if self._n == len(self._losses):
            more = np.full(self._n, np.nan)
            self._losses = np.concatenate([self._losses, more])
            self._columns = {k: np.concatenate([v, more]) for k, v in self._columns.items()}
        self._losses[self._n] = loss
        for label, number in numbers.items():
            self._columns[label][self._n] = number
        self._n += 1
        self._below = None

    def below(self) -> np.ndarray:
        """(n,) whether a trial is among the best, by which good regions are described."""
        if self._below is None:
            order = np.argsort(self._losses[: self._n], kind="stable")
            self._below = np.zeros(self._n, dtype=bool)
            self._below[order[: default_gamma(self._n)]] = True
        return self._below

    def observations(
        self, space: Mapping[str, BaseDistribution], which: np.ndarray
    ) -> dict[str, np.ndarray]:
        """{label: numbers} of those trials of `which` that have all parameters of `space`."""
        columns = {label: self._columns[label][: self._n] for label in space}
        rows = which.copy()
        for column in columns.values():
            rows &= ~np.isnan(column)
        return {label: column[rows] for label, column in columns.items()}

    # What Optuna's sampler asks of a study.

    def _get_trials(self, *args: Any, **options: Any) -> range:
        """Optuna only counts the trials, to draw the first ones at random."""
        return range(self._n)

    def _is_multi_objective(self) -> bool:
        return False


class FastTPESampler(TPESampler):
    """`TPESampler(seed=seed, constant_liar=False)` on a `History`."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed=seed, constant_liar=False)
        self.undecided = 0  # proposals that Optuna's own density decided

    def _sample(self, study: Any, trial: Any, search_space: dict[str, BaseDistribution]) -> Any:
        below = study.below()
        good, bad = (
            self._parzen_estimator_cls(
                study.observations(search_space, which),
                search_space,
                self._parzen_estimator_parameters,
            )
            for which in (below, ~below)
        )
        candidates = good.sample(self._rng.rng, self._n_ei_candidates)
        gain = self._compute_acquisition_func(candidates, good, bad)
        best = self._compare(candidates, gain)
        return {
            label: distribution.to_external_repr(best[label])
            for label, distribution in search_space.items()
        }

    def _compute_acquisition_func(
        self,
        samples: dict[str, np.ndarray],
        mpe_below: _ParzenEstimator,
        mpe_above: _ParzenEstimator,
    ) -> np.ndarray:
        gain = log_density(mpe_below, samples) - log_density(mpe_above, samples)
        if decides(gain, samples):
            return gain
        self.undecided += 1
        return super()._compute_acquisition_func(samples, mpe_below, mpe_above)


def decides(gain: np.ndarray, samples: Mapping[str, np.ndarray]) -> bool:
    """Whether one candidate, or several equal ones, is ahead of the others beyond all doubt."""
    if not np.isfinite(gain).all():
        return False
    close = gain >= gain.max() - MARGIN
    return all((column[close] == column[close][0]).all() for column in samples.values())


def log_density(estimator: _ParzenEstimator, samples: Mapping[str, np.ndarray]) -> np.ndarray:
    """(n candidates,) log densities, to about 1e-10 and up to a constant that only the parameters
    decide; NaN or -infinity where that precision cannot be had.

    The mixture and its kernels are those of Optuna's estimator: products of normal distributions
    that are cut at the ends of the range, of their masses around whole numbers, and of tables of
    probabilities. A kernel whose density is below 1e-300 counts as 0: that of the prior is not.
    """
    mixture = estimator._mixture_distribution
    n, k = len(next(iter(samples.values()))), len(mixture.weights)
    total = np.zeros((n, k))
    constant = np.log(mixture.weights)  # (k,): what does not depend on the candidate
    # Of the real parameters: -(x - mu)^2 / (2 sigma^2) of all at once, as a sum of products.
    powers: list[np.ndarray] = []  # (n,) each: x^2 and x
    factors: list[np.ndarray] = []  # (k,) each: what they are multiplied with
    for x, kernels in zip(samples.values(), mixture.distributions, strict=True):
        if isinstance(kernels, _BatchedCategoricalDistributions):
            total += np.log(kernels.weights).T[x.astype(int)]
            continue
        low, high = kernels.adapted_low, kernels.adapted_high
        mu, sigma = kernels.mu, kernels.sigma
        constant -= np.log(mass((low - mu) / sigma, (high - mu) / sigma))
        if kernels.step:
            total += log_masses(x, kernels)
            continue
        at = np.log(x) if kernels.is_log else x
        at = np.where((at < low) | (at > high), np.nan, at) - low
        constant -= np.log(sigma) + 0.5 * ((mu - low) / sigma) ** 2
        powers += [at**2, at]
        factors += [-0.5 / sigma**2, (mu - low) / sigma**2]
    if powers:  # not `@`: the threads of a linear algebra library wait in loops for each other
        total += np.einsum("pn,pk->nk", np.array(powers), np.array(factors))
    total += constant
    most = total.max(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.log(np.exp(total - most).sum(axis=1)) + most[:, 0]


def log_masses(x: np.ndarray, kernels: Any) -> np.ndarray:
    """(n candidates, n kernels) logs of what normal distributions hold around whole numbers."""
    # Numbers repeat, and so do kernels: each pair of them is computed once.
    values, where_value = np.unique(x, return_inverse=True)
    pairs, where_pair = np.unique(kernels.mu + 1j * kernels.sigma, return_inverse=True)
    mu, sigma = pairs.real, pairs.imag
    left, right = values - kernels.step / 2, values + kernels.step / 2
    if kernels.is_log:
        left, right = np.log(left), np.log(right)
    with np.errstate(divide="ignore"):
        found = np.log(mass((left[:, None] - mu) / sigma, (right[:, None] - mu) / sigma))
    if (right - left).min() < NARROW * (kernels.adapted_high - kernels.adapted_low):
        found[:] = np.nan  # the difference of two distribution functions has too few digits
    return found[where_value][:, where_pair]


def mass(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The standard normal mass between a and b, from the left tail, where it has all its digits."""
    right = a > 0
    return ndtr(np.where(right, -a, b)) - ndtr(np.where(right, -b, a))
