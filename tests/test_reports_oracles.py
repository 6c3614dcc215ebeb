"""Other people's statistics agree with ours: scikit-posthocs and statsmodels as oracles."""

from __future__ import annotations

import numpy as np
import pytest
from tabsweep.reports.statistics import critical_difference, holm, ranks

posthocs = pytest.importorskip("scikit_posthocs", reason="needs the dev extra scikit-posthocs")


@pytest.mark.parametrize("seed", range(5))
def test_holm_agrees_with_statsmodels(seed):
    from statsmodels.stats.multitest import multipletests

    p = np.random.default_rng(seed).beta(0.3, 1.0, size=21)
    assert holm(p) == pytest.approx(multipletests(p, method="holm")[1], abs=1e-15)


@pytest.mark.parametrize("n_models", [3, 7, 12])
def test_ranks_lie_apart_by_the_critical_difference_exactly_where_nemenyi_says_so(n_models):
    rng = np.random.default_rng(n_models)
    scores = rng.normal(size=(25, n_models)) + np.linspace(0, 1.5, n_models)
    rank = ranks(scores)
    means = rank.mean(axis=0)
    p = posthocs.posthoc_nemenyi_friedman(scores).to_numpy()
    apart = np.abs(means[:, None] - means[None, :]) > critical_difference(n_models, 25, 0.05)
    off = ~np.eye(n_models, dtype=bool)
    assert np.array_equal(apart[off], (p < 0.05)[off])
    assert apart[off].any() and not apart[off].all()
