"""Bagged decision trees of scikit-learn: every feature is tried at every split."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .base import of_sklearn
from .hyperparameters import COUNT, DEPTH, ROUNDS, SHARE, hyper
from .policy import Policy
from .weighted import WeightedSklearnEstimator


class Bagging(WeightedSklearnEstimator):
    """Trees on bootstrap samples, averaged; categories one-hot, missing values native.

    Unlike a random forest, a tree tries all features at a split.

    References
    ----------
    Breiman 1996, doi:10.1007/BF00058655.
    """

    example = "n_estimators=10"
    policy = Policy(numeric="shift", categorical="one-hot", missing="native", target="shift")

    n_estimators: int = hyper(100, ROUNDS, "Trees.")
    max_samples: float = hyper(
        1.0, SHARE, "Rows that a tree draws with replacement, as a share of the training rows."
    )
    max_depth: int = hyper(0, DEPTH, "Depth of the deepest leaf; 0 for no limit.")
    min_samples_leaf: int = hyper(1, COUNT, "Fewest drawn rows in a leaf.")

    def _build(self, n_rows: int) -> Any:
        tree = of_sklearn("tree", "DecisionTree", self.task)(
            max_depth=self.max_depth or None, min_samples_leaf=self.min_samples_leaf
        )
        return of_sklearn("ensemble", "Bagging", self.task)(
            tree,
            n_estimators=self.n_estimators,
            max_samples=max(1, round(self.max_samples * n_rows)),
            n_jobs=self.threads,
            random_state=self.seed,
        )

    # Scikit-learn computes bags in processes of their own, which neither the memory limit nor the
    # end of a trial reaches; its trees release Python's lock, so that threads do as well.

    @contextmanager
    def _limits(self) -> Iterator[None]:
        from joblib import parallel_config

        with parallel_config(backend="threading"):
            yield
