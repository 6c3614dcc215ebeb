"""Base classes of the models: scikit-learn estimators with one preprocessing policy and contract.

`fit(X, y, X_val, y_val)` takes a DataFrame (or an array) with missing values and categories as they
are; `predict` returns the labels that it was given, `predict_proba` has the order of `classes_`.
A subclass writes three small methods that see numbers only: `_fit`, `_predict` (regression) and
`_predict_proba` (classification).
"""

from __future__ import annotations

import math
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import lru_cache
from importlib import import_module
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from ..common.tasks import TASKS
from .hyperparameters import (
    Hyperparameters,
    InvalidConfig,
    Number,
    OneOf,
    check_config,
    hyper,
    required,
)
from .policy import Policy
from .preprocessing import Preprocessor, as_frame, far_median, mean_and_scale
from .target_transform import TRANSFORMS, in_units, quantiles_of, transformed


class Unsupported(Exception):
    """A planned absence: this model does not run on such data (never a failure)."""


class BadState(ValueError):
    """Bytes that are no state of this model on such data; fit from zero instead."""


def softmax(logits: np.ndarray) -> np.ndarray:  # (N, C) -> (N, C)
    """Rows of probabilities, safe for large logits."""
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    return shifted / shifted.sum(axis=1, keepdims=True)


def two_columns(p: np.ndarray) -> np.ndarray:  # (N,) -> (N, 2)
    """Probabilities of both classes from that of the second."""
    p = np.asarray(p, dtype=np.float64)
    return np.column_stack([1.0 - p, p])


def of_sklearn(module: str, name: str, task: str) -> Any:
    """The class of scikit-learn whose name ends in Classifier or Regressor, as the task wants.

    >>> of_sklearn("tree", "DecisionTree", "binary").__name__
    'DecisionTreeClassifier'
    """
    kind = "Regressor" if task == "regression" else "Classifier"
    return getattr(import_module(f"sklearn.{module}"), name + kind)


