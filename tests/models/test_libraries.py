"""Estimators of libraries: the predictions of the library itself, and its early stopping."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes, load_iris, load_wine
from sklearn.metrics import log_loss
from tabsweep.models.hyperparameters import InvalidConfig
from tabsweep.models.out_of_fold import parts
from tabsweep.models.registry import MODELS, defaults, make_model

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


COMMON = {"n_estimators": 40, "n_jobs": 1, "random_state": 0}
CATBOOST = {"n_estimators": 40, "thread_count": 1, "random_seed": 0, "learning_rate": 0.1}
DOORS = {  # of each library for scikit-learn's users: its names, settings, and relative tolerance
    "lightgbm": ("LGBM", {**COMMON, "verbose": -1}, 1e-9),
    "xgboost": ("XGB", COMMON, 1e-5),
    "catboost": ("CatBoost", {**CATBOOST, "verbose": False, "allow_writing_files": False}, 1e-9),
}


@pytest.mark.parametrize("name", DOORS)
def test_a_boosting_library_gives_what_it_gives_by_its_own_door(name, diabetes, wine):
    library, (door, settings, rtol) = import_module(name), DOORS[name]
    x, y, xt, _ = diabetes
    mean, std = y.mean(), y.std()
    theirs = getattr(library, f"{door}Regressor")(**settings).fit(x, (y - mean) / std).predict(xt)
    ours = make_model(name, task="regression", n_estimators=40).fit(x, y).predict(xt)
    np.testing.assert_allclose(ours, theirs * std + mean, rtol=rtol)
    x, y, xt, _ = wine
    several = {"loss_function": "MultiClass"} if name == "catboost" else {}
    theirs = getattr(library, f"{door}Classifier")(**settings, **several).fit(x, y)
    ours = make_model(name, task="multiclass", n_estimators=40).fit(x, y).predict_proba(xt)
    np.testing.assert_allclose(ours, theirs.predict_proba(xt), rtol=rtol, atol=rtol / 10)


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


def test_xgboost_uses_every_setting_that_it_is_given(wine, monkeypatch):
    import xgboost

    train = xgboost.train

    def loud(params, *rows, **given):
        return train({**params, "verbosity": 1, "validate_parameters": True}, *rows, **given)

    monkeypatch.setattr(xgboost, "train", loud)
    with pytest.warns(UserWarning, match='"stranger" } are not used'):
        loud({"stranger": 1}, xgboost.DMatrix(wine[0], wine[1]), num_boost_round=1)
    model = make_model("xgboost", task="multiclass", n_estimators=1).fit(*wine[:2])
    assert model.warnings_ == {}


# -- extras ---------------------------------------------------------------------------------------


def test_ebm_equals_its_own_library(diabetes, wine):
    from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor

    few = {"outer_bags": 1, "max_rounds": 100, "interactions": "1x"}
    more = {"random_state": 0, "n_jobs": 1, "learning_rate": 0.02, "smoothing_rounds": 200}
    more |= {"interaction_smoothing_rounds": 90, "max_leaves": 2, "min_hessian": 1e-4}
    x, y, xt, _ = diabetes
    mean, std = y.mean(), y.std()
    kinds = ["continuous"] * x.shape[1]
    theirs = ExplainableBoostingRegressor(feature_types=kinds, **few, **more)
    wanted = theirs.fit(x, (y - mean) / std).predict(xt) * std + mean
    ours = make_model("ebm", task="regression", **few).fit(x, y).predict(xt)
    np.testing.assert_allclose(ours, wanted, rtol=1e-9)
    x, y, xt, _ = wine
    kinds = ["continuous"] * x.shape[1]
    theirs = ExplainableBoostingClassifier(feature_types=kinds, **few, **more)
    wanted = theirs.fit(x, y).predict_proba(xt)
    ours = make_model("ebm", task="multiclass", **few).fit(x, y).predict_proba(xt)
    np.testing.assert_allclose(ours, wanted, rtol=1e-9)


def test_realmlp_with_its_defaults_equals_its_own_library(
    diabetes, wine, capfd, tmp_path, monkeypatch
):
    from pytabkit import RealMLP_TD_Classifier, RealMLP_TD_Regressor

    monkeypatch.chdir(tmp_path)
    few = {"device": "cpu", "random_state": 0, "n_threads": 1, "n_epochs": 4}
    cases = (
        (diabetes, "regression", RealMLP_TD_Regressor, "predict"),
        (wine, "multiclass", RealMLP_TD_Classifier, "predict_proba"),
    )
    for (x, y, xt, yt), task, cls, ask in cases:
        frame, asked = (pd.DataFrame(part).add_prefix("n") for part in (x, xt))
        theirs = cls(**few).fit(frame, y, asked, yt)
        wanted = getattr(theirs, ask)(asked)
        capfd.readouterr()
        before = np.random.get_state()[1].copy()
        net = make_model("realmlp", task=task, epochs=4).fit(x, y, xt, yt)
        assert (np.random.get_state()[1] == before).all()
        np.testing.assert_allclose(getattr(net, ask)(xt), wanted, rtol=1e-4, atol=1e-5)
        assert capfd.readouterr() == ("", "") and not list(tmp_path.iterdir())


@pytest.mark.parametrize("stop_on", ["roc_auc", "log_loss", "metric"])
def test_realmlp_keeps_the_epoch_that_its_library_keeps_by_the_same_metric(stop_on, wine):
    from pytabkit import RealMLP_TD_Classifier

    x, y, xt, yt = wine
    few = {"device": "cpu", "random_state": 0, "n_threads": 1, "n_epochs": 4}
    theirs = RealMLP_TD_Classifier(
        **few,
        val_metric_name={"roc_auc": "1-auc_ovr", "log_loss": "cross_entropy", "metric": None}[
            stop_on
        ],
        use_ls=stop_on == "metric",  # as the paper advises: smoothing is for accuracy alone
    )
    frame, asked = (pd.DataFrame(part).add_prefix("n") for part in (x, xt))
    wanted = theirs.fit(frame, y, asked, yt).predict_proba(asked)
    ours = make_model("realmlp", task="multiclass", epochs=4, stop_on=stop_on)
    answer = ours.fit(x, y, xt, yt).predict_proba(xt)
    np.testing.assert_allclose(answer, wanted, rtol=1e-4, atol=1e-5)


def test_realmlp_stops_by_log_loss_where_a_class_has_no_validation_row(wine):
    x, y, xt, yt = wine
    few, seen = {"task": "multiclass", "epochs": 4}, yt != 2
    answers = [
        make_model("realmlp", stop_on=by, **few).fit(x, y, xt[seen], yt[seen]).predict_proba(xt)
        for by in ("roc_auc", "log_loss")
    ]
    np.testing.assert_array_equal(*answers)
    with pytest.raises(InvalidConfig, match="stop_on of a regression task must be one of metric"):
        make_model("realmlp", task="regression", stop_on="roc_auc").fit(x, y)


def test_xrfm_takes_a_single_validation_row():
    X = np.random.default_rng(0).normal(size=(60, 3))
    y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0)
    fitted = make_model("xrfm", task="multiclass").fit(X, y, X[:1], y[:1])
    assert (fitted.predict(X) == y).mean() > 0.8


def test_xrfm_equals_its_own_library(diabetes):
    from xrfm import xRFM

    x, y, xt, yt = diabetes
    mean, std = y.mean(), y.std()
    scale = [((part - x.mean(0)) / x.std(0)).astype(np.float32) for part in (x, xt)]
    targets = [((part - mean) / std).astype(np.float32) for part in (y, yt)]
    kernel = {"kernel": "l2", "bandwidth": 10.0, "exponent": 1.0, "diag": True}
    params = {
        "model": {**kernel, "bandwidth_mode": "constant"},
        "fit": {"reg": 1e-3, "iters": 5, "verbose": False, "early_stop_rfm": True},
    }
    theirs = xRFM(rfm_params=params, device="cpu", random_state=0, n_threads=1, verbose=False)
    theirs.fit(scale[0], targets[0], scale[1], targets[1])
    wanted = np.asarray(theirs.predict(scale[1]))[:, 0] * std + mean
    ours = make_model("xrfm", task="regression").fit(x, y, xt, yt).predict(xt)
    np.testing.assert_allclose(ours, wanted, rtol=1e-3)


def test_a_fit_of_realmlp_in_a_new_process_prints_nothing(tmp_path):
    code = (
        "from tabsweep.models.registry import make_model\n"
        "x, y = [[float(i)] for i in range(20)], [float(i) for i in range(20)]\n"
        "make_model('realmlp', task='regression', epochs=2).fit(x, y).predict(x)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert (done.stdout, done.stderr) == ("", "") and not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "library"), [("ebm", "interpret"), ("realmlp", "pytabkit"), ("xrfm", "xrfm")]
)
def test_without_its_extra_a_model_says_which_one_it_needs(name, library):
    code = (
        f"import sys; sys.modules[{library!r}] = None\n"
        "from tabsweep.models.registry import make_model\n"
        f"make_model({name!r}, task='regression').fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1 and f"pip install 'tabsweep[{name}]'" in done.stderr
