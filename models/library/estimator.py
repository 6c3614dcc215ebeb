"""Base classes of the library's estimators: scikit-learn's interface over a registered model.

A model of the registry takes DataFrames of numbers and categories, its task, seed and threads, and
validation rows from outside. Here stand the parts that scikit-learn's users expect beyond that:
any table, `classes_`, an own validation split, presets, sample weights.
"""

from __future__ import annotations

import inspect
import numbers
import sys
import time
import warnings
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from joblib import effective_n_jobs
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from ...common.decisions import Costs, decisions
from ...common.text import did_you_mean
from ..base import Estimator
from ..model_spec import ModelSpec
from ..registry import make_model, unsupported
from ..sample_weights import OFTEN, checked_weights, drawn_by_weight
from . import inputs
from .columns import ColumnNotice, ColumnReader, is_cyclic
from .importances import importances
from .presets import BY_PRESET, PRESETS

BASELINE = "baseline"  # the family of models that learn nothing of X
FEWEST_FOR_SPLIT = 30  # rows; with fewer none is held out
COMMON: dict[str, Any] = {
    "preset": "quick",
    "validation_fraction": 0.15,
    "categorical_features": None,
    "random_state": 0,
    "n_jobs": None,
    "verbose": 0,
}
"""The parameters of every estimator, with their defaults."""


def arrays_inside() -> AbstractContextManager[None]:
    """Within it scikit-learn's transformers return arrays, whatever its user has set.

    `set_config(transform_output="pandas")` is meant for the transformers of a pipeline; those in a
    model and in a reader of free text compute with arrays.
    """
    return config_context(transform_output="default")


