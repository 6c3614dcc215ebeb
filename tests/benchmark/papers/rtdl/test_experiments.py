"""RTDL's experiments at toy sizes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from tabsweep.benchmark.papers.catalog import FOLDER
from tabsweep.benchmark.papers.experiment_result import Setting
from tabsweep.benchmark.papers.published_values import load
from tabsweep.benchmark.papers.rtdl import (
    biases,
    importance,
    synthetic,
    tuned,
)
from tabsweep.benchmark.papers.rtdl.no_feature_bias import FTTransformerNoFeatureBias
from tabsweep.benchmark.planning.plan import Options, Plan
from tabsweep.benchmark.results.evidence_builder import load_results
from tabsweep.benchmark.running.data import NoData
from tabsweep.models.ft_transformer import FTTransformer


@pytest.fixture
def setting(tmp_path):
    return Setting("reduced", 0, "cpu", 1, tmp_path, lambda text: None)


TOY = {"rows": (200, 50, 80), "features": 5, "informative": 3}

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
    data = synthetic.generate(**TOY, seed=0)
    for weight in (0.0, 0.3, 1.0):
        y = data.targets(weight)[data.fold.train]
        assert y.mean() == pytest.approx(0.0, abs=1e-12) and y.std() == pytest.approx(1.0)
    np.testing.assert_allclose(data.targets(0.0), data.smooth, atol=1e-12)
    np.testing.assert_allclose(data.targets(1.0), data.stepped, atol=1e-12)
    assert len(np.unique(data.stepped)) < len(np.unique(data.smooth))
    rng = np.random.default_rng(3)
    f = synthetic.perceptron(rng, 3)
    x = rng.normal(size=(6, 3))
    bias = f(np.zeros((1, 3)))[0]
    np.testing.assert_allclose(f(2 * x) - bias, 2 * (f(x) - bias))  # no bias in hidden layers
    assert synthetic.generate(**TOY, seed=0).smooth[0] == data.smooth[0]
    assert synthetic.generate(**TOY, seed=1).smooth[0] != data.smooth[0]


def test_the_published_shape_is_that_of_the_paper():
    best = {w: min(synthetic.MODELS, key=lambda m: synthetic.PUBLISHED[m][i])
            for i, w in enumerate(synthetic.WEIGHTS)}  # fmt: skip
    assert best[0.0] == "resnet" and best[0.25] == "ft-transformer" and best[1.0] == "catboost"


# ---------------------------------------------------------------------- tuned trainings


def test_the_papers_suite_tunes_a_variant_as_the_model_that_it_is_like():
    plan = Plan(
        tuned.paper_suite(biases.VARIANTS), Options(budget="paper", models=biases.METHODS), {}, {}
    )
    for dataset in (None, "year"):
        without, whole = (plan.search(model, "regression", dataset) for model in biases.METHODS[1:])
        assert without == whole and whole[0] == ("rtdl-b" if dataset else "rtdl")
        assert whole[2:] == ("tpe", 50 if dataset else 100)
    assert plan.specs[biases.WITHOUT].target == biases.TARGET
    assert plan.specs[biases.WITHOUT].resource == "epochs"
    assert plan.specs[biases.WITHOUT].gpu_mb == plan.specs["ft-transformer"].gpu_mb > 0


def test_datasets_without_a_card_or_file_are_named_and_the_others_are_used(setting, tmp_path):
    known, left_out = tuned.with_cards(["california-housing", "no-such-set"])
    assert known == ["california-housing"] and "--format arrays" in left_out["no-such-set"]
    nowhere = replace(setting, mirror=str(tmp_path / "none"), cache=str(tmp_path / "cache"))
    with pytest.raises(NoData, match=r"no-such-set: .*; year: "):
        tuned.available(["no-such-set", "year"], nowhere)
    with pytest.raises(NoData, match="no-such-set"):
        tuned.run_tuned(nowhere, ["no-such-set"], ["resnet"])
    other = replace(setting, seed=3, device="cuda")
    assert (tuned.run_name(setting), tuned.run_name(other)) == (
        "run-reduced",
        "run-reduced-seed-3-cuda",
    )
    (remark,) = tuned.left_out_remarks({"helena": "not here"})
    assert "helena: not here" in remark


# ---------------------------------------------------------------------- feature biases


def test_without_biases_the_tokens_alone_lose_their_parameters():
    tiny = {"width": 8, "n_heads": 2, "n_layers": 1, "epochs": 1, "batch_size": 32}
    x = np.random.default_rng(0).normal(size=(40, 3))
    model = FTTransformerNoFeatureBias(task="regression", **tiny).fit(x, x[:, 0])
    network = model._network()
    assert network.tokens.bias is None
    assert not [name for name, _ in network.named_parameters() if name == "tokens.bias"]
    whole = sum(p.numel() for p in FTTransformer._network(model).parameters())
    assert whole - sum(p.numel() for p in network.parameters()) == 3 * 8


def test_biases_are_compared_by_tuned_trainings_that_a_second_call_does_not_repeat(mirror, setting):
    given = {**biases.SIZES["tiny"], "datasets": ("california-housing", "no-such-set")}
    setting = replace(setting, mirror=mirror, out=setting.out / "rtdl-biases")
    outcome = biases.run(setting, **given)
    (table,) = outcome.tables
    assert [row["method"] for row in table.rows] == list(biases.METHODS)
    assert all(0.3 < row["test"] < 2.0 and row["seeds"] == 2 for row in table.rows)
    assert [row["published"] for row in table.rows] == [0.474, 0.470, 0.459]
    assert "no-such-set" in outcome.remarks[0]
    results = load_results(setting.out / "run-reduced")
    assert len(results) == 3 * (1 + 2) and set(results["status"]) == {"done"}
    again = biases.run(setting, **given)
    assert again.tables[0].rows == table.rows
    assert len(load_results(setting.out / "run-reduced")) == len(results)
    other = replace(setting, out=setting.out.parent / "rtdl-other")
    assert biases.run(other, **given).tables[0].rows == table.rows
    assert (load_results(other.out / "run-reduced")["origin"] != "").all()


def test_at_full_size_the_datasets_of_the_table_are_tuned():
    full = biases.SIZES["full"]
    assert full["small"] is None and len(full["datasets"]) == 8
    printed = load(FOLDER / "rtdl", "table17")
    assert {(d, m) for d in full["datasets"] for m in biases.METHODS} == set(
        zip(printed["dataset"], printed["method"], strict=True)
    )


# ---------------------------------------------------------------------- importances


@pytest.fixture(scope="module")
def explained():
    """A transformer that knows y = 3 x0 + x1, and its rows."""
    rng = np.random.default_rng(0)
    x = pd.DataFrame(rng.normal(size=(300, 4)), columns=list("abcd"))
    y = (3 * x["a"] + x["b"]).to_numpy()
    model = FTTransformer(
        task="regression", width=16, n_heads=2, n_layers=2, epochs=40, lr=5e-3, batch_size=64,
        attention_dropout=0.0, ffn_dropout=0.0, numeric="standard",
    )  # fmt: skip
    return model.fit(x, y), x, y


def test_gradients_add_up_to_what_the_output_gains_over_the_zero_row(explained):
    model, x, _ = explained
    parts, gains = importance.integrated_gradients(model, x, 100)
    assert parts.shape == x.shape
    np.testing.assert_allclose(parts.sum(axis=1), gains, atol=0.02 * np.abs(gains).max())


def test_the_attention_of_a_row_is_what_its_blocks_compute_with(explained):
    """The last block's weights give back what it answers for [CLS]."""
    model, x, _ = explained
    with model._ready() as network:
        numbers = importance._inputs(model, x)[0].numbers
        shares = importance.cls_attention(network, numbers)
        assert shares.shape == (300, 4) and float(shares.min()) >= 0
        codes = torch.empty((300, 0), dtype=torch.int64)
        tokens = network.tokens(numbers, codes)
        first = network.blocks[0].attention.weights(tokens)[:, :, 0]
        tokens = network.blocks[0](tokens)
        last = network.blocks[1]
        normed = last.norm_in(tokens)
        second = last.attention.weights(normed)[:, :, 0]  # (B, H, T)
        np.testing.assert_allclose(
            shares, (first + second).mean(dim=1)[:, 1:] / 2, rtol=1e-5, atol=1e-6
        )
        values = normed @ last.attention.qkv.weight[32:].T + last.attention.qkv.bias[32:]
        heads = values.view(300, 5, 2, 8).transpose(1, 2)  # (B, H, T, d)
        answer = torch.einsum("bht,bhtd->bhd", second, heads).reshape(300, 1, 16)
        np.testing.assert_allclose(
            last.attention.out(answer), last.attention.first(normed), rtol=1e-4, atol=1e-5
        )


