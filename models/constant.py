"""How well does it go without looking at the features? Class frequencies, or the target's mean."""

from __future__ import annotations

import numpy as np

from .base import Estimator, OneOf


class Constant(Estimator):
    """Answers with the frequencies of the classes, or the mean or median of the target.

    statistic: `mean` or `median` (regression; classes always answer with their frequencies).
    """

    rules = {"statistic": OneOf(("mean", "median"))}

    def __init__(
        self, *, task: str, seed: int = 0, threads: int = 1, statistic: str = "mean"
    ) -> None:
        super().__init__(task=task, seed=seed, threads=threads)
        self.statistic = statistic

    def _fit(self, x: np.ndarray, y: np.ndarray, val: tuple[np.ndarray, np.ndarray] | None) -> None:
        if self.task == "regression":
            self.answer_ = np.array([np.median(y) if self.statistic == "median" else np.mean(y)])
        else:
            self.answer_ = np.bincount(y) / len(y)

    def _predict(self, x: np.ndarray) -> np.ndarray:
        return np.full(len(x), self.answer_[0])

    def _predict_proba(self, x: np.ndarray) -> np.ndarray:
        return np.tile(self.answer_, (len(x), 1))
