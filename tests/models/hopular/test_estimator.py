"""Fitted Hopular models: learning, best weights, resuming, and what a prediction reads."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.datasets import load_diabetes, load_iris
from small_tables import answers, table
from tabsweep.models.hopular.estimator import Hopular
from tabsweep.models.persistence.model_file import load_model, save_model
from tabsweep.models.persistence.schema import Schema

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


@pytest.mark.parametrize("residual", ["code", "paper"])
def test_thirty_rows_are_learned_by_heart(residual):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 3))
    y = (x[:, 0] * x[:, 1] > 0).astype(int)
    settings = {**STILL, "width": 8, "n_blocks": 2, "steps": 120, "lr": 0.02, "residual": residual}
    model = tiny("binary", **settings).fit(x, y)
    assert (own_row_hidden(model, x, y).argmax(axis=1) == y).all()
    assert model.score(x, y) == 1.0


@pytest.mark.parametrize(
    ("load", "task", "given", "least"),
    [
        (load_iris, "multiclass", {}, 0.9),
        (load_iris, "multiclass", {"residual": "paper"}, 0.9),
        (load_diabetes, "regression", {}, 0.35),
        (load_diabetes, "regression", {"summary": "attribute"}, 0.3),
    ],
)
def test_iris_and_diabetes_are_learned(load, task, given, least):
    x, y = load(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    val, test, train = np.split(order, [len(y) // 4, len(y) // 2])
    calm = {"gamma": 0.0, "dropout_input": 0.0, "dropout_hopfield": 0.0, "dropout_output": 0.0}
    model = tiny(task, **{**calm, "width": 8, "steps": 60, "average": 0.1, **given})
    assert model.fit(x[train], y[train], x[val], y[val]).score(x[test], y[test]) >= least


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


def test_averaged_weights_are_validated_and_kept():
    frame, y = table("binary")
    first = tiny("binary", average=1e-9, lr=0.1).fit(frame, y)
    other = tiny("binary", average=1e-9, lr=0.001).fit(frame, y)
    np.testing.assert_allclose(answers(first, frame), answers(other, frame), atol=1e-5)
    last = tiny("binary", average=1.0).fit(frame, y).model_["weights"]
    none = tiny("binary", average=0.0).fit(frame, y).model_["weights"]
    assert all(np.array_equal(last[name], none[name]) for name in none)
    assert not np.allclose(answers(first, frame), answers(tiny("binary").fit(frame, y), frame))


def test_a_fit_that_goes_on_equals_the_uninterrupted_one():
    for task in ("multiclass", "regression"):
        frame, y = table(task)
        val = table(task, 30, seed=5)
        states: dict[int, bytes] = {}
        how = {"stop": 15, "every": 4, "save": states.__setitem__}
        whole = tiny(task).fit_to(frame, y, *val, **how)
        assert sorted(states) == [4, 8, 12, 15]
        for step in (4, 12):
            again = tiny(task).fit_to(frame, y, *val, stop=15, every=4, start=(step, states[step]))
            assert again.resumed_from_ == step
            assert answers(again, frame).tobytes() == answers(whole, frame).tobytes()
            assert np.array_equal(again.curve_, whole.curve_)
    in_one = tiny("regression").fit(frame, y, *val)
    through = tiny("regression").fit_to(frame, y, *val, stop=20, every=7)
    assert answers(in_one, frame).tobytes() == answers(through, frame).tobytes()


# -- answers --------------------------------------------------------------------------------------


def test_a_saved_model_answers_with_the_same_bytes(tmp_path):
    frame, y = table("multiclass")
    model = tiny("multiclass").fit(frame, y)
    expected = answers(model, frame)
    path = save_model(model, tmp_path / "m", schema=Schema.of(frame, "multiclass"))
    found = load_model(path).predict_proba(frame)
    assert np.asarray(found).tobytes() == expected.tobytes()


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


def test_the_rate_falls_to_nothing_or_stays_as_the_paper_prints_it():
    for schedule, last in (("cosine", 0.0), ("constant", 1e-3)):
        rate = Hopular(task="binary", steps=100, schedule=schedule)._recipe().rate
        assert rate(99) == pytest.approx(last) and rate(0) == pytest.approx(1e-3, rel=1e-3)


def test_numbers_are_divided_by_the_unbiased_deviation():
    x = np.array([[1.0, 5.0, np.nan], [2.0, 5.0, 1.0], [4.0, 5.0, 3.0], [9.0, 5.0, np.nan]])
    y = np.array([10.0, 20.0, 60.0, 30.0])
    model = tiny("regression")
    encoded, target = model._prepare(x, y)
    np.testing.assert_allclose(encoded[:, 0], (x[:, 0] - 4.0) / x[:, 0].std(ddof=1))
    np.testing.assert_allclose(encoded[:, 1], 0.0)
    np.testing.assert_allclose(encoded[1:3, 2], [-(0.5**0.5), 0.5**0.5])
    np.testing.assert_allclose(target, (y - 30.0) / y.std(ddof=1))
    assert model._target_scale == pytest.approx(y.std(ddof=1))


def test_wide_tables_are_narrowed_where_asked_for():
    x, y = np.random.default_rng(0).normal(size=(12, 30)), np.arange(12) % 2
    for max_width, width in ((0, 4), (70, 2), (1, 2)):
        model = tiny("binary", n_nets=2, max_width=max_width, steps=1).fit(x, y)
        assert model.model_["weights"]["embedding.kind"].shape == (2, width)


@pytest.mark.parametrize("beta_scaling", [1.0, 100.0])
def test_half_precision_gives_finite_answers_near_the_full_ones(beta_scaling):
    frame, y = table("regression")
    given = {"beta_scaling": beta_scaling, "steps": 5}
    whole = tiny("regression", **given, precision="fp32").fit(frame, y)
    half = tiny("regression", **given, precision="bf16").fit(frame, y)
    gap = np.abs(half.predict(frame) - whole.predict(frame)).max()
    assert 0 < gap < 0.1 * y.std()
