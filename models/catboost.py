"""CatBoost: gradient boosting of symmetric trees, with native categories."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from .base import two_columns
from .boosted import CategoryBoosted
from .boosting_devices import DEVICE, OF_A_SHARE, check_catboost, gpu_share
from .hyperparameters import PENALTY, RATE, InvalidConfig, Number, hyper
from .resumable import by_round, seed_at

L2_LEAF_REG = 3.0  # the library's default
MVS = {"bootstrap_type": "MVS", "subsample": 0.8}  # the library's own choice on a CPU


class _Clock:
    """A callback of the library that ends training when the time is over."""

    def __init__(self, over: Callable[[], bool]) -> None:
        self.over = over

    def after_iteration(self, info: Any) -> bool:
        """Whether to go on; the library asks after every round (on a CPU alone)."""
        return not self.over()


class CatBoost(CategoryBoosted):
    """CatBoost; categories and missing values native by default.

    Notes
    -----
    DIFF(CatBoost): the library picks a learning rate from rows and rounds; here it is 0.1 unless
    the configuration says otherwise, so that the configuration is complete.

    DIFF(CatBoost): on a GPU the library has other defaults than on a CPU: 128 bins, ordered
    boosting up to 50,000 rows, the Bayesian bootstrap. Here a configuration means the same on both:
    254 bins, plain boosting, and the CPU's bootstrap (MVS of 0.8 of the rows, Bayesian for several
    classes) where `bagging_temperature` is None. Statistics of categories still differ: frequencies
    take the place of counters there.

    `fit_to` can continue where no category is native. A state with statistics of categories would
    apply those of a whole column, each row's own label among them, to the rows it trains on:
    another algorithm (log loss 0.583 against 0.601 of one piece on 600 levels), so it trains from
    zero, as it does on a GPU, where the library continues no training. Pieces have their own seeds,
    and the noise of `random_strength` fades anew in each.

    References
    ----------
    Prokhorenkova et al. 2018, arXiv:1706.09516.
    """

    example = "n_estimators=20"

    device: str = hyper(
        "cpu",
        DEVICE,
        "Where it trains. A machine without a GPU is an error; a saved model predicts anywhere.",
    )
    learning_rate: float | None = hyper(  # type: ignore[assignment]
        0.1,
        replace(RATE, words=(None,)),
        "Factor of each tree; None for the library's choice, which follows rows and rounds "
        "where `l2_leaf_reg` is 3.0 and `leaf_estimation_iterations` None, and is 0.03 "
        "elsewhere.",
    )
    max_depth: int = hyper(6, Number(1, 16, whole=True), "Depth of the trees.")
    l2_leaf_reg: float = hyper(3.0, PENALTY, "L2 penalty of the leaves.")
    random_strength: float = hyper(1.0, PENALTY, "Noise that is added to the scores of splits.")
    leaf_estimation_iterations: int | None = hyper(
        None,
        Number(1, 1000, whole=True, words=(None,)),
        "Newton steps for the values of the leaves; None for the library's choice, which "
        "depends on the task.",
    )
    one_hot_max_size: int | None = hyper(
        None,
        Number(0, 255, whole=True, words=(None,)),
        "Native categories with at most so many levels are one-hot; None for the library's choice.",
    )
    bagging_temperature: float | None = hyper(
        None,
        Number(0.0, words=(None,)),
        "Strength of the Bayesian bootstrap; None for the library's own bootstrap.",
    )
    od_pval: float | None = hyper(
        None,
        Number(0.0, 1.0, low_open=True, words=(None,)),
        "With early stopping, the p-value of the library's test IncToDec that the loss still "
        "falls; training ends once it lies below, after `early_stopping_rounds` more rounds. "
        "None for a count of rounds alone.",
    )

    def _pool(
        self, x: np.ndarray, y: np.ndarray | None = None, weights: np.ndarray | None = None
    ) -> Any:
        from catboost import Pool

        native = np.flatnonzero(self.preprocessor_.categorical_)
        if self.categorical != "native" or len(native) == 0:
            return Pool(x, y, weight=weights, thread_count=self.threads)
        # NaN marks a level that training did not hold: -1 is a level of its own to the library.
        first = int(native[0])
        frame = pd.DataFrame(x[:, :first], columns=range(first))
        codes = np.nan_to_num(x[:, first:], nan=-1.0).astype(np.int64)
        for j, code in zip(native.tolist(), codes.T, strict=True):
            frame[j] = code
        return Pool(
            frame,
            y,
            weight=weights,
            cat_features=native.tolist(),
            thread_count=self.threads,
        )

    def _loss(self) -> str:
        if self.quantile is not None:
            return f"Quantile:alpha={self.quantile}"
        if self.task == "regression":
            return "RMSE"
        return "Logloss" if len(self.classes_) == 2 else "MultiClass"

    def _on_gpu(self) -> dict[str, Any]:
        """What training on a GPU adds to the library's parameters."""
        settings = {
            "task_type": "GPU",
            "devices": "0",
            "gpu_ram_part": OF_A_SHARE * gpu_share(),  # 0.95 of all its memory otherwise
            "border_count": 254,
            "boosting_type": "Plain",
        }
        if self.bagging_temperature is None:
            several = self._loss() == "MultiClass"
            settings |= {"bootstrap_type": "Bayesian"} if several else MVS
        return settings

    def _library(self, rounds: int, seed: int) -> Any:
        """The unfitted booster of the library."""
        from catboost import CatBoost as Library

        names = ["leaf_estimation_iterations", "one_hot_max_size", "bagging_temperature"]
        names += ["learning_rate", "l2_leaf_reg"]
        optional = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        if self.learning_rate is None and self.l2_leaf_reg == L2_LEAF_REG:
            del optional["l2_leaf_reg"]  # the library chooses no rate where this is given
        if self.device != "cpu":
            check_catboost()
            optional |= self._on_gpu()
        if "bagging_temperature" in optional:
            optional["bootstrap_type"] = "Bayesian"
        return Library(
            {
                "iterations": rounds,
                "depth": self.max_depth,
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
        booster = self._library(self.n_estimators, self.seed)
        if val:
            booster.set_params(**self._stopping())
        # on a GPU the library refuses callbacks: there the fit knows no limit of time
        clocked = self._deadline is not None and self.device == "cpu"
        self.model_ = self._train(
            booster,
            self._pool(x, y, self._weights),
            eval_set=self._pool(*val) if val else None,
            use_best_model=val is not None,
            **({"callbacks": [_Clock(self._out_of_time)]} if clocked else {}),
        )
        self.n_iter_ = self.best_iteration_ = int(self.model_.tree_count_)
        if val:
            seen = self.model_.get_evals_result().get("validation", {})
            self.curve_ = by_round(seen.get(self._loss(), ()))

    def _stopping(self) -> dict[str, Any]:
        """The library's overfitting detector."""
        if self.od_pval is None:
            return {"od_type": "Iter", "od_wait": self.early_stopping_rounds}
        wait = self.early_stopping_rounds
        return {"od_type": "IncToDec", "od_pval": self.od_pval, "od_wait": wait}

    def _continues(self) -> bool:
        if self.device != "cpu":
            return False
        return self.categorical != "native" or not self.preprocessor_.categorical_.any()

    def _begin(self, x: np.ndarray, y: np.ndarray, X_val: Any, y_val: Any) -> Any:
        return self._pool(x, y)

    def _grow(self, data: Any, step: int, until: int) -> Any:
        booster = self._library(until - step, seed_at(self.seed, step))
        self.model_ = self._train(booster, data, init_model=self.model_ if step else None)
        return self.model_

    def _predict(self, x: np.ndarray) -> np.ndarray:
        return self.model_.predict(self._pool(x), thread_count=self.threads)

    def _predict_proba(self, x: np.ndarray) -> np.ndarray:
        p = self.model_.predict(
            self._pool(x), prediction_type="Probability", thread_count=self.threads
        )
        return two_columns(np.asarray(p)[:, 1]) if np.shape(p)[1] == 2 else p
