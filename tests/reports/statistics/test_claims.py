"""Simulated error rates of the three kinds of claim when there is no true difference."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from tabsweep.reports.sections import seeds
from tabsweep.reports.statistics.ranking import ranks
from tabsweep.reports.statistics.tests import friedman, holm, nadeau_bengio
from tabsweep.reports.statistics.wilcoxon import rank_sum, wilcoxon_columns

pytestmark = pytest.mark.nightly
ALPHA = 0.05
RUNS = 4000


def share(hits):
    """(share of hits, three Monte Carlo standard errors at the nominal level)"""
    return float(np.mean(hits)), 3.0 * np.sqrt(ALPHA * (1 - ALPHA) / len(hits))


def folds(rng, n_runs, n_folds, correlation):
    """Differences of two equal models over folds that share training rows."""
    common = rng.normal(size=(n_runs, 1)) * np.sqrt(correlation)
    return common + rng.normal(size=(n_runs, n_folds)) * np.sqrt(1.0 - correlation)


def test_the_claim_across_folds_errs_as_often_as_it_says_where_the_plain_t_test_does_not():
    d = folds(np.random.default_rng(0), RUNS, 10, 0.1)
    right, room = share([nadeau_bengio(row, 1 / 9).p <= ALPHA for row in d])
    naive, _ = share([nadeau_bengio(row, 0.0).p <= ALPHA for row in d])
    assert abs(right - ALPHA) <= room and naive == pytest.approx(0.157, abs=0.025)


def test_repeated_folds_too():
    d = folds(np.random.default_rng(1), RUNS, 100, 0.1)
    right, room = share([nadeau_bengio(row, 1 / 9).p <= ALPHA for row in d])
    naive, _ = share([nadeau_bengio(row, 0.0).p <= ALPHA for row in d])
    assert abs(right - ALPHA) <= room and naive == pytest.approx(0.567, abs=0.04)


def test_the_correction_is_no_cure_where_the_folds_depend_more_than_it_takes_for_granted():
    d = folds(np.random.default_rng(2), RUNS, 10, 0.3)
    right, _ = share([nadeau_bengio(row, 1 / 9).p <= ALPHA for row in d])
    assert right == pytest.approx(0.186, abs=0.03)


def pairs_over_datasets(rng, n_runs, n_datasets=25, n_folds=10):
    """(n_runs, n_datasets, n_folds): equal models on average, each dataset with its own winner."""
    own = rng.normal(size=(n_runs, n_datasets, 1))
    return own + rng.normal(size=(n_runs, n_datasets, n_folds))


def test_the_claim_across_datasets_counts_each_dataset_once_as_pooled_rows_would_err():
    d = pairs_over_datasets(np.random.default_rng(3), RUNS)
    means = wilcoxon_columns(d.mean(axis=2).T)
    right, room = share([t.p <= ALPHA for t in means])
    assert abs(right - ALPHA) <= room
    pooled = stats.wilcoxon(d[:1000].reshape(1000, -1), axis=1, method="approx").pvalue
    assert (pooled <= ALPHA).mean() > 6 * ALPHA


def test_friedman_on_dataset_means_errs_as_often_as_it_says():
    rng = np.random.default_rng(4)
    hits = [friedman(ranks(rng.normal(size=(25, 5)))).p <= ALPHA for _ in range(1500)]
    right, room = share(hits)
    assert abs(right - ALPHA) <= room + 0.005  # the F approximation is a little too generous


def test_holm_over_all_435_pairs_of_30_equal_models_seldom_finds_one():
    rng = np.random.default_rng(5)
    a, b = np.triu_indices(30, 1)
    raw, corrected = [], []
    for _ in range(400):
        scores = rng.normal(size=(25, 30))
        p = [t.p for t in wilcoxon_columns(scores[:, a] - scores[:, b])]
        raw.append(min(p) <= ALPHA)
        corrected.append(min(holm(p)) <= ALPHA)
    right, room = share(corrected)
    assert np.mean(raw) > 0.95 and right <= ALPHA + room


def test_the_claim_across_seeds_errs_as_often_as_it_says_for_two_models_named_beforehand():
    rng = np.random.default_rng(6)
    hits = [rank_sum(*rng.normal(size=(2, 15))) <= ALPHA for _ in range(RUNS)]
    right, room = share(hits)
    assert ALPHA - 0.008 - room <= right <= ALPHA + room  # discrete: at most ALPHA


def test_the_bold_rule_of_ten_equal_models_wrongly_leaves_one_plain_as_often_as_known():
    rng = np.random.default_rng(7)
    plain = []
    for _ in range(600):
        runs = {f"m{j}": rng.normal(size=15) for j in range(10)}
        plain.append(any(not v.top for v in seeds.verdicts(runs, "max").values()))
    assert np.mean(plain) == pytest.approx(0.331, abs=0.08)
