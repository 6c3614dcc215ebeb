"""Corrupted rows (Algorithm 1), alone and in batches, and what the experiment makes of them."""

from __future__ import annotations

import numpy as np
import pytest
from tabsweep.benchmark.papers.experiment_result import Setting
from tabsweep.benchmark.papers.npt import corrupted_rows, corruption
from tabsweep.benchmark.papers.npt.fitted_inputs import fitted, inputs_of, some_rows
from tabsweep.benchmark.papers.published_values import load
from tabsweep.datasets.catalog import load_dataset, splits
from tabsweep.datasets.protocols import Fold
from tabsweep.models.deep.trainer import computing
from tabsweep.models.npt.prediction import TEST

TINY = {**corruption.TINY, "p_target": 0.5, "val_in_context": True}


@pytest.fixture(autouse=True)
def one_thread():
    with computing(1):
        yield


@pytest.fixture
def setting(tmp_path):
    return Setting("tiny", 0, "cpu", 1, tmp_path, lambda text: None)


def fitted_table(dataset, setting, **config):
    """(its table before a fitted model, data, fold)."""
    data, fold = load_dataset(dataset), splits(dataset)[0]
    return inputs_of(fitted(setting, data, fold, {**TINY, **config}), data, fold), data, fold


# -- the algorithm ---------------------------------------------------------------------------------


def test_corruption_permutes_each_column_by_itself_and_leaves_the_row_alone():
    order = corrupted_rows.order_of(50, 4, 7, (1, 0))
    assert (order[-1] == 7).all()
    others = [i for i in range(50) if i != 7]
    assert all(sorted(column) == others for column in order[:-1].T)
    assert len({tuple(column) for column in order.T}) == 4
    assert (corrupted_rows.order_of(50, 4, 7, (2, 0)) != order).any()
    assert (corrupted_rows.order_of(50, 4, 7, (1, 1)) != order).any()
    assert (corrupted_rows.order_of(50, 4, 7, None)[:-1].T == others).all()


@pytest.mark.parametrize("dataset", ["iris", "diabetes"])
def test_before_corruption_a_row_is_predicted_as_by_the_model(dataset, setting):
    whole, data, fold = fitted_table(dataset, setting)
    found = corrupted_rows.answers(whole, 0, seed=0)
    assert (found.rows == np.arange(len(fold.test))).all()
    expected = whole.model.predict(data.rows(fold.test))
    if data.classes:
        assert (found.before == expected).all()
    else:
        assert np.allclose(found.before, expected, rtol=1e-4)
        assert not np.allclose(found.after, found.before, rtol=1e-4)
        again = corrupted_rows.answers(whole, 0, seed=0)
        assert (again.after == found.after).all()
        other = corrupted_rows.answers(whole, 0, seed=1)
        assert (other.after != found.after).any()


def test_a_network_whose_rows_say_nothing_to_each_other_predicts_as_before(setting):
    whole, *_ = fitted_table("diabetes", setting)
    with whole.model._ready() as module:
        for kind, block in zip(module.kinds, module.blocks, strict=True):
            if kind == "abd":
                block.value.weight.zero_()
                block.value.bias.zero_()
    found = corrupted_rows.answers(whole, 5, seed=0)
    assert np.allclose(found.after, found.before, rtol=1e-5)


