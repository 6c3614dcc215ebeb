"""Classes from elsewhere, made ready for trials: X as numbers, `classes_` of the labels, and the
arguments of their constructors.

To a class with `numbers_only = True` categories are one 0/1 column a level, and gaps the mean with
a 0/1 column beside it, by what the training rows hold (the policy "one-hot", "impute").
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from .policy import Policy

ASKED = "numbers_only"
SKLEARN = "sklearn.base.BaseEstimator"
FITS, PREDICTS = ("fit", "fit_to"), ("predict", "predict_proba")
ROWS = ("X_val", "X_test")  # more rows of features that a fit may take
_MORE = "_taken_by_name"  # of a class: what `ready` took out of its signature
_KEPT = "_numbers_of_columns"  # of a fitted estimator: its Preprocessor
_READY = "_ready_for_trials"  # of a method: `ready` made it
SORTED = "_classes_by_order"  # of a fitted estimator: its `fit` set no `classes_`


def parameters_of(cls: Any) -> dict[str, inspect.Parameter]:
    """The parameters of a class's constructor by name, those that it takes by `**` included."""
    return dict(inspect.signature(cls).parameters) | getattr(cls, _MORE, {})


def ready(cls: Any) -> Any:
    """The class itself, ready for trials.

    Where it asks for numbers, its methods turn the DataFrames that they are given into arrays
    (N, F) of float64 without gaps; arrays pass as they are. Where `fit` sets no `classes_`, the
    sorted labels are set. What an estimator of scikit-learn takes by `**` belongs to its library
    (LightGBM's `task` is another one): of seed and threads it is given what it names, and nothing
    by `**`, so its signature no longer has that.
    """
    if cls.__module__.partition(".")[0] == __name__.partition(".")[0]:
        return cls
    if any(f"{base.__module__}.{base.__name__}" == SKLEARN for base in cls.__mro__):
        # of its own constructor: a class inherits `__signature__`
        given = list(inspect.signature(cls.__init__).parameters.values())[1:]
        setattr(cls, _MORE, {one.name: one for one in given if one.kind is one.VAR_KEYWORD})
        cls.__signature__ = inspect.Signature([p for p in given if p.kind is not p.VAR_KEYWORD])
    numbers = getattr(cls, ASKED, False) is True
    for name in (*FITS, *(PREDICTS if numbers else ())):
        method = getattr(cls, name, None)
        if callable(method) and not hasattr(method, _READY):
            made = _fitting(method, numbers) if name in FITS else _predicting(method)
            setattr(made, _READY, True)
            setattr(cls, name, made)
    return cls


def _fitting(fit: Callable[..., Any], numbers: bool) -> Callable[..., Any]:
    signature = inspect.signature(fit)

    @functools.wraps(fit)
    def fit_ready(*args: Any, **kwargs: Any) -> Any:
        import numpy as np
        import pandas as pd

        given = signature.bind(*args, **kwargs)
        model, X, y, *_ = *given.args, None
        if numbers and isinstance(X, pd.DataFrame):
            from .preprocessing import Preprocessor, as_frame

            encoder = Preprocessor(Policy()).fit(as_frame(X))
            setattr(model, _KEPT, encoder)
            for name, value in given.arguments.items():
                if value is X or (name in ROWS and isinstance(value, pd.DataFrame)):
                    given.arguments[name] = encoder.transform(value)
        fitted = fit(*given.args, **given.kwargs)
        answers = callable(getattr(model, "predict_proba", None))
        if answers and (hasattr(model, SORTED) or not hasattr(model, "classes_")):
            labels = np.asarray(y)
            if labels.ndim and labels.dtype.kind != "f":  # of a regression
                model.classes_ = np.unique(labels)
                setattr(model, SORTED, True)
        return fitted

    return fit_ready


def _predicting(predict: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(predict)
    def predict_numbers(self: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
        import pandas as pd

        if isinstance(X, pd.DataFrame) and hasattr(self, _KEPT):
            X = getattr(self, _KEPT).transform(X)
        return predict(self, X, *args, **kwargs)

    return predict_numbers
