"""Metrics: agreement with scikit-learn, and None where a metric has no meaning."""

from __future__ import annotations

import itertools
import math
import warnings

import numpy as np
import pytest
import sklearn.metrics as oracle
from tabsweep.reports.metrics import (
    METRICS,
    NonFinitePrediction,
    ece,
    metrics_of,
    roc_auc,
    score_all,
)


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def test_metrics_are_scikit_learns_with_weights_of_rows_and_without():
    """Weights of 0 among them; whole weights are as many copies of a row."""
    for n_classes, seed, weighted in itertools.product([2, 3, 7], range(8), (False, True)):
        agrees_with_scikit_learn(n_classes, seed, weighted)
    nothing = score_all("regression", np.arange(9.0), np.ones(9), weights=np.zeros(9))
    assert set(nothing.values()) == {None}


def agrees_with_scikit_learn(n_classes, seed, weighted):
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(n_classes), rng.integers(0, n_classes, 60)])
    proba = softmax(rng.normal(size=(len(y), n_classes)) + 1.5 * np.eye(n_classes)[y])
    if seed % 2:  # equal scores, as trees and k-NN give them
        proba = np.round(proba * 3) + 0.01
        proba /= proba.sum(axis=1, keepdims=True)
    w = np.where(np.arange(len(y)) < n_classes, 1.0, rng.integers(0, 3, len(y)) * 0.7)
    how = {"sample_weight": w if weighted else None}
    pick, auc = proba.argmax(axis=1), proba[:, 1] if n_classes == 2 else proba
    want = {
        "accuracy": oracle.accuracy_score(y, pick, **how),
        "balanced_accuracy": oracle.balanced_accuracy_score(y, pick, **how),
        "roc_auc": oracle.roc_auc_score(y, auc, multi_class="ovr", average="macro", **how),
        "log_loss": oracle.log_loss(y, proba, labels=range(n_classes), **how),
    }
    task = "binary" if n_classes == 2 else "multiclass"
    got = score_all(task, y, proba, n_classes, how["sample_weight"])
    assert list(got) == [name for name in metrics_of(task) if METRICS[name].usual] == list(want)
    assert got == pytest.approx(want, rel=1e-12, abs=1e-14), (n_classes, seed)
    copies = np.repeat(np.arange(len(y)), rng.integers(1, 4, len(y)))
    counts = np.bincount(copies).astype(float)
    repeated = score_all(task, y[copies], proba[copies], n_classes)
    assert score_all(task, y, proba, n_classes, counts) == pytest.approx(repeated, rel=1e-12)
    target = rng.normal(50, 20, len(y))
    value = target + rng.normal(0, 5, len(y))
    want = {
        "rmse": oracle.root_mean_squared_error(target, value, **how),
        "mse": oracle.mean_squared_error(target, value, **how),
        "mae": oracle.mean_absolute_error(target, value, **how),
        "r2": oracle.r2_score(target, value, **how),
    }
    for shaped in (value, value[:, None]):
        got = score_all("regression", target, shaped, weights=how["sample_weight"])
        assert got == pytest.approx(want, rel=1e-12), seed


def chosen(name, task, y, prediction, n_classes=0, **more):
    """The value of a metric that only those have who choose it."""
    got = score_all(task, y, prediction, n_classes, chosen=name, **more)
    assert [*got][-1] == name and len(got) == 5
    return got[name]


