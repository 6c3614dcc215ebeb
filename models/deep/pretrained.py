"""Base of networks that are pre-trained without targets in the first epochs of their fit.

Both phases are steps of one training: a fit can stop in either and go on elsewhere.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from ..hyperparameters import RATE, ROWS, InvalidConfig, hyper
from .estimator import Rows
from .row_network import Batch, RowNetwork, RowTask
from .trainer import Recipe, Task, Training, torch_device

PRETEXT = "pretext."  # where the weights that only pre-training needs are in a module's state


class PretrainedTask(RowTask):
    """Rows and losses of both phases; a subclass writes `pretext_loss`.

    `module.pretext` holds what only pre-training needs. The batches of the two phases are drawn in
    the same way.
    """

    def pretext_loss(self, batch: Batch, rows: Tensor, step: int) -> Tensor:
        """The loss of a step of pre-training on a batch, whose rows have the numbers `rows`; draws
        from (seed, step) alone."""
        raise NotImplementedError

    def pretraining(self) -> torch.optim.Optimizer:
        """The optimiser of pre-training: that of the fit, at the rate of the first step."""
        return self.optimiser()

    @property
    def pretrain_steps(self) -> int:
        """Steps that are pre-training."""
        return self.settings.pretrain_epochs * self.unit

    def loss(self, step: int) -> Tensor:
        """The pre-training loss in the first steps, then that of the targets."""
        if step >= self.pretrain_steps:
            return super().loss(step)
        rows = self.batch(step)
        return self.pretext_loss(self.rows.at(rows), rows, step)


class PretrainedNetwork(RowNetwork):
    """Base of networks of single rows that are pre-trained on the training rows without targets.

    A subclass writes `_network`, `_pretext` and a task. Epochs of pre-training have no validation
    loss. A fit that is stopped within them, as on a low rung, has an untrained head. The weights of
    `_pretext` are not kept in the fitted model.
    """

    epochs: int = 150
    pretrain_epochs: int = hyper(
        50, ROWS, "How many of the epochs, from the first on, are pre-training; less than `epochs`."
    )
    pretrain_lr: float = hyper(1e-3, RATE, "Learning rate of pre-training.")

    make_task = PretrainedTask

    def check(self) -> None:
        """Raises `InvalidConfig` where pre-training leaves no epoch for the targets."""
        super().check()
        if self.pretrain_epochs >= self.epochs:
            name = type(self).__name__
            raise InvalidConfig(
                f"{name}: pretrain_epochs must be less than epochs = {self.epochs}, which counts "
                f"them too, got {self.pretrain_epochs}"
            )

    def _pretext(self, module: Any) -> nn.Module:
        """What pre-training needs beside the network, with fresh weights."""
        raise NotImplementedError

    def _task(self, train: Rows, val: Rows | None) -> Task:
        task: Any = super()._task(train, val)
        if self.pretrain_epochs:
            task.module.pretext = self._pretext(task.module).to(torch_device(self.device))
        return task

    def _recipe(self) -> Recipe:
        before = self.pretrain_epochs * self._unit()
        return replace(
            super()._recipe(),
            rate=lambda step: self.pretrain_lr if step < before else self.lr,
            pretrain=before,
        )

    def _finish(self, training: Training, train: Rows, val: Rows | None) -> None:
        super()._finish(training, train, val)
        weights = self.model_["weights"]
        self.model_["weights"] = {n: w for n, w in weights.items() if not n.startswith(PRETEXT)}
