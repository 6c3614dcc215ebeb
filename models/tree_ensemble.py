"""Shared base of random forest and extra trees; not a model of its own."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from .base import of_sklearn
from .hyperparameters import COUNT, DEPTH, ROUNDS, InvalidConfig, Number, OneOf, hyper
from .policy import Policy
from .weighted import WeightedSklearnEstimator

CRITERIA = {
    "classification": ("gini", "entropy", "log_loss"),
    "regression": ("squared_error", "absolute_error", "friedman_mse", "poisson"),
}


class TreeEnsemble(WeightedSklearnEstimator):
    """Many trees on unscaled features; categories one-hot, missing values kept by the splits.

    Notes
    -----
    The criterion "absolute_error" cannot split on missing values, so they are imputed for it.
    """

    ensemble: ClassVar[str]  # its name in the library
    policy = Policy(numeric="shift", categorical="one-hot", missing="native", target="shift")

    n_estimators: int = hyper(100, ROUNDS, "Trees.")
    criterion: str = hyper(
        "default",
        OneOf(("default", *sum(CRITERIA.values(), ()))),
        'Impurity: "default" for the library\'s ("gini", "squared_error"); classification also '
        'has "entropy" and "log_loss", regression "absolute_error", "friedman_mse" and '
        '"poisson".',
    )
    max_features: float | str = hyper(
        "default",
        Number(0.0, 1.0, low_open=True, words=("default", "sqrt", "log2")),
        'Features tried at a split, as a share or a function of their number; "default" for the '
        'library\'s ("sqrt" for classes, all for values).',
    )
    max_depth: int = hyper(0, DEPTH, "Depth of the deepest leaf; 0 for no limit.")
    min_samples_leaf: int = hyper(1, COUNT, "Fewest training rows in a leaf.")

    def check(self) -> None:
        """As `Estimator.check`; the criterion must be one of the task."""
        super().check()
        known = CRITERIA["regression" if self.task == "regression" else "classification"]
        if self.criterion != "default" and self.criterion not in known:
            raise InvalidConfig(
                f"{type(self).__name__}: criterion for a {self.task} task must be 'default' or "
                f"one of {', '.join(known)}, got {self.criterion!r}"
            )

    def _policy(self) -> Policy:
        if self.criterion == "absolute_error":
            return replace(self.policy, missing="impute")
        if self.criterion == "poisson":  # takes no negative targets
            return replace(self.policy, target="none")
        return self.policy

    def _build(self, n_rows: int) -> Any:
        default = {"criterion": "squared_error", "max_features": 1.0}
        if self.task != "regression":
            default = {"criterion": "gini", "max_features": "sqrt"}
        named = {name: getattr(self, name) for name in default}
        return of_sklearn("ensemble", self.ensemble, self.task)(
            n_estimators=self.n_estimators,
            **{name: default[name] if v == "default" else v for name, v in named.items()},
            max_depth=self.max_depth or None,
            min_samples_leaf=self.min_samples_leaf,
            n_jobs=self.threads,
            random_state=self.seed,
        )

    # Several threads add the trees' answers in the order in which they end, and sums of floats
    # depend on their order: one thread gives the same bytes each time.

    def _in_one_thread(self) -> Any:
        """The fitted trees, which predict in one thread."""
        trees = copy(self.model_)
        trees.n_jobs = 1
        return trees

    def _predict(self, x: np.ndarray) -> np.ndarray:
        return self._in_one_thread().predict(x)

    def _predict_proba(self, x: np.ndarray) -> np.ndarray:
        return self._in_one_thread().predict_proba(x)
