"""Estimators of libraries: the predictions of the library itself, and its early stopping."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes, load_iris, load_wine
from sklearn.metrics import log_loss
from tabsweep.models.out_of_fold import parts
from tabsweep.models.registry import MODELS, default_config, defaults, make_model
from tabsweep.models.svm import SVM

BOOSTING = [name for name, spec in MODELS.items() if spec.family == "gbdt"]
ENCODING = [name for name in BOOSTING if "categorical" in defaults(name)]


@pytest.fixture(scope="module")
def diabetes():
    x, y = load_diabetes(return_X_y=True)
    return x[:300], y[:300], x[300:], y[300:]


@pytest.fixture(scope="module")
def wine():
    x, y = load_wine(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    x, y = x[order], y[order]
    return x[:120], y[:120], x[120:], y[120:]


def test_lightgbm_equals_its_own_scikit_learn_door(diabetes, wine):
    from lightgbm import LGBMClassifier, LGBMRegressor

    x, y, xt, _ = diabetes
    mean, std = y.mean(), y.std()
    settings = {"n_estimators": 40, "n_jobs": 1, "random_state": 0, "verbose": -1}
    theirs = LGBMRegressor(**settings).fit(x, (y - mean) / std).predict(xt) * std + mean
    ours = make_model("lightgbm", task="regression", n_estimators=40).fit(x, y).predict(xt)
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)
    x, y, xt, _ = wine
    theirs = LGBMClassifier(**settings).fit(x, y).predict_proba(xt)
    ours = make_model("lightgbm", task="multiclass", n_estimators=40).fit(x, y).predict_proba(xt)
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)


def test_xgboost_equals_its_own_scikit_learn_door(diabetes, wine):
    from xgboost import XGBClassifier, XGBRegressor

    x, y, xt, _ = diabetes
    mean, std = y.mean(), y.std()
    settings = {"n_estimators": 40, "n_jobs": 1, "random_state": 0}
    theirs = XGBRegressor(**settings).fit(x, (y - mean) / std).predict(xt) * std + mean
    ours = make_model("xgboost", task="regression", n_estimators=40).fit(x, y).predict(xt)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    x, y, xt, _ = wine
    theirs = XGBClassifier(**settings).fit(x, y).predict_proba(xt)
    ours = make_model("xgboost", task="multiclass", n_estimators=40).fit(x, y).predict_proba(xt)
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_catboost_equals_its_own_scikit_learn_door(diabetes, wine):
    from catboost import CatBoostClassifier, CatBoostRegressor

    x, y, xt, _ = diabetes
    mean, std = y.mean(), y.std()
    settings = {
        "n_estimators": 40,
        "learning_rate": 0.1,
        "thread_count": 1,
        "random_seed": 0,
        "verbose": False,
        "allow_writing_files": False,
    }
    theirs = CatBoostRegressor(**settings).fit(x, (y - mean) / std).predict(xt) * std + mean
    ours = make_model("catboost", task="regression", n_estimators=40).fit(x, y).predict(xt)
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)
    x, y, xt, _ = wine
    theirs = CatBoostClassifier(**settings, loss_function="MultiClass").fit(x, y).predict_proba(xt)
    ours = make_model("catboost", task="multiclass", n_estimators=40).fit(x, y).predict_proba(xt)
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)


def test_scikit_learns_models_equal_themselves(diabetes):
    from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor
    from sklearn.neighbors import KNeighborsRegressor
    from sklearn.preprocessing import StandardScaler

    x, y, xt, _ = diabetes
    theirs = RandomForestRegressor(20, random_state=0).fit(x, y).predict(xt)
    ours = make_model("random-forest", task="regression", n_estimators=20).fit(x, y).predict(xt)
    np.testing.assert_allclose(ours, theirs)
    theirs = GradientBoostingRegressor(n_estimators=20, random_state=0).fit(x, y).predict(xt)
    model = make_model("gradient-boosting", task="regression", n_estimators=20)
    np.testing.assert_allclose(model.fit(x, y).predict(xt), theirs)
    scale = StandardScaler().fit(x)
    knn = KNeighborsRegressor(7, weights="distance").fit(scale.transform(x), y)
    ours = make_model("knn", task="regression", n_neighbors=7, weights="distance").fit(x, y)
    np.testing.assert_allclose(ours.predict(xt), knn.predict(scale.transform(xt)))


@pytest.mark.parametrize("name", BOOSTING)
@pytest.mark.parametrize("task", ["regression", "multiclass"])
def test_boosting_stops_when_the_validation_loss_no_longer_falls(name, task, diabetes, wine):
    data = diabetes if task == "regression" else wine
    config = {"n_estimators": 300, "learning_rate": 0.3, "early_stopping_rounds": 5}
    stopped = make_model(name, task=task, **config).fit(*data)
    full = make_model(name, task=task, **config).fit(*data[:2])
    assert stopped.best_iteration_ <= stopped.n_iter_ < full.n_iter_ == full.best_iteration_


@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
def test_gradient_boosting_keeps_the_rounds_of_least_validation_loss(task, diabetes, wine):
    x, y, xv, yv = diabetes if task == "regression" else wine
    if task == "binary":
        y, yv = (y > 0).astype(int), (yv > 0).astype(int)
    config = {"n_estimators": 60, "learning_rate": 0.3, "early_stopping_rounds": 60}
    stopped = make_model("gradient-boosting", task=task, **config).fit(x, y, xv, yv)
    full = make_model("gradient-boosting", task=task, **config).fit(x, y).model_
    if task == "regression":
        scaled = (yv - y.mean()) / y.std()
        losses = [((p - scaled) ** 2).mean() for p in full.staged_predict(xv)]
    else:
        losses = [log_loss(yv, p) for p in full.staged_predict_proba(xv)]
    assert stopped.best_iteration_ == int(np.argmin(losses)) + 1
    short = make_model("gradient-boosting", task=task, n_estimators=stopped.best_iteration_)
    short.set_params(learning_rate=0.3).fit(x, y)
    np.testing.assert_allclose(stopped.predict(xv), short.predict(xv))


def test_machine_labels_are_the_support_vector_machines_own(wine):
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    x, y, xt, yt = wine
    scale = StandardScaler().fit(x)
    for target in (y, (y > 0).astype(int)):
        task = "multiclass" if target.max() > 1 else "binary"
        ours = make_model("svm", task=task).fit(x, target)
        theirs = SVC().fit(scale.transform(x), target)
        np.testing.assert_array_equal(ours.predict(xt), theirs.predict(scale.transform(xt)))
    assert log_loss(yt, make_model("svm", task="multiclass").fit(x, y).predict_proba(xt)) < 0.3


def test_parts_deal_every_class_evenly():
    y = np.array([0] * 10 + [1] * 2 + [2])
    part = parts(y, 3, seed=0)
    counts = np.bincount(part, minlength=3)
    assert counts.max() - counts.min() <= 1
    assert np.bincount(part[:10], minlength=3).max() == 4
    assert isinstance(make_model("svm", task="binary"), SVM)


@pytest.mark.parametrize("name", ENCODING)
@pytest.mark.parametrize("categorical", ["native", "ordinal", "one-hot"])
def test_boosting_learns_from_a_category_however_it_is_encoded(name, categorical):
    rng = np.random.default_rng(0)
    level = rng.choice(list("abcdefgh"), 600)
    y = np.isin(level, ["a", "d", "e", "h"]).astype(float) + 0.01 * rng.normal(size=600)
    frame = pd.DataFrame({"level": pd.Categorical(level), "noise": rng.normal(size=600)})
    model = make_model(name, task="regression", categorical=categorical, n_estimators=60)
    assert model.fit(frame, y).score(frame, y) > 0.9


def test_no_file_and_no_word_is_left_behind(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    x, y = load_iris(return_X_y=True)
    for name in BOOSTING:
        make_model(name, task="multiclass", n_estimators=5).fit(x, y, x, y).predict(x)
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")


def test_threads_reach_every_library(wine):
    x, y, _, _ = wine
    for name in ("xgboost", "lightgbm", "catboost"):
        model = make_model(name, task="multiclass", threads=2, n_estimators=5).fit(x, y)
        one = make_model(name, task="multiclass", threads=1, n_estimators=5).fit(x, y)
        np.testing.assert_allclose(model.predict_proba(x), one.predict_proba(x), atol=1e-6)


def test_the_default_configuration_of_the_gbdts_stops_early_and_says_so():
    for name in ("xgboost", "lightgbm", "catboost"):
        config = default_config(name, "binary")
        assert config["early_stopping_rounds"] == 30 and config["n_estimators"] == 300