@lru_cache(maxsize=1)
def _pools(n_modules: int) -> Any:
    """The thread pools of this process. To search them takes longer than a prediction, so they are
    kept until more modules are imported."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


class Estimator(Hyperparameters, BaseEstimator):
    """Base of every model: checks, preprocessing, labels, constant targets, threads.

    Attributes
    ----------
    classes_ : ndarray of shape (C,)
        The labels in `y`, sorted (classification).
    n_features_in_ : int
        Columns of `X`.
    preprocessor_ : Preprocessor
        The fitted preprocessing.
    constant_ : ndarray or None
        Class frequencies (C,) or the mean (1,) of `y` where nothing can be learned, because `y` has
        one value or no feature varies: the model then always predicts them. With `quantile` it is
        that quantile of `y`; with `target_transform` the mean of the transformed values, mapped
        back.
    best_iteration_, n_iter_ : int
        Steps that predictions use and steps that ran, for models that are trained in steps.
    warnings_ : dict of str to int
        Warnings of the libraries during the fit, counted by category, e.g.
        {"ConvergenceWarning": 3}. They are not printed, and not saved with the model. Like
        `warnings.catch_warnings` this is not safe for fits in several threads of one process.

    Notes
    -----
    Class attributes say what a subclass is: `policy` (preprocessing of the default configuration),
    `resource` (the hyperparameter that counts steps, where `fit_to` exists; such a model also knows
    `limit_time`), `computes_in` (number format of its matrix products: by its rounding a row's
    prediction may depend on the rows beside it), `of_regression` (hyperparameters that only a
    regression may set), `uses_pools` (BLAS or OpenMP pools that take no
    argument of their own), `transient` (fitted attributes that are not saved, in addition to those
    of the base classes).
    """

    transient: ClassVar[tuple[str, ...]] = ("warnings_", "out_of_time_", "_limit_s", "_deadline")
    policy: ClassVar[Policy] = Policy()
    uses_pools: ClassVar[bool] = False
    resource: ClassVar[str] = ""
    computes_in: ClassVar[str] = "float64"
    of_regression: ClassVar[tuple[str, ...]] = ("target_transform",)
    _limit_s = None  # type: float | None
    _deadline = None  # type: float | None

    task: str = required(OneOf(TASKS), "What is predicted. A binary task has at most two classes.")
    seed: int = hyper(0, Number(0, 2**31 - 1, whole=True), "Seed of everything random in the fit.")
    threads: int = hyper(
        1,
        Number(1, 4096, whole=True),
        "Threads of the library that computes. With one thread the same configuration, seed and "
        "data give the same bytes.",
    )
    target_transform: str = hyper(
        "none",
        OneOf(TRANSFORMS),
        "Transform of the target (regression alone), for one with far values: `log` of 1 + y, or "
        "`rank`, the normal value of its rank among training rows. Predictions are mapped back and "
        "stay within the range of the training targets.",
    )

    # -- what a subclass writes -------------------------------------------------------------------

    def _policy(self) -> Policy:
        """The preprocessing of this configuration."""
        return self.policy

    def _fit(self, x: np.ndarray, y: np.ndarray, val: tuple[np.ndarray, np.ndarray] | None) -> None:
        """Fits on numbers: x (N, F); y (N,) class codes 0..C-1 or (scaled) values; val alike."""
        raise NotImplementedError

    def _predict(self, x: np.ndarray) -> np.ndarray:
        """Regression: (N,) values in the (scaled) units that `_fit` saw."""
        raise NotImplementedError

    def _predict_proba(self, x: np.ndarray) -> np.ndarray:
        """Classification: (N, C)."""
        raise NotImplementedError

    # -- public methods ---------------------------------------------------------------------------

    def check(self) -> None:
        """Raises `InvalidConfig` where a parameter is outside what the model accepts."""
        check_config(type(self).__name__, self.rules, self.get_params(deep=False))
        for name in self.of_regression:
            if self.task != "regression" and getattr(self, name) != getattr(type(self), name):
                raise InvalidConfig(
                    f"{type(self).__name__}: {name} is of regression alone; leave it out of a "
                    f"{self.task} task"
                )

    def fit(self, X: Any, y: Any, X_val: Any = None, y_val: Any = None) -> Estimator:
        """Fits on (X, y). X_val and y_val serve early stopping alone, where the model has it.

        Boosting libraries stop by their own loss (log loss, squared error). Validation rows whose
        class is absent from y are left out of early stopping.
        """
        self.check()
        x, target = self._prepare(X, y)
        if self.constant_ is not None:
            return self
        with self._limits(), self._counting_warnings():
            self._fit(x, target, self._validation(X_val, y_val))
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """(N, C) float64 probabilities, columns in the order of `classes_`."""
        if self.task == "regression":
            raise AttributeError("a regression model has no predict_proba; use predict")
        x, n = self._numbers(X)
        if self.constant_ is not None:
            return np.tile(self.constant_, (n, 1))
        with self._answering(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return np.ascontiguousarray(self._predict_proba(x), dtype=np.float64)

    def limit_time(self, seconds: float) -> Estimator:
        """Lets every later `fit` train for at most so many wall seconds, and returns the model.

        Training ends after the step or round that is due when the time is over, and the best ones
        so far are kept, as by early stopping; `out_of_time_` then says so. One step runs in any
        case; what comes before and after the steps is not cut short. What such a fit gives depends
        on the machine and on what else it does. ValueError for a model that is not trained in
        steps (one without `resource`), and for no positive number.
        """
        if not self.resource:
            raise ValueError(
                f"{type(self).__name__} is not trained in steps: it knows no limit of time; leave "
                "it out"
            )
        if not seconds > 0 or not math.isfinite(seconds):
            raise ValueError(f"a limit of time must be more than 0 seconds, got {seconds!r}")
        self._limit_s = float(seconds)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """(N,) labels as given in training, or float64 values."""
        self._check_fitted()
        if self.task != "regression":
            return self.classes_[self.predict_proba(X).argmax(axis=1)]
        x, n = self._numbers(X)
        if self.constant_ is not None:
            return np.full(n, self.constant_[0])
        with self._answering(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            answer = np.asarray(self._predict(x), dtype=np.float64)
        return self._in_units(answer)

    def score(self, X: Any, y: Any) -> float:
        """Accuracy or R2, so that scikit-learn's tools work."""
        from sklearn.metrics import accuracy_score, r2_score

        metric = r2_score if self.task == "regression" else accuracy_score
        return float(metric(y, self.predict(X)))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "constant_")

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, RegressorTags

        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.allow_nan = tags.input_tags.categorical = True
        if self.task == "regression":
            tags.estimator_type, tags.regressor_tags = "regressor", RegressorTags()
        else:
            tags.estimator_type, tags.classifier_tags = "classifier", ClassifierTags()
        return tags

    # -- inside -----------------------------------------------------------------------------------

    def _prepare(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """The training rows as numbers; sets everything that `fit` learns but the model itself."""
        self.warnings_: dict[str, int] = {}
        if self._limit_s is not None:
            self._deadline, self.out_of_time_ = time.monotonic() + self._limit_s, False
        frame = as_frame(X)
        target = self._encode_target(y, len(frame))
        self.preprocessor_ = Preprocessor(self._policy(), seed=self.seed).fit(self._seen(frame))
        x = self.preprocessor_.transform(frame)
        self.n_features_in_ = frame.shape[1]
        self.constant_ = self._constant_answer(x, target)
        return x, target

    def _own_params(self) -> dict[str, Any]:
        """The configuration without what every model has (task, seed, ...), for its library."""
        return {n: v for n, v in self.get_params(deep=False).items() if n not in Estimator.rules}

    def _seen(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The rows that the preprocessing learns from."""
        return frame

    def _encode_target(self, y: Any, n_rows: int) -> np.ndarray:
        """Class codes or (scaled) values; sets `classes_` or the target's mean and scale."""
        labels = np.asarray(y)
        if labels.ndim != 1 or len(labels) != n_rows:
            raise ValueError(
                f"y must have shape ({n_rows},) like the rows of X, got {labels.shape}"
            )
        if self.task == "regression":
            values = labels.astype(np.float64)
            if not np.isfinite(values).all():
                raise ValueError("y holds NaN or an infinite value; leave such rows out")
            self._target_quantiles = quantiles_of(self.target_transform, values)
            values = transformed(self.target_transform, values, self._target_quantiles)
            self._target_mean, self._target_scale = 0.0, 1.0
            if self._policy().target == "standard":
                self._target_mean, self._target_scale, _ = mean_and_scale(values)
            elif self._policy().target == "shift":
                self._target_mean = far_median(values)
            return (values - self._target_mean) / self._target_scale
        if pd.isna(labels).any():
            raise ValueError("y holds a missing label; leave such rows out")
        self.classes_, codes = np.unique(labels, return_inverse=True)
        if self.task == "binary" and len(self.classes_) > 2:
            raise ValueError(f"a binary task has 2 classes, y holds {len(self.classes_)}")
        return codes.astype(np.int64)

    def _constant_answer(self, x: np.ndarray, target: np.ndarray) -> np.ndarray | None:
        """The constant prediction where nothing can be learned, or None."""
        first = x[:1]
        varies = x.shape[1] and not np.array_equal(x, np.broadcast_to(first, x.shape), True)
        if varies and len(target) > 1 and target.min() != target.max():
            return None
        if self.task != "regression":
            return np.bincount(target, minlength=len(self.classes_)) / len(target)
        mean = target[0] if target.min() == target.max() else target.mean()
        return self._in_units(np.array([mean]))

    def _in_units(self, values: np.ndarray) -> np.ndarray:  # (N,) -> (N,)
        """Values as `_fit` saw them, in the units of the target."""
        scaled = values * self._target_scale + self._target_mean
        return in_units(self.target_transform, scaled, self._target_quantiles)

    def _validation(self, X_val: Any, y_val: Any) -> tuple[np.ndarray, np.ndarray] | None:
        if X_val is None or y_val is None or not self._early_stopping():
            return None
        frame, labels = as_frame(X_val), np.asarray(y_val)
        if labels.shape != (len(frame),):
            raise ValueError(
                f"y_val must have shape ({len(frame)},) like the rows of X_val, got {labels.shape}"
            )
        x = self.preprocessor_.transform(frame)
        if self.task == "regression":
            values = labels.astype(np.float64)
            if not np.isfinite(values).all():
                raise ValueError("y_val holds NaN or an infinite value; leave such rows out")
            values = transformed(self.target_transform, values, self._target_quantiles)
            return x, (values - self._target_mean) / self._target_scale
        known = np.isin(labels, self.classes_)
        if not known.any():
            return None
        return x[known], np.searchsorted(self.classes_, labels[known])

    def _early_stopping(self) -> bool:
        return bool(getattr(self, "early_stopping_rounds", None))

    def _out_of_time(self) -> bool:
        """Whether the limit of `limit_time` is over: training is to end now."""
        if self._deadline is None or time.monotonic() < self._deadline:
            return False
        self.out_of_time_ = True
        return True

    def _check_fitted(self) -> None:
        if not hasattr(self, "constant_"):
            from sklearn.exceptions import NotFittedError

            raise NotFittedError(f"this {type(self).__name__} is not fitted; call fit first")

    def _numbers(self, X: Any) -> tuple[np.ndarray, int]:
        self._check_fitted()
        frame = as_frame(X)
        return self.preprocessor_.transform(frame), len(frame)

    @contextmanager
    def _counting_warnings(self) -> Iterator[None]:
        """Warnings in this block are counted in `warnings_` instead of printed."""
        counts: Counter[str] = Counter()

        def count(message: Warning | str, category: type[Warning], *where: Any) -> None:
            counts[category.__name__] += 1

        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = count  # type: ignore[assignment]
            try:
                yield
            finally:
                self.warnings_ = dict(sorted(counts.items()))

    def _limits(self) -> Any:
        if not self.uses_pools:
            return nullcontext()
        return _pools(len(sys.modules)).limit(limits=self.threads)

    def _answering(self) -> Any:
        """The threads of a prediction."""
        return self._limits()


class SklearnEstimator(Estimator):
    """A model that one scikit-learn estimator computes; a subclass writes `_build` alone."""

    def _build(self, n_rows: int) -> Any:
        """The unfitted scikit-learn estimator of this configuration."""
        raise NotImplementedError

    def _fit(self, x: np.ndarray, y: np.ndarray, val: tuple[np.ndarray, np.ndarray] | None) -> None:
        self.model_ = self._build(len(x)).fit(x, y)

    def _predict(self, x: np.ndarray) -> np.ndarray:
        return self.model_.predict(x)

    def _predict_proba(self, x: np.ndarray) -> np.ndarray:
        return self.model_.predict_proba(x)
