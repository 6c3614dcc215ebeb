"""Histogram gradient boosting of scikit-learn, on binned features."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from .base import of_sklearn
from .boosted import CategoryBoosted
from .hyperparameters import COUNT, DEPTH, PATIENCE, PENALTY, ROUNDS, SHARE, Number, hyper
from .resumable import by_round, seed_at


class HistGradientBoosting(CategoryBoosted):
    """scikit-learn's histogram gradient boosting; categories and missing values native.

    Notes
    -----
    `fit_to` begins each piece with its own seed for the features it draws; where none are drawn it
    gives the trees of `fit`.

    References
    ----------
    Ke et al. 2017, LightGBM (NeurIPS), whose algorithm the library follows.
    """

    example = "min_samples_leaf=1"
    uses_pools = True

    n_estimators: int = hyper(100, ROUNDS, "Rounds, at most (`max_iter` of the library).")
    max_leaf_nodes: int = hyper(31, Number(2, 100_000, whole=True), "Leaves of a tree, at most.")
    max_depth: int = hyper(0, DEPTH, "Depth of the trees; 0 for no limit.")
    min_samples_leaf: int = hyper(20, COUNT, "Fewest training rows in a leaf.")
    l2_regularization: float = hyper(0.0, PENALTY, "L2 penalty of the leaves.")
    max_features: float = hyper(1.0, SHARE, "Share of the features that each split draws.")
    early_stopping_rounds: int = hyper(
        20,
        PATIENCE,
        "With validation rows, stop after so many rounds without a lower loss (the library keeps "
        "all rounds up to the stop); 0 for off.",
    )

    def _library(self, **given: Any) -> Any:
        """The unfitted estimator of the library."""
        native = self.preprocessor_.categorical_ if self.categorical == "native" else None
        if self.quantile is not None:
            given |= {"loss": "quantile", "quantile": self.quantile}
        return of_sklearn("ensemble", "HistGradientBoosting", self.task)(
            learning_rate=self.learning_rate,
            max_leaf_nodes=self.max_leaf_nodes,
            max_depth=self.max_depth or None,
            min_samples_leaf=self.min_samples_leaf,
            l2_regularization=self.l2_regularization,
            max_features=self.max_features,
            categorical_features=native,
            n_iter_no_change=self.early_stopping_rounds or 10,
            random_state=self.seed,
            **given,
        )

    def _fit(self, x: np.ndarray, y: np.ndarray, val: tuple[np.ndarray, np.ndarray] | None) -> None:
        given: dict[str, Any] = {"sample_weight": self._weights}
        given |= {} if val is None else {"X_val": val[0], "y_val": val[1]}
        stops = val is not None
        if self._deadline is None:
            self.model_ = self._library(max_iter=self.n_estimators, early_stopping=stops)
            self.model_.fit(x, y, **given)
        else:
            self.model_ = self._library(max_iter=1, early_stopping=stops, warm_start=True)
            self._fit_in_pieces(x, y, given)
        if val is not None:
            self.curve_ = by_round(-self.model_.validation_score_[1:])  # the first is of no tree
        self.n_iter_ = self.best_iteration_ = int(self.model_.n_iter_)

    def _fit_in_pieces(self, x: np.ndarray, y: np.ndarray, given: dict[str, Any]) -> None:
        """Trains until the limit of time is over. The library asks nobody between two rounds, so
        it trains in pieces that take a tenth of the limit each, as far as the last one tells."""
        assert self._limit_s is not None
        until = size = 1
        while True:
            began = time.monotonic()
            self.model_.set_params(max_iter=until).fit(x, y, **given)
            took = max(time.monotonic() - began, 1e-6)
            whole = until == self.n_estimators or self.model_.n_iter_ < until
            if whole or self._out_of_time():
                return
            size = max(1, min(2 * size, int(size * 0.1 * self._limit_s / took)))
            until = min(self.n_estimators, until + size)

    def _grow(self, data: Any, step: int, until: int) -> Any:
        if step == 0:
            self.model_ = self._library(max_iter=until, early_stopping=False, warm_start=True)
        else:
            self.model_.set_params(max_iter=until)
            # a state holds no generator
            self.model_._feature_subsample_rng = np.random.default_rng(seed_at(self.seed, step))
        return self.model_.fit(*data)
