"""The estimator of SAINT (Somepalli et al. 2021; with polynomials, Kim et al. 2024).

In training the rows of a batch attend to each other. A row to predict attends to a fixed draw of
training rows and itself, so that no other row to predict changes its answer; in the papers' way
(`batch_prediction`) the rows that are predicted together attend to each other instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..deep.estimator import Rows
from ..deep.layers.polynomial_attention import AttentionSettings
from ..deep.pretrained import PretrainedNetwork
from ..deep.row_network import Batch
from ..deep.trainer import seed_of
from ..hyperparameters import (
    DROPOUT,
    LAYERS,
    PROBABILITY,
    ROWS,
    SWITCH,
    WIDTH,
    InvalidConfig,
    Number,
    OneOf,
    hyper,
)
from .network import KINDS, Embedding, SAINTNetwork
from .pretext import Pretext, SAINTTask

MANY = 100  # features; above them tokens and batches are small
MANY_WIDTH, MANY_ROWS = 8, 64


class SAINT(AttentionSettings, PretrainedNetwork):
    """SAINT: attention between the columns of a row and between rows, with pre-training.

    In training the rows of a batch attend to each other. Tables of more than 100 features have
    tokens of at most 8 numbers and batches of at most 64 rows, whatever is asked for (authors'
    code): a feed-forward layer between rows has 12 (T D)^2 weights.

    DIFF(Somepalli 2021, sec. 3): there a row to predict attends to the rows that happen to be in
    its batch, so that its answer depends on them and on the batch size; here it attends to a fixed
    draw of training rows and itself, and `batch_prediction` brings back the papers' way.
    DIFF(Somepalli 2021, the authors' code): two classes have one logit here, two there.

    References
    ----------
    Somepalli et al. 2021, arXiv:2106.01342; Kim et al. 2024 (CheAtt), settings in Table 8.
    """

    example = "epochs=5, pretrain_epochs=2, hidden=16"
    transient = (*PretrainedNetwork.transient, "_context")

    make_task = SAINTTask

    epochs: int = 80
    pretrain_epochs: int = 20
    batch_size: int = 64
    lr: float = 1e-3
    numeric: str = "standard"
    style: str = hyper(
        "colrow",
        OneOf(tuple(KINDS)),
        "What a layer does: `colrow` attends between columns, then between rows; `col`; `row`.",
    )
    n_layers: int = hyper(1, LAYERS, "Layers.")
    width: int = hyper(8, WIDTH, "Width of a token, D.")
    n_heads: int = hyper(
        4, WIDTH, "Heads of attention, of width 16 between columns and 64 between rows."
    )
    ffn_dropout: float = hyper(
        0.1,
        DROPOUT,
        "Dropout after the gate of the feed-forward layers (authors' code: 0.8 but for `col`).",
    )
    hidden: int = hyper(1000, WIDTH, "Width of the layer before the output.")
    p_cutmix: float = hyper(
        0.1, PROBABILITY, "Share of the cells that pre-training takes from another row."
    )
    mixup: float = hyper(
        0.3,
        PROBABILITY,
        "Weight of a row's own tokens when they are mixed with another row's, 1 for no mixup.",
    )
    temperature: float = hyper(
        0.7, Number(0.0, 1e6, low_open=True), "Temperature of the contrastive loss."
    )
    reference_rows: int = hyper(
        0,
        ROWS,
        "Training rows that a row to predict attends to, drawn once; 0 for as many as a batch has.",
    )
    batch_prediction: bool = hyper(
        False,
        SWITCH,
        "Whether rows that are predicted together attend to each other, as in the papers, in "
        "batches in their given order; else each attends to the reference rows and itself.",
    )

    def check(self) -> None:
        """Raises `InvalidConfig` where pre-training would compare two equal views of a row."""
        super().check()
        damaged = self.p_cutmix > 0 or self.mixup < 1 or self.ffn_dropout > 0
        if self.pretrain_epochs and not damaged:
            raise InvalidConfig(
                f"{type(self).__name__}: pre-training needs two views of a row that differ: "
                "p_cutmix must be above 0, mixup below 1 or ffn_dropout above 0 (or "
                "pretrain_epochs 0), got none of these"
            )

    # -- the table --------------------------------------------------------------------------------

    @property
    def _is_wide(self) -> bool:
        made = self.preprocessor_
        return len(made.numeric_names_) + len(made.category_names_) > MANY

    def rows_a_batch(self, n: int) -> int:
        """As for every network, at most 64 rows for tables of more than 100 features."""
        size = super().rows_a_batch(n)
        return min(size, MANY_ROWS) if self._is_wide else size

    def _network(self) -> SAINTNetwork:
        made = self.preprocessor_
        embedding = Embedding(
            len(made.numeric_names_),
            self.sizes,
            min(self.width, MANY_WIDTH) if self._is_wide else self.width,
            gaps=made._gaps.tolist(),
            unknown=made.missing_levels_,
        )
        return self._made(
            SAINTNetwork,
            embedding=embedding,
            p=self.ffn_dropout,
        )

    def _pretext(self, module: Any) -> Pretext:
        return Pretext(module.embedding)

    # -- which rows see each other ----------------------------------------------------------------

    @property
    def sees_batch(self) -> bool:
        """Whether rows that are predicted together see each other."""
        return self.batch_prediction and self.style != "col"

    def references(self, n: int) -> np.ndarray:  # (R,) in order
        """Which of n training rows a row to predict attends to."""
        if self.style == "col" or self.batch_prediction:
            return np.empty(0, dtype=np.int64)
        size = min(n, self.reference_rows or self.rows_a_batch(n))
        rng = np.random.default_rng(seed_of(self.seed, 0, 32))
        return np.sort(rng.choice(n, size, replace=False))

    def _kept(self, train: Rows, val: Rows | None) -> dict[str, Any]:
        self._context: Any = None
        return {"x": train[0][self.references(len(train[0]))].astype(np.float32)}

    @contextmanager
    def _ready(self) -> Iterator[Any]:
        """The function that predicts a block of rows, with the stored context if there is one."""
        with super()._ready() as module:
            if self.sees_batch:
                yield module
                return
            if getattr(self, "_context", None) is None:
                kept = self._rows(self.model_["x"])
                self._context = module.context(*kept) if len(kept) else []
            yield partial(module.ask, context=self._context)

    def together(self, module: SAINTNetwork, rows: Batch) -> Tensor:
        """Outputs of rows that attend to each other (the papers' way), in training's batch size."""
        size = self.rows_a_batch(len(rows))
        parts = [slice(at, at + size) for at in range(0, len(rows), size)]
        return torch.cat([module(*rows.at(part)).float() for part in parts])

    def _outputs(self, x: np.ndarray) -> np.ndarray:
        if not self.sees_batch:
            return super()._outputs(x)
        with self._ready() as module:
            return self.together(module, self._rows(x)).cpu().numpy().astype(np.float64)


class SAINTCheAtt(SAINT):
    """SAINT with Chebyshev polynomials of its attention matrices.

    References
    ----------
    Kim et al. 2024 (CheAtt).
    """

    example = "epochs=5, pretrain_epochs=2, hidden=16"

    attention: str = "chebyshev"
