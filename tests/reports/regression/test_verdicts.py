"""Verdicts on two versions of a model: their laws, and their error rates in a simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from tabsweep.reports.regression.verdicts import (
    EQUAL,
    HARMLESS,
    UNDECIDED,
    WORSE,
    change_of,
    verdicts,
)
from tabsweep.reports.statistics.tests import relative_changes


def pairs(rng, n_datasets=8, n=3, sd=0.01, factor=1.0):
    """{dataset: errors of two versions whose seeds move the logarithm by `sd`}."""
    found = {}
    for i in range(n_datasets):
        size = 10.0 ** rng.uniform(-2, 2)
        a, b = size * np.exp(rng.normal(0.0, sd, (2, n)))
        found[f"d{i}"] = a, factor * b
    return found


def test_one_dataset_is_the_paired_t_test():
    a, b = np.random.default_rng(0).uniform(1.0, 1.2, (2, 9))
    found = change_of({"d": (a, b)})
    want = stats.ttest_1samp(relative_changes(a, b), 0.0, alternative="greater")
    assert found.p == pytest.approx(want.pvalue)
    low = stats.ttest_1samp(relative_changes(a, b), 0.0, alternative="less")
    assert found.upper == pytest.approx(low.confidence_interval(0.95).high)


def test_an_error_that_is_not_a_number_is_never_harmless():
    a = np.full(4, 0.2)
    for bad in ([0.2, np.nan, 0.2, 0.2], [np.nan] * 4):
        found = change_of({"d": (a, np.array(bad)), "e": (a, a)})
        assert math.isnan(found.p) and verdicts([found]) == [UNDECIDED]
    assert list(relative_changes(np.zeros(2), np.array([0.0, 0.1]))) == [0.0, 2.0]


def test_every_dataset_counts_once_however_many_pairs_it_has():
    many = np.ones(50), np.full(50, 1.5)
    few = np.ones(2), np.ones(2)
    assert change_of({"a": many, "b": few}).mean == pytest.approx(0.5 * 2 * 0.5 / 2.5)


def test_a_constant_change_is_judged_by_the_sign_test():
    a = np.array([0.5, 0.25])
    assert verdicts([change_of({"d": (a, a.copy())})]) == [EQUAL]
    for factor in (1.02, 1.005, 0.5):  # two folds differ by the same number of rows now and then
        assert verdicts([change_of({"d": (a, factor * a)})]) == [UNDECIDED]
    a = np.tile(a, 4)
    assert verdicts([change_of({"d": (a, 1.02 * a)})]) == [WORSE]
    assert verdicts([change_of({"d": (a, 1.005 * a)})]) == [HARMLESS]
    assert verdicts([change_of({"d": (a, 0.5 * a)})]) == [HARMLESS]


@pytest.mark.parametrize("n_folds", [2, 3, 5, 10])
def test_a_constant_change_is_one_whatever_the_last_bit_of_its_mean(n_folds):
    """One to three rows more wrong on every fold: the mean of equal floats is often one ulp off."""
    for n_rows in (10, 15, 30, 76):
        for wrong in range(1, n_rows // 3):
            for more in (1, 2, 3):
                old, new = (1.0 - (n_rows - k) / n_rows for k in (wrong, wrong + more))
                change = change_of({"d": (np.full(n_folds, old), np.full(n_folds, new))})
                assert change.p == 0.5**n_folds
    change = change_of({"d": (np.full(3, 1 - 28 / 30), np.full(3, 1 - 27 / 30))})
    assert verdicts([change]) == [UNDECIDED]


def test_the_sign_test_counts_the_pairs_that_change_in_each_direction():
    old = np.full(4, 0.2)
    worse, better = (old, old * 1.5), (old, old * 0.9)
    assert change_of({"a": worse, "b": (old, old.copy())}).p == 0.5**4  # no change has no sign
    found = change_of({"a": worse, "b": better, "c": better})
    assert found.mean > 0 and found.p == 1.0 and math.isnan(found.upper)
    assert change_of({"a": worse, "b": worse}).p == 0.5**8


def test_two_small_folds_raise_no_alarm_among_equal_models():
    """Fifteen test rows a fold, no error before: each change is from 0, and all such are alike."""
    rng = np.random.default_rng(0)
    alarms = 0
    for _ in range(200):
        errors = rng.binomial(15, 0.05, size=(12, 2, 2)) / 15
        changes = [change_of({"d": (old, new)}) for old, new in errors]
        alarms += WORSE in verdicts(changes)
    assert alarms <= 4


def test_an_error_of_zero_is_no_nan():
    zero, one = np.zeros(2), np.ones(2)
    found = change_of({"d": (zero, one), "e": (one, zero), "f": (zero, zero.copy())})
    assert found.mean == 0.0 and math.isfinite(found.p)


def test_one_pair_a_dataset_decides_nothing():
    found = change_of({f"d{i}": (np.ones(1), np.full(1, 2.0)) for i in range(9)})
    assert math.isnan(found.p) and verdicts([found]) == [UNDECIDED]


def test_without_a_pair_there_is_nothing_to_judge():
    with pytest.raises(ValueError, match="no pair"):
        change_of({})


@pytest.mark.parametrize(
    ("sd", "found_2"), [(0.01, 0.95), pytest.param(0.02, 0.3, marks=pytest.mark.nightly)]
)
def test_false_alarms_are_rare_and_five_percent_are_found(sd, found_2):
    """Twelve models, eight datasets, three seeds: one comparison."""
    rng = np.random.default_rng(1)
    n, counts = 150, {1.0: 0, 1.02: 0, 1.05: 0}
    for factor in counts:
        for _ in range(n):
            others = [change_of(pairs(rng, sd=sd)) for _ in range(11)]
            said = verdicts([change_of(pairs(rng, sd=sd, factor=factor)), *others])
            counts[factor] += WORSE in said if factor == 1.0 else said[0] == WORSE
    assert counts[1.0] <= 0.03 * n
    assert counts[1.02] >= found_2 * n and counts[1.05] >= 0.95 * n
