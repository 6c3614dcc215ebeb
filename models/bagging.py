"""Bagged decision trees of scikit-learn: every feature is tried at every split."""

from __future__ import annotations

from typing import Any

import numpy as np

from .base import COUNT, ROUNDS, SHARE, Number
from .policy import Policy
from .weighted import WeightedSklearnEstimator


class Bagging(WeightedSklearnEstimator):
    """Trees on bootstrap samples, averaged; categories one-hot, missing values native.

    Unlike a random forest, a tree tries all features at a split.

    Parameters
    ----------
    task, seed, threads
        As for every model, see `Estimator`.
    n_estimators : int, default 100, in [1, 100000]
        Trees.
    max_samples : float, default 1.0, in (0, 1]
        Rows that a tree draws with replacement, as a share of the training rows.
    max_depth : int, default 0, in [0, 1000]
        Depth of the deepest leaf; 0 for no limit.
    min_samples_leaf : int, default 1, in [1, 100000]
        Fewest drawn rows in a leaf.

    Examples
    --------
    >>> from tabsweep.models.bagging import Bagging
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]] * 5, ["no", "no", "yes", "yes"] * 5
    >>> model = Bagging(task="binary", n_estimators=10).fit(X, y)
    >>> model.predict([[0.0], [3.0]])
    array(['no', 'yes'], dtype='<U3')

    References
    ----------
    Breiman 1996, doi:10.1007/BF00058655.
    """

    rules = {
        "n_estimators": ROUNDS,
        "max_samples": SHARE,
        "max_depth": Number(0, 1000, whole=True),
        "min_samples_leaf": COUNT,
    }
    policy = Policy(numeric="shift", categorical="one-hot", missing="native", target="shift")

    def __init__(
        self,
        *,
        task: str,
        seed: int = 0,
        threads: int = 1,
        n_estimators: int = 100,
        max_samples: float = 1.0,
        max_depth: int = 0,
        min_samples_leaf: int = 1,
    ) -> None:
        super().__init__(task=task, seed=seed, threads=threads)
        self.n_estimators = n_estimators
        self.max_samples = max_samples
        self.max_depth = max_depth
        self.min_samples_leaf = min_samples_leaf

    def _build(self, n_rows: int) -> Any:
        from sklearn.ensemble import BaggingClassifier, BaggingRegressor
        from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

        regression = self.task == "regression"
        tree = (DecisionTreeRegressor if regression else DecisionTreeClassifier)(
            max_depth=self.max_depth or None, min_samples_leaf=self.min_samples_leaf
        )
        return (BaggingRegressor if regression else BaggingClassifier)(
            tree,
            n_estimators=self.n_estimators,
            max_samples=max(1, round(self.max_samples * n_rows)),
            n_jobs=self.threads,
            random_state=self.seed,
        )

    # Scikit-learn computes bags in processes of their own, which neither the memory limit nor the
    # end of a trial reaches; its trees release Python's lock, so that threads do as well.

    def _fit(self, x: np.ndarray, y: np.ndarray, val: tuple[np.ndarray, np.ndarray] | None) -> None:
        from joblib import parallel_config

        with parallel_config(backend="threading"):
            super()._fit(x, y, val)

    def _predict(self, x: np.ndarray) -> np.ndarray:
        from joblib import parallel_config

        with parallel_config(backend="threading"):
            return super()._predict(x)

    def _predict_proba(self, x: np.ndarray) -> np.ndarray:
        from joblib import parallel_config

        with parallel_config(backend="threading"):
            return super()._predict_proba(x)
