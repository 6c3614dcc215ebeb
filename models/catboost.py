"""CatBoost: gradient boosting of symmetric trees, with native categories."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from .base import (
    ENCODING,
    PATIENCE,
    RATE,
    ROUNDS,
    InvalidConfig,
    Number,
    two_columns,
)
from .preprocessing import Policy
from .resumable import Stepwise, seed_at


class CatBoost(Stepwise):
    """CatBoost; categories and missing values native by default.

    Parameters
    ----------
    task, seed, threads
        As for every model, see `Estimator`.
    n_estimators : int, default 300, in [1, 100000]
        Rounds, at most.
    learning_rate : float, default 0.1, in (0, 10]
        Factor of each tree.
    max_depth : int, default 6, in [1, 16]
        Depth of the trees.
    l2_leaf_reg : float, default 3.0, at least 0
        L2 penalty of the leaves.
    random_strength : float, default 1.0, at least 0
        Noise that is added to the scores of splits.
    leaf_estimation_iterations : int or None, default None, in [1, 1000]
        Newton steps for the values of the leaves; None for the library's choice, which depends on
        the task.
    one_hot_max_size : int or None, default None, in [0, 255]
        Native categories with at most so many levels are one-hot; None for the library's choice.
    bagging_temperature : float or None, default None, at least 0
        Strength of the Bayesian bootstrap; None for the library's own bootstrap.
    categorical : {"native", "ordinal", "one-hot"}, default "native"
        Encoding of categories: by the library itself, as ordered codes, or as 0/1 columns.
    early_stopping_rounds : int, default 30, in [0, 100000]
        With validation rows, stop after so many rounds without a lower loss and keep the best
        rounds; 0 for off.

    Notes
    -----
    DIFF(CatBoost): the library picks a learning rate from rows and rounds; here it is 0.1 unless
    the configuration says otherwise, so that the configuration is complete.

    `fit_to` can continue where no category is native. A state with statistics of categories would
    apply those of a whole column, each row's own label among them, to the rows it trains on:
    another algorithm (log loss 0.583 against 0.601 of one piece on 600 levels), so it trains from
    zero. Pieces have their own seeds, and the noise of `random_strength` fades anew in each.

    Examples
    --------
    >>> from tabsweep.models.catboost import CatBoost
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]] * 5, ["no", "no", "yes", "yes"] * 5
    >>> model = CatBoost(task="binary", n_estimators=20).fit(X, y)
    >>> model.predict([[0.0], [3.0]])
    array(['no', 'yes'], dtype='<U3')

    References
    ----------
    Prokhorenkova et al. 2018, arXiv:1706.09516.
    """

    rules = {
        "n_estimators": ROUNDS,
        "learning_rate": RATE,
        "max_depth": Number(1, 16, whole=True),
        "l2_leaf_reg": Number(0.0),
        "random_strength": Number(0.0),
        "leaf_estimation_iterations": Number(1, 1000, whole=True, words=(None,)),
        "one_hot_max_size": Number(0, 255, whole=True, words=(None,)),
        "bagging_temperature": Number(0.0, words=(None,)),
        "categorical": ENCODING,
        "early_stopping_rounds": PATIENCE,
    }
    policy = Policy(numeric="none", categorical="native", missing="native", target="standard")
    resource = "n_estimators"

    def __init__(
        self,
        *,
        task: str,
        seed: int = 0,
        threads: int = 1,
        n_estimators: int = 300,
        learning_rate: float = 0.1,
        max_depth: int = 6,
        l2_leaf_reg: float = 3.0,
        random_strength: float = 1.0,
        leaf_estimation_iterations: int | None = None,
        one_hot_max_size: int | None = None,
        bagging_temperature: float | None = None,
        categorical: str = "native",
        early_stopping_rounds: int = 30,
    ) -> None:
        super().__init__(task=task, seed=seed, threads=threads)
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.max_depth = max_depth
        self.l2_leaf_reg = l2_leaf_reg
        self.random_strength = random_strength
        self.leaf_estimation_iterations = leaf_estimation_iterations
        self.one_hot_max_size = one_hot_max_size
        self.bagging_temperature = bagging_temperature
        self.categorical = categorical
        self.early_stopping_rounds = early_stopping_rounds

    def _policy(self) -> Policy:
        return Policy("none", self.categorical, "native", "standard")

    def _pool(self, x: np.ndarray, y: np.ndarray | None = None) -> Any:
        from catboost import Pool

        native = np.flatnonzero(self.preprocessor_.categorical_)
        if self.categorical != "native" or len(native) == 0:
            return Pool(x, y, thread_count=self.threads)
        # NaN marks a level that training did not hold: -1 is a level of its own to the library.
        first = int(native[0])
        frame = pd.DataFrame(x[:, :first], columns=range(first))
        codes = np.nan_to_num(x[:, first:], nan=-1.0).astype(np.int64)
        for j, code in zip(native.tolist(), codes.T, strict=True):
            frame[j] = code
        return Pool(frame, y, cat_features=native.tolist(), thread_count=self.threads)

    def _loss(self) -> str:
        if self.task == "regression":
            return "RMSE"
        return "Logloss" if len(self.classes_) == 2 else "MultiClass"

    def _library(self, rounds: int, seed: int) -> Any:
        """The unfitted booster of the library."""
        from catboost import CatBoost as Library

        optional = {
            name: getattr(self, name)
            for name in ("leaf_estimation_iterations", "one_hot_max_size", "bagging_temperature")
            if getattr(self, name) is not None
        }
        if "bagging_temperature" in optional:
            optional["bootstrap_type"] = "Bayesian"
        return Library(
            {
                "iterations": rounds,
                "learning_rate": self.learning_rate,
                "depth": self.max_depth,
                "l2_leaf_reg": self.l2_leaf_reg,
                "random_strength": self.random_strength,
                "loss_function": self._loss(),
                "random_seed": seed,
                "thread_count": self.threads,
                "allow_writing_files": False,
                "logging_level": "Silent",
                **optional,
            }
        )

    def _train(self, booster: Any, pool: Any, **given: Any) -> Any:
        """The booster, fitted; InvalidConfig where the library refuses a value."""
        from catboost import CatBoostError

        try:
            return booster.fit(pool, **given)
        except CatBoostError as error:
            if "must be" in str(error) or "should be" in str(error):
                raise InvalidConfig(f"CatBoost: {error}") from error
            raise

    def _fit(self, x: np.ndarray, y: np.ndarray, val: tuple[np.ndarray, np.ndarray] | None) -> None:
        self.model_ = self._train(
            self._library(self.n_estimators, self.seed),
            self._pool(x, y),
            eval_set=self._pool(*val) if val else None,
            early_stopping_rounds=self.early_stopping_rounds if val else None,
            use_best_model=val is not None,
        )
        self.n_iter_ = self.best_iteration_ = int(self.model_.tree_count_)

    def _continues(self) -> bool:
        return self.categorical != "native" or not self.preprocessor_.categorical_.any()

    def _material(self, x: np.ndarray, y: np.ndarray) -> Any:
        return self._pool(x, y)

    def _grow(self, data: Any, x: np.ndarray, y: np.ndarray, step: int, until: int) -> None:
        booster = self._library(until - step, seed_at(self.seed, step))
        self.model_ = self._train(booster, data, init_model=self.model_ if step else None)

    def _predict(self, x: np.ndarray) -> np.ndarray:
        return self.model_.predict(self._pool(x), thread_count=self.threads)

    def _predict_proba(self, x: np.ndarray) -> np.ndarray:
        p = self.model_.predict(
            self._pool(x), prediction_type="Probability", thread_count=self.threads
        )
        return two_columns(np.asarray(p)[:, 1]) if np.shape(p)[1] == 2 else p