def test_all_three_importances_find_the_features_that_matter(explained):
    model, x, y = explained
    test = importance.permutation_test(model, x, y, seed=0)
    gradients = np.abs(importance.integrated_gradients(model, x, 20)[0]).mean(axis=0)
    maps = importance.attention_maps(model, x)
    for found in (test, gradients):
        assert found.argsort().tolist()[::-1][:2] == [0, 1]
    assert maps.argmax() == 0 and maps.sum() < 1.0


def test_categories_gaps_and_mixtures_have_no_such_importances(explained):
    x = pd.DataFrame({"a": np.arange(40.0), "b": pd.Categorical(list("xy") * 20)})
    tiny = {"width": 8, "n_heads": 2, "n_layers": 1, "epochs": 1}
    model = FTTransformer(task="regression", **tiny).fit(x, np.arange(40.0))
    with pytest.raises(ValueError, match="numbers without missing cells"):
        importance.attention_maps(model, x)
    numbers = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 3)))
    mixed = FTTransformer(task="regression", linformer="headwise", linformer_ratio=0.5, **tiny)
    with pytest.raises(ValueError, match="mixtures"):
        importance.attention_maps(mixed.fit(numbers, np.arange(40.0)), numbers)


def test_importances_of_classes_are_of_the_class_that_is_predicted():
    narrow = {"n_layers": 1, "width": 8, "n_heads": 2, "epochs": 1}
    x = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 3)), columns=list("abc"))
    model = FTTransformer(task="multiclass", **narrow).fit(x, np.arange(60) % 3)
    parts, gains = importance.integrated_gradients(model, x, 100)
    np.testing.assert_allclose(parts.sum(axis=1), gains, atol=1e-2)