def test_a_chosen_metric_is_scikit_learns_with_weights_of_rows_and_without():
    rng = np.random.default_rng(1)
    for n_classes, w in itertools.product((2, 4), (None, rng.integers(1, 4, 80) * 0.7)):
        y = np.concatenate([np.arange(n_classes), rng.integers(0, n_classes, 80 - n_classes)])
        proba = softmax(rng.normal(size=(80, n_classes)) + np.eye(n_classes)[y])
        task = "binary" if n_classes == 2 else "multiclass"
        pick, score = proba.argmax(axis=1), proba[:, 1] if n_classes == 2 else proba
        how = {"sample_weight": w}
        want = {
            "average_precision": oracle.average_precision_score(y, score, **how),
            "f1_macro": oracle.f1_score(y, pick, average="macro", **how),
            "mcc": oracle.matthews_corrcoef(y, pick, **how),
            "brier": oracle.brier_score_loss(y, score, **how),
        } | ({"f1": oracle.f1_score(y, pick, **how)} if n_classes == 2 else {})
        for name, value in want.items():
            assert chosen(name, task, y, proba, n_classes, weights=w) == value, name
        target, value = rng.normal(50, 9, 80), rng.normal(50, 9, 80)
        want = {
            "mape": oracle.mean_absolute_percentage_error(target, value, **how),
            "median_ae": oracle.median_absolute_error(target, value, **how),
            "pinball_90": oracle.mean_pinball_loss(target, value, alpha=0.9, **how),
        }
        for name, found in want.items():
            assert chosen(name, "regression", target, value, weights=w) == found, name
    assert chosen("average_precision", "binary", np.ones(4, int), np.full((4, 2), 0.5), 2) is None


def test_a_row_costs_what_the_matrix_says_of_its_class_and_the_cheapest_decision():
    y, proba = np.array([0, 1, 1]), np.array([[0.9, 0.1], [0.7, 0.3], [0.95, 0.05]])
    assert chosen("cost", "binary", y, proba, 2) == pytest.approx(2 / 3)
    assert chosen("cost", "binary", y, proba, 2, costs=((0, 1), (5, 0))) == pytest.approx(5 / 3)
    assert chosen("cost", "binary", y, proba, 2, costs=((0, 1), (100, 0))) == pytest.approx(1 / 3)
    rng = np.random.default_rng(0)
    y, proba = rng.integers(0, 3, 99), softmax(rng.normal(size=(99, 3)))
    costs = ((0.0, 1.0, 7.0), (4.0, 0.5, 2.0), (0.5, 3.0, 0.0))  # of the true class a row each
    cheapest = [
        min(range(3), key=lambda k, row=row: sum(p * costs[i][k] for i, p in enumerate(row)))
        for row in proba
    ]
    want = np.mean([costs[i][k] for i, k in zip(y, cheapest, strict=True)])
    assert chosen("cost", "multiclass", y, proba, 3, costs=costs) == pytest.approx(want)


