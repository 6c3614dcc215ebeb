"""GrowNet, boosting of small networks (Badirli et al. 2020; Gorishniy et al. 2021, F.8).

Stage s adds a network that sees the row and what the one before made of it. It is fitted to the
Newton step of the sum so far, all others held; then all of them are trained together for a while.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .deep.layers.category_embedding import RowInput
from .deep.layers.dropout import Seed
from .deep.row_network import RowNetwork, RowTask
from .deep.trainer import Recipe
from .hyperparameters import PATIENCE, WIDTH, Number, OneOf, hyper, required

HALVED_EVERY = 15  # stages
CORRECTED_AT = 1 / 3  # of the learning rate
FURTHEST = 30.0  # margins beyond are taken as this: their exponentials leave float32


class Learner(nn.Module):
    """Linear -> LeakyReLU(0.1) -> BatchNorm -> Linear gives what the next learner sees;
    ReLU -> Linear of it the output. A learner but the first normalises its input."""

    def __init__(self, n_in: int, hidden: int, first: bool) -> None:
        super().__init__()
        self.bn2 = None if first else nn.BatchNorm1d(n_in)
        self.in_layer = nn.Linear(n_in, hidden)
        self.bn = nn.BatchNorm1d(hidden)
        self.hidden_layer = nn.Linear(hidden, hidden)
        self.out_layer = nn.Linear(hidden, 1)

    def forward(self, x: Tensor, below: Tensor | None) -> tuple[Tensor, Tensor]:
        """(B, F), (B, D) or None -> (B, D), (B,)."""
        if self.bn2 is not None and below is not None:
            x = self.bn2(torch.cat([x, below], dim=1))
        features = self.hidden_layer(self.bn(F.leaky_relu(self.in_layer(x), 0.1)))
        return features, self.out_layer(features.relu()).squeeze(-1)


class GrowNetNetwork(nn.Module):
    """start + rate * the sum of the outputs of the first `grown` learners; all share one table.

    n_learners: there can be. start: log odds or mean of the training targets. sizes: levels of the
    categorical columns. embedding: width of a category's vector.
    """

    start: Tensor
    grown: Tensor

    def __init__(
        self, *, n_numeric: int, sizes: Sequence[int], embedding: int, hidden: int, n_learners: int
    ) -> None:
        super().__init__()
        self.input = RowInput(n_numeric, sizes, embedding)
        n = self.input.n_out
        self.models = nn.ModuleList(
            Learner(n + (hidden if s else 0), hidden, s == 0) for s in range(n_learners)
        )
        self.boost_rate = nn.Parameter(torch.tensor(1.0))
        self.register_buffer("start", torch.tensor(0.0))
        self.register_buffer("grown", torch.tensor(0))

    def partial(self, x: Tensor, n: int) -> tuple[Tensor | None, Tensor]:
        """(B, F) -> what learner n sees of the one before it (B, D), and the sum of n of them."""
        below, total = None, self.start.expand(len(x))
        for learner in list(self.models)[:n]:
            below, out = learner(x, below)
            total = total + self.boost_rate * out
        return below, total

    def forward(self, numbers: Tensor, codes: Tensor, seed: Seed | None = None) -> Tensor:  # (B,)
        """Outputs of a batch of rows, the sum over the networks added so far."""
        return self.partial(self.input(numbers, codes), int(self.grown))[1]


def newton_step(total: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:  # (B,), (B,) -> 2 x (B,)
    """Step and weight -g/h, h of log(1 + exp(-y F)) at F = `total`; labels y are -1 or 1.

    DIFF(Gorishniy 2021, the authors' code): it gives labels 0 and 1 to these formulas, by which a
    0 has the step 0: nothing pulls its logit down.
    """
    margin = (labels * total).clamp(-FURTHEST, FURTHEST)
    up, down = torch.exp(margin), torch.exp(-margin)
    return labels * (1 + down), 1 / ((1 + up) * (1 + down))


class GrowTask(RowTask):
    """Losses of steps in stages: epochs of the new learner alone, then epochs of all of them.

    Every phase begins with a fresh Adam. The first stage has nothing to correct: the steps of that
    phase have no loss and move nothing.
    """

    settings: GrowNet

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        targets, quantile = self.targets.double(), self.settings.quantile
        start = targets.mean() if quantile is None else targets.quantile(quantile)
        binary = self.settings.task == "binary"
        self.module.start.copy_(torch.log(start / (1 - start)) if binary else start)

    def optimiser(self) -> torch.optim.Optimizer:
        """Adam, whose weight decay is part of the gradient."""
        self.adam = torch.optim.Adam(self.module.parameters(), lr=self.settings.lr, fused=True)
        return self.adam

    def loss(self, step: int) -> Tensor:
        """The loss of the new network alone, or of all networks in a corrective pass."""
        stage, epoch, corrects = self.settings.phase(step)
        if step % self.unit == 0 and epoch in (0, self.settings.epochs_per_stage):
            self.adam.state.clear()
        for group in self.adam.param_groups:
            group["weight_decay"] = self.settings.weight_decay / 2 ** (stage // HALVED_EVERY)
        self.module.grown.fill_(stage + 1)
        rows = self.batch(step)
        batch, targets = self.rows.at(rows), self.targets[rows]
        if not corrects:
            return self.stage_loss(batch.numbers, batch.codes, targets, stage)
        if stage == 0:
            return torch.zeros((), device=targets.device, requires_grad=True)
        return self.criterion(self.module(batch.numbers, batch.codes), targets)

    def stage_loss(self, numbers: Tensor, codes: Tensor, targets: Tensor, stage: int) -> Tensor:
        """Weighted squared error of learner `stage` to the step that the sum before it needs: a
        Newton step, or for a quantile the negative gradient."""
        with torch.no_grad():
            x = self.module.input(numbers, codes)
            below, total = self.module.partial(x, stage)
        wanted, weight = targets - total, torch.ones_like(total)
        if self.settings.task == "binary":
            wanted, weight = newton_step(total, 2.0 * targets - 1.0)
        elif self.settings.quantile is not None:
            wanted = (targets > total).to(total.dtype) - (1.0 - self.settings.quantile)
        out = self.module.models[stage](x, below)[1]
        return (weight * (self.module.boost_rate.detach() * out - wanted).square()).mean()


class GrowNet(RowNetwork):
    """GrowNet: boosting of small networks, for two classes or a number.

    Each stage adds a network, fitted alone for `epochs_per_stage` passes over the training rows;
    then all networks are trained together for `correct_epochs` passes at a third of the rate.
    lr and weight_decay are halved every 15 stages. The paper searches one or two passes; five are
    for tables of a few hundred rows, where a pass is a step or two.

    DIFF(Gorishniy 2021, the authors' code): the boost rate is learned in the corrective passes of
    every table, there only of those with categorical columns.

    References
    ----------
    Badirli et al. 2020, arXiv:2002.07971; Gorishniy et al. 2021, arXiv:2106.11959, sec. F.8.
    """

    example = "epochs=3, hidden=8"
    batch_norm = True

    make_task = GrowTask

    task: str = required(OneOf(("binary", "regression")))
    epochs: int = hyper(40, Number(1, 10_000, whole=True), "Stages at most.")
    patience: int = hyper(
        16,
        PATIENCE,
        "Stages without a lower validation loss that end the fit, 0 for no early stopping.",
    )
    lr: float = 3e-3
    weight_decay: float = 0.0
    epochs_per_stage: int = hyper(
        5, Number(1, 10_000, whole=True), "Passes over the training rows that fit a new network."
    )
    correct_epochs: int = hyper(
        5,
        Number(1, 10_000, whole=True),
        "Passes over the training rows that train all networks together, after each stage.",
    )
    hidden: int = hyper(64, WIDTH, "Width of the two hidden layers of a network.")
    embedding: int = hyper(32, WIDTH, "Width of a category's vector.")

    def _network(self) -> GrowNetNetwork:
        return self._made(GrowNetNetwork, n_learners=self.epochs)

    def phase(self, step: int) -> tuple[int, int, bool]:
        """Stage of a step, its pass over the rows within the stage, whether that one corrects."""
        stage, at = divmod(step, self._unit())
        epoch = at // self._steps_an_epoch
        return stage, epoch, epoch >= self.epochs_per_stage

    def rate(self, step: int) -> float:
        """Learning rate after `step` steps."""
        stage, _, corrects = self.phase(step)
        return self.lr / 2 ** (stage // HALVED_EVERY) * (CORRECTED_AT if corrects else 1.0)

    def _unit(self) -> int:
        return self._steps_an_epoch * (self.epochs_per_stage + self.correct_epochs)

    def _recipe(self) -> Recipe:
        return replace(super()._recipe(), rate=self.rate)
