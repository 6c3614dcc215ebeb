"""RTDL's experiments at toy sizes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from calls import bench
from small_sweeps import write_suite
from tabsweep.benchmark.papers.catalog import FOLDER
from tabsweep.benchmark.papers.experiment_result import Setting
from tabsweep.benchmark.papers.published_values import load
from tabsweep.benchmark.papers.rtdl import importance, synthetic
from tabsweep.benchmark.papers.rtdl.no_feature_bias import FTTransformerNoFeatureBias
from tabsweep.benchmark.planning import suite as suites
from tabsweep.benchmark.planning.options import Options
from tabsweep.benchmark.planning.settings import Settings
from tabsweep.datasets.catalog import card
from tabsweep.datasets.errors import DatasetUnavailable
from tabsweep.models.ft_transformer import FTTransformer

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


# ---------------------------------------------------------------------- feature biases


def test_the_transformer_without_biases_is_tuned_as_the_one_with_them():
    models = ("ft-transformer-no-feature-bias", "ft-transformer")
    settings = Settings(suites.load("rtdl"), Options(budget="paper", models=models))
    datasets = set(load(FOLDER / "rtdl", "table17")["dataset"])
    assert len(datasets) == 8
    for dataset in datasets:
        without, whole = (settings.search(model, card(dataset).task, dataset) for model in models)
        assert without == whole
    ours, theirs = (settings.specs[model] for model in models)
    assert (ours.resource, ours.gpu_mb) == (theirs.resource, theirs.gpu_mb)


def test_without_biases_the_tokens_alone_lose_their_parameters():
    tiny = {"width": 8, "n_heads": 2, "n_layers": 1, "epochs": 1, "batch_size": 32}
    x = np.random.default_rng(0).normal(size=(40, 3))
    model = FTTransformerNoFeatureBias(task="regression", **tiny).fit(x, x[:, 0])
    network = model._network()
    assert network.tokens.bias is None
    assert not [name for name, _ in network.named_parameters() if name == "tokens.bias"]
    whole = sum(p.numel() for p in FTTransformer._network(model).parameters())
    assert whole - sum(p.numel() for p in network.parameters()) == 3 * 8


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


def test_at_full_size_the_transformers_of_a_run_are_explained(tmp_path, mirror, monkeypatch):
    monkeypatch.chdir(tmp_path)
    setting = Setting("full", 0, "cpu", 1, tmp_path, lambda text: None)
    small = {**importance.SIZES["full"], "seeds": 1, "rows": 100, "steps": 2}
    with pytest.raises(DatasetUnavailable, match="bench sweep --suite rtdl"):
        importance.run(setting, **small)
    tiny = {"width": 4, "n_heads": 1, "n_layers": 1, "epochs": 1, "batch_size": 4096}
    write_suite("toy.json", "toy", ["california-housing"], ["ft-transformer"],
                model={"ft-transformer": {"fixed": tiny}})  # fmt: skip
    monkeypatch.setenv("TABSWEEP_MIRROR", mirror)
    words = ("--suite", "./toy.json", "--name", "rtdl-paper", "--workers", 0)
    assert bench("sweep", *words, "--tracking-uri", "none").code == 0
    result = importance.run(setting, **small)
    assert {row["dataset"] for row in result.tables[0].rows} == {"california-housing"}
    assert len(result.remarks) == 7
