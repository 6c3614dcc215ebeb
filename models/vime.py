"""VIME: an encoder pre-trained to find exchanged values of a row, then a predictor.

Yoon et al. 2020 (NeurIPS); details as in the authors' code.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .deep.layers.dropout import Seed
from .deep.pretrained import PretrainedNetwork, PretrainedTask
from .deep.row_network import Batch
from .deep.trainer import seed_of
from .hyperparameters import (
    LAYERS,
    PENALTY,
    PROBABILITY,
    SOME_WIDTH,
    SWITCH,
    WIDTH,
    hyper,
)
from .policy import Policy


def corrupted(x: Tensor, mask: Tensor, donors: Tensor) -> tuple[Tensor, Tensor]:
    """x~ and the mask's label: where `mask` (B, F) is true, column j has x[donors[:, j], j].

    The label says where a value differs from its own, which is less than the mask says.
    """
    seen = torch.where(mask, x.gather(0, donors), x)
    return seen, seen != x


class VIMENetwork(nn.Module):
    """An encoder of one ReLU layer, then a predictor of two ReLU layers and a linear one.

    frozen: the predictor's gradients do not reach the encoder. Outputs are (B, classes), or (B,)
    for two classes and for regression.
    """

    def __init__(self, n: int, width: int, hidden: int, n_out: int, *, frozen: bool) -> None:
        super().__init__()
        self.frozen = frozen
        self.encoder = nn.Linear(n, width)
        self.first = nn.Linear(width, hidden)
        self.second = nn.Linear(hidden, hidden)
        self.head = nn.Linear(hidden, n_out)

    def encode(self, numbers: Tensor) -> Tensor:  # (B, F) -> (B, D)
        """The encoded rows."""
        return self.encoder(numbers).relu()

    def forward(self, numbers: Tensor, codes: Tensor, seed: Seed | None = None) -> Tensor:
        """(B,) values or logits of the second class, or (B, C) logits, of a batch of rows."""
        x = self.encode(numbers)
        x = self.first(x.detach() if self.frozen else x).relu()
        return self.head(self.second(x).relu()).squeeze(-1)


class Guesses(nn.Module):
    """The decoder of pre-training: which values were exchanged, and what they were.

    Logits of both: the features lie in [0, 1].
    """

    def __init__(self, width: int, n: int) -> None:
        super().__init__()
        self.mask = nn.Linear(width, n)
        self.feature = nn.Linear(width, n)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:  # (B, D) -> twice (B, F)
        """Logits of which values were exchanged, and of the values before."""
        return self.mask(x), self.feature(x)


class VIMETask(PretrainedTask):
    """Exchanged values and their masks, then the usual loss, with the variance over exchanged
    copies of a row where the model is semi-supervised."""

    settings: VIME

    def _corrupted(self, x: Tensor, step: int, copy: int) -> tuple[Tensor, Tensor]:
        # DIFF(Yoon 2020, authors' code): drawn anew for each batch and among its rows; theirs is
        # drawn once, among all rows.
        rng = np.random.default_rng(seed_of(self.settings.seed, step, copy, 23))
        mask = rng.random(x.shape) < self.settings.p_mask
        order = np.tile(np.arange(len(x))[:, None], x.shape[1])
        donors = torch.from_numpy(rng.permuted(order, axis=0))
        return corrupted(x, torch.from_numpy(mask).to(x.device), donors.to(x.device))

    def pretext_loss(self, batch: Batch, rows: Tensor, step: int) -> Tensor:
        """Log loss of the mask plus the weighted squared error of the values."""
        x = batch.numbers
        seen, label = self._corrupted(x, step, 0)
        mask, feature = self.module.pretext(self.module.encode(seen))
        lost = F.binary_cross_entropy_with_logits(mask.float(), label.float())
        return lost + self.settings.feature_weight * F.mse_loss(feature.float().sigmoid(), x)

    def pretraining(self) -> torch.optim.Optimizer:
        """RMSprop, as in the authors' code."""
        return torch.optim.RMSprop(
            self.module.parameters(), lr=self.settings.pretrain_lr, alpha=0.9, eps=1e-7
        )

    def loss(self, step: int) -> Tensor:
        """The usual loss, with the variance over exchanged copies if semi-supervised."""
        loss = super().loss(step)
        if step < self.pretrain_steps or not self.settings.semi:
            return loss
        batch = self.rows.at(self.batch(step))
        copies = []
        for copy in range(self.settings.n_copies):
            seen, _ = self._corrupted(batch.numbers, step, copy)
            copies.append(self.module(seen, batch.codes))
        unlike = torch.stack(copies).float().var(dim=0, correction=0).mean()
        return loss + self.settings.consistency * unlike


class VIME(PretrainedNetwork):
    """VIME: pre-training that finds exchanged values and predicts the original ones.

    Numbers are scaled to [0, 1] by their least and largest value, categories are 0/1 columns.

    References
    ----------
    Yoon et al. 2020, VIME: Extending the success of self- and semi-supervised learning to tabular
    domain, NeurIPS.
    """

    example = "epochs=5, pretrain_epochs=2, hidden=16"
    make_task = VIMETask

    epochs: int = 100
    pretrain_epochs: int = 20
    batch_size: int = 128
    lr: float = 1e-3
    weight_decay: float = 0.0
    numeric: str = "min-max"
    width: int = hyper(
        0, SOME_WIDTH, "Width of the encoded row, 0 for as many as columns (authors' code)."
    )
    hidden: int = hyper(100, WIDTH, "Width of the two layers that predict.")
    p_mask: float = hyper(
        0.3,
        PROBABILITY,
        "Share of the values that pre-training exchanges with those of other rows.",
    )
    feature_weight: float = hyper(
        2.0, PENALTY, "Weight of the squared error of the values beside the log loss of the mask."
    )
    semi: bool = hyper(
        False,
        SWITCH,
        "Whether `consistency` times the variance of the outputs for `n_copies` exchanged "
        "copies of each row is added to the loss.",
    )
    consistency: float = hyper(1.0, PENALTY, "Weight of that variance.")
    n_copies: int = hyper(3, LAYERS, "Exchanged copies of each row.")
    frozen: bool = hyper(
        True, SWITCH, "Whether the encoder is no longer trained after pre-training."
    )

    def _policy(self) -> Policy:
        return Policy(self.numeric, "one-hot", "impute", "standard")

    def _width(self) -> int:
        return self.width or self.n_numeric

    def _network(self) -> VIMENetwork:
        n, width = self.n_numeric, self._width()
        return VIMENetwork(n, width, self.hidden, self.n_out, frozen=self.frozen)

    def _pretext(self, module: Any) -> Guesses:
        return Guesses(self._width(), self.n_numeric)
