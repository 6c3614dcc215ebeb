"""The contract of an estimator, held by every registered model on every task that it has.

Each law is one test that loops over the registry, so a model is tested on the day it is added. One
fit a model and task is shared by all laws that only look at it.
"""

from __future__ import annotations

import os
import pickle
import warnings
from functools import cache

import numpy as np
import pandas as pd
import pytest
from laws import hold
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from small_tables import ALL, TINY, answers, table
from tabsweep.models.registry import MODELS, load_class, make_model, small_fits

N = 120
# Largest difference between a row's prediction alone and in its batch, relative to the largest
# prediction: by the number format of the matrix products, which are summed in another order.
TOLERANCES = {"float64": 1e-9, "float32": 1e-6}


def model(name, task, **config):
    return make_model(name, task=task, **{**TINY[name], **config})


def short(name, task, **config):
    """A model with so few steps that it learns nothing, for laws about odd tables."""
    resource = MODELS[name].resource
    return model(name, task, **({resource: 6} if resource else {}), **config)


def rows(task):
    """120 rows to learn from, as many as the shared fit sees."""
    frame, y = table(task, 160)
    return frame.iloc[:N], y[:N]


@cache
def shared(name, task):
    """The fit that laws share: on 120 rows, with 30 validation rows. No law may change it."""
    return model(name, task).fit(*rows(task), *table(task, 30, seed=5))


def test_validation_targets_of_another_form_are_refused():
    """Broadcast against the predictions, or NaN, they would end a fit at its first state."""

    def law(name, task):
        frame, y = rows(task)
        bad = [(y[:8][:, None].repeat(2, axis=1), "shape"), (y[:7], "shape")]
        if task == "regression":
            bad.append((np.where(np.arange(8) == 3, np.nan, y[:8]), "NaN"))
        for y_val, told in bad:
            with pytest.raises(ValueError, match=f"y_val .*{told}"):
                short(name, task).fit(frame, y, frame[:8], y_val)

    stopping = [case for case in ALL if short(*case)._early_stopping()]
    assert len(stopping) > 40 or "TABSWEEP_TEST_MODELS" in os.environ
    hold(law, stopping)


def test_a_model_answers_in_the_form_of_its_task():
    def law(name, task):
        frame, y = rows(task)
        fitted = shared(name, task)
        predicted = fitted.predict(frame)
        assert predicted.shape == (N,) and fitted.n_features_in_ == 5
        if task == "regression":
            assert predicted.dtype == np.float64 and np.isfinite(predicted).all()
            return
        p = fitted.predict_proba(frame)
        assert p.dtype == np.float64 and p.shape == (N, len(fitted.classes_))
        assert list(fitted.classes_) == sorted(set(y)) and set(predicted) <= set(y)
        assert (p >= 0).all() and np.allclose(p.sum(axis=1), 1.0, atol=1e-5)
        np.testing.assert_array_equal(fitted.classes_[p.argmax(axis=1)], predicted)

    hold(law, ALL)


def test_a_model_beats_the_constant_answer_on_a_learnable_table():
    def law(name, task):
        frame, y = table(task, 160)
        floor = shared("constant", task).score(frame.iloc[N:], y[N:])
        assert shared(name, task).score(frame.iloc[N:], y[N:]) > floor + 0.05

    hold(law, [case for case in ALL if MODELS[case[0]].family != "baseline"])


def test_numbers_far_from_zero_are_learnt_as_well():
    """Such as seconds since 1970, which float32 rounds to some two minutes; by the models that do
    not standardise what they read."""

    def law(name, task):
        frame, y = table(task, 160)
        numbers = frame.select_dtypes("number").columns
        far, floor = frame.assign(**{c: frame[c] + 1.7e9 for c in numbers}), np.var(y[N:])
        fitted = model(name, task).fit(far.iloc[:N], y[:N] + 1e9)
        error = np.mean((fitted.predict(far.iloc[N:]) - 1e9 - y[N:]) ** 2)
        assert error < 0.95 * floor, (error, floor)

    unscaled = [
        n
        for n, m in MODELS.items()
        if {"none", "shift"} & {m.preprocessing.numeric, m.preprocessing.target}
    ]
    hold(law, [(n, t) for n, t in ALL if n in unscaled and t == "regression" and n != "constant"])


def test_the_same_fit_gives_the_same_bytes():
    def law(name, task):
        frame, _ = rows(task)
        again = shared.__wrapped__(name, task)
        assert answers(shared(name, task), frame).tobytes() == answers(again, frame).tobytes()

    hold(law, ALL)


def test_a_model_is_cloned_pickled_and_read_back():
    def law(name, task):
        frame, _ = rows(task)
        fitted = shared(name, task)
        same = clone(fitted)
        assert same.get_params() == fitted.get_params() and not hasattr(same, "constant_")
        back = pickle.loads(pickle.dumps(fitted))
        assert answers(back, frame).tobytes() == answers(fitted, frame).tobytes()
        assert is_regressor(fitted) == (task == "regression") == (not is_classifier(fitted))
        assert same.set_params(seed=5).seed == 5

    hold(law, ALL)