def test_rows_of_a_table_in_batches_are_asked_within_their_own_batch(setting):
    whole, data, fold = fitted_table("diabetes", setting, batch_size=60)
    batches = corrupted_rows.batches_of(whole)
    assert len(batches) == -(-data.n_rows // 60)
    assert sorted(np.concatenate(batches)) == list(range(data.n_rows))
    shares = np.array([np.bincount(whole.parts[rows], minlength=3) for rows in batches])
    assert (np.ptp(shares, axis=0) <= 1).all()
    found = corrupted_rows.answers(whole, 0, seed=0)
    assert sorted(found.rows) == list(range(len(fold.test)))
    some = corrupted_rows.answers(whole, 10, seed=0)
    assert (some.rows == found.rows[:10]).all() and (some.after == found.after[:10]).all()
    first = batches[0]
    asked = np.flatnonzero(whole.parts[first] == TEST)
    alone = corrupted_rows.predict(whole[first], asked)
    assert (found.before[: len(asked)] == alone).all()


def test_class_balanced_training_deals_its_classes_evenly_over_the_batches(setting):
    whole, data, fold = fitted_table("iris", setting, batch_size=40, balanced=True)
    y = data.target[fold.train]
    for rows in corrupted_rows.batches_of(whole):
        counts = np.bincount(y[rows[whole.parts[rows] == 0]], minlength=3)
        assert np.ptp(counts) <= 1


# -- the experiment --------------------------------------------------------------------------------


def test_the_columns_are_those_of_table_2_with_the_papers_settings():
    printed = load(corruption.FOLDER, corruption.PUBLISHED)["dataset"].tolist()
    tables = [name for name in printed if name not in corruption.IMAGES]
    full = {name: corruption.config_of(name, {}, {}) for name in tables}
    assert {n: c["p_target"] for n, c in full.items() if not c.get("batch_size")} == {
        "yacht": 0.1, "boston": 0.5, "concrete": 0.5, "breast-cancer-wdbc": 0.1,
    }  # fmt: skip
    assert {n: c["batch_size"] for n, c in full.items() if c.get("batch_size")} == {
        "protein": 2048, "kick": 4096, "income-kdd": 2048, "poker-hand": 4096,
        "forest-cover": 1800, "higgs": 4096,
    }  # fmt: skip
    reduced = corruption.config_of("breast-cancer-wdbc", corruption.REDUCED, {})
    assert (reduced["width"], reduced["p_target"]) == (8, 0.1)


def test_some_rows_of_a_fold_keep_the_shares_of_its_parts():
    rows = np.random.default_rng(0).permutation(1000)
    fold = Fold(0, *map(np.sort, (rows[:700], rows[700:800], rows[800:])))
    found = some_rows(fold, 100, seed=0)
    assert [len(p) for p in (found.train, found.val, found.test)] == [70, 10, 20]
    for part, whole in ((found.train, fold.train), (found.val, fold.val), (found.test, fold.test)):
        assert (np.diff(part) > 0).all() and np.isin(part, whole).all()
    assert some_rows(fold, 0, 0) is some_rows(fold, 1000, 0) is fold


def test_a_change_is_in_points_of_accuracy_and_in_percent_of_an_error():
    accuracy = {"rows": 1, "constant": 50.0, "before": 90.0, "after": 88.5}
    error = {"rows": 1, "constant": 9.0, "before": 2.0, "after": 2.5}
    assert corruption._row("d", [accuracy], True)["change"] == pytest.approx(-1.5)
    assert corruption._row("d", [error], False)["change"] == pytest.approx(-25.0)


def test_columns_that_cannot_be_had_stand_with_the_published_value_and_the_reason(
    setting, tmp_path, offline, monkeypatch
):
    monkeypatch.setenv("TABSWEEP_MIRROR", str(tmp_path))
    monkeypatch.setenv("TABSWEEP_CACHE", str(tmp_path / "cache"))
    outcome = corruption.run(setting, **corruption.SIZES["tiny"])
    rows = {row["dataset"]: row for row in outcome.tables[0].rows}
    assert rows["yacht"]["after"] is None and rows["yacht"]["change, paper"] == -52.0
    had = [name for name, row in rows.items() if row["measured on"] != "not measured"]
    assert had == ["breast-cancer-wdbc"]  # it comes with scikit-learn
    assert len(outcome.remarks) == 12 - len(had)
    assert any("yacht" in remark and "offline" in remark for remark in outcome.remarks)
