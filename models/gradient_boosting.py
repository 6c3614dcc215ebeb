"""Gradient boosting of scikit-learn on exact splits."""

from __future__ import annotations

from typing import Any

import numpy as np

from .base import COUNT, PATIENCE, RATE, ROUNDS, SHARE, Number
from .policy import Policy
from .resumable import Stepwise, by_round, seed_at
from .weighted import WeightedEstimator


class Patience:
    """Early stopping by validation loss, called each round by scikit-learn's `fit(monitor=...)`."""

    def __init__(self, x: np.ndarray, y: np.ndarray, rounds: int, regression: bool) -> None:
        self.x, self.y = np.ascontiguousarray(x, dtype=np.float32), y
        self.rounds, self.regression = rounds, regression
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
        if self.regression:
            return float(((raw[:, 0] - y) ** 2).mean())
        if raw.shape[1] == 1:
            return float(np.logaddexp(0.0, np.where(y == 1, -raw[:, 0], raw[:, 0])).mean())
        top = raw.max(axis=1)
        total = np.log(np.exp(raw - top[:, None]).sum(axis=1)) + top
        return float((total - raw[np.arange(len(y)), y]).mean())


class GradientBoosting(WeightedEstimator, Stepwise):
    """scikit-learn's exact gradient boosting; categories one-hot, missing values imputed.

    Parameters
    ----------
    task, seed, threads
        As for every model, see `Estimator`.
    n_estimators : int, default 100, in [1, 100000]
        Rounds, at most.
    learning_rate : float, default 0.1, in (0, 10]
        Factor of each tree.
    max_depth : int, default 3, in [1, 1000]
        Depth of the trees.
    subsample : float, default 1.0, in (0, 1]
        Share of the rows that each round draws.
    min_samples_leaf : int, default 1, in [1, 100000]
        Fewest training rows in a leaf.
    early_stopping_rounds : int, default 20, in [0, 100000]
        With validation rows, stop after so many rounds without a lower loss and keep the best
        rounds; 0 for off.

    Notes
    -----
    `fit_to` begins each piece with its own seed, for the rows that it draws and for ties between
    features.

    Examples
    --------
    >>> from tabsweep.models.gradient_boosting import GradientBoosting
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]] * 5, ["no", "no", "yes", "yes"] * 5
    >>> model = GradientBoosting(task="binary", n_estimators=20).fit(X, y)
    >>> model.predict([[0.0], [3.0]])
    array(['no', 'yes'], dtype='<U3')

    References
    ----------
    Friedman 2001, doi:10.1214/aos/1013203451.
    """

    rules = {
        "n_estimators": ROUNDS,
        "learning_rate": RATE,
        "max_depth": Number(1, 1000, whole=True),
        "subsample": SHARE,
        "min_samples_leaf": COUNT,
        "early_stopping_rounds": PATIENCE,
    }
    policy = Policy(numeric="shift", categorical="one-hot", missing="impute", target="standard")
    resource = "n_estimators"
    transient = ("curve_",)  # (round, validation loss) of the last fit

    def __init__(
        self,
        *,
        task: str,
        seed: int = 0,
        threads: int = 1,
        n_estimators: int = 100,
        learning_rate: float = 0.1,
        max_depth: int = 3,
        subsample: float = 1.0,
        min_samples_leaf: int = 1,
        early_stopping_rounds: int = 20,
    ) -> None:
        super().__init__(task=task, seed=seed, threads=threads)
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.max_depth = max_depth
        self.subsample = subsample
        self.min_samples_leaf = min_samples_leaf
        self.early_stopping_rounds = early_stopping_rounds

    def _library(self, rounds: int, **given: Any) -> Any:
        """The unfitted estimator of the library."""
        from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor

        regression = self.task == "regression"
        return (GradientBoostingRegressor if regression else GradientBoostingClassifier)(
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
        regression = self.task == "regression"
        watch = Patience(*val, self.early_stopping_rounds, regression) if val else None

        def ends(i: int, model: Any, inside: dict[str, Any]) -> bool:
            patient = watch is None or not watch(i, model, inside)
            return not patient or self._out_of_time()

        self.model_.fit(x, y, sample_weight=self._weights, monitor=ends)
        self.n_iter_ = self.best_iteration_ = int(self.model_.n_estimators_)
        if watch is not None:
            self.best_iteration_ = watch.best_round + 1
            self.curve_ = by_round(watch.losses)
            self.model_.estimators_ = self.model_.estimators_[: self.best_iteration_]

    def _grow(self, data: Any, x: np.ndarray, y: np.ndarray, step: int, until: int) -> None:
        if step == 0:
            self.model_ = self._library(until, warm_start=True)
        else:
            self.model_.set_params(n_estimators=until)
            # a state holds no generator
            self.model_._rng = np.random.RandomState(seed_at(self.seed, step))
        self.model_.fit(x, y)

    def _predict(self, x: np.ndarray) -> np.ndarray:
        return self.model_.predict(x)

    def _predict_proba(self, x: np.ndarray) -> np.ndarray:
        return self.model_.predict_proba(x)
