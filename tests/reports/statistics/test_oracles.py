"""Statistics checked against scikit-posthocs, statsmodels and bencheval."""

from __future__ import annotations

import numpy as np
import pytest
from tabsweep.reports.statistics import ranking
from tabsweep.reports.statistics.ranking import ranks
from tabsweep.reports.statistics.tests import critical_difference, holm


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
    rank = ranks(errors, "min")
    assert board["rank"].tolist() == pytest.approx(rank.mean(axis=0).tolist())
    assert board["winrate"].tolist() == pytest.approx(ranking.win_rate(rank).tolist())
    share = ranking.improvability(errors).mean(axis=0)
    assert board["improvability"].tolist() == pytest.approx(share.tolist())
    lost = 1.0 - ranking.normalised(errors).mean(axis=0)
    assert board["loss_rescaled"].tolist() == pytest.approx(lost.tolist())
    elo = board["elo"].to_numpy()
    assert (elo - elo.mean()).tolist() == pytest.approx(ranking.elo(rank).tolist(), abs=0.11)
