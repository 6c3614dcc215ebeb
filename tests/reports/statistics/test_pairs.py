"""Many tests at once: the same numbers as one by one? Nemenyi's groups, one reference, folds."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matrices import evidence, headline, pools
from tabsweep.reports import report
from tabsweep.reports.evidence import Evidence, EvidenceError
from tabsweep.reports.sections import folds, nemenyi, wilcoxon_tests
from tabsweep.reports.statistics import tests as stats
from tabsweep.reports.statistics.wilcoxon import EXACT_UP_TO, wilcoxons

# --- Wilcoxon at once -----------------------------------------------------------------------------


def same(at_once, one):
    assert (at_once.n, at_once.n_zero) == (one.n, one.n_zero)
    assert (at_once.w_plus, at_once.w_minus) == (one.w_plus, one.w_minus)
    for name in ("p", "p_greater", "p_less"):
        assert getattr(at_once, name) == pytest.approx(getattr(one, name), rel=1e-12), name


@settings(max_examples=80, deadline=None)
@given(
    st.integers(1, 14).flatmap(
        lambda n: st.lists(
            st.lists(st.integers(-4, 4), min_size=n, max_size=n), min_size=1, max_size=9
        )
    )
)
def test_all_pairs_at_once_have_the_numbers_of_one_by_one_with_zeros_and_ties(columns):
    d = np.array(columns, float).T
    for at_once, column in zip(wilcoxons(d), d.T, strict=True):
        same(at_once, stats.wilcoxon(column))


def test_435_pairs_of_30_methods_on_25_datasets_have_the_numbers_of_one_by_one():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(25, 30)) + np.linspace(0, 1, 30)
    scores[:, 15:] = np.round(scores[:, 15:], 1)  # zeros and ties beside pairs without
    scores[:, 29] = scores[:, 28]
    a, b = np.array(list(itertools.combinations(range(30), 2))).T
    d = scores[:, a] - scores[:, b]
    found = wilcoxons(d)
    assert len(found) == 435 and found[-1].p == 1.0
    for at_once, column in zip(found, d.T, strict=True):
        same(at_once, stats.wilcoxon(column))


def test_very_many_datasets_are_left_to_the_normal_approximation():
    d = np.random.default_rng(1).normal(0.2, 1.0, (EXACT_UP_TO + 1, 2))
    assert wilcoxons(d)[0] == stats.wilcoxon(d[:, 0], method="normal")
    exact = wilcoxons(d[:-1])[0]
    assert exact.z is None and exact.p == pytest.approx(stats.wilcoxon(d[:-1, 0]).p, rel=1e-9)


def test_no_pair_gives_no_test_and_nan_is_refused():
    assert wilcoxons(np.empty((5, 0))) == []
    with pytest.raises(ValueError, match="finite"):
        wilcoxons(np.array([[np.nan]]))


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
    mine = pools(made)
    return nemenyi.added(wilcoxon_tests.section(made, mine), made, mine, reference)


def test_models_share_a_letter_where_nemenyi_does_not_tell_them_apart():
    made = evidence(spread())
    (table,) = [t for t in section_of(made).tables if t.name.startswith("tests-nemenyi")]
    (mine,) = pools(made)
    rank = stats.ranks(mine.scores, "min").mean(axis=0)
    letters = {row[0].text: set(row[2].text.split()) - {"–"} for row in table.panels[0].rows}
    cd = stats.critical_difference(4, 12)
    for a, b in itertools.combinations(range(4), 2):
        shared = bool(letters[f"m{a}"] & letters[f"m{b}"])
        assert shared == (abs(rank[a] - rank[b]) < cd)


# --- one reference --------------------------------------------------------------------------------


def test_a_named_reference_is_tested_against_every_other_with_holm_over_these_alone():
    scores = spread()
    frame = section_of(evidence(scores), "m1").frame
    mine = frame[frame["test"] == nemenyi.TEST]
    assert mine["model_b"].tolist() == ["m0", "m2", "m3"] and set(mine["model_a"]) == {"m1"}
    p = [stats.wilcoxon(scores[:, 1] - scores[:, j]).p for j in (0, 2, 3)]
    assert mine["p"].tolist() == pytest.approx(p)
    assert mine["p_holm"].tolist() == pytest.approx(stats.holm(p))
    assert set(mine["n_pairs"]) == {3} and set(mine["note"]) == {""}
    # The all-pairs family of the same frame keeps its own size.
    assert set(frame[frame["test"] == "wilcoxon"]["n_pairs"]) == {6}


def test_without_a_name_the_best_is_the_reference_and_that_it_was_chosen_after_looking_is_said():
    section = section_of(evidence(spread()))
    mine = section.frame[section.frame["test"] == nemenyi.TEST]
    assert set(mine["model_a"]) == {"m3"} and "after looking" in mine["note"].iloc[0]
    (table,) = [t for t in section.tables if t.name.startswith("tests-reference")]
    assert any("after looking" in n for n in table.notes)


def test_a_reference_that_is_nowhere_is_refused_and_one_that_is_not_ranked_gets_its_reason():
    scores = spread()
    with pytest.raises(EvidenceError, match="not 'm9'; models: m0, m1, m2, m3"):
        section_of(evidence(scores), "m9")
    scores[3:, 0] = np.nan
    frame = section_of(evidence(scores), "m0").frame
    (note,) = frame[frame["test"] == nemenyi.TEST]["note"]
    assert note == "n/a: m0 is complete on 3 of 12 datasets, too few to be ranked"


# --- folds ----------------------------------------------------------------------------------------

D = np.array([0.012, 0.004, 0.009, -0.002, 0.015, 0.007, 0.003, 0.011, 0.006, 0.001])


def folds_section(scores, **meta):
    made = evidence(scores, **meta)
    table, head = headline(made)
    return folds.section(made, table, head)


def test_example_d_stands_in_the_folds_of_one_dataset():
    base = np.linspace(0.5, 0.6, 10)
    scores = np.array([[base, base + D]])  # (1 dataset, 2 models, 10 folds)
    section = folds_section(scores, test_over_train={"d00": 1 / 9})
    (row,) = section.frame.to_dict("records")
    assert (row["reference"], row["model"], row["n_folds"]) == ("m1", "m0", 10)
    assert [f"{row[k]:.6f}" for k in ("t", "p", "p_holm")] == ["2.723281", "0.023481", "0.023481"]
    assert f"{row['mean_gain']:.4f}" == "0.0066"
    cells = [c.text for c in section.tables[0].panels[0].rows[0]]
    assert cells == ["d00", "10", ".023", "best"]


def test_holm_corrects_over_the_models_of_the_dataset():
    rng = np.random.default_rng(0)
    scores = 0.7 + 0.01 * rng.normal(size=(1, 4, 10)) + 0.01 * np.arange(4)[None, :, None]
    frame = folds_section(scores, test_over_train={"d00": 1 / 9}).frame
    assert set(frame["n_pairs"]) == {3} and len(frame) == 3
    assert frame["p_holm"].tolist() == pytest.approx(stats.holm(frame["p"].tolist()))


@pytest.mark.fault(17)
@pytest.mark.parametrize(
    "shape, meta, reason",
    [
        ((1, 1, 10), {"test_over_train": {"d00": 1 / 9}}, "at least 2 models"),
        ((1, 2, 2), {"test_over_train": {"d00": 1 / 9}}, "at least 3 folds, has 2"),
        ((1, 2, 10), {}, "not known"),
        ((1, 2, 10), {"protocol": {"d00": "official: stored"}}, "test parts overlap"),
    ],
)
def test_folds_that_test_nothing_say_why(shape, meta, reason):
    section = folds_section(np.random.default_rng(0).uniform(0.5, 0.9, shape), **meta)
    (note,) = section.frame["note"]
    assert note.startswith("n/a: ") and reason in note
    assert reason in section.tables[0].panels[0].rows[0][-1].text


def test_a_model_that_is_equal_on_every_fold_has_p_one():
    base = np.linspace(0.5, 0.6, 10)
    frame = folds_section(np.array([[base, base]]), test_over_train={"d00": 1 / 9}).frame
    assert frame["p"].tolist() == [1.0] and frame["reference"].tolist() == ["m0"]


def test_each_kind_of_claim_stands_in_its_own_section_and_says_what_it_is_about():
    made = evidence(spread())
    runs = [made.trials.assign(stage="eval", seed=k, index=k, selected=False) for k in range(5)]
    with_seeds = Evidence.of(pd.concat([made.trials, *runs]), meta=made.meta)
    parts = {s.name: s for s in report.sections(with_seeds)}
    for name, claim in (("seeds", "Across seeds"), ("folds", "Across folds")):
        assert any(n.startswith(claim) for t in parts[name].tables for n in t.notes)
    assert any(n.startswith("Across datasets") for t in parts["tests"].tables for n in t.notes)
    said = [n for s in parts.values() for t in s.tables for n in t.notes]
    assert len({n for n in said if n.startswith("Across ")}) == 3
