"""Sample weights, for the models whose library takes them.

The models themselves take none: what they hand to their library during a fit is given the weights
on the way. A class from elsewhere is given them as `sample_weight`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from itertools import count
from types import SimpleNamespace
from typing import Any

import numpy as np

ROUNDING = 1e-10  # sums of weights that differ by so much of the whole are equal
OFTEN = 4  # rows that are held out stand there so many times, by weight


def _on_fit(made: Any, weights: np.ndarray) -> Any:
    """An estimator of scikit-learn whose `fit` gets the weights."""
    made.fit = partial(made.fit, sample_weight=weights)
    return made


def _on_mean_loss(made: Any, weights: np.ndarray) -> Any:
    """As `_on_fit`, for a penalty that stands beside the mean loss of a row."""
    return _on_fit(made, weights / weights.mean())


def _on_data(made: Any, weights: np.ndarray) -> Any:
    """A training set of a boosting library with weights."""
    made.set_weight(weights)
    return made


HANDS: dict[str, tuple[str, Callable[[Any, np.ndarray], Any]]] = {
    # model -> (the method that makes what the library trains, what gives that the weights)
    "adaboost": ("_build", _on_fit),
    "bagging": ("_build", _on_fit),
    "catboost": ("_pool", _on_data),
    "decision-tree": ("_build", _on_fit),
    "elastic-net": ("_build", _on_mean_loss),
    "extra-trees": ("_build", _on_fit),
    "gradient-boosting": ("_library", _on_fit),
    "hist-gradient-boosting": ("_library", _on_fit),
    "lightgbm": ("_dataset", _on_data),
    "linear": ("_build", _on_fit),
    "random-forest": ("_build", _on_fit),
    "xgboost": ("_matrix", _on_data),
}
"""How the weights reach the library, for each model whose library takes sample weights."""

TAKE_WEIGHTS = frozenset({*HANDS, "constant"})
"""All models that take sample weights: those of HANDS, and `constant`, which has no library."""

NUMBERS = count(1)
MADE = SimpleNamespace()
"""The classes that `counting` has made, where a target such as "module:MADE.fit1" finds them."""


@contextmanager
def weighted(name: str, model: Any, weights: np.ndarray | None) -> Iterator[None]:
    """Within it a fit of `model` (registered as `name`) counts its rows with these weights (N,).

    Validation rows, which only stop a fit, count equally. No weights change nothing.
    """
    if weights is None:
        yield
        return
    method, give = HANDS.get(name, ("_fit", None))
    make = getattr(model, method)
    made: list[Any] = []

    def weighted_first(*args: Any, **named: Any) -> Any:
        found = make(*args, **named)
        made.append(give(found, weights) if give and not made else found)  # later: validation rows
        return made[-1]

    replaced = weighted_first if give else partial(_fit_constant, model, weights)
    setattr(model, method, replaced)
    model._constant_answer = partial(_constant_answer, model, weights)
    try:
        yield
    finally:
        delattr(model, method)
        del model._constant_answer
        for found in made:
            getattr(found, "__dict__", {}).pop("fit", None)


def _constant_answer(
    model: Any, weights: np.ndarray, x: np.ndarray, target: np.ndarray
) -> np.ndarray | None:
    """The answer of `model` where nothing can be learned: weighted frequencies, or the mean."""
    found = type(model)._constant_answer(model, x, target)
    if found is None or target.min() == target.max():
        return found
    if model.task != "regression":
        return np.bincount(target, weights, minlength=len(model.classes_)) / weights.sum()
    mean = np.average(target, weights=weights)
    return np.array([mean * model._target_scale + model._target_mean])


def _fit_constant(model: Any, weights: np.ndarray, x: np.ndarray, y: np.ndarray, val: Any) -> None:
    """The fit of `constant`: weighted frequencies, mean, or median."""
    if model.task != "regression":
        model.answer_ = np.bincount(y, weights) / weights.sum()
    elif model.statistic == "median":
        model.answer_ = np.array([weighted_median(y, weights)])
    else:
        model.answer_ = np.array([np.average(y, weights=weights)])


def weighted_median(values: np.ndarray, weights: np.ndarray) -> float:  # (N,), (N,)
    """The value with half of the weight on either side; between two values their mean.

    >>> weighted_median(np.array([5.0, 1.0, 2.0]), np.array([1.0, 1.0, 2.0]))
    2.0
    >>> weighted_median(np.arange(10.0), np.full(10, 0.1))  # halves, but for rounding
    4.5
    """
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weights[order])
    half, near = below[-1] / 2, below[-1] * ROUNDING
    low, high = np.searchsorted(below, half - near), np.searchsorted(below, half + near, "right")
    return float((values[order[low]] + values[order[high]]) / 2)


def fit_by_weights(
    fit: Callable[..., Any],
    model: Any,
    name: str | None,
    X: Any,
    y: Any,
    *,
    weights: np.ndarray,
    val_weights: np.ndarray | None = None,
    **more: Any,
) -> Any:
    """`fit(X, y, **more)`, a fit of `model`, with the training rows counted by `weights` (N,).

    X, `X_val`: frames with an index from 0. Rows of weight 0 are as if they were not there;
    validation rows, which stop a fit, are drawn by `val_weights` (N_val,). name: the model of
    TAKE_WEIGHTS that it is; None for a class from elsewhere, whose `fit` has the parameter
    `sample_weight`. ValueError where all training rows weigh nothing.
    """
    there = weights > 0
    if not there.any():
        raise ValueError("all training rows of this fold have weight 0: nothing to learn")
    X, y, weights = X[there].reset_index(drop=True), y[there], weights[there]
    if more.get("X_val") is not None and val_weights is not None and val_weights.any():
        from .inputs import drawn_by_weight  # its module imports scikit-learn

        rows = drawn_by_weight(val_weights, OFTEN * len(val_weights))
        more["X_val"] = more["X_val"].iloc[rows].reset_index(drop=True)
        more["y_val"] = more["y_val"][rows]
    if name is None:
        return fit(X, y, sample_weight=weights, **more)
    with weighted(name, model, weights):
        return fit(X, y, **more)


@contextmanager
def counting(
    cls: Any, name: str | None, weights: np.ndarray, val_weights: np.ndarray
) -> Iterator[str]:
    """Within it, the target ("module:MADE.fit1") of a class like `cls` whose `fit` is
    `fit_by_weights`, with these weights of the training rows and the validation rows.

    During the fit the object is one of `cls` itself: a clone of it, made by the `fit` of `cls` for
    a part of the rows, has no weights but those that it is given there.
    """
    given = {"weights": weights, "val_weights": val_weights}

    def fit(self: Any, X: Any, y: Any, **more: Any) -> Any:
        made, self.__class__ = type(self), cls
        try:
            return fit_by_weights(partial(cls.fit, self), self, name, X, y, **given, **more)
        finally:
            self.__class__ = made

    own = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__}
    # no slots: objects of both classes are laid out alike, so that one may become the other
    own |= {"__slots__": (), "fit": wraps(cls.fit)(fit)}
    key = f"fit{next(NUMBERS)}"
    setattr(MADE, key, type(cls.__name__, (cls,), own))
    try:
        yield f"{__name__}:MADE.{key}"
    finally:
        delattr(MADE, key)
