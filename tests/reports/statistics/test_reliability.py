"""Agreement of halves of the datasets, against another computation of it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import rankdata, spearmanr
from tabsweep.reports.statistics.reliability import split_half


def by_hand(ranks: np.ndarray, n_halves: int) -> np.ndarray:
    """Spearman's correlations of mean ranks on random halves, one after the other."""
    rng, found = np.random.default_rng(5), []
    for _ in range(n_halves):
        order = rng.permutation(len(ranks))
        half = len(ranks) // 2
        parts = ranks[order[:half]].mean(axis=0), ranks[order[half : 2 * half]].mean(axis=0)
        found.append(spearmanr(*parts).statistic)
    return np.array(found)


@pytest.mark.parametrize(("n_datasets", "signal"), [(21, 0.3), (12, 1.0), (9, 0.0)])
def test_halves_agree_as_an_independent_computation_has_it(n_datasets, signal):
    rng = np.random.default_rng(n_datasets)
    losses = signal * rng.normal(size=25) + rng.normal(size=(n_datasets, 25))
    ranks = np.apply_along_axis(rankdata, 1, losses)
    ours, theirs = split_half(ranks), by_hand(ranks, 3000)
    assert ours.mean == pytest.approx(theirs.mean(), abs=0.02)
    assert ours.low == pytest.approx(np.percentile(theirs, 2.5), abs=0.06)
    assert ours.high == pytest.approx(np.percentile(theirs, 97.5), abs=0.06)


def test_too_few_datasets_have_no_halves():
    with pytest.raises(ValueError, match="need 4 datasets and 3 models"):
        split_half(np.ones((3, 5)))
