"""Statistics of a table's values, on which the flags of its passport rest."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pandas as pd

from .table import Table

CUTS = 3  # folds of the cross-validation within a probe
FIRST = 1000  # rows that tell most columns from the target
APART_LEVELS = 0.5  # distinct values per row, at most, of a column that repeats its values


def column_codes(table: Table) -> dict[str, np.ndarray]:
    """Feature name -> (N,) float64: numbers, codes of categories and texts, seconds of dates; NaN
    where missing."""
    codes = {}
    for name, kind in table.kinds.items():
        column = table.frame[name]
        if kind == "categorical":
            values = column.cat.codes.to_numpy().astype(np.float64)
            codes[name] = np.where(values < 0, np.nan, values)
        elif kind == "text":
            values = pd.factorize(column)[0].astype(np.float64)
            codes[name] = np.where(values < 0, np.nan, values)
        elif kind == "date":
            seconds = column.to_numpy().astype("datetime64[us]").astype(np.float64) / 1e6
            codes[name] = np.where(column.isna(), np.nan, seconds)
        else:
            codes[name] = column.to_numpy()
    return codes


def matrix(table: Table) -> np.ndarray:  # -> (N, F)
    """All features as numbers; missing ones as one less than the column's minimum."""
    columns = []
    for values in column_codes(table).values():
        missing = np.isnan(values)
        low = 0.0 if missing.all() else float(np.nanmin(values)) - 1.0
        columns.append(np.where(missing, low, values))
    return np.column_stack(columns)


def small_model(task: str, n_classes: int, single: bool) -> Any:
    """The estimator of `skill`: extra-trees with 30 trees, or one tree for a single feature."""
    from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    if task == "regression":
        if single:
            return DecisionTreeRegressor(max_leaf_nodes=64, min_samples_leaf=2, random_state=0)
        return ExtraTreesRegressor(30, min_samples_leaf=3, random_state=0, n_jobs=1)
    if single:
        return DecisionTreeClassifier(max_leaf_nodes=max(16, 2 * n_classes), random_state=0)
    return ExtraTreesClassifier(30, min_samples_leaf=3, random_state=0, n_jobs=1)


def skill(
    x: np.ndarray, target: np.ndarray, task: str, *, single: bool = False, n_cuts: int = CUTS
) -> float:
    """How well `target` (N,) can be predicted from `x` (N, F): 0 like a constant, 1 without error.

    R2 for regression, else balanced accuracy, rescaled so that chance is 0; measured on the first
    `n_cuts` test parts of a CUTS-fold cross-validation with `small_model`. Classes with fewer than
    CUTS rows are left out.
    """
    from sklearn import config_context
    from sklearn.model_selection import KFold, StratifiedKFold

    weight = np.ones(len(target))
    if task == "regression":
        cuts: Any = KFold(CUTS, shuffle=True, random_state=0)
        if len(target) < 2 * CUTS or target.min() == target.max():
            return 0.0
    else:
        cuts = StratifiedKFold(CUTS, shuffle=True, random_state=0)
        codes, counts = np.unique(target, return_counts=True)
        kept = np.isin(target, codes[counts >= CUTS])
        x, target = x[kept], target[kept]
        places, counts = np.unique(target, return_inverse=True, return_counts=True)[1:]
        weight = 1 / counts[places]  # all classes weigh the same
    classes = np.unique(target)
    if len(classes) < 2:
        return 0.0
    model = small_model(task, len(classes), single)
    x, guess = _from_0_to_1(x).astype(np.float32), np.empty_like(target)
    tested = np.zeros(len(target), dtype=bool)
    # Hundreds of tiny fits: scikit-learn's checks of their arguments would be half of the time.
    with config_context(assume_finite=True, skip_parameter_validation=True):
        for train, test in islice(cuts.split(x, target), n_cuts):
            model.fit(x[train], target[train], sample_weight=weight[train])
            guess[test] = model.predict(x[test])
            tested[test] = True
    target, guess = target[tested], guess[tested]
    if task == "regression":
        error, spread = ((target - guess) ** 2).sum(), ((target - target.mean()) ** 2).sum()
        return float(1 - error / spread) if spread > 0 else 0.0
    recall = np.mean([np.mean(guess[target == c] == c) for c in classes])
    return float((recall - 1 / len(classes)) / (1 - 1 / len(classes)))


def _from_0_to_1(x: np.ndarray) -> np.ndarray:  # (N, D) -> (N, D)
    """Each column between 0 and 1: 32 bits do not tell apart times since 1970, or tiny numbers."""
    x = np.clip(x, -1e300, 1e300)
    x = x - x.min(axis=0)
    return x / np.maximum(x.max(axis=0), np.finfo(np.float64).tiny)


