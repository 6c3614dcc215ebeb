"""TabM: what is trained, what is validated, and which rows its members see."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from looped import each
from small_tables import TINY, small_task, table
from tabsweep.models.registry import make_model
from tabsweep.models.tabm import VARIANTS
from torch.nn import functional as F


@each("task", ["binary", "multiclass", "regression"])
def test_the_loss_is_the_mean_of_the_members_losses_not_the_loss_of_their_mean(task):
    made = small_task("tabm", task, dropout=0.0)
    rows = made.batch(0)
    batch, y = made.rows.at(rows), made.targets[rows]
    out = made.module.members(batch.numbers, batch.codes)
    one = F.mse_loss if task == "regression" else F.cross_entropy
    losses = torch.stack([one(out[:, i], y) for i in range(out.shape[1])])
    assert made.loss(0).item() == pytest.approx(losses.mean().item(), rel=1e-6)
    of_mean = made.criterion(made.module(batch.numbers, batch.codes), y)
    assert of_mean.item() < losses.mean().item() - 1e-4


@each("stop_on", ["metric", "loss"])
def test_validation_losses_are_the_ensembles(stop_on):
    for task in ("binary", "multiclass", "regression"):
        frame, y = table(task, 60)
        val, y_val = table(task, 40, seed=5)
        net = make_model("tabm", task=task, **{**TINY["tabm"], "epochs": 3, "stop_on": stop_on})
        net.fit(frame, y, val, y_val)
        best = net.curve_[:, 1].min()
        assert net.best_iteration_ == net.curve_[net.curve_[:, 1].argmin(), 0]
        if task == "regression":
            error = ((net.predict(val) - y_val) / np.std(y)) ** 2
            wanted = error.mean() if stop_on == "loss" else error.mean() ** 0.5
        elif stop_on == "metric":
            wanted = (net.predict(val) != y_val).mean()
        else:
            p = net.predict_proba(val)
            wanted = -np.log(p[np.arange(40), np.searchsorted(net.classes_, y_val)]).mean()
        assert best == pytest.approx(wanted, rel=1e-4), task


def test_dropout_keeps_means_and_drops_elements_of_every_hidden_layer_on_its_own():
    made = small_task("tabm", "binary", dropout=0.25, width=512, k=4)
    seen = []
    for block in made.module.layers.backbone.blocks:
        block[2].register_forward_hook(lambda _, x, out: seen.append((x[0], out)))
    made.loss(0)
    assert len(seen) == len(made.module.layers.backbone.blocks) > 1
    for x, out in seen:
        kept = out[x != 0] != 0
        assert float(kept.float().mean()) == pytest.approx(0.75, abs=0.01)
        assert torch.allclose(out[out != 0], x[out != 0] / 0.75)
    assert not torch.equal(*((out == 0) for _, out in seen[:2]))


@each("variant", VARIANTS)
def test_members_of_every_variant_differ_at_the_start_and_learn(variant):
    frame, y = table("regression", 120)
    net = make_model("tabm", task="regression", **{**TINY["tabm"], "variant": variant})
    task = net._task(net._prepare(frame, y), None)
    with torch.no_grad():
        out = task.module.members(task.rows.numbers, task.rows.codes)
    assert float(out.std(dim=1).mean()) > 1e-3
    assert net.fit(frame, y).score(frame, y) > 0.7
