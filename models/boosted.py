"""Shared bases of the gradient boosting models; not models of their own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .hyperparameters import ENCODING, PATIENCE, RATE, ROUNDS, hyper
from .policy import Policy
from .quantile import QuantileEstimator
from .resumable import Stepwise
from .weighted import WeightedEstimator


class Boosted(QuantileEstimator, WeightedEstimator, Stepwise):
    """Rounds of boosting, which validation rows may end early.

    After `fit` with validation rows: `curve_`, (n, 2) rounds and validation losses (not saved).
    """

    resource = "n_estimators"
    transient = ("curve_",)

    n_estimators: int = hyper(300, ROUNDS, "Rounds, at most.")
    learning_rate: float = hyper(0.1, RATE, "Factor of each tree.")
    early_stopping_rounds: int = hyper(
        30,
        PATIENCE,
        "With validation rows, stop after so many rounds without a lower loss and predict with "
        "the best rounds; 0 for off.",
    )

    def _predict(self, x: np.ndarray) -> np.ndarray:
        return self.model_.predict(x)

    def _predict_proba(self, x: np.ndarray) -> np.ndarray:
        return self.model_.predict_proba(x)


class CategoryBoosted(Boosted):
    """Boosting by a library that splits categories itself, or takes them encoded."""

    policy = Policy(numeric="shift", categorical="native", missing="native", target="standard")

    categorical: str = hyper(
        "native",
        ENCODING,
        "Encoding of categories: by the library itself (`native`), as ordered codes, or as 0/1 "
        "columns.",
    )

    def _policy(self) -> Policy:
        return replace(self.policy, categorical=self.categorical)
