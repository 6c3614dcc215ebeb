"""Protocols: sizes, strata, seeds and stored splits, whatever the classes look like."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from sklearn.model_selection import train_test_split
from tabsweep.datasets import catalog
from tabsweep.datasets.errors import DataError
from tabsweep.datasets.protocols import Fold, cut, draws_of, make_folds, nested
from tabsweep.datasets.table import Table
from toy_tables import toy, with_columns


def assert_is_a_triple(fold: Fold, n_rows: int) -> None:
    every = np.concatenate([fold.train, fold.val, fold.test])
    np.testing.assert_array_equal(np.sort(every), np.arange(n_rows))
    for part in (fold.train, fold.val, fold.test):
        assert part.dtype == np.int64 and len(part) > 0
        assert (np.diff(part) > 0).all()


TOYS = [
    toy([60, 40]),
    toy([500, 3]),
    toy([50, 1]),
    toy([40, 2, 1, 1]),
    toy([2] * 30),
    toy([1] * 25),
    toy([5, 5]),
    toy([143, 77, 52, 35, 20, 5, 2, 2]),
    toy(n_rows=10),
    toy(n_rows=506),
]


def test_every_row_is_in_one_part_of_every_fold_and_tested_once() -> None:
    for table, (protocol, n) in product(TOYS, (("kfold", 10), ("fivefold", 5), ("holdout", 1))):
        folds = make_folds(table, protocol, seed=3)
        assert [fold.index for fold in folds] == list(range(n))
        for fold in folds:
            assert_is_a_triple(fold, table.n_rows)
        tested = np.concatenate([fold.test for fold in folds])
        assert len(np.unique(tested)) == len(tested) and (n == 1 or len(tested) == table.n_rows)


def test_the_parts_have_the_sizes_of_the_papers() -> None:
    folds = make_folds(toy(n_rows=506), "kfold", seed=42)
    assert {(len(f.train), len(f.val), len(f.test)) for f in folds} == {
        (353, 102, 51),
        (354, 102, 50),
    }
    for protocol in ("holdout", "fivefold"):
        for fold in make_folds(toy(n_rows=1000), protocol):
            assert (len(fold.train), len(fold.val), len(fold.test)) == (700, 100, 200)


SHARES = [0.2, 0.2 / 0.9, 0.1 / 0.8]  # of kfold, holdout and rtdl, and of the fixed test parts


def test_a_share_of_the_rows_is_rounded_as_scikit_learn_rounds_it() -> None:
    guarded = set()
    for share in SHARES:
        for n in range(10, 2001):
            rows, target = np.arange(n), np.zeros(n)
            first, second = cut(target, rows, share, stratified=False, seed=42)
            theirs = train_test_split(rows, test_size=share, random_state=42)
            assert (len(first), len(second)) == (len(theirs[0]), len(theirs[1])), (share, n)
            assert np.array_equal(second, np.sort(theirs[1]))
            if len(second) != np.ceil(share * n - 1e-9):
                guarded.add((share, n))
    # ninths of these are whole, and their product with 0.2 / 0.9 is a hair more
    assert len(guarded) == 65 and (0.2 / 0.9, 135) in guarded
    assert {share for share, _ in guarded} == {0.2 / 0.9}


def test_a_number_of_rows_is_taken_as_it_is() -> None:
    rows = np.arange(100, 160)
    for size in (1, 7, 59):
        first, second = cut(np.zeros(160), rows, size, stratified=False, seed=0)
        assert len(second) == size and np.array_equal(np.sort(np.r_[first, second]), rows)


def test_classes_keep_their_shares_in_every_part() -> None:
    table = toy([600, 300, 100])
    for fold in (*make_folds(table, "kfold"), *make_folds(table, "holdout")):
        for part in (fold.train, fold.val, fold.test):
            shares = np.bincount(table.target[part], minlength=3) / len(part)
            np.testing.assert_allclose(shares, [0.6, 0.3, 0.1], atol=0.01)


def test_the_seed_and_nothing_else_decides() -> None:
    table = toy([60, 40])
    for protocol in ("kfold", "fivefold", "holdout"):
        hashes = [fold.sha256 for fold in make_folds(table, protocol, seed=1)]
        np.random.seed(5)
        assert [fold.sha256 for fold in make_folds(table, protocol, seed=1)] == hashes
        assert [fold.sha256 for fold in make_folds(table, protocol, seed=2)] != hashes


def test_a_row_that_moves_between_parts_changes_the_hash() -> None:
    fold = make_folds(toy([60, 40]), "kfold")[0]
    moved = Fold(0, fold.train[1:], np.sort(np.append(fold.val, fold.train[0])), fold.test)
    assert moved.sha256 != fold.sha256
    shifted = Fold(0, fold.train, fold.test, fold.val)
    assert shifted.sha256 != fold.sha256


def test_official_folds_are_the_stored_masks_and_train_on_the_rest() -> None:
    base = toy([60, 40])
    rng = np.random.default_rng(1)
    part = rng.integers(0, 3, size=(2, 100))
    masks = tuple((p == 0, p == 1) for p in part)
    table = Table("toy", base.frame, base.target, "binary", base.classes, "0" * 64, masks)
    for fold, p in zip(make_folds(table, "official", seed=9), part, strict=True):
        assert_is_a_triple(fold, 100)
        np.testing.assert_array_equal(fold.test, np.flatnonzero(p == 0))
        np.testing.assert_array_equal(fold.val, np.flatnonzero(p == 1))


OFFICIAL = [n for n in catalog.names() if catalog.card(n).parser == "coded"]


def test_the_stored_splits_are_four_whole_triples_in_the_files_order(mirror: str, tmp_path) -> None:
    for name in OFFICIAL:
        table = catalog.load_dataset(name, mirror=mirror, cache=tmp_path)
        folds = make_folds(table, "official")
        assert len(folds) == 4, name
        for fold in folds:
            assert_is_a_triple(fold, table.n_rows)
        path = next((tmp_path / name).glob("*-folds_py.dat"))
        lines = path.read_text().split()
        stored = np.array([[int(v) for v in line.split(",")] for line in lines])
        assert [len(f.test) for f in folds] == stored.sum(axis=0).tolist(), name
        assert all(stored[f.test, k].all() for k, f in enumerate(folds)), name


def test_what_cannot_be_cut_is_refused_with_the_way_out() -> None:
    with pytest.raises(ValueError, match="'kfolds'.*'kfold'"):
        make_folds(toy([60, 40]), "kfolds")
    with pytest.raises(ValueError, match="toy .*kfold or holdout"):
        make_folds(toy([60, 40]), "official")
    with pytest.raises(DataError, match=" 10 rows.* 9"):
        make_folds(toy([5, 4]), "kfold")


def test_no_group_is_in_two_parts_and_each_row_is_tested_once() -> None:
    rng = np.random.default_rng(0)
    for task in ("binary", "regression"):
        for n_groups, n_folds in ((25, 10), (4, 4), (3, 3)):
            groups = rng.integers(0, n_groups, 200)
            table = with_columns(task, groups=groups)
            folds = make_folds(table, "grouped", seed=3)
            assert len(folds) == n_folds
            tested = np.concatenate([fold.test for fold in folds])
            assert sorted(tested) == list(range(200))
            for fold in folds:
                parts = [set(groups[getattr(fold, part)]) for part in ("train", "val", "test")]
                assert all(parts) and sum(map(len, parts)) == len(set(groups))
                assert len(fold.train) + len(fold.val) + len(fold.test) == 200
            again = make_folds(table, "grouped", seed=3)
            assert [f.sha256 for f in folds] == [f.sha256 for f in again]
    with pytest.raises(DataError, match="at least 3 groups.* has 2"):
        make_folds(with_columns("binary", groups=np.arange(200) % 2), "grouped")
    with pytest.raises(ValueError, match="no group column"):
        make_folds(toy([60, 40]), "grouped")


def test_training_rows_are_earlier_than_validation_rows_and_these_than_tested_ones() -> None:
    rng = np.random.default_rng(0)
    for times in (rng.permutation(200) * 1.5, rng.integers(0, 12, 200).astype(float)):
        (fold,) = make_folds(with_columns("regression", times=times), "temporal")
        train, val, test = (times[getattr(fold, part)] for part in ("train", "val", "test"))
        assert train.max() < val.min() and val.max() < test.min()
        assert len(test) >= 40 and len(val) >= 20 and len(train) + len(val) + len(test) == 200
    with pytest.raises(DataError, match="2 different times"):
        make_folds(with_columns("binary", times=np.arange(200.0) % 2), "temporal")
    with pytest.raises(ValueError, match="no time column"):
        make_folds(toy([60, 40]), "temporal")


def test_smaller_training_sets_are_parts_of_larger_ones_and_all_share_one_test_part() -> None:
    for table in (toy([900, 500, 200]), toy(n_rows=1600)):
        folds = {f.index: f for f in make_folds(table, nested([80, 200, 400]))}
        # the first draw of all sizes, then the second of two, then the third of one
        assert list(folds) == [8001, 20001, 40001, 8002, 20002, 8003]
        for draw in (1, 2, 3):
            sizes = [k for k in (8000, 20000, 40000) if k + draw in folds]
            for small, large in pairwise(folds[k + draw] for k in sizes):
                assert set(small.train) < set(large.train) and set(small.val) < set(large.val)
        for fold in folds.values():
            size = fold.index // 100
            assert (len(fold.train), len(fold.val), len(fold.test)) == (size, size // 4, 1100)
            assert not set(fold.train) & set(fold.val)
            assert not set(fold.test) & {*fold.train, *fold.val}
            np.testing.assert_array_equal(fold.test, folds[8001].test)
            if table.classes:
                for part in (fold.train, fold.val, fold.test):
                    shares = np.bincount(table.target[part]) / len(part)
                    assert np.abs(shares - [9 / 16, 5 / 16, 2 / 16]).max() < 1 / len(part) + 1e-3
        assert set(folds[8001].train) != set(folds[8002].train)
        again, other = (make_folds(table, nested([80, 200, 400]), seed=seed) for seed in (0, 1))
        assert [f.sha256 for f in again] == [f.sha256 for f in folds.values()]
        assert {f.sha256 for f in other}.isdisjoint(f.sha256 for f in again)


def test_sizes_that_leave_too_little_to_test_or_make_no_sense_are_refused() -> None:
    assert draws_of(nested([300, 1000], [2, 1])) == {300: 2, 1000: 1}
    with pytest.raises(DataError, match="leave 50 of toy to test.*largest size is 171"):
        make_folds(toy(n_rows=300), nested([50, 200]))
    assert len(make_folds(toy(n_rows=300), nested([50, 171]))) == 5
    with pytest.raises(ValueError, match="toy has a column of groups"):
        make_folds(with_columns("binary", groups=np.arange(200) % 20), nested([20, 40]))
    for sizes, draws in ([[], []], [[300, 100], []], [[5], []], [[300], [0]], [[300], [1, 2]]):
        with pytest.raises(ValueError, match="must (ascend|have a number)"):
            nested(sizes, draws)


def test_splits_use_the_cards_protocol_unless_told_otherwise() -> None:
    assert len(catalog.splits("iris")) == 10
    assert len(catalog.splits("iris", "holdout")) == 1
    first = catalog.splits("iris", seed=1)[0].sha256
    assert first == catalog.splits("iris", "kfold", seed=1)[0].sha256
