"""Welch's interval against scipy's, and its edges."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tabsweep.reports.statistics.welch import welch


def test_the_interval_is_scipys():
    from scipy.stats import ttest_ind

    rng = np.random.default_rng(0)
    for n, m, spread in ((2, 5, 1.0), (10, 10, 0.1), (30, 4, 7.0)):
        one, other = rng.normal(size=n), rng.normal(0.3, spread, size=m)
        found = welch(one, other)
        wanted = ttest_ind(one, other, equal_var=False)
        interval = wanted.confidence_interval(0.95)
        assert found.mean == pytest.approx(one.mean() - other.mean())
        assert (found.low, found.high) == pytest.approx((interval.low, interval.high))
        assert found.is_separable == (wanted.pvalue < 0.05)


def test_values_that_do_not_vary_are_a_point_and_rounding_is_no_difference():
    assert welch(np.full(3, 0.1), np.full(7, 0.1)) == (0.0, 0.0, 0.0)
    assert not welch(np.full(3, 0.1), np.full(7, 0.1)).is_separable
    assert welch(np.full(3, 2.0), np.full(3, 1.0)).is_separable


@pytest.mark.parametrize("scale", [1e-75, 1e-81, 1e-100, 1e-150])
def test_variances_whose_squares_underflow_scale_the_interval(scale):
    one, other = np.array([1.0, 2.0, 4.0]), np.array([2.0, 2.5, 7.0, 3.0])
    wanted = np.array(welch(one, other)) * scale
    np.testing.assert_allclose(welch(one * scale, other * scale), wanted, rtol=1e-12)


def test_a_sample_without_spread_to_know_separates_nothing():
    found = welch(np.array([1.0]), np.array([2.0, 2.1]))
    assert (found.low, found.high) == (-math.inf, math.inf) and not found.is_separable
    assert math.isnan(welch(np.array([np.nan]), np.array([1.0, 2.0])).mean)
