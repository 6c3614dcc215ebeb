"""The constant baseline: class frequencies, or the mean or median of the target."""

from __future__ import annotations

import numpy as np

from .hyperparameters import OneOf, hyper
from .policy import Policy
from .weighted import WeightedEstimator

ROUNDING = 1e-10  # sums of weights that differ by so much of the whole are equal


def weighted_median(values: np.ndarray, weights: np.ndarray) -> float:  # (N,), (N,)
    """The value with half of the weight on either side; between two values their mean.

    >>> weighted_median(np.array([5.0, 1.0, 2.0]), np.array([1.0, 1.0, 2.0]))
    2.0
    >>> weighted_median(np.arange(10.0), np.full(10, 0.1))  # halves, but for rounding
    4.5
    """
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weights[order])
    half, near = below[-1] / 2, below[-1] * ROUNDING
    low, high = np.searchsorted(below, half - near), np.searchsorted(below, half + near, "right")
    return float((values[order[low]] + values[order[high]]) / 2)


class Constant(WeightedEstimator):
    """Predicts the frequencies of the classes, or the mean or median of the target.

    Examples
    --------
    >>> from tabsweep.models.constant import Constant
    >>> model = Constant(task="regression", statistic="median")
    >>> model.fit([[0.0], [1.0], [2.0]], [1.0, 2.0, 9.0]).predict([[5.0]])
    array([2.])
    """

    policy = Policy("none", "ordinal", "native")  # no column is looked at

    statistic: str = hyper(
        "mean",
        OneOf(("mean", "median")),
        "What is predicted in regression; classification always predicts the frequencies.",
    )

    def _constant_answer(self, x: np.ndarray, target: np.ndarray) -> np.ndarray | None:
        """The value of a target that has only one (a mean rounds); else the fit's own answer."""
        return super()._constant_answer(x, target) if target.min() == target.max() else None

    def _fit(self, x: np.ndarray, y: np.ndarray, val: tuple[np.ndarray, np.ndarray] | None) -> None:
        weights = self._weights
        if self.task != "regression":
            total = len(y) if weights is None else weights.sum()
            self.answer_ = np.bincount(y, weights) / total
        elif self.statistic == "mean":
            self.answer_ = np.array([np.average(y, weights=weights)])
        else:
            middle = np.median(y) if weights is None else weighted_median(y, weights)
            self.answer_ = np.array([middle])

    def _predict(self, x: np.ndarray) -> np.ndarray:
        return np.full(len(x), self.answer_[0])

    def _predict_proba(self, x: np.ndarray) -> np.ndarray:
        return np.tile(self.answer_, (len(x), 1))
