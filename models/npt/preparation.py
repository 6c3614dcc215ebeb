"""Rows of a table as cells, with one target or several: what `NPT` prepares before a fit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd

from ..deep.cells import Cells, Columns, cells_of
from ..deep.estimator import Rows
from ..deep.trainer import torch_device
from ..policy import Policy
from ..preprocessing import as_frame
from .training import LambTrained


class CellEstimator(LambTrained):
    """Base of estimators that see a table as cells and predict one target or several, y (N, T)."""

    policy = Policy("standard", "native", "native", "standard")
    transient = (*LambTrained.transient, "_extra")

    transductive: bool  # a hyperparameter of the subclass

    # -- the table as cells -----------------------------------------------------------------------

    def columns(self) -> Columns:
        """The columns of the table: features as the preprocessing orders them, then targets."""
        made = self.preprocessor_
        sizes = [1] * int((~made.categorical_).sum())
        for size, gap in zip(made.cardinalities_, made.missing_levels_, strict=True):
            sizes.append(max(1, size - gap))
        classes = [len(c) for c in self._all_classes()]
        n = len(sizes)
        return Columns(
            sizes=(*sizes, *(classes or [1] * self.n_targets_)),
            categorical=(*(bool(c) for c in made.categorical_), *[bool(classes)] * self.n_targets_),
            targets=tuple(range(n, n + self.n_targets_)),
        )

    def _all_classes(self) -> list[np.ndarray]:
        if self.task == "regression":
            return []
        return list(self.classes_) if self.n_targets_ > 1 else [self.classes_]

    def cells(self, x: np.ndarray, y: np.ndarray | None = None) -> Cells:
        """Encoded rows (N, F) and targets (N,) or (N, T), hidden where there are none, as cells."""
        if y is None:
            y = np.full((len(x), self.n_targets_), np.nan)
        y = np.asarray(y, dtype=np.float64).reshape(len(x), -1)
        whole = np.concatenate([np.asarray(x, dtype=np.float64), y], axis=1)
        return cells_of(whole, self.columns()).to(torch_device(self.device))

    # -- rows beside the training rows ------------------------------------------------------------

    @contextmanager
    def _others(self, *frames: Any) -> Iterator[None]:
        """Within it a transductive fit also sees the features of these rows."""
        self._extra = [as_frame(f) for f in frames if f is not None and self.transductive]
        try:
            yield
        finally:
            del self._extra

    def _seen(self, frame: pd.DataFrame) -> pd.DataFrame:
        return pd.concat([frame, *self._extra], ignore_index=True) if self._extra else frame

    # -- targets ----------------------------------------------------------------------------------

    def _encode_target(self, y: Any, n_rows: int) -> np.ndarray:
        labels = np.asarray(y)
        self.n_targets_ = labels.shape[1] if labels.ndim == 2 else 1
        if self.n_targets_ == 1:
            return super()._encode_target(labels[:, 0] if labels.ndim == 2 else y, n_rows)
        encoded: list[np.ndarray] = []
        learned: list[Any] = []  # of each target: its classes, or its mean and scale
        for column in labels.T:
            encoded.append(super()._encode_target(column, n_rows))
            regression = self.task == "regression"
            learned.append((self._target_mean, self._target_scale) if regression else self.classes_)
        if self.task == "regression":
            means_and_scales: Any = np.array(learned)
            self._target_mean, self._target_scale = means_and_scales.T
        else:
            self.classes_: Any = learned
        return np.column_stack(encoded)

    def _constant_answer(self, x: np.ndarray, target: np.ndarray) -> np.ndarray | None:
        return super()._constant_answer(x, target) if target.ndim == 1 else None

    def _validation(self, X_val: Any, y_val: Any) -> Rows | None:
        if self.n_targets_ == 1 or X_val is None or y_val is None:
            labels = None if y_val is None else np.asarray(y_val)
            if labels is not None and labels.ndim == 2 and labels.shape[1] == 1:
                labels = labels[:, 0]
            return super()._validation(X_val, labels)
        frame, labels = as_frame(X_val), np.asarray(y_val)
        if labels.shape != (len(frame), self.n_targets_):
            raise ValueError(
                f"y_val must have shape {(len(frame), self.n_targets_)} like the rows of X_val "
                f"and the targets of y, got {labels.shape}"
            )
        x = self.preprocessor_.transform(frame)
        if self.task == "regression":
            values = labels.astype(np.float64)
            if not np.isfinite(values).all():
                raise ValueError("y_val holds NaN or an infinite value; leave such rows out")
            return x, (values - self._target_mean) / self._target_scale
        codes_of_targets = [
            pd.Index(c).get_indexer(col) for c, col in zip(self.classes_, labels.T, strict=True)
        ]
        codes = np.column_stack(codes_of_targets)
        known = (codes >= 0).all(axis=1)
        return (x[known], codes[known]) if known.any() else None
