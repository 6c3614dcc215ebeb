"""Naive Bayes of scikit-learn: Gaussian for numbers, categorical for categories."""

from __future__ import annotations

from typing import Any

import numpy as np

from .base import Estimator, softmax
from .hyperparameters import CLASSES, POSITIVE, hyper, required
from .policy import Policy


class NaiveBayes(Estimator):
    """Features are independent within a class: numbers normal, categories with own frequencies.

    Notes
    -----
    Whether a number is missing is a category of its own, where training held such gaps. Numbers are
    left out where all of them are constant.

    References
    ----------
    John and Langley 1995, Estimating continuous distributions in Bayesian classifiers (UAI).
    """

    example = ""
    policy = Policy(numeric="standard", categorical="ordinal", missing="impute")

    task: str = required(CLASSES)
    var_smoothing: float = hyper(
        1e-9, POSITIVE, "Share of the largest variance of a feature that is added to all variances."
    )
    alpha: float = hyper(
        1.0, POSITIVE, "Rows that every category is counted more than it has, in each class."
    )

    def _halves(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Numbers, and codes: whether a number is missing, and categories; a level that training
        lacks has the code after the last."""
        n_numbers = len(self.preprocessor_.numeric_names_)
        return x[:, :n_numbers], x[:, n_numbers:].astype(np.int64)

    def _fit(self, x: np.ndarray, y: np.ndarray, val: tuple[np.ndarray, np.ndarray] | None) -> None:
        from sklearn.naive_bayes import CategoricalNB, GaussianNB

        numbers, codes = self._halves(x)
        prior = np.log(np.bincount(y) / len(y))
        self.model_: dict[str, Any] = {"prior": prior, "numbers": None, "codes": None}
        if (numbers != numbers[:1]).any():  # without any variance there is nothing to smooth by
            normal = GaussianNB(var_smoothing=self.var_smoothing)
            self.model_["numbers"] = normal.fit(numbers, y)
        if codes.shape[1]:
            cardinalities = self.preprocessor_.cardinalities_
            gaps = [2] * (codes.shape[1] - len(cardinalities))
            levels = np.array([*gaps, *(n + 1 for n in cardinalities)])
            counted = CategoricalNB(alpha=self.alpha, min_categories=levels)
            self.model_["codes"] = counted.fit(codes, y)

    def _predict_proba(self, x: np.ndarray) -> np.ndarray:
        log_p = np.tile(self.model_["prior"], (len(x), 1))
        for part, half in zip(("numbers", "codes"), self._halves(x), strict=True):
            if self.model_[part] is not None:  # each half has the prior in it; one is enough
                log_p += self.model_[part].predict_joint_log_proba(half) - self.model_["prior"]
        return softmax(log_p)
