"""Shared bases of the models whose `fit` takes weights of rows; not models of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_consistent_length

from .base import Estimator, SklearnEstimator
from .preprocessing import as_frame
from .sample_weights import checked_weights


class WeightedEstimator(Estimator):
    """An estimator whose `fit` takes `sample_weight`.

    A subclass gives `_weights` to its library: the weights of the rows that `_fit` sees, None
    where all count alike.
    """

    _weights = None  # type: np.ndarray | None  # (N,), during a fit

    def fit(
        self,
        X: Any,
        y: Any,
        X_val: Any = None,
        y_val: Any = None,
        *,
        sample_weight: Any = None,
    ) -> Estimator:
        """Fits on (X, y).

        Parameters
        ----------
        X : DataFrame or array of shape (n_samples, n_features)
            Numbers and categories, with gaps, as they are.
        y : array-like of shape (n_samples,)
            Labels or numbers, without gaps.
        X_val, y_val : DataFrame or array and array-like, optional
            Rows that early stopping looks at, where the model has it; they count alike.
        sample_weight : array-like of shape (n_samples,), or float, optional
            How much each row counts; a row of weight 0 is left out. The preprocessing learns from
            all other rows alike.

        Returns
        -------
        self
        """
        weights = checked_weights(sample_weight, X)
        if weights is not None and not weights.all():
            frame, labels = as_frame(X), np.asarray(y)
            check_consistent_length(frame, labels)
            there = weights > 0
            X, y = frame[there].reset_index(drop=True), labels[there]
            weights = checked_weights(weights[there], X)
        self._weights = weights
        try:
            return super().fit(X, y, X_val, y_val)
        finally:
            del self._weights

    def _constant_answer(self, x: np.ndarray, target: np.ndarray) -> np.ndarray | None:
        """As `Estimator._constant_answer`, with weighted frequencies or the weighted mean."""
        answer, weights = super()._constant_answer(x, target), self._weights
        if answer is None or weights is None or target.min() == target.max():
            return answer
        if self.task != "regression":
            return np.bincount(target, weights, minlength=len(self.classes_)) / weights.sum()
        mean = np.average(target, weights=weights)
        return self._in_units(np.array([mean]))


class WeightedSklearnEstimator(WeightedEstimator, SklearnEstimator):
    """A model that one scikit-learn estimator computes, whose `fit` takes `sample_weight`."""

    def _fit(self, x: np.ndarray, y: np.ndarray, val: tuple[np.ndarray, np.ndarray] | None) -> None:
        self.model_ = self._build(len(x)).fit(x, y, sample_weight=self._weights)
