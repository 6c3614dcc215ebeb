"""Ranks and tests: worked examples to the digit, scipy as oracle, and general laws."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tabsweep.reports.aggregation.ranking_matrix import as_errors
from tabsweep.reports.metrics import METRICS
from tabsweep.reports.output.gains import gain_rows
from tabsweep.reports.statistics import distributions, ranking, wilcoxon
from tabsweep.reports.statistics import tests as ours
from tabsweep.reports.statistics.ranking import ranks
from tabsweep.reports.statistics.tests import critical_difference, holm

# Demsar 2006, Table 6: AUC of C4.5, +m, +cf, +m+cf on 14 datasets.
DEMSAR = np.array(
    """.763 .768 .771 .798 .599 .591 .590 .569 .954 .971 .968 .967 .628 .661 .654 .657
    .882 .888 .886 .898 .936 .931 .916 .931 .661 .668 .609 .685 .583 .583 .563 .625
    .775 .838 .866 .875 1 1 1 1 .940 .962 .965 .962 .619 .666 .614 .669
    .972 .981 .9751 .975 .957 .978 .946 .970""".split(),
    dtype=float,
).reshape(14, 4)


def digits(value, n):
    """The value as it prints with n decimals."""
    return [f"{v:.{n}f}" for v in np.atleast_1d(value)]


# --- worked examples ------------------------------------------------------------------------------


def test_example_a_ranks_and_friedman_of_demsar():
    rank = ranking.ranks(-DEMSAR)
    assert digits(rank.mean(axis=0), 6) == ["3.142857", "2.000000", "2.892857", "1.964286"]
    assert np.median(rank, axis=0).tolist() == [3.5, 2.0, 3.0, 2.0]
    error = ranking.standard_error(rank)
    assert digits(error, 6) == ["0.289128", "0.196116", "0.268177", "0.264494"]
    test = ours.friedman(rank)
    assert digits([test.chi2, test.f, test.p], 6) == ["9.278571", "3.686313", "0.019823"]
    assert test.df == (3, 39) and digits(stats.f.isf(0.05, *test.df), 6) == ["2.845068"]
    assert digits([test.chi2_ties, test.p_ties], 6) == ["10.228346", "0.016722"]
    assert digits(ours.critical_difference(4, 14), 6) == ["1.253559"]
    assert digits(ours.critical_difference(4, 14, 0.10), 6) == ["1.118060"]


def test_example_b_wilcoxon_with_zeros_and_ties():
    d = np.round(DEMSAR[:, 1] - DEMSAR[:, 0], 4)
    (pratt,) = wilcoxon.wilcoxon_columns(d[:, None], exact_up_to=0)
    assert pratt.t == 10.5 and pratt.n_zero == 2 and digits(pratt.p, 6) == ["0.010792"]


def test_example_c_critical_values():
    want = "1.9600 2.3437 2.5690 2.7278 2.8497 2.9483 3.0309 3.1017 3.1637 3.7486".split()
    assert [f"{ours.nemenyi_q(k):.4f}" for k in [*range(2, 11), 30]] == want
    want = "1.6449 2.0523 2.2913 2.4595 2.5885 2.6927 2.7799 2.8546 2.9199 3.5335".split()
    assert [f"{ours.nemenyi_q(k, 0.10):.4f}" for k in [*range(2, 11), 30]] == want


@pytest.mark.fault(16)
def test_example_i_identical_models_have_p_one_and_half_the_wins():
    for n in (1, 2, 10, 25, 60):
        for exact_up_to in (n, 0):
            (test,) = wilcoxon.wilcoxon_columns(np.zeros((n, 1)), exact_up_to=exact_up_to)
            assert test.p == test.p_greater == test.p_less == 1.0, (n, exact_up_to)
        rank = ranking.ranks(np.repeat(np.arange(n)[:, None] * 1.0, 4, axis=1))
        assert ranking.win_rate(rank).mean(axis=0).tolist() == [0.5] * 4
        assert ranking.elo(rank) == pytest.approx([ranking.ELO_MEAN] * 4, abs=1e-9)
        if n > 1:
            test = ours.friedman(rank)
            assert test.p == test.p_ties == 1.0 and test.chi2 == 0.0


def test_example_j_the_fewest_pairs():
    assert wilcoxon.wilcoxon(np.arange(1.0, 6.0)).p_greater == 0.03125
    assert wilcoxon.wilcoxon(np.arange(1.0, 8.0)).p_greater == 0.0078125
    assert wilcoxon.wilcoxon(np.arange(1.0, 9.0)).p == 0.0078125
    assert wilcoxon.fewest_pairs(0.01) == 8
    assert wilcoxon.fewest_pairs(0.05) == 6 and wilcoxon.smallest_p(5) == 0.0625


# --- scipy as oracle ------------------------------------------------------------------------------


def lists(low, high, n_min, n_max):
    return st.lists(st.integers(low, high), min_size=n_min, max_size=n_max)


@settings(max_examples=60, deadline=None)
@given(lists(-6, 6, 3, 40))
def test_normal_wilcoxon_agrees_with_scipy(values):
    d = np.array(values, float)
    if not d.any():
        return
    (got,) = wilcoxon.wilcoxon_columns(d[:, None], exact_up_to=0)
    want = stats.wilcoxon(d, zero_method="pratt", method="approx", correction=False)
    assert got.p == pytest.approx(want.pvalue, rel=1e-9)
    greater = stats.wilcoxon(d, zero_method="pratt", method="approx", alternative="greater")
    assert got.p_greater == pytest.approx(greater.pvalue, rel=1e-9)


@pytest.mark.fault(16)
def test_friedman_with_ties_agrees_with_scipy():
    rng = np.random.default_rng(1)
    for _ in range(10):
        scores = rng.integers(0, 5, (12, 5)).astype(float)
        want = stats.friedmanchisquare(*scores.T)
        got = ours.friedman(ranking.ranks(scores))
        assert got.chi2_ties == pytest.approx(want.statistic, rel=1e-9)
        assert got.p_ties == pytest.approx(want.pvalue, rel=1e-9)


def test_nadeau_bengio_without_overlap_is_the_paired_t_test():
    d = np.random.default_rng(2).normal(0.1, 1, 12)
    want = stats.ttest_1samp(d, 0.0)
    got = ours.nadeau_bengio(d, 0.0)
    assert (got.t, got.p) == pytest.approx((want.statistic, want.pvalue), rel=1e-12)


# --- laws -----------------------------------------------------------------------------------------

matrices = st.integers(2, 6).flatmap(
    lambda k: st.lists(
        st.lists(st.integers(1, 9), min_size=k, max_size=k), min_size=2, max_size=12
    ).map(lambda rows: np.array(rows, float))
)


@settings(max_examples=60, deadline=None)
@given(matrices, st.randoms(use_true_random=False))
def test_ranks_ignore_any_monotone_rescaling_of_the_metric_and_any_order(scores, random):
    rank = ranking.ranks(-scores)
    assert (ranking.ranks(-np.exp(scores)) == rank).all()
    columns = random.sample(range(scores.shape[1]), scores.shape[1])
    rows = random.sample(range(len(scores)), len(scores))
    assert (ranking.ranks(-scores[rows][:, columns]) == rank[rows][:, columns]).all()
    assert (rank.sum(axis=1) == scores.shape[1] * (scores.shape[1] + 1) / 2).all()
    want = [
        np.mean([(a > b) + 0.5 * (a == b) for a, b in _duels(scores, j)])
        for j in range(scores.shape[1])
    ]
    assert ranking.win_rate(rank).mean(axis=0) == pytest.approx(want)


def _duels(scores, j):
    return [(row[j], row[i]) for row in scores for i in range(len(row)) if i != j]


@pytest.mark.fault(16, 17)
@settings(max_examples=40, deadline=None)
@given(matrices)
def test_no_statistic_is_nan(scores):
    rank = ranking.ranks(scores)
    numbers = [*ranking.elo(rank), *ranking.win_rate(rank).ravel(), *ranking.standard_error(rank)]
    numbers += [*ranking.normalised(scores).ravel(), *ranking.improvability(scores).ravel()]
    if scores.shape[1] > 2:
        test = ours.friedman(rank)
        numbers += [test.chi2, test.chi2_ties, test.p, test.p_ties]
    assert np.isfinite(numbers).all()


def test_rounding_noise_makes_no_winner():
    assert ranking.ranks(np.array([[0.1 + 0.2, 0.3, 0.5]])).tolist() == [[1.5, 1.5, 3.0]]
    noisy = 0.5 + 1e-15 * np.arange(4)
    assert ranking.ranks(noisy[None]).tolist() == [[2.5] * 4]
    assert ranking.ranks(np.array([[1e12, 1e3, 2e3]])).tolist() == [[3, 1, 2]]
    assert ranking.normalised(np.array([[0.3, 0.1 + 0.2]])).tolist() == [[1, 1]]
    assert ranking.improvability(np.array([[0.3, 0.1 + 0.2]])).tolist() == [[0, 0]]
    a, b = np.array([0.1 + 0.2, 1e-12, 0.0]), np.array([0.3, 1e-12 + 1e-25, 0.0])
    mixed = np.array([0.5, 0.3, 2e-12]), np.array([0.4, 0.4, 2e-12])
    gains = {"same": ours.relative_changes(a, b), "mixed": ours.relative_changes(*mixed)}
    counts = [[cell.text for cell in row[3:6]] for row in gain_rows(gains)]
    assert counts == [["0", "3", "0"], ["1", "1", "1"]]


@pytest.mark.parametrize("outlier", [4.2e11, 1e300])
def test_one_outlier_makes_no_ties_of_the_other_differences(outlier):
    size = np.append(np.linspace(0.01, 0.03, 11), outlier)
    got, want = wilcoxon.wilcoxon(size), stats.wilcoxon(size, method="exact")
    assert (got.n_zero, got.p) == (0, want.pvalue)


def test_a_score_that_ties_with_a_perfect_one_has_no_error():
    errors = np.array([METRICS["roc_auc"].error(v) for v in (1.0, 1.0 - 2**-53, 0.5)])
    assert errors.tolist() == [0.0, 0.0, 0.5]


def test_a_model_that_always_wins_gets_a_finite_rating():
    rating = ranking.elo(np.array([[1.0, 2.0, 3.0]] * 5))
    assert np.isfinite(rating).all() and (np.diff(rating) < 0).all()
    assert rating.mean() == pytest.approx(ranking.ELO_MEAN, abs=1e-9)


def test_equal_differences_over_folds_are_tested_only_where_they_are_zero():
    assert ours.nadeau_bengio(np.zeros(5), 1 / 4).p == 1.0
    test = ours.nadeau_bengio(np.full(5, 0.1), 1 / 4)
    assert math.isnan(test.p) and math.isnan(test.t) and test.mean == pytest.approx(0.1)


@pytest.mark.fault(17)
def test_too_little_or_wrong_input_names_the_law():
    for call, law in (
        (lambda: ranking.ranks(np.array([[1.0, np.nan]])), "missing cell"),
        (lambda: ranking.ranks(np.ones(3)), "n_datasets, n_models"),
        (lambda: ours.friedman(np.ones((5, 2))), "at least 3 models"),
        (lambda: ours.friedman(np.ones((1, 3))), "2 datasets"),
        (lambda: wilcoxon.wilcoxon(np.array([])), "at least one"),
        (lambda: wilcoxon.wilcoxon(np.ones((2, 2))), "a list"),
        (lambda: ours.nadeau_bengio(np.ones(1), 0.1), "2 splits"),
        (lambda: ranking.standard_error(np.ones((1, 3))), "2 values"),
        (lambda: ranking.win_rate(np.ones((4, 1))), "opponent"),
    ):
        with pytest.raises(ValueError, match=law):
            call()


def test_near_equal_scores_have_equal_errors_also_beside_a_perfect_one():
    losses = np.array([[-1.0, -0.9999999999, -0.5], [-1.0000000000000007, -1.0, -1.0]])
    errors = as_errors(losses, np.array([True, True]))
    assert errors.tolist() == [[0.0, 0.0, 0.5], [0.0, 0.0, 0.0]]
    assert ranking.normalised(errors).tolist() == [[1.0, 1.0, 0.0], [1.0, 1.0, 1.0]]
    assert ranking.improvability(errors).tolist() == [[0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]


def test_holm_agrees_with_statsmodels():
    multitest = pytest.importorskip("statsmodels.stats.multitest", reason="needs the dev extra")
    for seed in range(5):
        p = np.random.default_rng(seed).beta(0.3, 1.0, size=21)
        wanted = multitest.multipletests(p, method="holm")[1]
        assert holm(p) == pytest.approx(wanted, abs=1e-15), seed


@pytest.mark.parametrize("n_models", [3, 7, 12])
def test_ranks_lie_apart_by_the_critical_difference_exactly_where_nemenyi_says_so(n_models):
    posthocs = pytest.importorskip("scikit_posthocs", reason="needs the dev extra scikit-posthocs")
    rng = np.random.default_rng(n_models)
    scores = rng.normal(size=(25, n_models)) + np.linspace(0, 1.5, n_models)
    rank = ranks(scores)
    means = rank.mean(axis=0)
    p = posthocs.posthoc_nemenyi_friedman(scores).to_numpy()
    apart = np.abs(means[:, None] - means[None, :]) > critical_difference(n_models, 25, 0.05)
    off = ~np.eye(n_models, dtype=bool)
    assert np.array_equal(apart[off], (p < 0.05)[off])
    assert apart[off].any() and not apart[off].all()


@pytest.mark.parametrize(
    "n_models, n_datasets, tied", [(5, 12, False), (8, 25, True), (4, 6, True)]
)
def test_elo_wins_ranks_and_improvability_are_bencheval_s(n_models, n_datasets, tied):
    bencheval = pytest.importorskip("bencheval.evaluator", reason="needs the dev extra bencheval")
    import pandas as pd

    rng = np.random.default_rng(n_models)
    errors = rng.uniform(0.05, 0.5, (n_datasets, n_models)) + 0.02 * np.arange(n_models)
    errors = np.round(errors, 1 if tied else 6)
    rows = [
        {"method": f"m{j}", "task": f"t{i}", "metric_error": errors[i, j]}
        for i in range(n_datasets)
        for j in range(n_models)
    ]
    board = bencheval.BenchmarkEvaluator(
        method_col="method", task_col="task", columns_to_agg_extra=None
    ).leaderboard(pd.DataFrame(rows), include_rescaled_loss=True)
    board = board.loc[[f"m{j}" for j in range(n_models)]]
    rank = ranks(errors)
    assert board["rank"].tolist() == pytest.approx(rank.mean(axis=0).tolist())
    assert board["winrate"].tolist() == pytest.approx(ranking.win_rate(rank).mean(axis=0).tolist())
    share = ranking.improvability(errors).mean(axis=0)
    assert board["improvability"].tolist() == pytest.approx(share.tolist())
    lost = 1.0 - ranking.normalised(errors).mean(axis=0)
    assert board["loss_rescaled"].tolist() == pytest.approx(lost.tolist())
    elo = board["elo"].to_numpy()
    centred = elo - elo.mean() + ranking.ELO_MEAN
    assert centred.tolist() == pytest.approx(ranking.elo(rank).tolist(), abs=0.11)


def test_ranks_are_scipy_s():
    shapes = [(7,), (5, 9), (40, 30), (3, 1), (2, 0)]
    words = {"average": "average", "first": "ordinal"}
    for ties, shape, decimals in itertools.product(words, shapes, (0, 1, 3)):
        values = np.round(np.random.default_rng(decimals).normal(size=shape), decimals)
        want = stats.rankdata(values, method=words[ties], axis=-1)
        found = distributions.rankdata(values, ties)
        assert np.array_equal(found, want), (ties, shape, decimals)
        assert found.flags.writeable  # a copy, not pandas's own array


def test_tails_are_scipy_s_to_the_last_bit():
    values = (0.0, 0.1, 1.0, 3.0, 50.0, math.inf)
    for x, df in itertools.product(values, [(1, 1), (2, 10), (11, 264)]):
        assert distributions.f_sf(x, df) == stats.f.sf(x, *df), (x, df)
        assert distributions.chi2_sf(x, df[0]) == stats.chi2.sf(x, df[0]), (x, df)
        for value in (x, -x):
            assert distributions.t_sf(value, df[1]) == stats.t.sf(value, df[1]), (value, df)


def test_a_quantile_of_student_s_t_is_scipy_s():
    for df in (1, 2, 9, 100):
        assert distributions.t_isf(0.025, df) == stats.t.isf(0.025, df)


def test_the_studentised_range_is_scipy_s():
    for k, p in itertools.product([2, 3, 5, 12, 30, 100], [0.01, 0.05, 0.1, 0.5]):
        want = stats.studentized_range.isf(p, k, np.inf)
        assert distributions.range_isf(p, k) == pytest.approx(want, rel=1e-11), (k, p)