def line_skill(x: np.ndarray, target: np.ndarray) -> float:
    """The share of the target's variance that a straight line in one feature (N,) explains: R2 of a
    least-squares fit, 0 where either is constant."""
    scale = float(np.abs(x).max())
    if scale == 0 or x.std() / scale < 1e-12 or target.std() == 0:
        return 0.0
    return float(np.corrcoef(x / scale, target)[0, 1] ** 2)


def same_classes(x: np.ndarray, y: np.ndarray) -> bool:
    """Whether the values of two columns correspond one to one (the same classes, renamed).

    >>> same_classes(np.array([0, 0, 1]), np.array([5, 5, 2]))
    True
    """
    for part in (slice(FIRST), slice(None)):  # most columns differ in the first rows
        codes_x, codes_y = (np.unique(v[part], return_inverse=True)[1] for v in (x, y))
        n_x, n_y = int(codes_x.max()) + 1, int(codes_y.max()) + 1
        if n_x != n_y or len(np.unique(codes_x * n_y + codes_y)) != n_x:
            return False
    return n_x > 1


def class_like(table: Table, x: np.ndarray) -> list[int]:
    """Numbers of the columns that could be the label: as many distinct values as classes, each in
    at least a tenth of the rows."""
    found = []
    for j, column in enumerate(x.T):
        counts = np.unique(column, return_counts=True)[1]
        if len(counts) == table.n_classes and counts.min() >= 0.1 * table.n_rows:
            found.append(j)
    return found


def answered_or_not(x: np.ndarray) -> bool:
    """Whether all columns look like indicators of a missing answer and nothing else.

    Each has two values, the rarer one in at most a quarter of the rows, and the rare values
    accumulate in some rows: the variance of their number per row is more than twice that of
    independent columns.
    """
    if x.shape[1] < 5:
        return False
    rare = np.zeros(x.shape, dtype=bool)
    for j, column in enumerate(x.T):
        values, counts = np.unique(column, return_counts=True)
        if len(values) != 2 or counts.min() > len(x) / 4:
            return False
        rare[:, j] = column == values[np.argmin(counts)]
    p = rare.mean(axis=0)
    return bool(rare.sum(axis=1).var() > 2 * (p * (1 - p)).sum())


def columns_apart(table: Table, test: np.ndarray) -> list[str]:
    """The numeric columns with repeated values, if test rows share no value with the others in any
    of them; else, or where there are fewer than two such columns, an empty list."""
    part = np.zeros(table.n_rows, dtype=bool)
    part[test] = True
    found = []
    for name in table.numeric:
        values = table.frame[name].to_numpy()
        n_distinct = len(np.unique(values[~np.isnan(values)]))
        if not 2 <= n_distinct <= APART_LEVELS * table.n_rows:
            continue
        if np.isin(values[part], values[~part]).any():
            return []
        found.append(name)
    return found if len(found) >= 2 else []


def row_ids(x: np.ndarray) -> np.ndarray:  # (N, F) -> (N,)
    """An integer for each row; equal rows have equal integers."""
    if x.shape[1] == 0:
        return np.zeros(len(x), dtype=np.int64)
    return np.unique(x, axis=0, return_inverse=True)[1].reshape(-1)


def drift_p(train: np.ndarray, test: np.ndarray, kind: str) -> float:
    """p-value of the hypothesis that a column has the same distribution in both parts.

    Kolmogorov-Smirnov test for numeric columns, chi-squared test for categorical ones.
    """
    from scipy import stats

    train, test = train[~np.isnan(train)], test[~np.isnan(test)]
    if len(train) == 0 or len(test) == 0:
        return 1.0
    if kind == "numeric":
        return float(stats.ks_2samp(train, test, method="asymp").pvalue)
    values, places = np.unique(np.concatenate([train, test]), return_inverse=True)
    if len(values) < 2:
        return 1.0
    parts = np.split(places, [len(train)])
    counts = np.stack([np.bincount(part, minlength=len(values)) for part in parts])
    # Rare categories together: the chi-squared approximation wants five expected in each cell.
    small = counts.sum(axis=0) * min(len(train), len(test)) / (len(train) + len(test)) < 5
    if small.any():
        counts = np.column_stack([counts[:, ~small], counts[:, small].sum(axis=1)])
    return float(stats.chi2_contingency(counts).pvalue) if counts.shape[1] > 1 else 1.0
