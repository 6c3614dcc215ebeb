"""XGBoost: regularised gradient boosting on binned features."""

from __future__ import annotations

from typing import Any

import numpy as np

from .base import (
    ENCODING,
    PATIENCE,
    PENALTY,
    RATE,
    ROUNDS,
    SHARE,
    InvalidConfig,
    Number,
    OneOf,
    two_columns,
)
from .boosting_devices import DEVICE, check_xgboost
from .policy import Policy
from .resumable import Stepwise, by_round
from .weighted import WeightedEstimator


class XGBoost(WeightedEstimator, Stepwise):
    """XGBoost (tree booster); categories one-hot by default, missing values native.

    Parameters
    ----------
    task, seed, threads
        As for every model, see `Estimator`.
    device : {"cpu", "cuda"}, default "cpu"
        Where it trains. A machine without a GPU is an error, not a fit on its CPU; a saved model
        predicts anywhere.
    n_estimators : int, default 300, in [1, 100000]
        Rounds, at most.
    learning_rate : float, default 0.3, in (0, 10]
        Factor of each tree.
    max_depth : int, default 6, in [1, 100]
        Depth of the trees.
    min_child_weight : float, default 1.0, at least 0
        Least sum of the Hessian in a leaf.
    subsample : float, default 1.0, in (0, 1]
        Share of the rows that each round draws.
    colsample_bytree, colsample_bylevel : float, default 1.0, in (0, 1]
        Share of the features that each tree, and each level of a tree, draws.
    gamma : float, default 0.0, at least 0
        Least reduction of the loss by a split.
    reg_alpha, reg_lambda : float, defaults 0.0 and 1.0, at least 0
        L1 and L2 penalty of the leaves.
    tree_method : {"hist", "exact"}, default "hist"
        Splits between bins, or at every threshold (not with native categories, not on a GPU).
    categorical : {"one-hot", "native", "ordinal"}, default "one-hot"
        Encoding of categories: as 0/1 columns, by the library itself, or as ordered codes.
    early_stopping_rounds : int, default 30, in [0, 100000]
        With validation rows, stop after so many rounds without a lower loss and predict with the
        best rounds; 0 for off.

    Notes
    -----
    `fit_to` seeds every round by its number (the library's `seed_per_iteration`), which `fit` does
    not: where rows or columns are drawn the two differ, elsewhere they give the same trees.

    Examples
    --------
    >>> from tabsweep.models.xgboost import XGBoost
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]] * 5, ["no", "no", "yes", "yes"] * 5
    >>> model = XGBoost(task="binary").fit(X, y)
    >>> model.predict([[0.0], [3.0]])
    array(['no', 'yes'], dtype='<U3')

    References
    ----------
    Chen and Guestrin 2016, arXiv:1603.02754.
    """

    rules = {
        "device": DEVICE,
        "n_estimators": ROUNDS,
        "learning_rate": RATE,
        "max_depth": Number(1, 100, whole=True),
        "min_child_weight": PENALTY,
        "subsample": SHARE,
        "colsample_bytree": SHARE,
        "colsample_bylevel": SHARE,
        "gamma": PENALTY,
        "reg_alpha": PENALTY,
        "reg_lambda": PENALTY,
        "tree_method": OneOf(("hist", "exact")),
        "categorical": ENCODING,
        "early_stopping_rounds": PATIENCE,
    }
    policy = Policy(numeric="shift", categorical="one-hot", missing="native", target="standard")
    resource = "n_estimators"
    transient = ("curve_",)  # (round, validation loss) of the last fit

    def __init__(
        self,
        *,
        task: str,
        seed: int = 0,
        threads: int = 1,
        device: str = "cpu",
        n_estimators: int = 300,
        learning_rate: float = 0.3,
        max_depth: int = 6,
        min_child_weight: float = 1.0,
        subsample: float = 1.0,
        colsample_bytree: float = 1.0,
        colsample_bylevel: float = 1.0,
        gamma: float = 0.0,
        reg_alpha: float = 0.0,
        reg_lambda: float = 1.0,
        tree_method: str = "hist",
        categorical: str = "one-hot",
        early_stopping_rounds: int = 30,
    ) -> None:
        super().__init__(task=task, seed=seed, threads=threads)
        self.device = device
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.max_depth = max_depth
        self.min_child_weight = min_child_weight
        self.subsample = subsample
        self.colsample_bytree = colsample_bytree
        self.colsample_bylevel = colsample_bylevel
        self.gamma = gamma
        self.reg_alpha = reg_alpha
        self.reg_lambda = reg_lambda
        self.tree_method = tree_method
        self.categorical = categorical
        self.early_stopping_rounds = early_stopping_rounds

    def check(self) -> None:
        """As `Estimator.check`; exact splits have no native categories and no GPU."""
        super().check()
        if self.tree_method == "exact" and self.device != "cpu":
            raise InvalidConfig(
                f"XGBoost: tree_method 'exact' runs on CPUs only, got device {self.device!r}; "
                "choose tree_method 'hist' or device 'cpu'"
            )
        if self.tree_method == "exact" and self.categorical == "native":
            raise InvalidConfig(
                "XGBoost: tree_method 'exact' cannot split native categories; "
                "choose categorical 'one-hot' or 'ordinal', or tree_method 'hist'"
            )

    def _policy(self) -> Policy:
        return Policy("shift", self.categorical, "native", "standard")

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
        params = {
            name: getattr(self, name)
            for name in self.rules
            if name not in ("n_estimators", "early_stopping_rounds", "categorical")
        }
        own = {"seed": self.seed, "nthread": self.threads, "verbosity": 0}
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

    def _material(self, x: np.ndarray, y: np.ndarray) -> Any:
        self._check_device()
        return self._matrix(x, y)

    def _grow(self, data: Any, x: np.ndarray, y: np.ndarray, step: int, until: int) -> None:
        from xgboost import Booster

        params = self._params() | {"seed_per_iteration": True}
        if step == 0:
            self.model_ = Booster(params, [data])
        else:
            self.model_.set_param(params)
        for i in range(step, until):
            self.model_.update(data, i)

    def _predict(self, x: np.ndarray) -> np.ndarray:
        return self.model_.predict(self._matrix(x), iteration_range=(0, self.best_iteration_))

    def _predict_proba(self, x: np.ndarray) -> np.ndarray:
        p = np.asarray(self._predict(x), dtype=np.float64)
        return two_columns(p) if p.ndim == 1 else p / p.sum(axis=1, keepdims=True)
