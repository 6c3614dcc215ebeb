"""Wilcoxon's tests: many columns at once, exact counts with ties and zeros, and the rank sum."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tabsweep.reports.statistics.wilcoxon import EXACT_UP_TO, rank_sum, wilcoxon, wilcoxon_columns

# --- signed ranks ---------------------------------------------------------------------------------


def counted(differences):
    """(P(W+ >= w), P(W+ <= w)) over all sign patterns, counted in whole numbers (the oracle)."""
    there = differences != 0
    doubled = np.rint(2 * stats.rankdata(np.abs(differences))).astype(int)[there]
    ways = Counter({0: 1})
    for rank in doubled.tolist():
        ways = ways + Counter({total + rank: n for total, n in ways.items()})
    seen = int(doubled[differences[there] > 0].sum())
    patterns = 2 ** len(doubled)
    greater = sum(n for total, n in ways.items() if total >= seen)
    less = sum(n for total, n in ways.items() if total <= seen)
    return greater / patterns, less / patterns


def assert_is_counted(found, differences):
    greater, less = counted(differences)
    assert found.p_greater == pytest.approx(greater, rel=1e-12)
    assert found.p_less == pytest.approx(less, rel=1e-12)
    assert found.p == pytest.approx(min(1.0, 2.0 * min(greater, less)), rel=1e-12)
    assert (found.n, found.n_zero) == (len(differences), int((differences == 0).sum()))


@settings(max_examples=80, deadline=None)
@given(
    st.integers(1, 14).flatmap(
        lambda n: st.lists(
            st.lists(st.integers(-4, 4), min_size=n, max_size=n), min_size=1, max_size=9
        )
    ),
)
def test_every_column_has_the_counts_of_all_its_sign_patterns(columns):
    d = np.array(columns, float).T
    for found, column in zip(wilcoxon_columns(d), d.T, strict=True):
        assert_is_counted(found, column)


def test_a_column_has_the_same_numbers_alone_and_among_435_pairs_of_30_methods():
    rng = np.random.default_rng(0)
    scores = np.round(10 * (rng.normal(size=(25, 30)) + np.linspace(0, 1, 30)))  # zeros and ties
    scores[:, :15] = 7 * rng.permuted(np.tile(np.arange(25.0), (15, 1)), axis=1).T
    scores[:, 29] = scores[:, 28]
    a, b = np.array(list(itertools.combinations(range(30), 2))).T
    d = scores[:, a] - scores[:, b]
    found = wilcoxon_columns(d)
    assert len(found) == 435 and found[-1].p == 1.0
    for among_others, column in zip(found, d.T, strict=True):
        assert among_others == wilcoxon(column)
    for i in range(0, 435, 11):
        assert_is_counted(found[i], d[:, i])


def test_more_than_a_hundred_datasets_take_the_normal_approximation():
    d = np.random.default_rng(1).normal(0.2, 1.0, (EXACT_UP_TO + 1, 2))
    assert wilcoxon_columns(d) == wilcoxon_columns(d, exact_up_to=0)
    exact = wilcoxon_columns(d[:-1])[0]
    wanted = stats.wilcoxon(d[:-1, 0], method="exact").pvalue
    assert exact.p == pytest.approx(wanted, rel=1e-9)


def test_no_column_gives_no_test_and_nan_is_refused():
    assert wilcoxon_columns(np.empty((5, 0))) == []
    with pytest.raises(ValueError, match="finite"):
        wilcoxon_columns(np.array([[np.nan]]))


# --- rank sum -------------------------------------------------------------------------------------


def test_without_ties_the_rank_sum_is_scipys_exact_one():
    for (n, m), shift in itertools.product(
        [(15, 15), (15, 5), (3, 3), (7, 11)], [0.0, 0.3, 1.0, 3.0]
    ):
        rng = np.random.default_rng(n + m)
        a, b = rng.normal(size=n) + shift, rng.normal(size=m)
        wanted = stats.mannwhitneyu(a, b, alternative="greater", method="exact").pvalue
        assert rank_sum(a, b) == pytest.approx(wanted, rel=1e-12), (n, m, shift)


def test_with_ties_the_rank_sum_counts_every_way_to_choose_the_group():
    rng = np.random.default_rng(0)
    for _ in range(20):
        values = rng.integers(0, 4, size=9).astype(float)
        ranks = stats.rankdata(values)
        sums = [sum(ranks[list(c)]) for c in itertools.combinations(range(9), 4)]
        wanted = np.mean([s >= ranks[:4].sum() for s in sums])
        assert rank_sum(values[:4], values[4:]) == pytest.approx(wanted, rel=1e-12)


def test_of_many_runs_the_rank_sum_is_scipys_approximation():
    rng = np.random.default_rng(0)
    for n, m, shift in ((51, 50, 2), (600, 700, 1), (100, 1, 0)):
        a, b = (10 * rng.normal(size=n)).round() + shift, (10 * rng.normal(size=m)).round()
        wanted = stats.mannwhitneyu(a, b, alternative="greater", method="asymptotic").pvalue
        assert rank_sum(a, b) == pytest.approx(wanted, rel=1e-9), (n, m, shift)
    assert rank_sum(np.ones(80), np.ones(80)) == 1.0


def test_what_is_not_finite_is_refused():
    for a, b in (([np.nan], [1.0]), ([1.0], [np.inf]), ([], [1.0])):
        with pytest.raises(ValueError, match="finite"):
            rank_sum(np.array(a), np.array(b))
