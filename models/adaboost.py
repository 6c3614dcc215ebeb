"""AdaBoost of scikit-learn: small trees on rows that are weighted anew in every round."""

from __future__ import annotations

from typing import Any

import numpy as np

from .base import of_sklearn
from .hyperparameters import COUNT, LAYERS, RATE, ROUNDS, hyper
from .policy import Policy
from .weighted import WeightedSklearnEstimator

NO_BETTER = "worse than random"  # of scikit-learn's error where the first tree is


class AdaBoost(WeightedSklearnEstimator):
    """AdaBoost (SAMME; R2 for regression) of trees on unscaled, one-hot features.

    Notes
    -----
    Where the first tree is no better than chance on the training rows, as a tree of depth 1 is on
    the exclusive or of two features, nothing can be boosted: that tree is the model.

    References
    ----------
    Freund and Schapire 1997, doi:10.1006/jcss.1997.1504; Hastie et al. 2009 (SAMME),
    doi:10.4310/SII.2009.v2.n3.a8; Drucker 1997 (R2).
    """

    example = "n_estimators=10"
    policy = Policy(numeric="shift", categorical="one-hot", missing="impute", target="standard")

    n_estimators: int = hyper(100, ROUNDS, "Rounds, at most.")
    learning_rate: float = hyper(1.0, RATE, "Factor of a tree's weight.")
    max_depth: int = hyper(1, LAYERS, "Depth of a tree.")
    min_samples_leaf: int = hyper(1, COUNT, "Fewest training rows in a leaf.")

    def _tree(self) -> Any:
        return of_sklearn("tree", "DecisionTree", self.task)(
            max_depth=self.max_depth,
            min_samples_leaf=self.min_samples_leaf,
            random_state=self.seed,
        )

    def _build(self, n_rows: int) -> Any:
        return of_sklearn("ensemble", "AdaBoost", self.task)(
            self._tree(),
            n_estimators=self.n_estimators,
            learning_rate=self.learning_rate,
            random_state=self.seed,
        )

    def _fit(self, x: np.ndarray, y: np.ndarray, val: tuple[np.ndarray, np.ndarray] | None) -> None:
        made = self._build(len(x))
        try:
            self.model_ = made.fit(x, y, sample_weight=self._weights)
        except ValueError as error:
            if NO_BETTER not in str(error):
                raise
            self.model_ = self._tree().fit(x, y, sample_weight=self._weights)