def test_no_row_of_a_prediction_depends_on_the_others():
    """Not on what they hold, not on their order, not on their number."""

    def law(name, task):
        frame, _ = rows(task)
        fitted = shared(name, task)
        whole = answers(fitted, frame)
        tolerance = TOLERANCES[fitted.computes_in] * max(1.0, np.abs(whole).max())
        half, order = N // 2, np.random.default_rng(0).permutation(N)
        strange = table(task, half, seed=4)[0].assign(a=1e20, b=np.nan, colour=None)
        several = pd.concat([frame] * 4, ignore_index=True)  # more than one block of a network
        for asked, at in (
            (pd.concat([frame.iloc[:half], strange], ignore_index=True), np.arange(half)),
            (frame.iloc[order], order),
            (several, np.tile(np.arange(N), 4)),
            *((frame.iloc[[row]], np.array([row])) for row in (7, 8, N - 1)),
        ):
            found = answers(fitted, asked)[: len(at)]
            assert np.abs(found - whole[at]).max() <= tolerance

    hold(law, ALL)


@pytest.mark.fault(14)
def test_new_levels_and_new_gaps_at_prediction_are_answered():
    new = pd.DataFrame(
        {
            "a": [np.nan, 0.0, 1e30],
            "b": [np.nan, np.nan, -1e30],
            "constant": [np.nan, 4.0, 3.0],
            "empty": [1.0, np.nan, 2.0],
            "colour": ["violet", None, "red"],
        }
    )

    def law(name, task):
        assert np.isfinite(answers(shared(name, task), new)).all()

    hold(law, ALL)


def test_arrays_one_feature_and_no_missing_values_work():
    def law(name, task):
        frame, y = table(task)
        x = frame[["a"]].to_numpy()
        assert np.isfinite(answers(short(name, task).fit(x, y), x)).all()

    hold(law, ALL)


def test_only_categories_and_the_largest_seed_work():
    def law(name, task):
        frame, y = table(task)
        halves = (frame["a"] > 0).map({True: "p", False: "n"})
        x = pd.DataFrame({"c": frame["colour"], "d": halves})
        fitted = short(name, task).set_params(seed=2**31 - 1).fit(x, y)
        assert np.isfinite(answers(fitted, x)).all()

    hold(law, ALL)


def test_features_without_a_difference_give_the_constant_answer():
    def law(name, task):
        _, y = table(task)
        x = np.full((60, 2), 5.0)
        found = answers(model(name, task).fit(x, y), x[:3])
        expected = answers(make_model("constant", task=task).fit(x, y), x[:3])
        np.testing.assert_allclose(found, expected)

    hold(law, ALL)


def test_a_target_without_a_difference_is_answered_with_its_value():
    def law(name, task):
        frame, y = table(task)
        same = np.repeat(y[:1], 60)
        fitted = model(name, task).fit(frame, same)
        np.testing.assert_array_equal(fitted.predict(frame.head(3)), same[:3])

    hold(law, ALL)


def test_few_rows_and_classes_of_one_row_are_survived():
    def law(name, task):
        frame, _ = table(task, 9)
        y = np.arange(9) ** 2.0
        if task != "regression":
            y = np.array([0, 0, 0, 0, 1, 1, 1, 1, 1 if task == "binary" else 2])
        fitted = short(name, task).fit(frame, y, frame, y)
        assert np.isfinite(answers(fitted, frame)).all()

    hold(law, ALL)


def test_validation_labels_that_training_lacks_do_no_harm():
    def law(name, task):
        frame, y = table(task)
        val = y[:20] if task == "regression" else np.array(["unheard"] * 10 + list(y[10:20]))
        fitted = short(name, task).fit(frame, y, frame.head(20), val)
        assert np.isfinite(answers(fitted, frame)).all()

    hold(law, ALL)


def test_validation_rows_serve_early_stopping_alone():
    def law(name, task):
        frame, y = table(task)
        off = small_fits(name).get("ignores_validation", {})
        settings = model(name, task, **off)
        with_val = answers(clone(settings).fit(frame, y, *table(task, 30, seed=5)), frame)
        without = answers(clone(settings).fit(frame, y), frame)
        assert with_val.tobytes() == without.tobytes()

    hold(law, ALL)


def test_bad_tables_and_targets_are_refused():
    def law(name, task):
        frame, y = table(task)
        fresh = model(name, task)
        with pytest.raises(NotFittedError, match="fit"):
            fresh.predict(frame)
        with pytest.raises(ValueError, match="row"):
            fresh.fit(frame.head(0), y[:0])
        with pytest.raises(ValueError, match="infinite"):
            fresh.fit(frame.assign(a=np.inf), y)
        with pytest.raises(ValueError, match=r"\(60,\)"):
            fresh.fit(frame, y[:50])
        if task != "regression":
            with pytest.raises(ValueError, match="missing label"):
                fresh.fit(frame, pd.Series(y).where(np.arange(60) != 3))
        else:
            with pytest.raises(ValueError, match="NaN"):
                fresh.fit(frame, np.where(np.arange(60) == 3, np.nan, y))
            with pytest.raises(AttributeError, match="predict"):
                shared(name, task).predict_proba(frame)

    hold(law, ALL)


def test_three_classes_are_no_binary_task():
    frame, y = table("multiclass")
    with pytest.raises(ValueError, match="a binary task has 2 classes, y holds 3"):
        make_model("linear", task="binary").fit(frame, y)


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


# -- warnings of the libraries --------------------------------------------------------------------


def test_warnings_of_a_fit_are_counted_by_category_and_not_shown():
    frame, y = table("multiclass")
    stopped = make_model("linear", task="multiclass", max_iter=1)
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        stopped.fit(frame, y)
    assert stopped.warnings_ == {"ConvergenceWarning": 1} and shown == []
    assert stopped.set_params(max_iter=500).fit(frame, y).warnings_ == {}  # of the last fit alone
    assert stopped.fit(frame, np.repeat(y[:1], 60)).warnings_ == {}


def test_every_number_format_has_its_tolerance():
    assert {load_class(spec.target).computes_in for spec in MODELS.values()} <= set(TOLERANCES)
