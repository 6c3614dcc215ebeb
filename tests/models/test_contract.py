"""Does every registered model keep the contract of an estimator, on every task?

The registry writes the matrix: a model that is added is tested here the same day.
"""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from small_tables import TINY, answers, table
from tabsweep.models.registry import MODELS, make_model

ALL = [(name, task) for name in MODELS for task in MODELS[name].tasks]
SMALL = {
    "n_estimators": 12,
    "max_iter": 30,
    "early_stopping_rounds": 4,
}  # enough to learn, quick enough for a matrix
matrix = pytest.mark.parametrize(("name", "task"), ALL)


def model(name: str, task: str, **config):
    known = make_model(name, task=task).get_params()
    small = {k: v for k, v in SMALL.items() if k in known}
    return make_model(name, task=task, **small, **TINY.get(name, {}), **config)


@matrix
def test_a_model_answers_in_the_form_of_its_task(name, task):
    frame, y = table(task)
    fitted = model(name, task).fit(frame, y)
    predicted = fitted.predict(frame)
    assert predicted.shape == (60,) and fitted.n_features_in_ == 5
    if task == "regression":
        assert predicted.dtype == np.float64 and np.isfinite(predicted).all()
        return
    p = fitted.predict_proba(frame)
    assert p.dtype == np.float64 and p.shape == (60, len(fitted.classes_))
    assert list(fitted.classes_) == sorted(set(y)) and set(predicted) <= set(y)
    assert (p >= 0).all() and np.allclose(p.sum(axis=1), 1.0, atol=1e-5)
    np.testing.assert_array_equal(fitted.classes_[p.argmax(axis=1)], predicted)


@matrix
def test_a_model_beats_the_constant_answer_on_a_learnable_table(name, task):
    frame, y = table(task, 160)
    train, test = frame.iloc[:120], frame.iloc[120:]
    floor = make_model("constant", task=task).fit(train, y[:120]).score(test, y[120:])
    score = model(name, task).fit(train, y[:120]).score(test, y[120:])
    assert score > floor + 0.05 or name == "constant"


@matrix
def test_the_same_fit_gives_the_same_bytes(name, task):
    frame, y = table(task)
    val = table(task, 30, seed=5)
    first = answers(model(name, task).fit(frame, y, *val), frame)
    second = answers(model(name, task).fit(frame, y, *val), frame)
    assert first.tobytes() == second.tobytes()


@matrix
def test_a_model_is_cloned_pickled_and_read_back(name, task):
    frame, y = table(task)
    fitted = model(name, task).fit(frame, y)
    same = clone(fitted)
    assert same.get_params() == fitted.get_params() and not hasattr(same, "constant_")
    back = pickle.loads(pickle.dumps(fitted))
    assert answers(back, frame).tobytes() == answers(fitted, frame).tobytes()
    assert is_regressor(fitted) == (task == "regression") == (not is_classifier(fitted))
    assert same.set_params(seed=5).seed == 5


@matrix
def test_no_row_of_a_prediction_depends_on_the_others(name, task):
    frame, y = table(task)
    fitted = model(name, task).fit(frame, y)
    whole = answers(fitted, frame)
    # the matrix product of a batch may round otherwise than that of one row
    np.testing.assert_allclose(answers(fitted, frame.iloc[[7]])[0], whole[7], rtol=1e-9, atol=1e-9)


@pytest.mark.fault(14)
@matrix
def test_new_levels_and_new_gaps_at_prediction_are_answered(name, task):
    frame, y = table(task)
    fitted = model(name, task).fit(frame, y)
    new = pd.DataFrame(
        {
            "a": [np.nan, 0.0, 1e30],
            "b": [np.nan, np.nan, -1e30],
            "constant": [np.nan, 4.0, 3.0],
            "empty": [1.0, np.nan, 2.0],
            "colour": ["violet", None, "red"],
        }
    )
    assert np.isfinite(answers(fitted, new)).all()


@matrix
def test_arrays_one_feature_and_no_missing_values_work(name, task):
    frame, y = table(task)
    x = frame[["a"]].to_numpy()
    fitted = model(name, task).fit(x, y)
    assert np.isfinite(answers(fitted, x)).all()


@matrix
def test_only_categories_work(name, task):
    frame, y = table(task)
    x = pd.DataFrame({"c": frame["colour"], "d": (frame["a"] > 0).map({True: "p", False: "n"})})
    assert np.isfinite(answers(model(name, task).fit(x, y), x)).all()


