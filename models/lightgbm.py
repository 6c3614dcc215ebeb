"""LightGBM: leaf-wise gradient boosting on binned features."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .base import (
    ENCODING,
    PATIENCE,
    PENALTY,
    RATE,
    ROUNDS,
    SHARE,
    Number,
    OneOf,
    two_columns,
)
from .boosting_devices import NOT_BUILT, no_gpu
from .policy import Policy
from .resumable import Stepwise, by_round, seed_at
from .weighted import WeightedEstimator


class _Clock:
    """A callback of the library that ends training when the time is over, at the best round."""

    order = 40  # after the library's early stopping (30), which knows a better reason

    def __init__(self, over: Callable[[], bool]) -> None:
        self.over = over
        self.best_loss, self.best_round = np.inf, -1

    def __call__(self, env: Any) -> None:
        from lightgbm.callback import EarlyStopException

        found = env.evaluation_result_list or []
        if found and found[0][2] < self.best_loss:
            self.best_loss, self.best_round = found[0][2], env.iteration
        if self.over():
            raise EarlyStopException(self.best_round if found else env.iteration, found)


class LightGBM(WeightedEstimator, Stepwise):
    """LightGBM; categories and missing values native by default.

    Parameters
    ----------
    task, seed, threads
        As for every model, see `Estimator`.
    device : {"cpu", "cuda", "gpu"}, default "cpu"
        Where it trains: on a CPU, or on a GPU by CUDA or ("gpu") by OpenCL, whichever the library
        was built for; another build is an error. A saved model predicts anywhere.
    n_estimators : int, default 300, in [1, 100000]
        Rounds, at most.
    learning_rate : float, default 0.1, in (0, 10]
        Factor of each tree.
    num_leaves : int, default 31, in [2, 131072]
        Leaves of a tree, at most.
    max_depth : int, default -1, in [-1, 1000]
        Depth of the trees; -1 for no limit.
    min_child_samples : int, default 20, in [0, 1000000]
        Fewest training rows in a leaf.
    min_child_weight : float, default 0.001, at least 0
        Least sum of the Hessian in a leaf.
    subsample : float, default 1.0, in (0, 1]
        Share of the rows that is drawn; acts only with `subsample_freq` >= 1.
    subsample_freq : int, default 0, in [0, 1000]
        Rounds between two draws of rows; 0 for none.
    colsample_bytree : float, default 1.0, in (0, 1]
        Share of the features that each tree draws.
    min_split_gain : float, default 0.0, at least 0
        Least gain of a split.
    reg_alpha, reg_lambda : float, default 0.0, at least 0
        L1 and L2 penalty of the leaves.
    boosting_type : {"gbdt", "dart", "goss"}, default "gbdt"
        Plain boosting, with dropout of trees, or with gradient-based sampling of rows.
    categorical : {"native", "ordinal", "one-hot"}, default "native"
        Encoding of categories: by the library itself, as ordered codes, or as 0/1 columns.
    early_stopping_rounds : int, default 30, in [0, 100000]
        With validation rows, stop after so many rounds without a lower loss and predict with the
        best rounds; 0 for off.

    Notes
    -----
    On a GPU results repeat only approximately: the library's promise of equal bytes is for CPUs,
    and it sums histograms in single precision there.

    Early stopping is never used with "dart", which has no best round.

    `fit_to` begins each piece with its own seeds for what it draws (the library would repeat the
    draws of its first rounds); where nothing is drawn it gives the trees of `fit`. Dart reweighs
    the trees that a state holds, and goss would begin each piece with rounds on all rows: both
    train from zero.

    Examples
    --------
    >>> from tabsweep.models.lightgbm import LightGBM
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]] * 5, ["no", "no", "yes", "yes"] * 5
    >>> model = LightGBM(task="binary", min_child_samples=1).fit(X, y)
    >>> model.predict([[0.0], [3.0]])
    array(['no', 'yes'], dtype='<U3')

    References
    ----------
    Ke et al. 2017, LightGBM (NeurIPS).
    """

    rules = {
        "device": OneOf(("cpu", "cuda", "gpu")),
        "n_estimators": ROUNDS,
        "learning_rate": RATE,
        "num_leaves": Number(2, 131_072, whole=True),
        "max_depth": Number(-1, 1000, whole=True),
        "min_child_samples": Number(0, 1_000_000, whole=True),
        "min_child_weight": PENALTY,
        "subsample": SHARE,
        "subsample_freq": Number(0, 1000, whole=True),
        "colsample_bytree": SHARE,
        "min_split_gain": PENALTY,
        "reg_alpha": PENALTY,
        "reg_lambda": PENALTY,
        "boosting_type": OneOf(("gbdt", "dart", "goss")),
        "categorical": ENCODING,
        "early_stopping_rounds": PATIENCE,
    }
    policy = Policy(numeric="shift", categorical="native", missing="native", target="standard")
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
        learning_rate: float = 0.1,
        num_leaves: int = 31,
        max_depth: int = -1,
        min_child_samples: int = 20,
        min_child_weight: float = 1e-3,
        subsample: float = 1.0,
        subsample_freq: int = 0,
        colsample_bytree: float = 1.0,
        min_split_gain: float = 0.0,
        reg_alpha: float = 0.0,
        reg_lambda: float = 0.0,
        boosting_type: str = "gbdt",
        categorical: str = "native",
        early_stopping_rounds: int = 30,
    ) -> None:
        super().__init__(task=task, seed=seed, threads=threads)
        self.device = device
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.num_leaves = num_leaves
        self.max_depth = max_depth
        self.min_child_samples = min_child_samples
        self.min_child_weight = min_child_weight
        self.subsample = subsample
        self.subsample_freq = subsample_freq
        self.colsample_bytree = colsample_bytree
        self.min_split_gain = min_split_gain
        self.reg_alpha = reg_alpha
        self.reg_lambda = reg_lambda
        self.boosting_type = boosting_type
        self.categorical = categorical
        self.early_stopping_rounds = early_stopping_rounds

    def _policy(self) -> Policy:
        return Policy("shift", self.categorical, "native", "standard")

    def _params(self) -> dict[str, Any]:
        """The configuration under the library's names."""
        params: dict[str, Any] = {
            "learning_rate": self.learning_rate,
            "num_leaves": self.num_leaves,
            "max_depth": self.max_depth,
            "min_data_in_leaf": self.min_child_samples,
            "min_sum_hessian_in_leaf": self.min_child_weight,
            "bagging_fraction": self.subsample,
            "bagging_freq": self.subsample_freq,
            "feature_fraction": self.colsample_bytree,
            "min_gain_to_split": self.min_split_gain,
            "lambda_l1": self.reg_alpha,
            "lambda_l2": self.reg_lambda,
            "boosting": "dart" if self.boosting_type == "dart" else "gbdt",
            "data_sample_strategy": "goss" if self.boosting_type == "goss" else "bagging",
            "seed": self.seed,
            "num_threads": self.threads,
            "verbosity": -1,
        }
        if self.device == "cpu":
            params |= {"deterministic": True, "force_row_wise": True}
        else:  # the library knows neither there
            params["device_type"] = self.device
        if self.task == "regression":
            return params | {"objective": "regression", "metric": "l2"}
        if len(self.classes_) == 2:
            return params | {"objective": "binary", "metric": "binary_logloss"}
        return params | {
            "objective": "multiclass",
            "metric": "multi_logloss",
            "num_class": len(self.classes_),
        }

    def _dataset(self, x: np.ndarray, y: np.ndarray, *, keep: bool) -> Any:
        from lightgbm import Dataset

        native = np.flatnonzero(self.preprocessor_.categorical_).tolist()
        return Dataset(
            x,
            y,
            weight=self._weights,
            categorical_feature=native if self.categorical == "native" else [],
            params=self._params(),
            free_raw_data=not keep,
        )

    def _train(self, params: dict[str, Any], data: Any, **given: Any) -> Any:
        """The library's `train`; NoGpuFound where its build or this machine has no such device."""
        from lightgbm import train
        from lightgbm.basic import LightGBMError

        try:
            return train(params, data, **given)
        except LightGBMError as error:
            missing = (NOT_BUILT, "No OpenCL device", "no CUDA-capable device")
            if self.device != "cpu" and any(words in str(error) for words in missing):
                raise no_gpu("LightGBM", f"says: {' '.join(str(error).split())}") from error
            raise

    def _fit(self, x: np.ndarray, y: np.ndarray, val: tuple[np.ndarray, np.ndarray] | None) -> None:
        from lightgbm import Dataset, early_stopping, record_evaluation

        params = self._params()
        data = self._dataset(x, y, keep=False)
        stop = val if self.boosting_type != "dart" else None
        callbacks: list[Callable[..., Any]] = []
        valid_sets = None
        seen: dict[str, dict[str, list[float]]] = {}
        if stop is not None:
            callbacks = [
                early_stopping(self.early_stopping_rounds, verbose=False),
                record_evaluation(seen),
            ]
            valid_sets = [Dataset(*stop, reference=data, params=params)]
        if self._deadline is not None:
            callbacks.append(_Clock(self._out_of_time))
        self.model_ = self._train(
            params,
            data,
            num_boost_round=self.n_estimators,
            valid_sets=valid_sets,
            callbacks=callbacks,
        )
        self.n_iter_ = self.best_iteration_ = int(self.model_.current_iteration())
        if seen:
            self.curve_ = by_round(next(iter(seen["valid_0"].values())))
        if stop is not None and self.model_.best_iteration > 0:
            self.best_iteration_ = int(self.model_.best_iteration)

    def _continues(self) -> bool:
        return self.boosting_type == "gbdt"

    def _material(self, x: np.ndarray, y: np.ndarray) -> Any:
        return self._dataset(x, y, keep=True)

    def _grow(self, data: Any, x: np.ndarray, y: np.ndarray, step: int, until: int) -> None:
        params = self._params()
        if step:
            drawing = ("bagging_seed", "feature_fraction_seed")
            params |= dict.fromkeys(drawing, seed_at(self.seed, step))
        self.model_ = self._train(
            params, data, num_boost_round=until - step, init_model=self.model_ if step else None
        )

    def _predict(self, x: np.ndarray) -> np.ndarray:
        rounds = self.best_iteration_
        answer = self.model_.predict(x, num_iteration=rounds, num_threads=self.threads)
        return np.asarray(answer, dtype=np.float64)

    def _predict_proba(self, x: np.ndarray) -> np.ndarray:
        p = self._predict(x)
        return two_columns(p) if p.ndim == 1 else p
