"""Tests across datasets: Nemenyi's groups, all models against one reference, kinds of claims."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matrices import evidence, matrices
from tabsweep.reports import report
from tabsweep.reports.aggregation import rank_tests
from tabsweep.reports.evidence import Evidence, EvidenceError
from tabsweep.reports.sections import across_datasets
from tabsweep.reports.statistics import tests as stats
from tabsweep.reports.statistics import wilcoxon

# --- Nemenyi's groups -----------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(1, 9), min_size=1, max_size=9).map(sorted), st.floats(0.1, 4))
def test_two_models_share_a_group_exactly_where_they_lie_closer_than_the_difference(mean, cd):
    found = stats.groups(mean, cd)
    for i, j in itertools.combinations(range(len(mean)), 2):
        together = any(a <= i and j <= b for a, b in found)
        assert together == (mean[j] - mean[i] < cd)
    for (a, b), (c, d) in itertools.permutations(found, 2):
        assert not (c <= a and b <= d)


def spread(n=12, k=4):
    rng = np.random.default_rng(5)
    return 0.7 + 0.03 * np.arange(k) + 0.02 * rng.normal(size=(n, k))


def section_of(made, reference=None):
    return across_datasets.section(made, matrices(made), reference)


def test_the_verdict_counts_the_models_that_the_leader_is_not_told_apart_from():
    (mine,) = matrices(evidence(spread()))
    rank = np.sort(mine.ranks().mean(axis=0))
    near = int((rank - rank[0] < stats.critical_difference(4, 12)).sum()) - 1
    found = rank_tests.verdict(mine)
    assert found.startswith(f"m3 leads with mean rank {rank[0]:.2f} of 4 models on 12 datasets")
    assert near == 1 and "not significantly different from the next model (Nemenyi" in found
    (apart,) = matrices(evidence(0.7 + 0.05 * np.tile(np.arange(3.0), (30, 1))))
    assert "significantly better than every other" in rank_tests.verdict(apart)
    (few,) = matrices(evidence(spread(n=2)))
    assert "No test across datasets: needs" in rank_tests.verdict(few)
    (tied,) = matrices(evidence(np.full((12, 3), 0.5)))
    found = rank_tests.verdict(tied)
    assert found == "m0, m1 and m2 lead together with mean rank 2.00 of 3 models on 12 datasets."
    (alone,) = matrices(evidence([[-0.5, -0.25]], task="regression", metric="r2"))
    assert "m1 has the best test R2, −0.2500, of 2 models" in rank_tests.verdict(alone)
    (share,) = matrices(evidence([[0.5, 0.25]], task="multiclass", metric="accuracy"))
    said = rank_tests.verdict(share)
    assert "m0 has the best test accuracy, 50" in said and " %, of 2 models" in said


# --- one reference --------------------------------------------------------------------------------


def test_a_named_reference_is_tested_against_every_other_with_holm_over_these_alone():
    scores = spread()
    frame = section_of(evidence(scores), "m1").frame
    mine = frame[frame["test"] == across_datasets.TEST]
    assert mine["model_b"].tolist() == ["m0", "m2", "m3"] and set(mine["model_a"]) == {"m1"}
    p = [wilcoxon.wilcoxon(scores[:, 1] - scores[:, j]).p for j in (0, 2, 3)]
    assert mine["p"].tolist() == pytest.approx(p)
    assert mine["p_holm"].tolist() == pytest.approx(stats.holm(p))
    assert set(mine["n_pairs"]) == {3} and set(mine["note"]) == {""}
    # The all-pairs family of the same frame keeps its own size.
    assert set(frame[frame["test"] == "wilcoxon"]["n_pairs"]) == {6}


def test_without_a_name_the_best_is_the_reference_and_that_it_was_chosen_after_looking_is_said():
    section = section_of(evidence(spread()))
    mine = section.frame[section.frame["test"] == across_datasets.TEST]
    assert set(mine["model_a"]) == {"m3"} and "after looking" in mine["note"].iloc[0]
    (table,) = [t for t in section.tables if t.name.startswith("tests-reference")]
    assert any("--reference" in n for n in table.notes)


def test_a_reference_that_is_nowhere_is_refused_and_one_that_is_not_ranked_gets_its_reason():
    scores = spread()
    with pytest.raises(EvidenceError, match="not 'm9'; models: m0, m1, m2, m3"):
        section_of(evidence(scores), "m9")
    scores[3:, 0] = np.nan
    frame = section_of(evidence(scores), "m0").frame
    (note,) = frame[frame["test"] == across_datasets.TEST]["note"]
    assert note == "n/a: m0 is complete on 3 of 12 datasets, too few to be ranked"


# --- kinds of claims ------------------------------------------------------------------------------


def test_each_kind_of_claim_stands_in_its_own_section_and_says_what_it_is_about():
    folds = spread()[..., None] + 0.01 * np.random.default_rng(6).normal(size=(12, 4, 3))
    made = evidence(folds, test_over_train={f"d{i:02}": 1 / 9 for i in range(12)})
    runs = [made.trials.assign(stage="eval", seed=k, index=k, selected=False) for k in range(5)]
    with_seeds = Evidence.of(pd.concat([made.trials, *runs]), facts=made.facts)
    parts = {s.name: s for s in report.parts_of(with_seeds).sections}
    for name, claim in (("seeds", "Across seeds"), ("folds", "Across folds")):
        assert any(n.startswith(claim) for t in parts[name].tables for n in t.notes)
    assert any(n.startswith("Across datasets") for t in parts["tests"].tables for n in t.notes)
    said = [n for s in parts.values() for t in s.tables for n in t.notes]
    assert len({n for n in said if n.startswith("Across ")}) == 3
