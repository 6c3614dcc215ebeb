"""The estimator of Hopular (Schaefl et al. 2022, arXiv:2206.00664).

The training rows are its memory: every block of the network looks them up, with their targets. So
they are part of the fitted model, and a row to predict sees them and itself, no other row. A row
that is in the memory finds its own target there when it is asked; in training its copy is hidden.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from torch import Tensor

from ..deep.cell_estimator import CellEstimator
from ..deep.estimator import STEPS, Rows
from ..deep.trainer import Recipe, torch_device
from ..hyperparameters import (
    COUNT,
    DROPOUT,
    LAYERS,
    PENALTY,
    POSITIVE,
    PROBABILITY,
    InvalidConfig,
    Number,
    OneOf,
    hyper,
)
from ..preprocessing import as_frame
from .network import HopularNetwork, Memory
from .schedules import SCHEDULES, rate
from .task import HopularTask, ask


class Hopular(CellEstimator):
    """Hopular: modern Hopfield networks that look up the training rows in every block.

    A step is an epoch: one pass over all training rows. Validation rows choose the epoch by
    `stop_on`, every `eval_every` epochs; the first best one wins. Defaults are the authors' for
    their interactive use, with the paper's 10,000 epochs.

    DIFF(Schaefl 2022, the authors' code): the epoch may be chosen by ROC AUC, as a sweep that ranks
    by it does. By the share of wrong classes, as there, training on classes of unequal size ends
    at once: no early step is better than the frequent class.

    References
    ----------
    Schaefl et al. 2022, arXiv:2206.00664.
    """

    example = "steps=5, width=8, n_blocks=1"
    transient = (*CellEstimator.transient, "_memory")

    steps: int = hyper(10_000, STEPS, "Epochs.")
    eval_every: int = hyper(10, COUNT, "Epochs between two validation losses.")
    width: int = 32
    n_blocks: int = hyper(8, LAYERS, "Blocks.")
    n_nets: int = hyper(8, COUNT, "Hopfield nets in each module, M; divides the width.")
    beta_scaling: float = hyper(
        1.0,
        POSITIVE,
        "c in beta = c / sqrt(width of a net); larger comes closer to a nearest neighbour.",
    )
    dropout_input: float = hyper(0.1, DROPOUT, "Dropout in the embedding.")
    dropout_hopfield: float = hyper(0.1, DROPOUT, "Dropout on the associations.")
    dropout_output: float = hyper(0.01, DROPOUT, "Dropout before the outputs.")
    p_mask: float = hyper(0.025, PROBABILITY, "Share of the feature cells that are hidden.")
    p_replace: float = hyper(
        0.175, PROBABILITY, "Share of the feature cells that are replaced by noise."
    )
    gamma: float = hyper(1.0, PROBABILITY, "Weight of the feature loss at the start.")
    schedule: str = hyper(
        "cosine",
        OneOf(SCHEDULES),
        "Learning rate over the epochs: half a cosine to 0 (`cosine`, the authors' code) or "
        "always `lr` (`constant`, the paper).",
    )
    weight_decay: float = hyper(0.1, PENALTY, "Weight decay of LAMB.")
    average: float = hyper(
        0.005,
        PROBABILITY,
        "Share of the new weights in the exponential average that is validated and kept, 0 for "
        "none.",
    )
    stop_on: str = hyper(
        "metric",
        OneOf(("metric", "roc_auc")),
        "What chooses the epoch: `metric` (share of wrong classes or squared error), or `roc_auc` "
        "for classes (log loss where one has no validation row).",
    )
    batch_size: int = hyper(
        0,
        Number(0, 10_000_000, whole=True),
        "Rows that pass through the network together in training, 0 for all; there is one step "
        "of the optimiser an epoch all the same.",
    )

    def check(self) -> None:
        """Raises `InvalidConfig` where classes are to choose the epoch and there are none."""
        super().check()
        if self.task == "regression" and self.stop_on != "metric":
            raise InvalidConfig(f"Hopular: stop_on = {self.stop_on!r} is of classes alone")

    # -- the table --------------------------------------------------------------------------------

    def _prepare(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """As every model, but numbers are divided by the unbiased standard deviation."""
        x, target = super()._prepare(X, y)
        made = self.preprocessor_
        n_numeric = len(made.numeric_names_)
        seen = (~np.isnan(x[:, :n_numeric])).sum(axis=0)
        varies = np.array([not n.constant for n in made._numbers], dtype=bool)
        made._scale = np.where(varies, made._scale * _unbiased(seen), made._scale)
        return made.transform(as_frame(X)), target

    def _encode_target(self, y: Any, n_rows: int) -> np.ndarray:
        target = super()._encode_target(y, n_rows)
        if self.task != "regression" or target.min() == target.max():
            return target
        factor = float(_unbiased(np.array(n_rows)))
        self._target_scale *= factor
        return target / factor

    # -- fitting ----------------------------------------------------------------------------------

    def _network(self) -> HopularNetwork:
        return self._cell_network(
            HopularNetwork,
            self.n_nets,
            scaling=self.beta_scaling,
            p_input=self.dropout_input,
            p_hopfield=self.dropout_hopfield,
            p_output=self.dropout_output,
        )

    def _task(self, train: Rows, val: Rows | None) -> HopularTask:
        module = self._network().to(torch_device(self.device))
        hidden_val = None if val is None else self.cells(*val)
        scale = self._target_scale if self.task == "regression" else 1.0
        return HopularTask(module, self.cells(*train), hidden_val, self, scale)

    def _rate(self, step: int) -> float:
        return rate(step, self.steps, self.lr, schedule=self.schedule)

    def _recipe(self) -> Recipe:
        # DIFF(Schaefl 2022): no clipping is mentioned; the authors' code has it.
        return replace(super()._recipe(), clip_norm=1.0, average=self.average or None)

    def _kept(self, train: Rows, val: Rows | None) -> dict[str, Any]:
        self._memory: Memory | None = None
        return super()._kept(train, val)

    # -- prediction -------------------------------------------------------------------------------

    def _decoded(self, x: np.ndarray) -> Tensor:
        with self._ready() as module:
            memory = getattr(self, "_memory", None)
            if memory is None:  # stored once
                memory = module.store(self.cells(self.model_["x"], self.model_["y"]))
                self._memory = memory
            return ask(module, memory, self.cells(x)).of(self.columns().targets[0])


def _unbiased(n: np.ndarray) -> np.ndarray:
    """What makes the standard deviation of n values (ddof 0) the unbiased one (ddof 1)."""
    return np.where(n > 1, np.sqrt(n / np.maximum(n - 1, 1)), 1.0)
