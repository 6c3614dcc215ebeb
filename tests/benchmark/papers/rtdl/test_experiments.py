"""RTDL's experiments at toy sizes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tabsweep.benchmark.papers.catalog import FOLDER
from tabsweep.benchmark.papers.experiment_result import Setting
from tabsweep.benchmark.papers.published_values import load
from tabsweep.benchmark.papers.rtdl import biases, budget, synthetic, training_time
from tabsweep.benchmark.papers.rtdl.budget import Ended, cut


@pytest.fixture
def setting(tmp_path):
    return Setting("reduced", 0, "cpu", 1, tmp_path, lambda text: None)


TINY = {"width": 8, "n_layers": 1, "epochs": 2, "batch_size": 64, "numeric": "none"}
TOY = synthetic.Extent(
    (200, 50, 80), 5, 3, 2,
    {
        "catboost": {"n_estimators": 5},
        "resnet": TINY,
        "ft-transformer": {**TINY, "n_heads": 2},
    },
    (0.0, 1.0),
)  # fmt: skip

# ---------------------------------------------------------------------- the synthetic study


def test_a_random_tree_has_49_splits_50_leaves_and_no_path_longer_than_ten():
    tree = synthetic.random_tree(np.random.default_rng(0), 4)
    assert (tree.feature >= 0).sum() == 49 and len(tree.feature) == 99
    assert set(tree.feature[tree.feature >= 0]) <= set(range(4))
    depth = np.zeros(99, dtype=int)
    for node in np.flatnonzero(tree.feature >= 0):  # parents come before their children
        for child in (tree.left[node], tree.right[node]):
            assert child > node
            depth[child] = depth[node] + 1
    assert depth.max() <= 10


def test_a_tree_answers_with_the_leaf_that_a_walk_finds():
    rng = np.random.default_rng(1)
    tree, x = synthetic.random_tree(rng, 3), rng.normal(size=(40, 3))
    for row, found in zip(x, tree(x), strict=True):
        at = 0
        while tree.feature[at] >= 0:
            smaller = row[tree.feature[at]] < tree.threshold[at]
            at = tree.left[at] if smaller else tree.right[at]
        assert found == tree.value[at]


def test_targets_have_unit_variance_in_training_and_only_the_first_features_matter():
    data = synthetic.generate(TOY, 0)
    for weight in (0.0, 0.3, 1.0):
        y = data.targets(weight)[data.parts[0]]
        assert y.mean() == pytest.approx(0.0, abs=1e-12) and y.std() == pytest.approx(1.0)
    np.testing.assert_allclose(data.targets(0.0), data.smooth, atol=1e-12)
    np.testing.assert_allclose(data.targets(1.0), data.stepped, atol=1e-12)
    assert len(np.unique(data.stepped)) < len(np.unique(data.smooth))
    rng = np.random.default_rng(3)
    f = synthetic.perceptron(rng, 3)
    x = rng.normal(size=(6, 3))
    bias = f(np.zeros((1, 3)))[0]
    np.testing.assert_allclose(f(2 * x) - bias, 2 * (f(x) - bias))  # no bias in hidden layers
    assert synthetic.generate(TOY, 0).smooth[0] == data.smooth[0]
    assert synthetic.generate(TOY, 1).smooth[0] != data.smooth[0]


def test_the_synthetic_study_fits_every_model_at_every_weight_and_draws_both_figures(setting):
    outcome = synthetic.run(setting, TOY)
    (table,) = outcome.tables
    assert [row[:2] for row in table.rows] == [[m, w] for m in synthetic.MODELS for w in (0, 1)]
    assert all(0.0 < row[2] < 3.0 and row[3] is not None for row in table.rows)
    assert table.rows[0][4] == 0.468 and table.rows[-1][4] == 0.227
    assert outcome.figures[0].stat().st_size > 1000


def test_the_published_shape_is_that_of_the_paper():
    best = {w: min(synthetic.MODELS, key=lambda m: synthetic.PUBLISHED[m][i])
            for i, w in enumerate(synthetic.WEIGHTS)}  # fmt: skip
    assert best[0.0] == "resnet" and best[0.25] == "ft-transformer" and best[1.0] == "catboost"


# ---------------------------------------------------------------------- feature biases


def test_without_biases_the_tokens_alone_lose_their_parameters():
    tiny = {"width": 8, "n_heads": 2, "n_layers": 1, "epochs": 1, "batch_size": 32}
    x = np.random.default_rng(0).normal(size=(40, 3))
    model = biases.WithoutBiases(task="regression", **tiny).fit(x, x[:, 0])
    network = model._network()
    assert network.tokens.bias is None
    assert not [name for name, _ in network.named_parameters() if name == "tokens.bias"]
    whole = sum(p.numel() for p in biases.FTTransformer._network(model).parameters())
    assert whole - sum(p.numel() for p in network.parameters()) == 3 * 8


def test_the_table_of_biases_stands_beside_the_published_one(mirror, setting):
    def one(method, data, fold, settings, setting, seed):
        return 0.1 * len(method) + seed

    extent = biases.EXTENTS["reduced"]
    (table,) = biases.run(replace(setting, mirror=mirror), extent, one).tables
    assert [row[1] for row in table.rows] == list(biases.METHODS)
    assert table.rows[0][3] == pytest.approx(0.7 + 1.0)
    assert [row[5] for row in table.rows] == [0.474, 0.470, 0.459]


# ---------------------------------------------------------------------- training time


def test_the_shapes_are_those_of_table_1_and_generated_tables_have_them():
    shapes = training_time.shapes()
    assert list(shapes) == load(FOLDER / "rtdl", "table1")["dataset"].tolist()
    assert shapes["helena"].n_classes == 100 and shapes["adult"].n_categorical == 8
    frame, y = training_time.table(shapes["adult"], 30, 0)
    assert frame.shape == (30, 14) and set(y) == {0, 1}
    assert sum(str(kind) == "category" for kind in frame.dtypes) == 8


def test_a_step_of_both_is_timed_and_the_overhead_is_their_ratio(setting):
    extent = training_time.Extent(
        ("california-housing", "adult"), 2, 16,
        {
            "resnet": {"n_layers": 1, "width": 8},
            "ft-transformer": {"n_layers": 1, "width": 8, "n_heads": 2},
        },
        training_time.LINFORMER,
    )  # fmt: skip
    (table,) = training_time.run(setting, extent).tables
    for row in table.rows:
        assert row[3] > 0 and row[5] == pytest.approx(row[4] / row[3])
    assert table.rows[0][-1] == pytest.approx(187 / 72)
    assert table.rows[1][:3] == ["adult", 14, 16]


# ---------------------------------------------------------------------- budgets of time


def test_a_budget_counts_what_ended_in_it_and_takes_the_best_by_validation():
    log = [Ended(1.0, 0.5, 0.9), Ended(2.0, 0.3, 0.7), Ended(4.0, 0.3, 0.1)]
    assert cut(log, 0.5) == (None, 0)
    assert cut(log, 1.0) == (0.9, 1)
    assert cut(log, 3.9) == (0.7, 2)
    assert cut(log, 9.0) == (0.7, 3)  # of equal losses the earlier trial


def test_one_log_of_trials_serves_every_budget(mirror, setting):
    now = [0.0]

    def one(model, config, data, fold, setting):
        now[0] += 4.0
        return 1.0 / now[0], now[0]

    extent = replace(budget.EXTENTS["reduced"], seconds=(5.0, 10.0, 20.0))
    outcome = budget.run(replace(setting, mirror=mirror), extent, one, lambda: now[0])
    rows = outcome.tables[0].rows
    assert [row[1] for row in rows[::3]] == list(budget.MODELS)
    assert [row[5] for row in rows[:3]] == [1.0, 2.0, 5.0]
    assert [row[4] for row in rows[:3]] == [4.0, 8.0, 20.0]


def test_the_full_budgets_find_their_published_scores_and_counts(mirror, setting):
    now = [0.0]

    def one(model, config, data, fold, setting):
        now[0] += 8000.0
        return 0.0, 0.0

    extent = replace(budget.EXTENTS["full"], seeds=1, datasets=("california-housing",))
    full = replace(setting, size="full", mirror=mirror)
    rows = budget.run(full, extent, one, lambda: now[0]).tables[0].rows
    assert rows[0][4] is None and rows[0][6:] == [0.437, 31.0]
    assert len(rows) == 32 and all(row[6] is not None for row in rows)


def test_a_trial_of_each_model_gives_a_loss_and_a_score(mirror, setting):
    from tabsweep.datasets import catalog
    from tabsweep.datasets.protocols import Fold

    for dataset in ("california-housing", "adult"):
        data = catalog.load_dataset(dataset, mirror=mirror)
        small = Fold(0, np.arange(0, 300), np.arange(300, 400), np.arange(400, 500))
        loss, test = budget.trial("xgboost", {"n_estimators": 5}, data, small, setting)
        assert 0.0 < loss < 5.0 and 0.0 < test < 5.0
