"""Pre-training within one fit: own loss and optimiser first, then validation and patience."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import pytest
import torch
from looped import each
from small_tables import ALL, TINY, table
from tabsweep.models.deep.pretrained import PretrainedNetwork, PretrainedTask
from tabsweep.models.deep.row_network import Batch
from tabsweep.models.deep.trainer import Task
from tabsweep.models.hyperparameters import InvalidConfig
from tabsweep.models.registry import MODELS, defaults, load_class, make_model
from torch import Tensor, nn

SEEN: list[int] = []  # the steps that asked for the loss of pre-training


class Halves(nn.Module):
    """A body and a head; pre-training tells the sum of a row from the body."""

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(n_in, 8), nn.Linear(8, n_out)

    def forward(self, numbers: Tensor, codes: Tensor, seed: Any = None) -> Tensor:
        return self.head(self.body(numbers).tanh()).squeeze(-1)


class HalvesTask(PretrainedTask):
    def pretext_loss(self, batch: Batch, rows: Tensor, step: int) -> Tensor:
        SEEN.append(step)
        told = self.module.pretext(self.module.body(batch.numbers).tanh()).squeeze(-1)
        return (told - batch.numbers.sum(dim=1)).square().mean()

    def pretraining(self) -> torch.optim.Optimizer:
        return torch.optim.RMSprop(self.module.parameters(), lr=self.settings.pretrain_lr)


class Told(PretrainedNetwork):
    make_task: ClassVar[Callable[..., Task]] = HalvesTask

    def _network(self) -> Halves:
        return Halves(self.n_numeric, self.n_out)

    def _pretext(self, module: Any) -> nn.Module:
        return nn.Linear(8, 1)


def told(**given: Any) -> Told:
    settings = {"epochs": 6, "pretrain_epochs": 3, "batch_size": 16, "lr": 0.01, **given}
    return Told(task="regression", **settings)


def test_the_first_epochs_are_pretraining_and_the_others_are_not():
    frame, y = table("regression")
    SEEN.clear()
    fitted = told().fit(frame, y, *table("regression", 30, seed=5))
    assert list(range(12)) == SEEN  # three epochs of four batches
    assert fitted.curve_[:, 0].tolist() == [4.0, 5.0, 6.0]  # no score while there is no answer


def test_patience_begins_after_pretraining():
    frame, y = table("regression")
    fitted = told(epochs=40, pretrain_epochs=30, patience=2, lr=10.0).fit(frame, y, frame, y)
    assert fitted.n_iter_ > 30


def test_a_fit_of_pretraining_alone_is_refused():
    with pytest.raises(InvalidConfig, match="pretrain_epochs"):
        told(epochs=3, pretrain_epochs=3).fit(*table("regression"))


def lost(task: Any) -> float:
    """The loss of the first epoch's steps, with the weights as they are."""
    return sum(float(task.loss(step).detach()) for step in range(task.unit))


@each(
    ("name", "task"),
    (case for case in ALL if issubclass(load_class(MODELS[case[0]].target), PretrainedNetwork)),
)
def test_every_pretrained_network_learns_its_pretext_and_keeps_its_own_weights_alone(name, task):
    config = {key: 0.0 for key in defaults(name) if "dropout" in key}
    config |= {"epochs": 31, "pretrain_epochs": 30, "pretrain_lr": 0.01, "batch_size": 16}
    model = make_model(name, task=task, **{**TINY[name], **config})
    rows = model._prepare(*table(task))
    training = model._training(rows, None)
    head = training.task.module.head.weight.detach().clone()
    before = lost(training.task)
    training.run(training.recipe.pretrain)
    assert lost(training.task) < 0.97 * before
    assert torch.equal(training.task.module.head.weight, head)
    model._finish(training, rows, None)
    assert not [n for n in model.model_["weights"] if n.startswith("pretext")]
