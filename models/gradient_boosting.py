"""Gradient boosting of scikit-learn on exact splits."""

from __future__ import annotations

from typing import Any

import numpy as np

from .base import of_sklearn
from .boosted import Boosted
from .hyperparameters import COUNT, LAYERS, SHARE, hyper
from .policy import Policy
from .resumable import by_round, seed_at


class Patience:
    """Early stopping by validation loss, called each round by scikit-learn's `fit(monitor=...)`."""

    def __init__(self, x: np.ndarray, y: np.ndarray, settings: GradientBoosting) -> None:
        self.x, self.y = np.ascontiguousarray(x, dtype=np.float32), y
        self.rounds, self.quantile = settings.early_stopping_rounds, settings.quantile
        self.regression = settings.task == "regression"
        self.best, self.best_round = np.inf, 0
        self.losses: list[float] = []

    def __call__(self, i: int, model: Any, _: dict[str, Any]) -> bool:
        if i == 0:
            staged = model.staged_predict if self.regression else model.staged_decision_function
            self.raw = np.array(next(iter(staged(self.x)))).reshape(len(self.x), -1)
        else:
            for k, tree in enumerate(model.estimators_[i]):
                self.raw[:, k] += model.learning_rate * tree.predict(self.x)
        loss = self._loss()
        self.losses.append(loss)
        if loss < self.best:
            self.best, self.best_round = loss, i
        return i - self.best_round >= self.rounds

    def _loss(self) -> float:
        raw, y = self.raw, self.y
        if self.quantile is not None:
            below = y - raw[:, 0]
            return float(np.maximum(self.quantile * below, (self.quantile - 1) * below).mean())
        if self.regression:
            return float(((raw[:, 0] - y) ** 2).mean())
        if raw.shape[1] == 1:
            return float(np.logaddexp(0.0, np.where(y == 1, -raw[:, 0], raw[:, 0])).mean())
        top = raw.max(axis=1)
        total = np.log(np.exp(raw - top[:, None]).sum(axis=1)) + top
        return float((total - raw[np.arange(len(y)), y]).mean())


class GradientBoosting(Boosted):
    """scikit-learn's exact gradient boosting; categories one-hot, missing values imputed.

    Notes
    -----
    `fit_to` begins each piece with its own seed, for the rows that it draws and for ties between
    features.

    References
    ----------
    Friedman 2001, doi:10.1214/aos/1013203451.
    """

    example = "n_estimators=20"
    policy = Policy(numeric="shift", categorical="one-hot", missing="impute", target="standard")

    n_estimators: int = 100
    max_depth: int = hyper(3, LAYERS, "Depth of the trees.")
    subsample: float = hyper(1.0, SHARE, "Share of the rows that each round draws.")
    min_samples_leaf: int = hyper(1, COUNT, "Fewest training rows in a leaf.")
    early_stopping_rounds: int = 20

    def _library(self, rounds: int, **given: Any) -> Any:
        """The unfitted estimator of the library."""
        if self.quantile is not None:
            given |= {"loss": "quantile", "alpha": self.quantile}
        return of_sklearn("ensemble", "GradientBoosting", self.task)(
            n_estimators=rounds,
            learning_rate=self.learning_rate,
            max_depth=self.max_depth,
            subsample=self.subsample,
            min_samples_leaf=self.min_samples_leaf,
            random_state=self.seed,
            **given,
        )

    def _fit(self, x: np.ndarray, y: np.ndarray, val: tuple[np.ndarray, np.ndarray] | None) -> None:
        self.model_ = self._library(self.n_estimators)
        watch = Patience(*val, self) if val else None

        def ends(i: int, model: Any, inside: dict[str, Any]) -> bool:
            patient = watch is None or not watch(i, model, inside)
            return not patient or self._out_of_time()

        self.model_.fit(x, y, sample_weight=self._weights, monitor=ends)
        self.n_iter_ = self.best_iteration_ = int(self.model_.n_estimators_)
        if watch is not None:
            self.best_iteration_ = watch.best_round + 1
            self.curve_ = by_round(watch.losses)
            self.model_.estimators_ = self.model_.estimators_[: self.best_iteration_]

    def _grow(self, data: Any, step: int, until: int) -> Any:
        if step == 0:
            self.model_ = self._library(until, warm_start=True)
        else:
            self.model_.set_params(n_estimators=until)
            # a state holds no generator
            self.model_._rng = np.random.RandomState(seed_at(self.seed, step))
        return self.model_.fit(*data)
