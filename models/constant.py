"""The constant baseline: class frequencies, or the mean or median of the target."""

from __future__ import annotations

import numpy as np

from .base import Estimator, OneOf


class Constant(Estimator):
    """Predicts the frequencies of the classes, or the mean or median of the target.

    Parameters
    ----------
    task, seed, threads
        As for every model, see `Estimator`.
    statistic : {"mean", "median"}, default "mean"
        What is predicted in regression; classification always predicts the frequencies.

    Examples
    --------
    >>> from tabsweep.models.constant import Constant
    >>> model = Constant(task="regression", statistic="median")
    >>> model.fit([[0.0], [1.0], [2.0]], [1.0, 2.0, 9.0]).predict([[5.0]])
    array([2.])
    """

    rules = {"statistic": OneOf(("mean", "median"))}

    def __init__(
        self, *, task: str, seed: int = 0, threads: int = 1, statistic: str = "mean"
    ) -> None:
        super().__init__(task=task, seed=seed, threads=threads)
        self.statistic = statistic

    def _constant_answer(self, x: np.ndarray, target: np.ndarray) -> np.ndarray | None:
        """The value of a target that has only one (a mean rounds); else the fit's own answer."""
        return super()._constant_answer(x, target) if target.min() == target.max() else None

    def _fit(self, x: np.ndarray, y: np.ndarray, val: tuple[np.ndarray, np.ndarray] | None) -> None:
        if self.task == "regression":
            self.answer_ = np.array([np.median(y) if self.statistic == "median" else np.mean(y)])
        else:
            self.answer_ = np.bincount(y) / len(y)

    def _predict(self, x: np.ndarray) -> np.ndarray:
        return np.full(len(x), self.answer_[0])

    def _predict_proba(self, x: np.ndarray) -> np.ndarray:
        return np.tile(self.answer_, (len(x), 1))
