"""Shared bases of the gradient boosting models; not models of their own."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .hyperparameters import ENCODING, PATIENCE, RATE, ROUNDS, hyper
from .policy import Policy
from .resumable import Stepwise
from .weighted import WeightedEstimator


@dataclass(kw_only=True, eq=False, repr=False)
class Boosted(WeightedEstimator, Stepwise):
    """Rounds of boosting, which validation rows may end early.

    After `fit` with validation rows: `curve_`, (n, 2) rounds and validation losses (not saved).

    Parameters
    ----------
    n_estimators
        Rounds, at most.
    learning_rate
        Factor of each tree.
    early_stopping_rounds
        With validation rows, stop after so many rounds without a lower loss and predict with the
        best rounds; 0 for off.
    """

    resource = "n_estimators"
    transient = ("curve_",)

    n_estimators: int = hyper(300, ROUNDS)
    learning_rate: float = hyper(0.1, RATE)
    early_stopping_rounds: int = hyper(30, PATIENCE)

    def _predict(self, x: np.ndarray) -> np.ndarray:
        return self.model_.predict(x)

    def _predict_proba(self, x: np.ndarray) -> np.ndarray:
        return self.model_.predict_proba(x)


@dataclass(kw_only=True, eq=False, repr=False)
class CategoryBoosted(Boosted):
    """Boosting by a library that splits categories itself, or takes them encoded.

    Parameters
    ----------
    categorical
        Encoding of categories: by the library itself (`native`), as ordered codes, or as 0/1
        columns.
    """

    policy = Policy(numeric="shift", categorical="native", missing="native", target="standard")

    categorical: str = hyper("native", ENCODING)

    def _policy(self) -> Policy:
        return replace(self.policy, categorical=self.categorical)
