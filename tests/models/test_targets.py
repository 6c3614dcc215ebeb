"""What models learn of a target in regression: a quantile, its logarithm, its ranks."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.metrics import mean_pinball_loss
from tabsweep.models import registry
from tabsweep.models.hyperparameters import InvalidConfig
from tabsweep.models.persistence.model_file import load_model, save_model
from tabsweep.models.persistence.schema import Schema
from tabsweep.models.target_transform import in_units, quantiles_of, transformed

Q = 0.9
# One of each place that knows the loss: the libraries, and our networks of single rows.
SMALL = {
    "catboost": {"max_depth": 2, "n_estimators": 200},
    "gradient-boosting": {"max_depth": 2, "min_samples_leaf": 40},
    "hist-gradient-boosting": {"max_depth": 2, "min_samples_leaf": 40},
    "lightgbm": {"num_leaves": 4, "min_child_samples": 40},
    "xgboost": {"max_depth": 2, "min_child_weight": 40.0, "learning_rate": 0.1},
    "mlp": {"epochs": 25},
    "tabm": {"epochs": 25, "k": 4, "width": 32, "n_blocks": 1},
    "grownet": {"epochs": 10, "hidden": 16},
    "realmlp": {"epochs": 16, "width": 32, "n_layers": 1},
}


def noisy(n: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Rows whose noise grows with one of their two features."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 2, (n, 2))
    y = 3 * x[:, 0] + (0.3 + 2 * x[:, 1]) * rng.normal(size=n)
    return pd.DataFrame(x, columns=["a", "b"]), y


@pytest.mark.parametrize("name", SMALL)
def test_a_trained_quantile_covers_its_share_and_beats_the_mean_by_its_loss(name):
    rows, val, (X, y) = noisy(2000, 0), noisy(1000, 1), noisy(4000, 2)
    loss = {}
    for quantile in (None, Q):
        model = registry.make_model(name, task="regression", quantile=quantile, **SMALL[name])
        predicted = model.fit(*rows, *val).predict(X)
        loss[quantile] = mean_pinball_loss(y, predicted, alpha=Q)
    assert np.mean(y <= predicted) == pytest.approx(Q, abs=0.03)
    assert loss[Q] < 0.7 * loss[None]


def test_every_model_that_has_a_quantile_knows_its_rule_and_refuses_it_for_classes():
    able = [name for name in registry.names() if "quantile" in registry.defaults(name)]
    assert set(SMALL) <= set(able)
    means = {"modern-nca"}  # whose answer is a mean of labels
    for name in able:
        for bad in (0.0, 1.0, "0.9", True):
            with pytest.raises(InvalidConfig, match="quantile"):
                registry.make_model(name, task="regression", quantile=bad).check()
        with pytest.raises(InvalidConfig, match="quantile"):
            task = "regression" if name in means else "binary"
            registry.make_model(name, task=task, quantile=Q).check()


def test_where_nothing_can_be_learnt_the_answer_is_the_quantile_by_weight_too():
    X, y = pd.DataFrame({"a": np.ones(11)}), np.arange(11.0)
    model = registry.make_model("lightgbm", task="regression", quantile=Q)
    assert model.fit(X, y).predict(X[:1]) == pytest.approx(9.0)
    weights = np.where(y < 4, 1.0, 1e-9)
    assert model.fit(X, y, sample_weight=weights).predict(X[:1]) == pytest.approx(3.0)


@pytest.mark.parametrize("name", ["gradient-boosting", "hist-gradient-boosting", "lightgbm", "mlp"])
def test_a_quantile_continues_from_a_saved_state(name):
    X, y = noisy(200, 0)
    config = {"epochs" if name == "mlp" else "n_estimators": 6, "quantile": Q}
    model = registry.make_model(name, task="regression", **config)
    states: dict[int, bytes] = {}
    whole = model.fit_to(X, y, stop=6, every=3, save=states.__setitem__).predict(X)
    again = registry.make_model(name, task="regression", **config)
    parts = again.fit_to(X, y, stop=6, every=3, start=(3, states[3])).predict(X)
    assert again.resumed_from_ == 3 and (parts == whole).all()


def salaries(n: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Rows whose target is a power of their feature, one in a hundred of them a typing error."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 3, n)
    y = np.round(1000 * np.exp(x + rng.normal(0, 0.1, n)))
    return pd.DataFrame({"a": x}), np.where(rng.random(n) < 0.01, 1e9, y)


@pytest.mark.parametrize("how", ["none", "log", "rank"])
def test_transformed_values_are_mapped_back_in_their_order(how):
    y = np.array([0.0, 3.0, 3.0, 3.0, 8.5, 1e11])
    known = quantiles_of(how, y)
    there = transformed(how, y, known)
    assert np.isfinite(there).all() and (np.diff(there) >= 0).all()
    assert in_units(how, there, known) == pytest.approx(y)
    if how == "rank":
        assert there[1:4] == pytest.approx(norm.ppf(1 / 3))  # the middle of the ranks 2, 3, 4
    if how != "none":
        assert in_units(how, np.array([-1e4, 1e4]), known) == pytest.approx([0.0, 1e11])


@pytest.mark.parametrize("name", ["linear", "lightgbm"])
def test_few_far_values_no_longer_decide_the_fit_and_the_file_keeps_the_transform(name, tmp_path):
    X, y = salaries(1000, 0)
    asked, truth = salaries(500, 1)
    usual = truth < 1e9
    off = {}
    for how in ("none", "log", "rank"):
        model = registry.make_model(name, task="regression", target_transform=how).fit(X, y)
        found = model.predict(asked)
        off[how] = np.median(np.abs(found - truth)[usual] / truth[usual])
    assert max(off["rank"], off["log"]) < 0.01 * off["none"]
    save_model(model, tmp_path / "m.tabsweep", schema=Schema.of(X, "regression"))
    again = load_model(tmp_path / "m.tabsweep")
    assert again.predict(asked).tobytes() == found.tobytes()


@pytest.mark.parametrize("how", ["log", "rank"])
def test_a_row_far_outside_is_answered_within_the_range_of_the_training_targets(how):
    X, y = salaries(200, 0)
    model = registry.make_model("linear", task="regression", target_transform=how).fit(X, y)
    far = pd.DataFrame({"a": [-1e6, 1e6]})
    assert model.predict(far) == pytest.approx([y.min(), y.max()])


def test_what_cannot_be_transformed_is_refused():
    frame = pd.DataFrame({"a": np.arange(20.0)})
    with pytest.raises(ValueError, match="values of 0 or more, y holds -1"):
        registry.make_model("linear", task="regression", target_transform="log").fit(
            frame, np.arange(20.0) - 1
        )
    with pytest.raises(InvalidConfig, match="regression alone"):
        registry.make_model("linear", task="binary", target_transform="rank").fit(
            frame, np.arange(20) % 2
        )