@matrix
def test_features_without_a_difference_give_the_constant_answer(name, task):
    _, y = table(task)
    x = np.full((60, 2), 5.0)
    found = answers(model(name, task).fit(x, y), x[:3])
    expected = answers(make_model("constant", task=task).fit(x, y), x[:3])
    np.testing.assert_allclose(found, expected)


@matrix
def test_a_target_without_a_difference_is_answered_with_its_value(name, task):
    frame, y = table(task)
    same = np.repeat(y[:1], 60)
    fitted = model(name, task).fit(frame, same)
    np.testing.assert_array_equal(fitted.predict(frame.head(3)), same[:3])


@matrix
def test_few_rows_and_classes_of_one_row_are_survived(name, task):
    frame, _ = table(task, 9)
    y = np.arange(9) ** 2.0
    if task != "regression":
        y = np.array([0, 0, 0, 0, 1, 1, 1, 1, 1 if task == "binary" else 2])
    fitted = model(name, task).fit(frame, y, frame, y)
    assert np.isfinite(answers(fitted, frame)).all()


@matrix
def test_validation_labels_that_training_lacks_do_no_harm(name, task):
    frame, y = table(task)
    val = y[:20] if task == "regression" else np.array(["unheard"] * 10 + list(y[10:20]))
    assert np.isfinite(answers(model(name, task).fit(frame, y, frame.head(20), val), frame)).all()


@matrix
def test_validation_rows_serve_early_stopping_alone(name, task):
    frame, y = table(task)
    val = table(task, 30, seed=5)
    config = {}
    if "early_stopping_rounds" in make_model(name, task=task).get_params():
        config["early_stopping_rounds"] = 0
    if name in TINY:  # a network keeps the best of its weights: here there are none but the last
        tiny = TINY[name]
        one = {"epochs": 1 + tiny.get("pretrain_epochs", 0)}
        config |= {"eval_every": tiny["steps"]} if "eval_every" in tiny else one
    settings = model(name, task).set_params(**config)
    with_val = answers(clone(settings).fit(frame, y, *val), frame)
    without = answers(clone(settings).fit(frame, y), frame)
    assert with_val.tobytes() == without.tobytes()


@matrix
def test_bad_tables_and_targets_are_refused(name, task):
    frame, y = table(task)
    fresh = model(name, task)
    with pytest.raises(NotFittedError, match="call fit first"):
        fresh.predict(frame)
    with pytest.raises(ValueError, match="at least one row"):
        fresh.fit(frame.head(0), y[:0])
    with pytest.raises(ValueError, match="infinite value"):
        fresh.fit(frame.assign(a=np.inf), y)
    with pytest.raises(ValueError, match=r"y must have shape \(60,\)"):
        fresh.fit(frame, y[:50])
    if task != "regression":
        with pytest.raises(ValueError, match="missing label"):
            fresh.fit(frame, pd.Series(y).where(np.arange(60) != 3))
    else:
        with pytest.raises(ValueError, match="NaN or an infinite value"):
            fresh.fit(frame, np.where(np.arange(60) == 3, np.nan, y))
        with pytest.raises(AttributeError, match="use predict"):
            fresh.fit(frame, y).predict_proba(frame)


def test_three_classes_are_no_binary_task():
    frame, y = table("multiclass")
    with pytest.raises(ValueError, match="a binary task has 2 classes, y holds 3"):
        make_model("linear", task="binary").fit(frame, y)


@matrix
def test_another_seed_leaves_a_model_well_defined(name, task):
    frame, y = table(task)
    assert np.isfinite(
        answers(model(name, task).set_params(seed=2**31 - 1).fit(frame, y), frame)
    ).all()


def test_scikit_learns_own_tools_take_our_models():
    from sklearn.model_selection import GridSearchCV, cross_val_score

    for task in ("binary", "regression"):
        frame, y = table(task)
        knn = make_model("knn", task=task)
        assert len(cross_val_score(knn, frame, y, cv=3)) == 3
        assert GridSearchCV(knn, {"n_neighbors": [1, 9]}, cv=3).fit(frame, y).best_score_ > 0


def test_a_value_set_later_is_checked_at_fit():
    frame, y = table("binary")
    with pytest.raises(ValueError, match="n_neighbors must be a whole number"):
        make_model("knn", task="binary").set_params(n_neighbors=0).fit(frame, y)
