"""Generalised linear models with the elastic net's penalty, of scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np

from .hyperparameters import COUNT, POSITIVE, PROBABILITY, hyper
from .policy import Policy
from .weighted import WeightedSklearnEstimator


class ElasticNet(WeightedSklearnEstimator):
    """Multinomial logistic or linear regression with L1 and L2 penalties; one-hot features.

    The mean loss of a row plus alpha (l1_ratio |w| + (1 - l1_ratio) / 2 w^2) is minimised; the loss
    is the log loss, or half the squared error of the standardised target.

    References
    ----------
    Zou and Hastie 2005, doi:10.1111/j.1467-9868.2005.00503.x; Friedman et al. 2010 (glmnet),
    doi:10.18637/jss.v033.i01.
    """

    example = ""
    policy = Policy(numeric="standard", categorical="one-hot", missing="impute", target="standard")
    uses_pools = True

    alpha: float = hyper(0.01, POSITIVE, "Strength of the penalty.")
    l1_ratio: float = hyper(
        0.5, PROBABILITY, "Share of the L1 penalty: 1 for the lasso, 0 for ridge."
    )
    max_iter: int = hyper(
        1000, COUNT, "Passes over the rows (logistic regression) or the features, at most."
    )

    def _build(self, n_rows: int) -> Any:
        from sklearn.linear_model import ElasticNet as Regression
        from sklearn.linear_model import LogisticRegression

        if self.task == "regression":
            return Regression(alpha=self.alpha, l1_ratio=self.l1_ratio, max_iter=self.max_iter)
        return LogisticRegression(
            C=1.0 / (self.alpha * n_rows),
            l1_ratio=self.l1_ratio,
            solver="saga",
            max_iter=self.max_iter,
            random_state=self.seed,
        )

    def _fit(self, x: np.ndarray, y: np.ndarray, val: tuple[np.ndarray, np.ndarray] | None) -> None:
        weights = self._weights
        if weights is not None:  # the penalty stands beside the mean loss of a row
            weights = weights / weights.mean()
        self.model_ = self._build(len(x)).fit(x, y, sample_weight=weights)
