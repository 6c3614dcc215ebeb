"""Preprocessing: columns of a table to the numbers that a model computes with.

A `Policy` names the four choices; a `Preprocessor` applies them with statistics of the training
rows alone. The output is one dense float64 array: numeric columns first, then missing-value
indicators, then categorical columns.
"""

from __future__ import annotations

import sys
from weakref import WeakKeyDictionary

import numpy as np
import pandas as pd
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from .policy import Policy

MAX_LEVELS = 250
"""Levels that a categorical column may keep (the most frequent ones): 250 fit in the 255 bins of
histogram-based trees and bound the width of one-hot columns. Rarer levels count as unseen."""

LARGEST = float(np.finfo(np.float32).max)
"""Values are clipped here: tree libraries compute in float32, and squares stay finite."""

OUTSIDE = 1e-7
"""A value that is not farther from the least or largest quantile is taken as it."""

FAR = 1000.0
"""Interquartile ranges between zero and a column's median beyond which it is shifted by its median:
float32 has fewer than 17,000 numbers within such a range (seconds since 1970 of a fortnight)."""


def as_frame(X: object) -> pd.DataFrame:
    """X as a DataFrame with a row and a column at least; an array's columns are named 0, 1, ..."""
    if isinstance(X, pd.DataFrame):
        frame = X
    else:
        array = np.asarray(X)
        if array.ndim != 2:
            raise ValueError(f"X must have 2 dimensions (rows, features), got shape {array.shape}")
        frame = pd.DataFrame(array)
        if array.dtype == object:
            frame = frame.infer_objects()
    if frame.shape[0] == 0 or frame.shape[1] == 0:
        raise ValueError(f"X must hold at least one row and one feature, got shape {frame.shape}")
    if not frame.columns.is_unique:
        twice = frame.columns[frame.columns.duplicated()][0]
        raise ValueError(f"column names must be unique, {twice!r} appears twice")
    return frame


def is_categorical(column: pd.Series) -> bool:
    """Whether a column holds categories: any dtype but numbers and booleans."""
    return not (is_numeric_dtype(column.dtype) or is_bool_dtype(column.dtype))


def numbers(column: pd.Series) -> np.ndarray:  # (N,)
    """A numeric column as float64, NaN where missing; a text or an infinite value is an error."""
    try:
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"column {column.name!r} was numeric in training and holds other values now: {error}"
        ) from None
    if np.isinf(values).any():
        raise ValueError(
            f"column {column.name!r} holds an infinite value; replace it by a number or by NaN"
        )
    return values


