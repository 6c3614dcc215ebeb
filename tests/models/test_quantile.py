"""Models trained on a quantile of the target: what they cover, by simulation."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import mean_pinball_loss
from tabsweep.models import registry
from tabsweep.models.hyperparameters import InvalidConfig

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
