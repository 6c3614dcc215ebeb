"""Fitted estimators of the library that predict together: the best model of a run with bags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from ...common.decisions import decisions


class FittedTogether(BaseEstimator):
    """The weighted mean of fitted estimators. It is made fitted, by a sweep.

    Parameters
    ----------
    estimators : sequence of estimators
        Fitted, with the same columns and classes.
    weights : sequence of float
        The share of each in the mean; they add up to 1.
    models : mapping of str to float
        The share of each model, whose bag may be several estimators.
    """

    def __init__(
        self, estimators: Sequence[Any], weights: Sequence[float], models: Mapping[str, float]
    ) -> None:
        self.estimators = estimators
        self.weights = weights
        self.models = models

    def __sklearn_is_fitted__(self) -> bool:
        return True

    @property
    def n_features_in_(self) -> int:
        """The number of columns that it predicts from."""
        return int(self.estimators[0].n_features_in_)

    @property
    def feature_names_in_(self) -> np.ndarray:
        """The names of the columns that it predicts from."""
        names: np.ndarray = self.estimators[0].feature_names_in_
        return names

    def _mean(self, method: str, X: Any) -> np.ndarray:
        return np.average(
            [getattr(one, method)(X) for one in self.estimators], axis=0, weights=self.weights
        )


class FittedRegressors(RegressorMixin, FittedTogether):
    """Regressors that predict together."""

    def predict(self, X: Any) -> np.ndarray:
        """(n_samples,) the weighted mean of the predictions."""
        return self._mean("predict", X)


class FittedClassifiers(ClassifierMixin, FittedTogether):
    """Classifiers that predict together."""

    @property
    def classes_(self) -> np.ndarray:
        """(n_classes,) the labels, in the order of the probabilities."""
        labels: np.ndarray = self.estimators[0].classes_
        return labels

    def predict_proba(self, X: Any) -> np.ndarray:
        """(n_samples, n_classes) the weighted mean of the probabilities."""
        return self._mean("predict_proba", X)

    def predict(self, X: Any) -> np.ndarray:
        """(n_samples,) labels, decided as by one classifier of the library."""
        costs = getattr(self.estimators[0], "_costs", ())
        return self.classes_[decisions(self.predict_proba(X), costs)]
