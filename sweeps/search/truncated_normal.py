"""Optuna's draws from a mixture of truncated normal distributions, the same to the bit, faster.

Optuna finds each number by Newton's method, with a call of a cached Python function for every value
of the distribution function. Here its modules are loaded a second time, for this module alone, and
that one function is replaced in them. Optuna's own modules stay as they are.
"""

from __future__ import annotations

import importlib.util
from math import erf, erfc, log
from types import ModuleType
from typing import Any

import numpy as np
from optuna.samplers._tpe import _truncnorm, probability_distributions

ROOT = 1 / 2**0.5


def log_ndtr(a: np.ndarray) -> np.ndarray:  # (n,) -> (n,)
    """Logarithm of the standard normal distribution function, bit by bit that of Optuna.

    Between -20 and 6 it is taken from `math.erf` and `math.erfc`, as Optuna does; beyond, Optuna's
    own function is called.
    """
    optunas = _truncnorm._log_ndtr_single
    pairs = zip(a.tolist(), (a / 2**0.5).tolist(), strict=True)
    return np.array(
        [
            optunas(value)
            if not -20 < value <= 6
            else log(0.5 * erfc(-x))
            if x < -ROOT
            else log(0.5 + 0.5 * erf(x))
            if x < ROOT
            else log(1.0 - 0.5 * erfc(x))
            for value, x in pairs
        ]
    )


def _second(module: ModuleType, **names: Any) -> Any:
    """Another instance of a module, in which some names mean something else."""
    spec = importlib.util.find_spec(module.__name__)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    for name, value in names.items():
        if not hasattr(made, name):
            raise AttributeError(f"{module.__name__} of this version of Optuna has no {name}")
        setattr(made, name, value)
    return made


_mixtures = _second(
    probability_distributions,
    _truncnorm=_second(_truncnorm, _log_ndtr=log_ndtr),
    _BatchedCategoricalDistributions=probability_distributions._BatchedCategoricalDistributions,
)


def sample(mixture: Any, rng: np.random.RandomState, n: int) -> np.ndarray:
    """(n, parameters) draws from a mixture of Optuna's: those of `mixture.sample(rng, n)`."""
    return _mixtures._MixtureOfProductDistribution.sample(mixture, rng, n)