class LibraryEstimator(BaseEstimator):
    """Base of both kinds; a subclass is made for each model by `classes.estimator_class`."""

    spec: ClassVar[ModelSpec]
    hyperparameters: ClassVar[dict[str, Any]] = {}  # name -> default, BY_PRESET where it decides
    quick: ClassVar[dict[str, Any]] = {}  # what the quick preset sets
    paper: ClassVar[dict[str, Any]] = {}  # the defaults of the model's class

    # -- public methods ---------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, *, X_val: Any = None, y_val: Any = None) -> Self:
        """Fits on (X, y).

        Parameters
        ----------
        X : DataFrame or array of shape (n_samples, n_features)
            Numbers, categories, booleans, dates, texts, with gaps, as they are.
        y : array-like of shape (n_samples,)
            Labels or numbers, without gaps.
        X_val, y_val : DataFrame or array and array-like, optional
            Rows that early stopping looks at. Without them a share of (X, y) is held out
            (`validation_fraction`), for a model that stops early.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For another preset, an unknown value of a hyperparameter (`InvalidConfig`), columns or
            labels that cannot be used, validation labels of which training knows none, and more
            rows or classes than the model takes.
        """
        with arrays_inside():
            return self._fit(X, y, X_val, y_val, None)

    @property
    def feature_importances_(self) -> np.ndarray:
        """How much each feature of X lowers the loss in the trees of the model (n_features_in_,),
        as shares of 1; AttributeError for a model whose library has no such numbers."""
        check_is_fitted(self, "estimator_")
        with arrays_inside():
            found = importances(self.estimator_, self.columns_)
        if found is None:
            raise AttributeError(f"{type(self).__name__} has no feature_importances_")
        return found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        return tags

    # -- inside -----------------------------------------------------------------------------------

    def _target(self, y: Any) -> np.ndarray:
        """Class codes or values; sets `classes_`."""
        raise NotImplementedError

    def _val_target(self, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """(which validation rows have a known label, their codes or values)."""
        raise NotImplementedError

    def _task(self) -> str:
        """The task of the labels that were given."""
        raise NotImplementedError

    def _config(self) -> dict[str, Any]:
        """The hyperparameters that the model gets: own values over the preset's."""
        if self.preset not in PRESETS:
            raise ValueError(
                f"preset must be one of {', '.join(map(repr, PRESETS))}, got {self.preset!r}"
            )
        decided = {**self.paper, **(self.quick if self.preset == "quick" else {})}
        given = {name: getattr(self, name) for name in self.hyperparameters}
        given = {k: v.item() if isinstance(v, np.generic) else v for k, v in given.items()}
        return {
            name: decided[name] if isinstance(value, str) and value == BY_PRESET else value
            for name, value in given.items()
        }

    def _seed(self) -> int:
        state = self.random_state
        if isinstance(state, numbers.Integral) and 0 <= int(state) < 2**31:
            return int(state)
        return int(check_random_state(state).randint(2**31 - 1))

    def _fit(self, X: Any, y: Any, X_val: Any, y_val: Any, sample_weight: Any) -> Self:
        frame = inputs.frame_of(self, X, reset=True)
        target = self._target(y)
        check_consistent_length(frame, target)
        weights = checked_weights(sample_weight, frame)
        if weights is not None and (weights == 0).any():  # as if such rows were not there
            there = weights > 0
            frame, target = frame[there].reset_index(drop=True), target[there]
            weights = checked_weights(weights[there], frame)
        seed, task = self._seed(), self._task()
        self.columns_ = ColumnReader(
            categories=self._categorical(frame), cyclic=is_cyclic(self.spec)
        )
        table = self.columns_.fit(frame).transform(frame)
        for notice in self.columns_.notices_:
            warnings.warn(notice, ColumnNotice, stacklevel=3)
        self._check_size(task, table, target)
        model = make_model(
            self.spec.name,
            task=task,
            seed=seed,
            threads=effective_n_jobs(self.n_jobs),
            **self._config(),
        )
        rows, val = self._validation(model, table, target, X_val, y_val, seed)
        if rows is not None:
            if weights is not None:
                held = np.setdiff1d(np.arange(len(target)), rows)
                again = drawn_by_weight(weights[held], OFTEN * len(held))
                val = table.iloc[held[again]].reset_index(drop=True), target[held[again]]
                weights = weights[rows]
            table, target = table.iloc[rows].reset_index(drop=True), target[rows]
        self._fit_model(model, table, target, val, weights)
        self.estimator_ = model
        self.n_iter_ = steps_of(model)
        return self

    def _fit_model(
        self,
        model: Any,
        table: pd.DataFrame,
        target: np.ndarray,
        val: tuple[pd.DataFrame, np.ndarray] | None,
        weights: np.ndarray | None,
    ) -> None:
        """The model's own fit; `verbose` prints a line about it to the standard error."""
        takes = inspect.signature(model.fit).parameters
        given: dict[str, Any] = {} if weights is None else {"sample_weight": weights}
        if val is not None and "X_val" in takes:
            given |= {"X_val": val[0], "y_val": val[1]}
        began = time.monotonic()
        # another estimator's warnings are this model's `warnings_`, see `models/base.py`
        with nullcontext() if isinstance(model, Estimator) else warnings.catch_warnings():
            model.fit(table, target, **given)
        if self.verbose:
            unit = {"n_estimators": "rounds", "": "steps"}.get(self.spec.resource)
            n_iter = getattr(model, "n_iter_", None)
            ran = "" if n_iter is None else f" in {n_iter} {unit or self.spec.resource}"
            took = f"{time.monotonic() - began:.1f} s"
            print(f"{type(self).__name__}: fitted{ran}, {took}", file=sys.stderr)

    def _validation(
        self,
        model: Any,
        table: pd.DataFrame,
        target: np.ndarray,
        X_val: Any,
        y_val: Any,
        seed: int,
    ) -> tuple[np.ndarray | None, tuple[pd.DataFrame, np.ndarray] | None]:
        """(the rows to train on, None for all; the rows that early stopping looks at)."""
        if (X_val is None) != (y_val is None):
            raise ValueError("X_val and y_val belong together: give both, or none")
        if X_val is not None:
            frame = inputs.frame_of(self, X_val, reset=False)
            known, labels = self._val_target(y_val)
            check_consistent_length(frame, known)
            there = self.columns_.transform(frame)
            if not known.all():
                self._tell_unknown(y_val, known)
            return None, (there[known].reset_index(drop=True), labels)
        share = self.validation_fraction
        if not isinstance(share, numbers.Real) or not 0 <= float(share) < 1:
            raise ValueError(
                f"validation_fraction must be a number in [0, 1), got {share!r}; 0 holds none out"
            )
        if not share or len(target) < FEWEST_FOR_SPLIT or not stops_early(model):
            return None, None
        codes = target if self._task() != "regression" else None
        rows, held = inputs.held_out(codes, len(target), float(share), seed)
        if not len(held):
            return None, None
        return rows, (table.iloc[held].reset_index(drop=True), target[held])

    def _tell_unknown(self, y_val: Any, known: np.ndarray) -> None:
        """Warn of validation labels that do not occur in training. ValueError if none of them
        does."""
        odd = list(dict.fromkeys(np.asarray(inputs.target_of(self, y_val))[~known].tolist()))
        told = ", ".join(map(repr, odd[:5])) + (", ..." if odd[5:] else "")
        classes = self.classes_.tolist()
        has = ", ".join(map(repr, classes[:5])) + (", ..." if classes[5:] else "")
        if not known.any():
            raise ValueError(f"y_val has no label of y: it holds {told}, y holds {has}")
        warnings.warn(
            f"y_val holds labels that y does not ({told}): {int((~known).sum())} of {len(known)} "
            "validation rows are left out",
            UserWarning,
            stacklevel=5,
        )

    def _categorical(self, frame: pd.DataFrame) -> list[Any]:
        """The names in `categorical_features`, which may also be positions or a mask."""
        given = [] if self.categorical_features is None else list(self.categorical_features)
        if given and all(isinstance(column, bool | np.bool_) for column in given):
            if len(given) != frame.shape[1]:
                raise ValueError(
                    f"categorical_features is a mask of {len(given)} columns, X has "
                    f"{frame.shape[1]} columns; give True or False for each column"
                )
            return list(frame.columns[np.array(given, dtype=bool)])
        found = []
        for column in given:
            position = isinstance(column, numbers.Integral) and column not in frame.columns
            if position and not -frame.shape[1] <= column < frame.shape[1]:
                raise ValueError(
                    f"categorical_features has {column}, X has {frame.shape[1]} columns"
                )
            found.append(frame.columns[column] if position else column)
        return found

    def _check_size(self, task: str, table: pd.DataFrame, target: np.ndarray) -> None:
        n_classes = 0 if task == "regression" else len(self.classes_)
        why = unsupported(self.spec, task, len(table), table.shape[1], n_classes)
        if why:
            raise ValueError(why)

    def _table(self, X: Any) -> pd.DataFrame:
        check_is_fitted(self, "estimator_")
        return self.columns_.transform(inputs.frame_of(self, X, reset=False))


class LibraryClassifier(ClassifierMixin, LibraryEstimator):
    """Base of the classifiers."""

    _costs: Costs = ()  # of the sweep that chose the model: labels are the cheapest by them

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities (n_samples, n_classes), columns in the order of `classes_`."""
        with arrays_inside():
            table = self._table(X)
            found = np.asarray(self.estimator_.predict_proba(table), dtype=np.float64)
        known = np.asarray(self.estimator_.classes_)
        if len(known) == len(self.classes_):
            return found
        every = np.zeros((len(found), len(self.classes_)))  # a class had no row to train on
        every[:, known] = found
        return every

    def predict(self, X: Any) -> np.ndarray:
        """Labels (n_samples,)."""
        check_is_fitted(self, "estimator_")
        if hasattr(self.estimator_, "predict_proba"):
            return self.classes_[decisions(self.predict_proba(X), self._costs)]
        with arrays_inside():
            return self.classes_[np.asarray(self.estimator_.predict(self._table(X)), dtype=int)]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = "multiclass" in self.spec.tasks
        tags.classifier_tags.poor_score = self.spec.family == BASELINE
        return tags

    def _target(self, y: Any) -> np.ndarray:
        multiclass = "multiclass" in self.spec.tasks
        self._costs = ()  # of other labels, perhaps: a fit is that of `clone(self)`
        self.classes_, codes = inputs.labels_of(self, y, multiclass=multiclass)
        return codes

    def _val_target(self, y: Any) -> tuple[np.ndarray, np.ndarray]:
        labels = inputs.target_of(self, y)
        known = np.isin(labels, self.classes_)
        return known, np.searchsorted(self.classes_, labels[known])

    def _task(self) -> str:
        return "multiclass" if len(self.classes_) > 2 else "binary"


class LibraryRegressor(RegressorMixin, LibraryEstimator):
    """Base of the regressors."""

    def predict(self, X: Any) -> np.ndarray:
        """Values (n_samples,)."""
        with arrays_inside():
            table = self._table(X)
            return np.asarray(self.estimator_.predict(table), dtype=np.float64)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = self.spec.family == BASELINE
        return tags

    def _target(self, y: Any) -> np.ndarray:
        return inputs.values_of(self, y)

    def _val_target(self, y: Any) -> tuple[np.ndarray, np.ndarray]:
        values = inputs.values_of(self, y)
        return np.ones(len(values), dtype=bool), values

    def _task(self) -> str:
        return "regression"


class Weighted:
    """Adds `sample_weight` to the fit of an estimator whose library takes it."""

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        X_val: Any = None,
        y_val: Any = None,
    ) -> Self:
        """Fits on (X, y); parameters as in `LibraryEstimator.fit`, and:

        sample_weight : array-like of shape (n_samples,), optional
            How much each row counts; a row of weight 0 is left out. Scaling and gaps are learned
            from all other rows alike. The rows that are held out count by weight as well, those in
            X_val equally.
        """
        with arrays_inside():
            return self._fit(X, y, X_val, y_val, sample_weight)  # type: ignore[attr-defined]


def stops_early(model: Any) -> bool:
    """Whether a model looks at validation rows when it is given any."""
    if isinstance(model, Estimator):
        return model._early_stopping()
    return "X_val" in inspect.signature(model.fit).parameters


def steps_of(model: Any) -> int:
    """Steps that a fit took, at least 1 (a solver in closed form takes one)."""
    found = getattr(model, "n_iter_", None)
    if found is None:
        found = getattr(getattr(model, "model_", None), "n_iter_", None)
    return 1 if found is None else max(1, int(np.max(found)))


def check_names(cls: type[LibraryEstimator], given: dict[str, Any]) -> None:
    """TypeError for a parameter that an estimator does not have, with the nearest name."""
    known = [*cls.hyperparameters, *COMMON]
    for name in given:
        if name not in known:
            raise TypeError(
                f"{cls.__name__} has no parameter {name!r}{did_you_mean(name, known)}; known: "
                f"{', '.join(known)}"
            )
