"""Optuna's TPE sampler on a history of arrays: the same proposals to the bit, many times faster.

Optuna's sampler spends its time in four places: it turns every old trial into numbers for each
proposal, it sorts the trials for each parameter under a condition, it evaluates the density of 24
candidates under every old trial with one call of a Python function for each number, and it draws
the candidates with as many such calls. The first two are kept here between proposals. For the
third, only which candidate is best counts: a density computed with whole arrays decides that
wherever the best is ahead of the others by more than the two ways to compute it can differ, and
Optuna's own decides the rest. The fourth is Optuna's code with a distribution function that calls
the same functions of `math` from one loop (`truncated_normal.py`).

Estimators and random numbers are Optuna's own.
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

from .truncated_normal import sample

# How far the best candidate has to be ahead of the next one in the logarithm of the ratio of
# densities; both ways to compute it are exact to about 1e-10.
MARGIN = 1e-6
# Whole numbers closer than this share of their range are left to Optuna: see `log_masses`.
NARROW = 1e-7
LEAST = -700.0  # logarithm of what counts as 0 beside 1: see `log_density`
LOWEST = -1e300  # a logarithm below all others, with which differences can be taken
BLOCK = 512  # kernels at a time
FAR = -9.0  # standard deviations: a normal distribution has 1e-19 beyond them
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
    """`TPESampler(seed, n_startup_trials, constant_liar=False)` on a `History`."""

    def __init__(self, seed: int, n_startup_trials: int = 10) -> None:
        super().__init__(seed=seed, n_startup_trials=n_startup_trials, constant_liar=False)
        self.undecided = 0  # proposals that Optuna's own density decided

    def seed(self, seed: int) -> None:
        """Draw from here on what a new sampler with this seed draws."""
        self._rng.rng.seed(seed)
        self._random_sampler._rng.rng.seed(seed)

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
        drawn = sample(good._mixture_distribution, self._rng.rng, self._n_ei_candidates)
        candidates = good._untransform(drawn)
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
    scale = mixture.weights.copy()  # (k,): the factors that do not depend on the candidate
    exponent = np.zeros(k)  # the same, as a logarithm
    # Of the real parameters: -(x - mu)^2 / (2 sigma^2) of all at once, as a sum of products.
    powers: list[np.ndarray] = []  # (n,) each: x^2, x and 1
    factors: list[np.ndarray] = []  # (k,) each: what they are multiplied with
    # Of the others: (n, values of kernels) each, and (k,) which of the values a kernel has.
    tables: list[tuple[np.ndarray, np.ndarray]] = []
    for x, kernels in zip(samples.values(), mixture.distributions, strict=True):
        if isinstance(kernels, _BatchedCategoricalDistributions):
            tables.append((np.log(kernels.weights).T[x.astype(int)], np.arange(k)))
            continue
        low, high = kernels.adapted_low, kernels.adapted_high
        mu, sigma = kernels.mu, kernels.sigma
        scale /= mass_inside(mu, sigma, low, high)
        if kernels.step:
            tables.append(log_masses(x, kernels))
            continue
        at = np.log(x) if kernels.is_log else x
        at = np.where((at < low) | (at > high), np.nan, at) - low
        # A share of the range, at least .01: the product over all parameters does not underflow.
        scale /= sigma / (high - low)
        precision = 1.0 / sigma**2
        slope = (mu - low) * precision
        exponent -= 0.5 * (mu - low) * slope
        powers += [at**2, at]
        factors += [-0.5 * precision, slope]
    exponent += np.log(scale)
    powers.append(np.ones(n))
    factors.append(exponent)
    many, each = np.array(powers), np.array(factors)
    # Block after block: large arrays are costly to allocate.
    most, sums = np.full((n, 1), LOWEST), np.zeros(n)
    for start in range(0, k, BLOCK):
        block = slice(start, start + BLOCK)
        # Not `@`: the threads of a linear algebra library wait in loops for each other.
        total = np.einsum("pn,pk->nk", many, each[:, block])
        for table, rows in tables:
            total += table[:, rows[block]]
        more = np.maximum(most, total.max(axis=1, keepdims=True))
        total -= more
        np.maximum(total, LEAST, out=total)  # `exp` is slow where its result is denormal
        sums *= np.exp(most - more)[:, 0]
        sums += np.exp(total, out=total).sum(axis=1)
        most = more
    return np.where(most > LOWEST, most, np.nan)[:, 0] + np.log(sums)


def log_masses(x: np.ndarray, kernels: Any) -> tuple[np.ndarray, np.ndarray]:
    """Logs of what normal distributions hold around whole numbers: (n candidates, n different
    kernels), and (n kernels,) which of them a kernel is."""
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
    return found[where_value], where_pair


def mass_inside(mu: np.ndarray, sigma: np.ndarray, low: float, high: float) -> np.ndarray:
    """(k,) what normal distributions hold between two numbers around their means, to 1e-16."""
    inside = np.ones(len(mu))
    for distance in ((low - mu) / sigma, (mu - high) / sigma):
        near = np.flatnonzero(distance > FAR)  # of the others less than 1e-16 lies beyond
        inside[near] -= ndtr(distance[near])
    return inside


def mass(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The standard normal mass between a and b, from the left tail, where it has all its digits."""
    right = a > 0
    return ndtr(np.where(right, -a, b)) - ndtr(np.where(right, -b, a))
