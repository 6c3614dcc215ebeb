"""Base of the estimators that see a table as cells, the target among them: NPT and Hopular."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from torch import Tensor

from ..hyperparameters import COUNT, RATE, ROWS, Number, hyper
from ..policy import Policy
from .cells import Cells, Columns, cells_of, fitting_width
from .column_decoder import probabilities
from .estimator import PATIENCE, STEPS, DeepEstimator, Module, Rows
from .trainer import Recipe, torch_device


class CellEstimator(DeepEstimator):
    """Rows of a table and their target as cells of a network's input.

    A subclass writes `_rate` and `_decoded` beside what every network writes.
    """

    policy = Policy("standard", "native", "native", "standard")

    steps: int = hyper(2000, STEPS, "Steps of the optimiser in the whole schedule.")
    eval_every: int = hyper(1, COUNT, "Steps between two validation losses.")
    patience: int = hyper(
        0,
        PATIENCE,
        "Validation losses without a lower one that end the fit, 0 for no early stopping.",
    )
    lr: float = hyper(1e-3, RATE, "Learning rate at its peak.")
    batch_size: int = hyper(0, Number(0, 10_000_000, whole=True), "Rows of a step, 0 for all.")
    width: int = hyper(64, COUNT, "Width of a cell's vector, E; a row of d columns is d E wide.")
    max_width: int = hyper(
        0,
        ROWS,
        "The widest row d E; above it `width` is reduced, and still divides by the heads. 0 for "
        "no limit. Not in the papers; for wide tables on small machines.",
    )

    def _rate(self, step: int) -> float:
        """The learning rate after so many steps."""
        raise NotImplementedError

    def _decoded(self, x: np.ndarray) -> Tensor:
        """(N,) standardised values or (N, C) logits of the target."""
        raise NotImplementedError

    def _recipe(self) -> Recipe:
        return Recipe(
            steps=self.steps,
            rate=self._rate,
            eval_every=self.eval_every,
            patience=self.patience,
            precision=self.precision,
            compile=self.compile,
        )

    def _cell_network(self, kind: Callable[..., Module], n_heads: int, **given: Any) -> Module:
        """A network for this table, whose cells have a width that n_heads divides."""
        columns = self.columns()
        width = fitting_width(self.width, self.max_width, columns.n, n_heads)
        return self._made(kind, columns=columns, width=width, **given)

    def _kept(self, train: Rows, val: Rows | None) -> dict[str, Any]:
        """The training rows."""
        return {"x": train[0].astype(np.float32), "y": np.asarray(train[1], dtype=np.float32)}

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

    def _predict(self, x: np.ndarray) -> np.ndarray:
        return self._decoded(x).float().cpu().numpy().astype(np.float64)

    def _predict_proba(self, x: np.ndarray) -> np.ndarray:
        return probabilities(self._decoded(x))
