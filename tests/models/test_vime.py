"""VIME's exchange of values against the official numbers, and laws of its pre-training."""

from __future__ import annotations

import numpy as np
import torch
from looped import each
from parity import case
from small_tables import TINY, small_task, table
from tabsweep.models.registry import make_model
from tabsweep.models.vime import VIMETask, corrupted
from torch.nn import functional as F


def test_exchanged_values_and_the_masks_label_are_the_official_ones():
    given = case("vime_pretext")
    x, mask = given.tensor("in/x"), given.tensor("in/mask").bool()
    seen, label = corrupted(x, mask, given.tensor("in/column_permutations"))
    assert np.array_equal(seen, given["out/x_tilde"])
    assert np.array_equal(label, given["out/mask_label"])
    assert 0 < label.sum() < mask.sum()


# -- laws -----------------------------------------------------------------------------------------


def task_of(task: str = "regression", **config) -> VIMETask:
    return small_task("vime", task, batch_size=60, **config)


def test_each_column_is_shuffled_apart_from_the_others_and_keeps_its_values():
    task = task_of(p_mask=1.0)
    x = task.rows.numbers
    seen, label = task._corrupted(x, 4, 0)
    assert torch.equal(seen.sort(dim=0).values, x.sort(dim=0).values)
    moved = [(seen[:, j] != x[:, j]).float().mean() for j in (0, 1)]
    assert all(m > 0.8 for m in moved)
    rows = {tuple(r) for r in x[:, :2].tolist()}
    assert sum(tuple(r) in rows for r in seen[:, :2].tolist()) < 10
    assert torch.equal(task._corrupted(x, 4, 0)[0], seen)
    for other in (task._corrupted(x, 5, 0), task._corrupted(x, 4, 1)):
        assert not torch.equal(other[0], seen)


def test_pretraining_adds_the_masks_log_loss_and_the_weighted_error_of_values():
    task = task_of(feature_weight=2.0)
    batch = task.rows
    found = task.pretext_loss(batch, torch.arange(60), 0)
    seen, label = task._corrupted(batch.numbers, 0, 0)
    z = (seen @ task.module.encoder.weight.T + task.module.encoder.bias).relu()
    mask, feature = (torch.sigmoid(layer(z)) for layer in task.module.pretext.children())
    expected = F.binary_cross_entropy(mask, label.float())
    expected = expected + 2 * (feature - batch.numbers).square().mean()
    assert torch.allclose(found, expected)
    kind = type(task.pretraining())
    assert kind is torch.optim.RMSprop and type(task.optimiser()) is torch.optim.AdamW


@each("task", ["regression", "binary", "multiclass"])
def test_the_semi_supervised_loss_adds_the_variance_of_answers_to_exchanged_copies(task):
    settings = {"semi": True, "n_copies": 3, "pretrain_epochs": 1}
    both, alone = task_of(task, consistency=5.0, **settings), task_of(task, pretrain_epochs=1)
    step = both.unit + 2
    rows = both.rows.at(both.batch(step)).numbers
    copies = [both.module(both._corrupted(rows, step, k)[0], None) for k in range(3)]
    unlike = torch.stack(copies).var(dim=0, correction=0).mean()
    assert unlike > 0
    assert torch.allclose(both.loss(step), alone.loss(step) + 5.0 * unlike)
    assert torch.equal(both.loss(0), alone.loss(0))  # pre-training is the same
    silent = task_of(task, **settings, consistency=1.0, p_mask=0.0)
    assert torch.allclose(silent.loss(step), alone.loss(step))


@each("frozen", [True, False])
def test_a_frozen_encoder_rests_after_pretraining(frozen):
    frame, y = table("binary")

    def encoder(epochs: int) -> np.ndarray:
        config = {**TINY["vime"], "frozen": frozen, "pretrain_epochs": 5, "epochs": epochs}
        model = make_model("vime", task="binary", weight_decay=0.1, **config)
        return model.fit(frame, y).model_["weights"]["encoder.weight"]

    assert np.array_equal(encoder(6), encoder(30)) == frozen


def test_an_encoder_of_width_zero_is_as_wide_as_the_columns_it_sees():
    task = task_of(width=0)
    assert task.module.encoder.weight.shape == (task.rows.numbers.shape[1],) * 2
