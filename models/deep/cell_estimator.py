"""Base of the estimators that see a table as cells, the target among them: NPT and Hopular."""

from __future__ import annotations

import numpy as np

from ..policy import Policy
from .cells import Cells, Columns, cells_of
from .estimator import DeepEstimator
from .trainer import torch_device


class CellEstimator(DeepEstimator):
    """Rows of a table and their target as cells of a network's input."""

    policy = Policy("standard", "native", "native", "standard")

    def columns(self) -> Columns:
        """The columns of the table: features as the preprocessing orders them, then the target."""
        made = self.preprocessor_
        sizes = [1] * len(made.numeric_names_)
        for size, gap in zip(made.cardinalities_, made.missing_levels_, strict=True):
            sizes.append(max(1, size - gap))
        classes = self.task != "regression"
        return Columns(
            sizes=(*sizes, len(self.classes_) if classes else 1),
            categorical=(*(bool(c) for c in made.categorical_), classes),
            targets=(len(sizes),),
        )

    def cells(self, x: np.ndarray, y: np.ndarray | None = None) -> Cells:
        """Encoded rows (N, F) and targets (N,), hidden where there are none, as cells."""
        target = np.full(len(x), np.nan) if y is None else np.asarray(y, dtype=np.float64)
        return cells_of(np.column_stack([x, target]), self.columns()).to(torch_device(self.device))
