"""Inner parts: what a bag's members train on and predict, whatever the table looks like."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from looped import each
from tabsweep.datasets.inner_parts import member_folds, out_of_fold, parts_sha256
from tabsweep.datasets.protocols import Fold, make_folds
from toy_tables import toy, with_columns

GROUPS = np.random.default_rng(1).integers(0, 12, 200)
TIMES = np.random.default_rng(2).integers(0, 60, 200).astype(float)
CASES = [  # (table, its protocol)
    (toy([120, 80]), "fivefold"),
    (toy([50, 30, 5]), "kfold"),
    (toy([90, 6]), "holdout"),
    (toy([60, 1]), "holdout"),
    (toy([2] * 30), "holdout"),
    (toy(n_rows=10), "holdout"),
    (toy(n_rows=103), "fivefold"),
    (with_columns("binary", groups=GROUPS), "grouped"),
    (with_columns("regression", groups=GROUPS % 3), "grouped"),
    (with_columns("binary", times=TIMES), "temporal"),
    (with_columns("regression", times=TIMES // 12), "temporal"),
    (with_columns("regression", times=np.repeat([0.0, 1.0, 2.0], [100, 50, 50])), "temporal"),
]


def members_of(case, n_parts=5, seed=0):
    table, protocol = case
    fold = make_folds(table, protocol)[0]
    return fold, member_folds(table, fold, n_parts, seed=seed)


def development(fold: Fold) -> np.ndarray:
    return np.sort(np.concatenate([fold.train, fold.val]))


@each("case", [case for case in CASES if case[0].times is None])
def test_every_development_row_is_predicted_by_the_one_member_that_did_not_see_it(case):
    fold, members = members_of(case)
    np.testing.assert_array_equal(
        np.sort(np.concatenate([m.val for m in members])), development(fold)
    )
    for member in members:
        both = np.sort(np.concatenate([member.train, member.val]))
        np.testing.assert_array_equal(both, development(fold))
        assert len(member.train) and len(member.val) and (np.diff(member.train) > 0).all()
    assert 2 <= len(members) <= 5


@each("case", CASES)
def test_test_rows_are_those_of_the_fold_and_in_no_member(case):
    fold, members = members_of(case)
    for member in members:
        np.testing.assert_array_equal(member.test, fold.test)
        seen = np.concatenate([member.train, member.val])
        assert not np.isin(seen, fold.test).any() and np.isin(seen, development(fold)).all()
        assert not np.isin(member.val, member.train).any()


@each("case", CASES)
def test_parts_depend_on_the_rows_their_number_and_the_seed_alone(case):
    fold, members = members_of(case)
    table, _ = case
    cut = development(fold)
    other = Fold(7, cut[::2], cut[1::2], fold.test)  # the same rows, validated by others
    again = member_folds(table, other, 5, seed=0)
    assert [m.val.tobytes() for m in again] == [m.val.tobytes() for m in members]
    assert parts_sha256(members) == parts_sha256(members_of(case)[1])
    assert parts_sha256(members) != parts_sha256(members[:-1])


@each("case", CASES)
def test_the_number_of_members_that_came_out_gives_the_same_parts_again(case):
    """A trial keeps that number, not the one that was asked for."""
    for n_parts in (2, 3, 5, 8, 40):
        _, members = members_of(case, n_parts)
        assert parts_sha256(members_of(case, len(members))[1]) == parts_sha256(members)


def test_another_seed_makes_other_parts_where_chance_cuts_them():
    for case, differ in ((CASES[0], True), (CASES[6], True), (CASES[9], False)):
        one, other = (parts_sha256(members_of(case, seed=seed)[1]) for seed in (0, 1))
        assert (one != other) == differ


def test_classes_are_spread_evenly():
    for case in CASES[:2]:
        _, members = members_of(case)
        target = case[0].target
        counts = np.array([np.bincount(target[m.val], minlength=3) for m in members])
        assert np.ptp(counts, axis=0).max() <= 1


@pytest.mark.parametrize(
    ("counts", "n_members"), [([90, 60], 5), ([90, 5], 4), ([90, 3], 2), ([60, 40, 1], 5)]
)
def test_every_part_has_two_classes_and_there_are_fewer_parts_where_rows_are_few(counts, n_members):
    table = toy(counts)
    _, members = members_of((table, "holdout"))
    assert len(members) == n_members
    assert all(len(np.unique(table.target[m.val])) > 1 for m in members)


def test_groups_stay_whole_and_are_as_many_parts_at_most():
    for case, n_members in ((CASES[7], 5), (CASES[8], 2)):  # of 3 groups, 2 are left to develop on
        groups = case[0].groups
        _, members = members_of(case)
        assert len(members) == n_members
        for member in members:
            assert not np.isin(groups[member.val], groups[member.train]).any()


def test_a_part_in_time_is_predicted_from_earlier_rows_alone():
    for case, n_members in ((CASES[9], 5), (CASES[10], 2), (CASES[11], 1)):
        times = case[0].times
        fold, members = members_of(case)
        assert len(members) == n_members
        for before, after in zip(members, members[1:], strict=False):
            assert times[before.val].max() < times[after.val].min()
        for member in members:
            assert times[member.train].max() < times[member.val].min()
            earlier = development(fold)[times[development(fold)] < times[member.val].min()]
            np.testing.assert_array_equal(member.train, earlier)
        predicted = out_of_fold(fold, members).val
        assert len(np.unique(predicted)) == len(predicted) >= len(development(fold)) / 3
        assert times[predicted].max() == times[development(fold)].max()


def test_groups_in_time_are_cut_by_time():
    """As the fold itself: a time column decides."""
    both = replace(CASES[9][0], groups=GROUPS)
    fold = make_folds(both, "temporal")[0]
    assert parts_sha256(member_folds(both, fold, 5, seed=0)) == parts_sha256(
        members_of(CASES[9])[1]
    )
