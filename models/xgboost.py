"""XGBoost: regularised gradient boosting on binned features."""

from __future__ import annotations

from typing import Any

import numpy as np

from .base import two_columns
from .boosted import CategoryBoosted
from .boosting_devices import DEVICE, check_xgboost
from .hyperparameters import (
    PENALTY,
    SHARE,
    Number,
    hyper,
)
from .policy import Policy
from .resumable import by_round


class XGBoost(CategoryBoosted):
    """XGBoost (tree booster); categories one-hot by default, missing values native.

    Notes
    -----
    `fit_to` seeds every round by its number (the library's `seed_per_iteration`), which `fit` does
    not: where rows or columns are drawn the two differ, elsewhere they give the same trees.

    References
    ----------
    Chen and Guestrin 2016, arXiv:1603.02754.
    """

    example = ""
    policy = Policy(numeric="shift", categorical="one-hot", missing="native", target="standard")

    device: str = hyper(
        "cpu",
        DEVICE,
        "Where it trains. A machine without a GPU is an error, not a fit on its CPU; a saved "
        "model predicts anywhere.",
    )
    learning_rate: float = 0.3
    max_depth: int = hyper(6, Number(1, 100, whole=True), "Depth of the trees.")
    min_child_weight: float = hyper(1.0, PENALTY, "Least sum of the Hessian in a leaf.")
    subsample: float = hyper(1.0, SHARE, "Share of the rows that each round draws.")
    colsample_bytree: float = hyper(1.0, SHARE, "Share of the features that each tree draws.")
    colsample_bylevel: float = hyper(
        1.0, SHARE, "Share of the features that each level of a tree draws."
    )
    gamma: float = hyper(0.0, PENALTY, "Least reduction of the loss by a split.")
    reg_alpha: float = hyper(0.0, PENALTY, "L1 penalty of the leaves.")
    reg_lambda: float = hyper(1.0, PENALTY, "L2 penalty of the leaves.")
    categorical: str = "one-hot"

    def _matrix(
        self, x: np.ndarray, y: np.ndarray | None = None, weights: np.ndarray | None = None
    ) -> Any:
        from xgboost import DMatrix

        native = self.categorical == "native" and bool(self.preprocessor_.categorical_.any())
        kinds = ["c" if c else "q" for c in self.preprocessor_.categorical_] if native else None
        return DMatrix(
            x,
            label=y,
            weight=weights,
            feature_types=kinds,
            enable_categorical=native,
            nthread=self.threads,
        )

    def _objective(self) -> dict[str, Any]:
        if self.quantile is not None:
            return {"objective": "reg:quantileerror", "quantile_alpha": self.quantile}
        if self.task == "regression":
            return {"objective": "reg:squarederror"}
        if len(self.classes_) == 2:
            return {"objective": "binary:logistic"}
        return {
            "objective": "multi:softprob",
            "num_class": len(self.classes_),
            "eval_metric": "mlogloss",
        }

    def _params(self) -> dict[str, Any]:
        """The configuration under the library's names."""
        not_of_training = {"n_estimators", "early_stopping_rounds", "categorical", "quantile"}
        params = {n: v for n, v in self._own_params().items() if n not in not_of_training}
        own = {"seed": self.seed, "nthread": self.threads, "verbosity": 0, "tree_method": "hist"}
        return params | own | self._objective()

    def _fit(self, x: np.ndarray, y: np.ndarray, val: tuple[np.ndarray, np.ndarray] | None) -> None:
        from xgboost import train

        self._check_device()
        seen: dict[str, dict[str, list[float]]] = {}
        self.model_ = train(
            self._params(),
            self._matrix(x, y, self._weights),
            num_boost_round=self.n_estimators,
            evals=[(self._matrix(*val), "val")] if val else None,
            evals_result=seen,
            verbose_eval=False,
            **self._ends(stopping=val is not None),
        )
        self.n_iter_ = self.best_iteration_ = int(self.model_.num_boosted_rounds())
        if val:
            self.best_iteration_ = int(self.model_.best_iteration) + 1
            self.curve_ = by_round(next(iter(seen["val"].values())))

    def _ends(self, *, stopping: bool) -> dict[str, Any]:
        """What ends training before its last round: `stopping`, and a limit of time."""
        rounds = self.early_stopping_rounds if stopping else None
        if self._deadline is None:
            return {"early_stopping_rounds": rounds}
        from xgboost.callback import EarlyStopping, TrainingCallback

        over = self._out_of_time

        class Clock(TrainingCallback):
            def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
                return over()

        # in this order: the library asks none after one that ends the training
        return {"callbacks": [*([EarlyStopping(rounds=rounds)] if rounds else []), Clock()]}

    def _check_device(self) -> None:
        if self.device != "cpu":
            check_xgboost()

    def _begin(self, x: np.ndarray, y: np.ndarray, X_val: Any, y_val: Any) -> Any:
        self._check_device()
        return self._matrix(x, y)

    def _grow(self, data: Any, step: int, until: int) -> Any:
        from xgboost import Booster

        params = self._params() | {"seed_per_iteration": True}
        if step == 0:
            self.model_ = Booster(params, [data])
        else:
            self.model_.set_param(params)
        for i in range(step, until):
            self.model_.update(data, i)
        return self.model_

    def _predict(self, x: np.ndarray) -> np.ndarray:
        return self.model_.predict(self._matrix(x), iteration_range=(0, self.best_iteration_))

    def _predict_proba(self, x: np.ndarray) -> np.ndarray:
        p = np.asarray(self._predict(x), dtype=np.float64)
        return two_columns(p) if p.ndim == 1 else p / p.sum(axis=1, keepdims=True)
