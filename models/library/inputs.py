"""What scikit-learn's users hand over, checked as scikit-learn checks it: X, y and weights."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_array, column_or_1d
from sklearn.utils.validation import validate_data as validate


def frame_of(estimator: Any, X: Any, *, reset: bool) -> pd.DataFrame:
    """X as a DataFrame with an index from 0; names and number of columns as in training.

    X: a DataFrame (of pandas, or of a library whose frames have `to_pandas`), or an array of two
    dimensions, whose columns are called 0, 1, ... reset: whether this is a fit, which sets
    `n_features_in_` and `feature_names_in_`. An array in place of a DataFrame, or the reverse, is
    taken by the positions of its columns, with a warning, as scikit-learn does. TypeError for
    sparse matrices, ValueError for other shapes, other columns than in training, infinite and
    complex numbers.
    """
    if not isinstance(X, pd.DataFrame) and hasattr(X, "to_pandas"):
        X = X.to_pandas()
    if not isinstance(X, pd.DataFrame):
        X = check_array(
            X, dtype=None, ensure_all_finite="allow-nan", estimator=estimator, input_name="X"
        )
        validate(estimator, X, reset=reset, skip_check_array=True)
        frame = pd.DataFrame(X)
        frame = frame.infer_objects() if X.dtype == object else frame
        return _as_in_training(estimator, frame, reset=reset)
    validate(estimator, X, reset=reset, skip_check_array=True)
    if 0 in X.shape:
        what = f"{X.shape[1]} feature(s)" if X.shape[0] else f"{X.shape[0]} sample(s)"
        raise ValueError(f"Found {what} (shape={X.shape}) while a minimum of 1 is required.")
    frame = X.reset_index(drop=True)
    for name, column in frame.items():
        if column.dtype == np.float64 and np.isinf(column.to_numpy()).any():
            raise ValueError(
                f"Input X contains infinity: column {name!r}; replace it by a number or by NaN"
            )
    return _as_in_training(estimator, frame, reset=reset)


def _as_in_training(estimator: Any, frame: pd.DataFrame, *, reset: bool) -> pd.DataFrame:
    """The frame with the names of training, which a fit (`reset`) keeps as `_names_in`.

    Where names of training are not there, the columns are taken by position: `validate` has checked
    their number, and that two DataFrames with names of text have the same.
    """
    if reset:
        estimator._names_in = list(frame.columns)
        return frame
    names = estimator._names_in
    if set(names) <= set(frame.columns):
        return frame
    by_text = [all(isinstance(name, str) for name in n) for n in (names, frame.columns)]
    if by_text[0] == by_text[1]:  # else scikit-learn has warned
        shown = [", ".join(map(repr, list(n)[:5])) for n in (frame.columns, names)]
        warnings.warn(
            f"X has the columns {shown[0]}, but {type(estimator).__name__} was fitted with "
            f"{shown[1]}; they are taken by position",
            UserWarning,
            stacklevel=2,
        )
    return frame.set_axis(names, axis=1)


def target_of(estimator: Any, y: Any) -> np.ndarray:  # (N,)
    """y as one column; ValueError where it is missing, has several columns or gaps."""
    if y is None:
        raise ValueError(
            f"This {type(estimator).__name__} estimator requires y to be passed, but the target y "
            "is None."
        )
    if isinstance(y, pd.DataFrame):
        y = y.to_numpy()
    elif not isinstance(y, np.ndarray) and hasattr(y, "to_numpy"):  # categories as their values
        y = np.asarray(y.to_numpy())
    found = column_or_1d(y, warn=True)
    if np.iscomplexobj(found):
        raise ValueError("Complex data not supported: y")
    if pd.isna(found).any():
        n = int(pd.isna(found).sum())
        raise ValueError(f"Input y contains NaN: {n} of {len(found)}; leave such rows out of X too")
    return found


def labels_of(
    estimator: Any, y: Any, *, multiclass: bool
) -> tuple[np.ndarray, np.ndarray]:  # (C,), (N,)
    """(the classes, sorted; the codes 0..C-1 of y). multiclass: whether more than two will do."""
    labels = target_of(estimator, y)
    check_classification_targets(labels)
    try:
        classes, codes = np.unique(labels, return_inverse=True)
    except TypeError:
        kinds = sorted({type(v).__name__ for v in labels})
        raise ValueError(
            f"y holds labels of types that do not compare ({', '.join(kinds)}); make them all text"
        ) from None
    if len(classes) > 2 and not multiclass:
        raise ValueError(
            "Only binary classification is supported. The type of the target is "
            f"{type_of_target(labels)}."
        )
    return classes, codes.astype(np.int64)


def values_of(estimator: Any, y: Any) -> np.ndarray:  # (N,) float64
    """y as finite numbers; ValueError for anything else."""
    found = target_of(estimator, y)
    try:
        values = found.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"Unknown label type: y of a regression must be numbers ({error})"
        ) from None
    if not np.isfinite(values).all():
        raise ValueError("Input y contains infinity; leave such rows out of X too")
    return values


def held_out(
    codes: np.ndarray | None, n: int, share: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers (training, validation), drawn by `seed`; a share of each class is held out.

    codes: of the classes (N,), None for regression. Every class keeps a row to train on.

    >>> held_out(np.array([0] * 8 + [1]), 9, 0.25, 0)[1]
    array([0, 3])
    """
    chance = np.random.default_rng([seed, 17])
    groups = (
        [np.arange(n)] if codes is None else [np.flatnonzero(codes == k) for k in np.unique(codes)]
    )
    val = [
        chance.permutation(rows)[: min(round(share * len(rows)), len(rows) - 1)] for rows in groups
    ]
    chosen = np.sort(np.concatenate(val))
    return np.setdiff1d(np.arange(n), chosen), chosen
