"""Tail probabilities and ranks equal those of scipy.stats, which a report does not import."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from tabsweep.reports.statistics import distributions


@pytest.fixture(scope="module")
def stats():
    from scipy import stats

    return stats


def test_ranks_are_scipy_s(stats):
    shapes = [(7,), (5, 9), (40, 30), (3, 1), (2, 0)]
    for ties, shape, decimals in itertools.product(distributions.TIES, shapes, (0, 1, 3)):
        values = np.round(np.random.default_rng(decimals).normal(size=shape), decimals)
        want = stats.rankdata(values, method=ties, axis=-1)
        found = distributions.rankdata(values, ties)
        assert np.array_equal(found, want), (ties, shape, decimals)
        assert found.flags.writeable  # a copy, not pandas's own array


def test_an_unknown_word_for_ties_is_refused():
    with pytest.raises(ValueError, match="average, min, max, ordinal, not 'dense'"):
        distributions.rankdata(np.zeros(3), "dense")


def test_tails_are_scipy_s_to_the_last_bit(stats):
    values = (0.0, 0.1, 1.0, 3.0, 50.0, math.inf)
    for x, df in itertools.product(values, [(1, 1), (2, 10), (11, 264)]):
        assert distributions.f_sf(x, df) == stats.f.sf(x, *df), (x, df)
        assert distributions.chi2_sf(x, df[0]) == stats.chi2.sf(x, df[0]), (x, df)
        for value in (x, -x):
            assert distributions.t_sf(value, df[1]) == stats.t.sf(value, df[1]), (value, df)
            assert distributions.normal_sf(value) == stats.norm.sf(value), value


def test_a_quantile_of_student_s_t_is_scipy_s(stats):
    for df in (1, 2, 9, 100):
        assert distributions.t_isf(0.025, df) == stats.t.isf(0.025, df)


def test_a_fair_coin_is_scipy_s_binomial_test(stats):
    for n in (1, 2, 9, 40):
        for heads in range(n + 1):
            want = stats.binomtest(heads, n).pvalue
            assert distributions.fair_coin(heads, n) == pytest.approx(want, rel=1e-12)


def test_the_studentised_range_is_scipy_s(stats):
    for k, p in itertools.product([2, 3, 5, 12, 30, 100], [0.01, 0.05, 0.1, 0.5]):
        want = stats.studentized_range.isf(p, k, np.inf)
        assert distributions.range_isf(p, k) == pytest.approx(want, rel=1e-11), (k, p)
