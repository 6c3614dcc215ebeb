"""Base of networks of single rows: mini-batches and early stopping on validation rows.

The recipe of Gorishniy et al. 2021 (sec. 4): quantile-transformed numbers, standardised targets,
AdamW with a constant rate, the weights of the best epoch by accuracy or RMSE on validation rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..base import softmax, two_columns
from ..hyperparameters import (
    PATIENCE,
    PENALTY,
    RATE,
    ROWS,
    InvalidConfig,
    Number,
    OneOf,
    hyper,
)
from ..policy import NUMERIC, Policy
from ..quantile import QuantileEstimator
from .estimator import DeepEstimator, Rows
from .trainer import Recipe, Task, computing, seed_of, torch_device

VALIDATED = 1024  # validation rows that are computed together
ASKED = {"cpu": 32, "cuda": 256}  # rows of a prediction: always so many, see `RowNetwork._outputs`
FARTHEST = 1e15  # larger numbers are cut to it: their squares, which norms sum, would not be finite
STOP_ON = ("metric", "loss")


class Batch(NamedTuple):
    """Rows as a network takes them: numbers (B, F1) float32, category codes (B, F2)."""

    numbers: Tensor
    codes: Tensor

    def __len__(self) -> int:
        return len(self.numbers)

    def at(self, rows: Any) -> Batch:
        """Some of the rows."""
        return Batch(self.numbers[rows], self.codes[rows])


def regression_loss(out: Tensor, targets: Tensor, quantile: float | None) -> Tensor:
    """Mean squared error, or the mean pinball loss of a quantile; out, targets of one shape."""
    if quantile is None:
        return F.mse_loss(out, targets)
    below = targets - out
    return torch.maximum(quantile * below, (quantile - 1) * below).mean()


class RowTask:
    """Network and losses on encoded rows: batches of an epoch without replacement.

    settings: the estimator. loss: of outputs and targets, the mean over rows. A trailing batch of
    one row is merged into the one before (a batch norm needs two). unit: steps of an epoch.
    """

    def __init__(
        self,
        module: Any,
        train: tuple[Batch, Tensor],
        val: tuple[Batch, Tensor] | None,
        settings: Any,
    ) -> None:
        self.module: Any = module
        self.rows, self.targets = train
        self.val, self.settings = val, settings
        self.size = settings.rows_a_batch(len(self.rows))
        self.unit = steps_an_epoch(len(self.rows), self.size)
        self._epoch, self._order = -1, torch.empty(0, dtype=torch.int64)

    def optimiser(self) -> torch.optim.Optimizer:
        """AdamW; what the network names in `undecayed` has no weight decay."""
        free = {id(p) for p in getattr(self.module, "undecayed", list)()}
        params = list(self.module.parameters())
        groups: list[dict[str, Any]] = [
            {"params": [p for p in params if id(p) not in free]},
            {"params": [p for p in params if id(p) in free], "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(
            [g for g in groups if g["params"]],
            lr=self.settings.lr,
            weight_decay=self.settings.weight_decay,
            fused=True,
        )

    def batch(self, step: int) -> Tensor:
        """Numbers of the rows of step `step` + 1, (B,)."""
        epoch, at = divmod(step, self.unit)
        if epoch != self._epoch:
            rng = np.random.default_rng(seed_of(self.settings.seed, epoch, 11))
            order = torch.from_numpy(rng.permutation(len(self.rows)))
            self._epoch, self._order = epoch, order.to(self.targets.device)
        stop = (at + 1) * self.size if at + 1 < self.unit else len(self.rows)
        return self._order[at * self.size : stop]

    def loss(self, step: int) -> Tensor:
        """The mean loss of the batch of step `step` + 1."""
        rows = self.batch(step)
        batch = self.rows.at(rows)
        out = self.module(batch.numbers, batch.codes, (self.settings.seed, step))
        return self.criterion(out, self.targets[rows])

    def criterion(self, out: Tensor, targets: Tensor) -> Tensor:
        """Mean log loss, squared error or pinball loss."""
        if self.settings.task == "regression":
            return regression_loss(out, targets, self.settings.quantile)
        if self.settings.log_outputs:
            return F.nll_loss(out, targets.long())
        if self.settings.task == "multiclass":
            return F.cross_entropy(out, targets)
        return F.binary_cross_entropy_with_logits(out, targets.to(out.dtype))

    def val_loss(self) -> float | None:
        """On validation rows: share of wrong classes, RMSE (standardised), or the training loss,
        which that of a quantile always is."""
        if self.val is None:
            return None
        rows, targets = self.val
        out = torch.cat(
            [self.outputs(rows.at(at)) for at in _blocks(len(rows), VALIDATED)]
        ).double()
        return self.val_loss_of(out, targets)

    def val_loss_of(self, out: Tensor, targets: Tensor) -> float:
        """The validation loss of outputs (B,) or (B, C)."""
        if self.settings.stop_on == "loss" or self.settings.quantile is not None:
            wanted = targets if self.settings.task == "multiclass" else targets.double()
            return float(self.criterion(out, wanted))
        if self.settings.task == "regression":
            return float((out - targets).square().mean().sqrt())
        predicted = out.argmax(dim=1) if out.dim() == 2 else (out > 0).long()
        lost = torch.isnan(out).any()
        return float("nan") if lost else float((predicted != targets).double().mean())

    def outputs(self, rows: Batch) -> Tensor:
        """Outputs of the network for rows, in evaluation mode."""
        return self.module(rows.numbers, rows.codes).float()


def steps_an_epoch(n: int, size: int) -> int:
    """Batches of n rows; a trailing batch of one row is merged into the one before.

    >>> steps_an_epoch(10, 4), steps_an_epoch(9, 4), steps_an_epoch(3, 4)
    (3, 2, 1)
    """
    whole, rest = divmod(n, size)
    return max(1, whole + (rest > 1 or (rest == 1 and size == 1)))


def mlp_widths(n_layers: int, first: int, middle: int, last: int) -> list[int]:
    """Widths of hidden layers from three numbers (Gorishniy et al. 2021, Table 9).

    >>> mlp_widths(1, 8, 4, 2), mlp_widths(2, 8, 4, 2), mlp_widths(4, 8, 4, 2)
    ([8], [8, 2], [8, 4, 4, 2])
    """
    return [first, *[middle] * (n_layers - 2), *[last] * (n_layers > 1)]


def _blocks(n: int, size: int) -> list[slice]:
    return [slice(at, at + size) for at in range(0, n, size)]


class RowNetwork(QuantileEstimator, DeepEstimator):
    """Base of networks that see one row at a time.

    A subclass writes `_network`: a module that is called with the numbers and codes of rows and a
    seed, which names the draws of its dropout (None for none). It sets `batch_norm` where the
    module has such layers: batches of one row are refused then; and `log_outputs` where it answers
    with logarithms of the shares of all classes, also of two (`n_out` is 0 for a number then).

    DIFF(Gorishniy 2021): numbers that are missing get the training mean, as there, and a 0/1
    column that says so. Epochs have a limit, 1,000 by default; there early stopping alone ends a
    fit. A last batch of one row is merged into the one before; there a batch norm fails on it.
    """

    resource = "epochs"
    batch_norm: ClassVar[bool] = False
    log_outputs: ClassVar[bool] = False
    asked: ClassVar[dict[str, int]] = ASKED

    transient = (*DeepEstimator.transient, "_steps_an_epoch")

    precision: str = "fp32"
    epochs: int = hyper(
        1000,
        Number(1, 1_000_000, whole=True),
        "Epochs at most; one is a pass over all training rows.",
    )
    patience: int = hyper(
        16,
        PATIENCE,
        "Epochs without a lower validation loss that end the fit, 0 for no early stopping.",
    )
    batch_size: int = hyper(
        0,
        ROWS,
        "Rows of a step, 0 for the papers' rule: 256 below 50,000 rows, 512 below 100,000, else "
        "1024.",
    )
    lr: float = hyper(3e-4, RATE, "Learning rate.")
    weight_decay: float = hyper(1e-5, PENALTY, "Weight decay of AdamW.")
    numeric: str = hyper("quantile", OneOf(NUMERIC), "How numbers are scaled, see `Policy`.")
    stop_on: str = hyper(
        "metric",
        OneOf(STOP_ON),
        "The validation loss: `metric` (share of wrong classes or RMSE) or `loss` (as in "
        "training).",
    )

    # -- what a subclass may change ---------------------------------------------------------------

    make_task: ClassVar[Callable[..., Task]] = RowTask

    def check(self) -> None:
        """Raises `InvalidConfig` where batches of one row meet batch norms."""
        super().check()
        if self.batch_norm and self.batch_size == 1:
            name = type(self).__name__
            raise InvalidConfig(f"{name}: batch_size must not be 1: batch norms need two rows")

    def _policy(self) -> Policy:
        return Policy(self.numeric, "ordinal", "impute", "standard")

    # -- the table --------------------------------------------------------------------------------

    @property
    def n_numeric(self) -> int:
        """Numeric columns, with those that say where a number is missing."""
        return int((~self.preprocessor_.categorical_).sum())

    @property
    def sizes(self) -> list[int]:
        """Levels of each categorical column in training."""
        return list(self.preprocessor_.cardinalities_)

    @property
    def n_out(self) -> int:
        """Outputs of the network: one for a number or two classes; see `log_outputs`."""
        if self.log_outputs:
            return 0 if self.task == "regression" else len(self.classes_)
        return len(self.classes_) if self.task == "multiclass" else 1

    def _rows(self, x: np.ndarray) -> Batch:
        device, n = torch_device(self.device), self.n_numeric
        seen = np.clip(x[:, :n], -FARTHEST, FARTHEST)
        numbers = torch.from_numpy(np.ascontiguousarray(seen, dtype=np.float32))
        codes = torch.from_numpy(np.ascontiguousarray(x[:, n:], dtype=np.int64))
        return Batch(numbers.to(device), codes.to(device))

    def _targets(self, y: np.ndarray) -> Tensor:
        kind = np.float32 if self.task == "regression" else np.int64
        return torch.from_numpy(np.asarray(y).astype(kind)).to(torch_device(self.device))

    def rows_a_batch(self, n: int) -> int:
        """Rows of a step for a table of n training rows."""
        return self.batch_size or (256 if n < 50_000 else 512 if n < 100_000 else 1024)

    # -- fitting ----------------------------------------------------------------------------------

    def _network(self) -> nn.Module:
        raise NotImplementedError

    def _task(self, train: Rows, val: Rows | None) -> Task:
        module = self._network().to(torch_device(self.device))
        self._steps_an_epoch = steps_an_epoch(len(train[0]), self.rows_a_batch(len(train[0])))
        held = None if val is None else (self._rows(val[0]), self._targets(val[1]))
        return self.make_task(module, (self._rows(train[0]), self._targets(train[1])), held, self)

    def _unit(self) -> int:
        return self._steps_an_epoch

    def _recipe(self) -> Recipe:
        return Recipe(
            steps=self.epochs * self._unit(),
            rate=lambda step: self.lr,
            eval_every=self._unit(),
            patience=self.patience,
            precision=self.precision,
            compile=self.compile,
        )

    # -- prediction -------------------------------------------------------------------------------

    def _answering(self) -> Any:
        return computing(self.threads, keep=False)

    def _outputs(self, x: np.ndarray) -> np.ndarray:
        """Outputs (N,) or (N, C), computed in blocks of one size, as the rounding of products
        depends on it: so an answer depends on its row alone."""
        rows, outputs, asked = self._rows(x), [], self.asked[self.device]
        with self._ready() as module:
            for at in range(0, len(rows), asked):
                block = torch.arange(at, at + asked)
                there = int((block < len(rows)).sum())
                part = rows.at(torch.where(block < len(rows), block, at).to(rows.numbers.device))
                outputs.append(module(part.numbers, part.codes)[:there].float().cpu())
        return torch.cat(outputs).numpy().astype(np.float64)

    def _predict(self, x: np.ndarray) -> np.ndarray:
        return self._outputs(x)

    def _predict_proba(self, x: np.ndarray) -> np.ndarray:
        out = self._outputs(x)
        if self.task == "multiclass" or self.log_outputs:
            return softmax(out)
        return two_columns(np.exp(-np.logaddexp(0.0, -out)))