def _levels(column: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    """Codes (N,), -1 where missing, into an array of levels; levels may include unused ones."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return column.cat.codes.to_numpy(), column.cat.categories.to_numpy()
    codes, levels = pd.factorize(column.astype(object), use_na_sentinel=True)
    return codes, np.asarray(levels, dtype=object)


def _ordered(levels: np.ndarray) -> np.ndarray:
    """Positions of the levels in sorted order; levels that do not compare sort by type and text."""
    positions = range(len(levels))
    try:
        return np.array(sorted(positions, key=lambda i: levels[i]), dtype=np.int64)
    except TypeError:
        texts = [(type(v).__name__, str(v)) for v in levels]
        return np.array(sorted(positions, key=lambda i: texts[i]), dtype=np.int64)


SQUASHED = 5.0  # the largest size of a squashed number
FEW = 64  # rows of texts that are looked up one by one


class _Categories:
    """The levels of one categorical column, from training rows."""

    def __init__(self, column: pd.Series) -> None:
        codes, levels = _levels(column)
        counts = np.bincount(codes[codes >= 0], minlength=len(levels))
        order = _ordered(levels)
        order = order[counts[order] > 0]
        if len(order) > MAX_LEVELS:
            kept = np.sort(np.argsort(-counts[order], kind="stable")[:MAX_LEVELS])
            order = order[kept]
        self.index = pd.Index(levels[order].astype(object))
        self.has_missing = bool((codes < 0).any())

    @property
    def n(self) -> int:
        """Number of levels, the missing one included."""
        return len(self.index) + self.has_missing

    def codes(self, column: pd.Series) -> np.ndarray:  # (N,) int64
        """0..n-1, and -1 for a level (or a gap) that training did not hold."""
        missing = len(self.index) if self.has_missing else -1
        if not isinstance(column.dtype, pd.CategoricalDtype):
            values = column.tolist() if len(column) <= FEW and self._positions else [0]
            if all(type(v) is str or v is None or v is np.nan for v in values):
                at = [self._positions.get(v, -1) if type(v) is str else missing for v in values]
                return np.array(at, dtype=np.int64)
            codes, levels = _levels(column)
            return np.append(self._known(levels), missing)[codes]
        levels, codes = column.dtype.categories, column.array.codes
        seen = _SEEN.get(self)
        if seen is None or seen[0] is not levels:
            seen = _SEEN[self] = levels, np.append(self._known(levels.to_numpy()), missing)
        return seen[1][codes]

    def _known(self, levels: np.ndarray) -> np.ndarray:
        """Positions of levels among those of training, -1 for others."""
        return self.index.get_indexer(pd.Index(levels.astype(object))).astype(np.int64)

    @property
    def _positions(self) -> dict[str, int]:
        """Positions of the levels, empty where they are not all texts."""
        positions = _TEXTS.get(self)
        if positions is None:
            texts = all(type(level) is str for level in self.index)
            positions = {level: i for i, level in enumerate(self.index)} if texts else {}
            _TEXTS[self] = positions
        return positions


# What a row is looked up in, no part of a fitted model: codes of the levels (the last ones seen)
# of a pandas category, and positions of texts.
_SEEN: WeakKeyDictionary[_Categories, tuple[pd.Index, np.ndarray]] = WeakKeyDictionary()
_TEXTS: WeakKeyDictionary[_Categories, dict[str, int]] = WeakKeyDictionary()


class _Numbers:
    """Centre, scale and filling value of one numeric column, from training rows."""

    def __init__(self, values: np.ndarray, numeric: str) -> None:
        seen = values[~np.isnan(values)]
        self.has_gaps = 0 < len(seen) < len(values)
        self.empty = len(seen) == 0
        self.mean, self.scale, self.constant = mean_and_scale(seen)
        if numeric in ("none", "shift"):
            self.centre, self.scale = (far_median(seen) if numeric == "shift" else 0.0), 1.0
        elif numeric == "min-max" and not self.constant:
            self.centre = float(seen.min())
            self.scale = min(float(seen.max() / 2 - self.centre / 2) * 2, sys.float_info.max)
        elif numeric == "squash" and not self.constant:
            low, self.centre, high = np.quantile(seen, [0.25, 0.5, 0.75], method="lower").tolist()
            spread = high / 2 - low / 2 or (seen.max() / 2 - seen.min() / 2) / 2
            self.scale = min(spread * 2, sys.float_info.max)
        else:
            self.centre = self.mean


def far_median(values: np.ndarray) -> float:
    """The median of values that lie `FAR` from zero, else 0; an infinite range is not far."""
    if len(values) == 0:
        return 0.0
    low, median, high = np.quantile(values, [0.25, 0.5, 0.75], method="lower").tolist()
    return median if low < high and abs(median) > FAR * (high - low) else 0.0


def mean_and_scale(values: np.ndarray) -> tuple[float, float, bool]:
    """Mean, standard deviation (ddof 0; 1 where all values are equal) and whether they are equal.

    Safe for values near the largest float; no values give (0, 1, True).
    """
    if len(values) == 0:
        return 0.0, 1.0, True
    if values.min() == values.max():
        return float(values[0]), 1.0, True
    largest = float(np.abs(values).max())
    unit = largest if largest > 1e100 else 1.0
    scaled = values / unit
    mean, std = float(scaled.mean()) * unit, float(scaled.std()) * unit
    return mean, (std if std > 0.0 else 1.0), False


def _normal(
    values: np.ndarray, quantiles: np.ndarray, levels: np.ndarray
) -> np.ndarray:  # (N, F), (Q, F), (Q,) -> (N, F)
    """Values to normal ones: what scikit-learn's `QuantileTransformer` computes of them, without
    its checks, which take longer than a row."""
    from scipy.special import ndtri

    shares = np.empty_like(values)
    for j, (column, known) in enumerate(zip(values.T, quantiles.T, strict=True)):
        up = np.interp(column, known, levels)
        down = np.interp(-column, -known[::-1], -levels[::-1])
        shares[:, j] = 0.5 * (up - down)
    shares[values + OUTSIDE > quantiles[-1]] = 1.0
    shares[values - OUTSIDE < quantiles[0]] = 0.0
    least = OUTSIDE - np.spacing(1)
    return np.clip(ndtri(shares), ndtri(least), ndtri(1 - least))


class Preprocessor:
    """Applies a `Policy`: `fit` on the training rows, `transform` on any rows.

    After `fit`: `n_out_` columns come out; `categorical_` marks those that hold category codes
    (policy `native` or `ordinal`), `cardinalities_` counts their levels, the last of which is the
    missing value where `missing_levels_` says so.
    """

    def __init__(self, policy: Policy, *, seed: int = 0) -> None:
        self.policy = policy
        self.seed = seed

    def fit(self, frame: pd.DataFrame) -> Preprocessor:
        """Learns levels, means and scales; `frame` comes from `as_frame`."""
        policy = self.policy
        self.columns_ = list(frame.columns)
        self.numeric_names_ = [c for c in self.columns_ if not is_categorical(frame[c])]
        self.category_names_ = [c for c in self.columns_ if is_categorical(frame[c])]
        values = self._raw(frame)
        self._numbers = [_Numbers(values[:, j], policy.numeric) for j in range(values.shape[1])]
        self._categories = [_Categories(frame[name]) for name in self.category_names_]
        self._mean = np.array([n.mean for n in self._numbers])
        self._centre = np.array([n.centre for n in self._numbers])
        self._scale = np.array([n.scale for n in self._numbers])
        self._empty = np.array([n.empty for n in self._numbers], dtype=bool)
        gaps = [n.has_gaps and policy.missing == "impute" for n in self._numbers]
        self._gaps = np.flatnonzero(gaps)
        self._quantile = self._fit_quantile(values) if policy.numeric == "quantile" else None
        width = len(self._numbers) + len(self._gaps)
        sizes = [c.n for c in self._categories]
        self.cardinalities_ = sizes
        self.missing_levels_ = [c.has_missing for c in self._categories]
        one_hot = policy.categorical == "one-hot"
        self.n_out_ = width + (sum(sizes) if one_hot else len(sizes))
        self.categorical_ = np.zeros(self.n_out_, dtype=bool)
        if not one_hot:
            self.categorical_[width:] = True
        return self

    def transform(self, frame: pd.DataFrame) -> np.ndarray:  # (N, n_out_) float64
        """The rows as numbers; columns are found by name, an absent one is an error."""
        if list(frame.columns) != self.columns_:
            frame = self._align(frame)
        out = np.zeros((len(frame), self.n_out_))
        n_numeric = len(self._numbers)
        if n_numeric:
            out[:, :n_numeric] = self._transform_numbers(self._raw(frame), out[:, n_numeric:])
        at = n_numeric + len(self._gaps)
        rows = np.arange(len(frame))
        for name, levels in zip(self.category_names_, self._categories, strict=True):
            codes = levels.codes(frame[name])
            if self.policy.categorical == "one-hot":
                known = codes >= 0
                out[rows[known], at + codes[known]] = 1.0
                at += levels.n
                continue
            if self.policy.categorical == "ordinal":
                codes = np.where(codes < 0, levels.n, codes)
            out[:, at] = codes
            if self.policy.categorical == "native" and self.policy.missing == "native":
                out[codes < 0, at] = np.nan
            at += 1
        return out

    def fit_transform(self, frame: pd.DataFrame) -> np.ndarray:
        """`fit` and `transform` of the same rows."""
        return self.fit(frame).transform(frame)

    def _raw(self, frame: pd.DataFrame) -> np.ndarray:  # (N, number of numeric columns)
        if not self.category_names_ and all(t == np.float64 for t in frame.dtypes.array):
            out = frame.to_numpy(copy=True)
            if not np.isinf(out).any():
                return out
        out = np.empty((len(frame), len(self.numeric_names_)))
        for j, name in enumerate(self.numeric_names_):
            out[:, j] = numbers(frame[name])
        return out

    def _align(self, frame: pd.DataFrame) -> pd.DataFrame:
        absent = [name for name in self.columns_ if name not in frame.columns]
        if absent or frame.shape[1] != len(self.columns_):
            extra = [name for name in frame.columns if name not in set(self.columns_)]
            raise ValueError(
                f"X must have the {len(self.columns_)} columns of training; "
                f"missing: {absent[:5]}, unknown: {extra[:5]}"
            )
        return frame[self.columns_]

    def _transform_numbers(self, values: np.ndarray, gaps_out: np.ndarray) -> np.ndarray:
        values[:, self._empty] = 0.0
        if self.policy.missing == "impute":
            gaps = np.isnan(values)
            gaps_out[:, : len(self._gaps)] = gaps[:, self._gaps]
            values = np.where(gaps, self._mean, values)
        if self._quantile is not None:
            out = _normal(values, self._quantile.quantiles_, self._quantile.references_)
            out[:, [n.constant for n in self._numbers]] = 0.0
            return out
        if self.policy.numeric in ("standard", "min-max", "squash"):
            values = values / self._scale - self._centre / self._scale
            if self.policy.numeric == "squash":
                values = values / np.hypot(1.0, values / SQUASHED)
        elif self.policy.numeric == "shift":
            values = values - self._centre
        return np.clip(values, -LARGEST, LARGEST)

    def _fit_quantile(self, values: np.ndarray):  # type: ignore[no-untyped-def]
        """A quantile map to N(0, 1), fitted on noisy values (Gorishniy 2021, sec. 4.4).

        DIFF(Gorishniy 2021, B.2): the text says noise from N(0, 1e-3) on every column; as in
        the authors' code, it is 1e-3 / std times N(0, 1), and N(0, 1) where the std is below 1e-3.
        DIFF(Gorishniy 2021, the authors' code): a constant column becomes 0, not a draw that
        depends on the seed; the std of a column with gaps is that of the values that are there,
        not of the column with its gaps filled, for `standard` too.
        """
        from sklearn.preprocessing import QuantileTransformer

        if values.shape[1] == 0:
            return None
        noise = np.random.default_rng(self.seed).standard_normal(values.shape)
        std = np.array([0.0 if n.constant else n.scale for n in self._spread(values)])
        noisy = np.where(np.isnan(values), self._mean, values)
        noisy = noisy + noise * (1e-3 / np.maximum(std, 1e-3))
        count = max(min(len(values) // 30, 1000), 10)
        return QuantileTransformer(
            n_quantiles=min(count, len(values)),
            output_distribution="normal",
            subsample=None,
            random_state=self.seed,
        ).fit(noisy)

    @staticmethod
    def _spread(values: np.ndarray) -> list[_Numbers]:
        return [_Numbers(values[:, j], "standard") for j in range(values.shape[1])]
