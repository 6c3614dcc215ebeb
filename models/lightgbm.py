"""LightGBM: leaf-wise gradient boosting on binned features."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .base import two_columns
from .boosted import CategoryBoosted
from .boosting_devices import NOT_BUILT, no_gpu
from .hyperparameters import DEPTH, PENALTY, ROWS, SHARE, Number, OneOf, hyper
from .resumable import by_round, seed_at


class _Clock:
    """A callback of the library that ends training when the time is over, at the best round."""

    order = 40  # after the library's early stopping (30), which knows a better reason

    def __init__(self, over: Callable[[], bool]) -> None:
        self.over = over
        self.best_loss, self.best_round = np.inf, -1

    def __call__(self, env: Any) -> None:
        from lightgbm.callback import EarlyStopException

        losses = env.evaluation_result_list or []
        if losses and losses[0][2] < self.best_loss:
            self.best_loss, self.best_round = losses[0][2], env.iteration
        if self.over():
            raise EarlyStopException(self.best_round if losses else env.iteration, losses)


class LightGBM(CategoryBoosted):
    """LightGBM; categories and missing values native by default.

    Notes
    -----
    On a GPU results repeat only approximately: the library's promise of equal bytes is for CPUs,
    and it sums histograms in single precision there.

    Early stopping is never used with "dart", which has no best round.

    `fit_to` begins each piece with its own seeds for what it draws (the library would repeat the
    draws of its first rounds); where nothing is drawn it gives the trees of `fit`. Dart reweighs
    the trees that a state holds, and goss would begin each piece with rounds on all rows: both
    train from zero.

    References
    ----------
    Ke et al. 2017, LightGBM (NeurIPS).
    """

    example = "min_child_samples=1"

    device: str = hyper(
        "cpu",
        OneOf(("cpu", "cuda", "gpu")),
        'Where it trains: on a CPU, or on a GPU by CUDA or ("gpu") by OpenCL, whichever the '
        "library was built for; another build is an error. A saved model predicts anywhere.",
    )
    num_leaves: int = hyper(31, Number(2, 131_072, whole=True), "Leaves of a tree, at most.")
    max_depth: int = hyper(-1, Number(-1, 1000, whole=True), "Depth of the trees; -1 for no limit.")
    min_child_samples: int = hyper(20, ROWS, "Fewest training rows in a leaf.")
    min_child_weight: float = hyper(1e-3, PENALTY, "Least sum of the Hessian in a leaf.")
    subsample: float = hyper(
        1.0, SHARE, "Share of the rows that is drawn; acts only with `subsample_freq` >= 1."
    )
    subsample_freq: int = hyper(0, DEPTH, "Rounds between two draws of rows; 0 for none.")
    colsample_bytree: float = hyper(1.0, SHARE, "Share of the features that each tree draws.")
    min_split_gain: float = hyper(0.0, PENALTY, "Least gain of a split.")
    reg_alpha: float = hyper(0.0, PENALTY, "L1 penalty of the leaves.")
    reg_lambda: float = hyper(0.0, PENALTY, "L2 penalty of the leaves.")
    boosting_type: str = hyper(
        "gbdt",
        OneOf(("gbdt", "dart", "goss")),
        "Plain boosting, with dropout of trees, or with gradient-based sampling of rows.",
    )

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
        if self.quantile is not None:
            return params | {"objective": "quantile", "metric": "quantile", "alpha": self.quantile}
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

    def _begin(self, x: np.ndarray, y: np.ndarray, X_val: Any, y_val: Any) -> Any:
        return self._dataset(x, y, keep=True)

    def _grow(self, data: Any, step: int, until: int) -> Any:
        params = self._params()
        if step:
            drawing = ("bagging_seed", "feature_fraction_seed")
            params |= dict.fromkeys(drawing, seed_at(self.seed, step))
        self.model_ = self._train(
            params, data, num_boost_round=until - step, init_model=self.model_ if step else None
        )
        return self.model_

    def _predict(self, x: np.ndarray) -> np.ndarray:
        rounds = self.best_iteration_
        answer = self.model_.predict(x, num_iteration=rounds, num_threads=self.threads)
        return np.asarray(answer, dtype=np.float64)

    def _predict_proba(self, x: np.ndarray) -> np.ndarray:
        p = self._predict(x)
        return two_columns(p) if p.ndim == 1 else p
