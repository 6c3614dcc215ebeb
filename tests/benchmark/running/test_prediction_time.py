"""Seconds per 1,000 rows: what is measured, how little of it, and that it leaves results alone."""

from __future__ import annotations

import time

import numpy as np
import pandas as pd
import pytest
from tabsweep.benchmark.prediction_time import BATCH, ROWS, SINGLE, BestSoFar, prediction_times
from tabsweep.datasets.table import Table


class Model:
    """Notes the sizes that it is asked for; `seconds(n)` is what a prediction takes."""

    def __init__(self, seconds=lambda n: 0.0):
        self.sizes, self.seconds = [], seconds

    def __call__(self, X):
        assert isinstance(X, pd.DataFrame) and list(X.columns) == ["a", "b"]
        assert list(X.index) == list(range(len(X)))
        self.sizes.append(len(X))
        time.sleep(self.seconds(len(X)))
        return np.zeros(len(X))


def rows(n):
    return pd.DataFrame({"a": np.arange(n), "b": pd.Categorical(["x"] * n)})


@pytest.mark.parametrize("n", [1, 30, 1000, 2500])
def test_batches_have_1000_rows_and_single_rows_are_single(n):
    model = Model()
    found, trouble = prediction_times(model, rows(n), took_s=1e-6, budget_s=1e6)
    assert not trouble and set(found) == {BATCH, SINGLE} and min(found.values()) >= 0
    assert model.sizes[:2] == [1, 1] and model.sizes[-1] == ROWS and max(model.sizes) == ROWS


def test_a_slow_model_is_asked_rarely_and_a_large_test_part_has_its_time_already():
    slow = Model(lambda n: 0.03)
    found, trouble = prediction_times(slow, rows(50), took_s=0.03, budget_s=10.0)
    assert set(found) >= {SINGLE} and len(slow.sizes) <= 8 and not trouble
    slower = Model(lambda n: 9.0)
    assert prediction_times(slower, rows(50), took_s=9.0, budget_s=100.0) == ({}, "")
    found, _ = prediction_times(slower, rows(4000), took_s=9.0, budget_s=100.0)
    assert found == {BATCH: 2.25} and slower.sizes == []


def test_the_cost_of_a_row_is_told_from_that_of_a_call():
    found, _ = prediction_times(Model(lambda n: 2e-6 * n), rows(500), took_s=1e-3, budget_s=100.0)
    assert found[BATCH] >= 2e-3 and found[SINGLE] >= 2e-3


def test_a_model_that_predicts_no_single_rows_is_told_of_and_fails_nothing():
    def whole(X):
        if len(X) < 10:
            raise ValueError("needs 10 rows\nand more words")
        return np.zeros(len(X))

    found, trouble = prediction_times(whole, rows(40), took_s=1e-4, budget_s=1e6)
    assert found == {} and trouble == "ValueError: needs 10 rows"
    assert prediction_times(whole, rows(0), took_s=0.0, budget_s=1.0) == ({}, "")


def table() -> Table:
    return Table("t", pd.DataFrame({"a": [0.0, 1.0]}), np.zeros(2), "regression", (), "0" * 64)


def test_the_chosen_trial_is_measured_and_few_others_are():
    best, losses = BestSoFar(), np.random.default_rng(0).random(200)
    one, other = table(), table()
    measured = [i for i, loss in enumerate(losses) if best.beaten(one, (0, "m"), loss)]
    assert measured[0] == 0 and measured[-1] == losses.argmin() and len(measured) < 15
    assert best.beaten(one, (1, "m"), 0.5)  # another fold is another study
    assert best.beaten(other, (0, "m"), 0.5)  # and so is another sweep's table
