"""The estimator of the Non-Parametric Transformer (Kossen et al. 2021, arXiv:2106.02584).

The rows that it was trained on are part of the model: a prediction attends to them. By default a
row to predict sees the training rows and itself (inductive); no other row to predict changes its
answer. In the paper's own way (`transductive`) all rows of the table are attended to and masked
together, validation and test rows with their features.

DIFF(Kossen 2021, sec. 2.6): the inductive way is not in the paper.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from ..deep.cell_estimator import CellEstimator
from ..deep.cells import Cells, join
from ..deep.column_decoder import Decoded, stacked
from ..deep.estimator import Rows
from ..deep.layers.polynomial_attention import AttentionSettings
from ..deep.schedules import SCHEDULES, rate
from ..deep.trainer import Recipe, torch_device
from ..hyperparameters import (
    COUNT,
    DROPOUT,
    LAYERS,
    PROBABILITY,
    SHARE,
    SWITCH,
    OneOf,
    hyper,
)
from ..preprocessing import as_frame
from .network import Context, NPTNetwork
from .prediction import (
    TEST,
    TRAIN,
    VAL,
    decode_inductive,
    decode_transductive,
    stored_context,
    visible,
)
from .task import NPTTask


class NPT(AttentionSettings, CellEstimator):
    """Non-Parametric Transformer: self-attention between datapoints, and between attributes.

    Defaults are NPT-Base (C.1.1) with the flat share and full batches of the small sets (C.1.2). A
    polynomial replaces the matrix of attention between attributes alone.

    References
    ----------
    Kossen et al. 2021, arXiv:2106.02584; Kim et al. 2024 (CheAtt).
    """

    example = "steps=10, width=8, n_layers=2"
    transient = (*CellEstimator.transient, "_extra", "_contexts")

    schedule: str = hyper(
        "flat-cosine",
        OneOf(SCHEDULES),
        "Schedule of the learning rate, see `tabsweep.models.deep.schedules.rate`.",
    )
    schedule_share: float = hyper(
        0.5,
        PROBABILITY,
        "Share of the steps before the rate falls: at its peak (`flat-cosine`) or rising to it "
        "(`cosine-cyclic`, `polynomial`). The other schedules do not use it.",
    )
    lookahead: bool = hyper(True, SWITCH, "Whether Lookahead (0.5, 6) is used.")
    n_layers: int = hyper(
        8,
        LAYERS,
        "Layers: attention between datapoints (ABD) and between attributes (ABA) in turn.",
    )
    n_heads: int = hyper(8, COUNT, "Heads of attention, H.")
    aba: bool = hyper(
        True, SWITCH, "Whether there are layers between attributes (False: sec. B.5)."
    )
    dropout: float = hyper(0.1, DROPOUT, "Dropout on hidden values.")
    dropout_weights: float = hyper(
        0.1, DROPOUT, "Dropout on attention weights, with a polynomial on the output of its heads."
    )
    p_feature: float = hyper(
        0.15, PROBABILITY, "Share of the feature cells that are masked in a step."
    )
    p_target: float = hyper(
        1.0,
        SHARE,
        "Share of the training targets that are masked in a step. Below 1 the other training "
        "targets are seen, and at prediction all of them.",
    )
    tradeoff: float = hyper(1.0, PROBABILITY, "Weight of the feature loss at the start.")
    tradeoff_schedule: str = hyper(
        "cosine",
        OneOf(("cosine", "linear", "constant")),
        "How the weight of the feature loss falls to 0; `constant` keeps it.",
    )
    balanced: bool = hyper(False, SWITCH, "Whether batches keep the shares of the classes.")
    transductive: bool = hyper(
        False,
        SWITCH,
        "Whether all rows of the table are attended to and masked together, as in the paper; "
        "such a fit also takes X_test.",
    )
    val_in_context: bool = hyper(
        False,
        SWITCH,
        "Whether rows to predict also see the validation rows and labels, as in the authors' "
        "code (not when these rows themselves are predicted). With p_target < 1 this is an "
        "advantage over models that are fitted on training rows alone.",
    )

    def _network(self) -> NPTNetwork:
        dropouts = {"p_weights": self.dropout_weights, "p": self.dropout}
        return self._cell_network(NPTNetwork, self.n_heads, **dropouts)

    def _rate(self, step: int) -> float:
        return rate(self.schedule, step, self.steps, self.lr, self.schedule_share)

    def _recipe(self) -> Recipe:
        # DIFF(Kossen 2021, C.1): the text says that gradients are clipped at 1, which usually means
        # their norm; the authors' code clamps their elements.
        lookahead = (0.5, 6) if self.lookahead else None
        return replace(super()._recipe(), clip_value=1.0, lookahead=lookahead)

    # -- fitting ----------------------------------------------------------------------------------

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

    def fit(
        self,
        X: Any,
        y: Any,
        X_val: Any = None,
        y_val: Any = None,
        X_test: Any = None,
    ) -> NPT:
        """As every model; X_test: features of the rows to predict, used by a transductive fit."""
        with self._others(X_val, X_test):
            super().fit(X, y, X_val, y_val)
        return self

    def fit_to(
        self, X: Any, y: Any, X_val: Any = None, y_val: Any = None, X_test: Any = None, **how: Any
    ) -> NPT:  # type: ignore[override]
        """As every model with steps; X_test as in `fit`."""
        with self._others(X_val, X_test):
            super().fit_to(X, y, X_val, y_val, **how)
        return self

    def _task(self, train: Rows, val: Rows | None) -> NPTTask:
        module = self._network().to(torch_device(self.device))
        cells = [self.cells(*train)]
        parts = [np.full(len(train[0]), TRAIN)]
        hidden_val = None if val is None else self.cells(*val)
        if self.transductive:
            if val is not None and hidden_val is not None:
                cells.append(hidden_val)
                parts.append(np.full(len(val[0]), VAL))
            if len(self._extra) > 1 or (val is None and self._extra):
                x = self.preprocessor_.transform(self._extra[-1])
                cells.append(self.cells(x))
                parts.append(np.full(len(x), TEST))
        return NPTTask(module, join(cells), np.concatenate(parts), hidden_val, self)

    def _kept(self, train: Rows, val: Rows | None) -> dict[str, Any]:
        """The training rows; the validation rows where predictions see them."""
        kept = super()._kept(train, val)
        if val is not None and self.val_in_context:
            kept |= {"x_val": val[0].astype(np.float32), "y_val": val[1].astype(np.float32)}
        self._contexts: dict[bool, Context] = {}
        return kept

    # -- prediction -------------------------------------------------------------------------------

    def _decoded(self, x: np.ndarray) -> Tensor:
        own = self._is_validation_row(x)
        groups = [(False, np.flatnonzero(own)), ("x_val" in self.model_, np.flatnonzero(~own))]
        parts, order = [], []
        with self._ready() as module:
            for labelled, rows in groups:
                if len(rows):
                    parts.append((self._answers(module, self.cells(x[rows]), labelled), len(rows)))
                    order.append(rows)
            back = torch.from_numpy(np.argsort(np.concatenate(order)))
            outputs = stacked(parts).rows(back.to(torch_device(self.device)))
            return outputs.of(module.columns.targets[0])

    def _is_validation_row(self, x: np.ndarray) -> np.ndarray:  # (N,) bool
        """Which rows to predict are validation rows, and must not see their own labels."""
        seen = {row.tobytes() for row in self.model_.get("x_val", x[:0]) + np.float32(0)}
        return np.array([row.tobytes() in seen for row in x.astype(np.float32) + np.float32(0)])

    def _answers(self, module: NPTNetwork, asked: Cells, labelled: bool) -> Decoded:
        columns = module.columns.targets
        if self.transductive:
            return decode_transductive(module, [self._table(labelled)], asked, columns, self)
        contexts = self.__dict__.setdefault("_contexts", {})
        if labelled not in contexts:
            contexts[labelled] = stored_context(module, self._table(labelled), self)
        return decode_inductive(module, contexts[labelled], asked, columns, self)

    def _table(self, labelled: bool) -> Cells:
        """The labelled rows that a prediction attends to; `labelled`: validation rows as well."""
        kept = self.model_
        tables = [self.cells(kept["x"], kept["y"])]
        if labelled:
            tables.append(self.cells(kept["x_val"], kept["y_val"]))
        return visible(join(tables), self.columns(), self)
