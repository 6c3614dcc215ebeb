"""A fit with a limit of time: the same fit where it is not reached, and the best steps so far."""

from __future__ import annotations

import numpy as np
import pytest
from small_tables import TINY
from small_tables import table as small_table
from tabsweep.models.registry import MODELS, make_model

BOOSTED = {
    name: {"n_estimators": 40, "early_stopping_rounds": 5, "learning_rate": 0.3}
    for name in ("lightgbm", "xgboost", "catboost", "hist-gradient-boosting", "gradient-boosting")
}


def parts():
    frame, y = small_table("binary", 100)
    return frame[:60], y[:60], frame[60:], y[60:]


def make(name, **more):
    return make_model(name, task="binary", seed=3, threads=1, **{**TINY.get(name, {}), **more})


@pytest.mark.parametrize("name", [*BOOSTED, "mlp"])
def test_a_limit_that_is_not_reached_changes_nothing_and_one_that_is_keeps_a_model(name):
    X, y, X_val, y_val = parts()
    config = BOOSTED.get(name, {})
    usual = make(name, **config).fit(X, y, X_val, y_val)
    assert not hasattr(usual, "out_of_time_")
    free = make(name, **config).limit_time(3600).fit(X, y, X_val, y_val)
    assert free.out_of_time_ is False and free.best_iteration_ == usual.best_iteration_
    assert free.predict_proba(X_val).tobytes() == usual.predict_proba(X_val).tobytes()

    cut = make(name, **config).limit_time(1e-9).fit(X, y, X_val, y_val)
    assert cut.out_of_time_ is True and cut.n_iter_ <= 1
    assert np.isfinite(cut.predict_proba(X_val)).all()
    without_val = make(name, **config).limit_time(1e-9).fit(X, y)
    assert without_val.out_of_time_ is True and without_val.n_iter_ <= 1


def loss_of(model, X, y):
    p = np.clip(
        model.predict_proba(X)[np.arange(len(y)), np.searchsorted(model.classes_, y)], 1e-9, 1
    )
    return -np.log(p).mean()


@pytest.mark.parametrize("name", ["lightgbm", "xgboost", "catboost", "gradient-boosting"])
def test_what_is_kept_is_the_best_round_of_those_that_ran_not_the_last(name, monkeypatch):
    X, y, X_val, y_val = parts()
    wild = {"n_estimators": 30, "early_stopping_rounds": 1000, "learning_rate": 2.0}
    model = make(name, **wild).limit_time(3600)
    asked = iter(range(1000))
    model._out_of_time = lambda: next(asked) >= 19  # the time is over after the twentieth round
    model.fit(X, y, X_val, y_val)
    assert model.best_iteration_ < 20
    best = make(name, **{**wild, "n_estimators": 20}).fit(X, y, X_val, y_val)
    assert model.best_iteration_ == best.best_iteration_
    assert loss_of(model, X_val, y_val) == pytest.approx(loss_of(best, X_val, y_val), rel=1e-12)


def test_a_network_out_of_time_is_validated_once_more_and_keeps_its_best_weights():
    X, y, X_val, y_val = parts()
    model = make("mlp", epochs=50, patience=0).limit_time(3600)
    asked = iter(range(10_000))
    model._out_of_time = lambda: next(asked) >= 6
    model.fit(X, y, X_val, y_val)
    assert len(model.curve_) >= 1 and model.curve_[-1, 0] <= 7
    assert model.best_iteration_ <= model.n_iter_ <= 7


def test_only_models_that_train_in_steps_know_a_limit_and_it_is_a_positive_number():
    for name in ("knn", "linear", "random-forest"):
        with pytest.raises(ValueError, match="not trained in steps"):
            make(name).limit_time(1.0)
    for wrong in (0, -1, float("inf"), float("nan")):
        with pytest.raises(ValueError, match="more than 0"):
            make("lightgbm").limit_time(wrong)
    assert all(hasattr(make(n), "limit_time") for n in MODELS if MODELS[n].resource)


def test_a_fit_in_parts_refuses_a_limit_of_time():
    """A cut part would be saved as if all of its steps had run."""
    X, y, _, _ = parts()
    for name in ("mlp", "npt", "lightgbm"):
        model = make(name).limit_time(5.0)
        with pytest.raises(ValueError, match="no limit of time"):
            model.fit_to(X, y, stop=2, every=1, save=lambda step, state: None)