def test_sure_and_wrong_costs_what_scikit_learn_says():
    y, proba = np.array([0, 1]), np.array([[0.0, 1.0], [0.0, 1.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = oracle.log_loss(y, proba)
    assert score_all("binary", y, proba, 2)["log_loss"] == pytest.approx(want, rel=1e-12)


@pytest.mark.fault(9)
def test_metrics_without_meaning_are_none_and_the_others_stay():
    one_class = score_all("binary", np.ones(4, int), np.full((4, 2), 0.5), 2)
    assert one_class["roc_auc"] is None and one_class["accuracy"] == 0.0
    absent = score_all("multiclass", np.array([0, 1, 0]), np.eye(3)[[0, 1, 0]], 3)
    assert absent["roc_auc"] is None and absent["balanced_accuracy"] == 1.0
    constant = score_all("regression", np.ones(3), np.array([1.0, 2.0, 3.0]))
    assert constant["r2"] is None and constant["mae"] == 1.0
    assert score_all("regression", np.ones(1), np.ones(1))["r2"] is None


def test_an_overflowing_error_is_none_and_not_infinity():
    scores = score_all("regression", np.zeros(2), np.array([1e200, -1e200]))
    assert scores["mse"] is None and scores["rmse"] is None and scores["mae"] == 1e200


@pytest.mark.fault(9)
def test_a_prediction_that_is_not_finite_is_refused():
    for bad in (np.nan, np.inf, -np.inf):
        with pytest.raises(NonFinitePrediction, match="1 of 2 rows"):
            score_all("regression", np.zeros(2), np.array([0.0, bad]))
        with pytest.raises(NonFinitePrediction):
            score_all("binary", np.array([0, 1]), np.array([[0.5, 0.5], [bad, 0.5]]), 2)


def test_wrong_input_names_the_law():
    for task, y, prediction, n_classes, law in (
        ("binary", [0, 1], [[0.5, 0.5]], 2, "shape"),
        ("multiclass", [0, 1, 2], [[0.5, 0.5]] * 3, 3, "every class"),
        ("binary", [0, 2], [[0.5, 0.5]] * 2, 2, "codes"),
        ("binary", [0, 1], [[0.5, 0.1]] * 2, 2, "sum to 1"),
        ("binary", [0, 1], [[1.5, -0.5]] * 2, 2, "non-negative"),
        ("binary", [0, 1], [[1 / 3] * 3] * 2, 3, "n_classes=3"),
        ("regression", [0.0, 1.0], [0.0], 0, "as many values"),
        ("regression", [0.0, np.nan], [0.0, 1.0], 0, "finite"),
        ("regression", [], [], 0, "as many values"),
        ("ranking", [0.0], [0.0], 0, "unknown task"),
    ):
        with pytest.raises(ValueError, match=law):
            score_all(task, np.array(y), np.array(prediction), n_classes)


def test_every_metric_has_a_direction_and_an_error_that_is_zero_when_perfect():
    for m in METRICS.values():
        assert m.direction in ("max", "min")
        assert m.error(1.0 if m.direction == "max" else 0.0) == 0.0
        assert m.loss(0.25) == (-0.25 if m.direction == "max" else 0.25)


def test_perfect_scores_under_any_weights_are_one_and_no_error_is_negative():
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=40)
    for _ in range(50):
        value = y + rng.uniform(0, 0.9, size=40)
        proba = np.column_stack([1 - value / 2, value / 2])
        assert roc_auc(y, proba, rng.uniform(0.01, 9.0, size=40)) == 1.0
    assert METRICS["roc_auc"].error(1.0000000000000007) == 0.0
    assert math.isnan(METRICS["roc_auc"].error(math.nan))


def test_the_calibration_error_of_five_rows_is_the_one_by_hand():
    p = np.array([0.95, 0.94, 0.94, 0.6, 0.55])  # of class 1, which three of the rows are
    y = np.array([1, 1, 0, 0, 1])
    # of 15 bins three rows are in (14/15, 1], one in (8/15, 9/15], one in (8/15, 9/15]
    by_hand = 0.6 * abs(2 / 3 - p[:3].mean()) + 0.4 * abs(0.5 - 0.575)
    assert ece(y, np.stack([1 - p, p], axis=1)) == pytest.approx(by_hand, abs=1e-12)


def test_outcomes_drawn_with_the_stated_probabilities_are_calibrated():
    rng = np.random.default_rng(0)
    p = rng.uniform(size=200_000)
    y = (rng.uniform(size=len(p)) < p).astype(int)
    proba = np.stack([1 - p, p], axis=1)
    sharper = proba**3 / (proba**3).sum(axis=1, keepdims=True)  # the same choices, too sure
    assert ece(y, proba) < 0.01 and ece(y, sharper) > 0.1
    weights = rng.integers(0, 4, 2000)
    copies = np.repeat(np.arange(2000), weights)
    weighted = METRICS["ece"].value(y[:2000], sharper[:2000], weights.astype(float))
    assert weighted == pytest.approx(ece(y[copies], sharper[copies]))


def test_f1_has_no_value_without_a_positive_row():
    proba = np.array([[0.9, 0.1], [0.2, 0.8]])
    assert METRICS["f1"].value(np.array([0, 0]), proba) is None
    assert METRICS["f1"].value(np.array([0, 1]), proba) == 1
    assert METRICS["f1"].value(np.array([0, 1]), proba[::-1]) == 0
