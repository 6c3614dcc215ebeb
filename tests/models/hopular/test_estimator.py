"""Fitted Hopular models: learning, best weights, resuming, and what a prediction reads."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score
from small_tables import answers, table
from tabsweep.models.hopular.estimator import Hopular
from tabsweep.models.hyperparameters import InvalidConfig

STILL = {
    "dropout_input": 0.0, "dropout_hopfield": 0.0, "dropout_output": 0.0,
    "p_mask": 0.0, "p_replace": 0.0, "weight_decay": 0.0, "gamma": 0.0,
}  # fmt: skip
TINY = {"width": 4, "n_blocks": 1, "n_nets": 1, "lr": 0.03, "average": 0.2, "eval_every": 5}


def tiny(task: str, **given) -> Hopular:
    return Hopular(task=task, **{**TINY, "steps": 20, **given})


def own_row_hidden(model: Hopular, frame, y) -> np.ndarray:
    """Logits or values of the training rows as training sees them, no copy in the memory."""
    x, _ = model._numbers(frame)
    with model._ready() as module:
        rows = model.cells(x, y)
        flags = torch.zeros_like(rows.hidden)
        flags[:, -1] = True
        asked = model.cells(x)
        state = module(asked, flags, module.store(rows), forbidden=torch.arange(len(x)))
        return module.decode(state, module.columns.targets).of(x.shape[1]).numpy()


# -- learning -------------------------------------------------------------------------------------


def test_thirty_rows_are_learned_by_heart():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 3))
    y = (x[:, 0] * x[:, 1] > 0).astype(int)
    settings = {**STILL, "width": 8, "n_blocks": 2, "steps": 120, "lr": 0.02}
    model = tiny("binary", **settings).fit(x, y)
    assert (own_row_hidden(model, x, y).argmax(axis=1) == y).all()
    assert model.score(x, y) == 1.0


# -- the weights that are kept --------------------------------------------------------------------


def test_the_first_of_the_best_epochs_is_kept_by_accuracy_or_squared_error():
    for task in ("multiclass", "regression"):
        frame, y = table(task, 80)
        val = table(task, 40, seed=5)
        model = tiny(task, steps=40).fit(frame, y, *val)
        steps, scores = model.curve_.T
        assert list(steps) == [5, 10, 15, 20, 25, 30, 35, 40]
        assert model.best_iteration_ == steps[scores.argmin()]
        found = model.predict(val[0])
        mistake = (
            (found != val[1]).mean() if task != "regression" else np.mean((found - val[1]) ** 2)
        )
        assert mistake == pytest.approx(scores.min(), rel=1e-4)


@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_the_epoch_is_chosen_by_roc_auc_where_asked_for(task):
    frame, y = table(task, 80)
    val = table(task, 40, seed=5)
    model = tiny(task, steps=40, stop_on="roc_auc").fit(frame, y, *val)
    steps, scores = model.curve_.T
    assert model.best_iteration_ == steps[scores.argmin()]
    p = model.predict_proba(val[0])
    area = roc_auc_score(val[1], p[:, 1] if task == "binary" else p, multi_class="ovr")
    assert 1 - area == pytest.approx(scores.min(), abs=1e-6)
    one = val[1] == val[1][0]  # a single class has no area: log loss
    alone = tiny(task, steps=40, stop_on="roc_auc").fit(frame, y, val[0][one], val[1][one])
    shares = alone.predict_proba(val[0][one])[:, list(alone.classes_).index(val[1][0])]
    assert -np.log(shares).mean() == pytest.approx(alone.curve_[:, 1].min(), rel=1e-4)
    with pytest.raises(InvalidConfig, match="of classes alone"):
        tiny("regression", stop_on="roc_auc").fit(*table("regression", 40))


def test_averaged_weights_are_validated_and_kept():
    frame, y = table("binary")
    first = tiny("binary", average=1e-9, lr=0.1).fit(frame, y)
    other = tiny("binary", average=1e-9, lr=0.001).fit(frame, y)
    np.testing.assert_allclose(answers(first, frame), answers(other, frame), atol=1e-5)
    assert not np.allclose(answers(first, frame), answers(tiny("binary").fit(frame, y), frame))


# -- answers --------------------------------------------------------------------------------------


def test_the_training_rows_are_stored_once_for_all_predictions(monkeypatch):
    from tabsweep.models.hopular.network import HopularNetwork

    frame, y = table("binary")
    model = tiny("binary").fit(frame, y)
    calls, store = [], HopularNetwork.store
    monkeypatch.setattr(HopularNetwork, "store", lambda *a: calls.append(1) or store(*a))
    first = answers(model, frame)
    assert answers(model, frame).tobytes() == first.tobytes() and len(calls) == 1
    model.fit(frame, y)
    answers(model, frame)
    assert len(calls) > 1 + 20  # one a step, and the new weights' memory


def test_wide_tables_are_narrowed_where_asked_for():
    x, y = np.random.default_rng(0).normal(size=(12, 30)), np.arange(12) % 2
    for max_width, width in ((0, 4), (70, 2), (1, 2)):
        model = tiny("binary", n_nets=2, max_width=max_width, steps=1).fit(x, y)
        assert model.model_["weights"]["embedding.kind"].shape == (2, width)
