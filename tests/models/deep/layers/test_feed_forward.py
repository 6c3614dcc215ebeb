"""Feed-forward networks: what block, normalisation, activation and initial weights mean."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.datasets import load_wine
from tabsweep.models import feed_forward
from tabsweep.models.hyperparameters import InvalidConfig
from tabsweep.models.registry import make_model
from torch.nn import functional as F

KINDS = {
    "msra": {},
    "batch": {"normalization": "batch"},
    "layer": {"normalization": "layer"},
    "weight": {"normalization": "weight"},
    "highway": {"block": "highway"},
    "resnet": {"block": "residual", "normalization": "batch"},
    "snn": {"activation": "selu", "init": "lecun"},
    "conic": {"shape": "conic"},
}
LAYER = {"normalization": "none", "activation": "relu", "init": "he", "p": 0.0}


def network(n_in=8, n_out=1, hidden=(8, 8, 8), block="plain", **layer):
    torch.manual_seed(0)
    return feed_forward.FeedForwardNetwork(
        n_in=n_in, n_out=n_out, hidden=hidden, block=block, **{**LAYER, **layer}
    )


def test_every_kind_of_network_learns_and_is_another_function():
    x, y = load_wine(return_X_y=True)
    found = []
    for kind in KINDS.values():
        model = make_model(
            "feed-forward", task="multiclass", epochs=30, width=32, lr=0.01, batch_size=64, **kind
        ).fit(x, y)
        assert model.score(x, y) > 0.95, kind
        found.append(model.predict_proba(x))
    for i, p in enumerate(found):
        assert all(not np.allclose(p, other) for other in found[:i])


def test_initial_weights_have_the_deviation_that_they_are_named_for():
    for init, gain in (("he", 2.0), ("lecun", 1.0)):
        net = network(n_in=400, hidden=(500, 500), init=init)
        for layer, n_in in zip(net.layers, (400, 500), strict=True):
            assert float(layer.linear.weight.detach().std()) == pytest.approx(
                (gain / n_in) ** 0.5, rel=0.01
            )
            assert not layer.linear.bias.any()


def test_selu_with_lecuns_weights_keeps_the_deviation_of_sixteen_layers():
    x = torch.randn(500, 300, generator=torch.Generator().manual_seed(0))
    net = network(n_in=300, hidden=[300] * 16, activation="selu", init="lecun", p=0.05)
    for seed in (None, (0, 1)):
        z = x
        for i, layer in enumerate(net.layers):
            z = layer(z, seed and (*seed, i))
        assert abs(float(z.detach().mean())) < 0.1 and float(z.detach().std()) == pytest.approx(
            1.0, abs=0.15
        )


def test_weight_normalisation_begins_with_the_weights_and_keeps_lengths_apart():
    torch.manual_seed(0)
    plain = torch.nn.Linear(6, 4)
    made, x = feed_forward.WeightNormLinear(plain), torch.randn(5, 6)
    torch.testing.assert_close(made(x), plain(x))
    with torch.no_grad():
        made.direction.mul_(7.0)  # a direction has no length
    torch.testing.assert_close(made(x), plain(x))
    with torch.no_grad():
        made.length.mul_(2.0)
    torch.testing.assert_close(made(x) - made.bias, 2 * (plain(x) - plain.bias))


def test_a_closed_gate_passes_its_input_and_an_open_one_the_layer():
    net = network(block="highway")
    x, block = torch.randn(5, 8), net.layers[1]
    assert isinstance(net.layers[0], feed_forward.Layer)
    for bias, expected in ((-50.0, x), (50.0, block.layer(x))):
        torch.nn.init.constant_(block.gate.bias, bias)
        torch.testing.assert_close(block(x), expected)
    fresh = network(block="highway").layers[1].gate
    assert float(fresh.bias.detach().mean()) == feed_forward.GATE_BIAS < 0


def test_a_residual_block_adds_two_layers_to_its_input():
    net = network(block="residual")
    x, block = torch.randn(5, 8), net.layers[2]
    inner = F.linear(x, block.layers[0].linear.weight).relu()
    torch.testing.assert_close(block(x), x + F.linear(inner, block.layers[1].linear.weight).relu())


def test_a_layer_normalises_before_its_activation():
    x = torch.randn(64, 8)
    for normalization, axis in (("batch", 0), ("layer", 1)):
        layer = network(normalization=normalization).layers[0]
        z = layer.linear(x)
        z = (z - z.mean(axis, keepdim=True)) / (
            z.var(axis, correction=0, keepdim=True) + 1e-5
        ).sqrt()
        torch.testing.assert_close(layer(x), z.relu())


def test_conic_layers_fall_by_one_factor_and_never_below_the_outputs():
    assert feed_forward.widths(4, 256, "conic", 1) == [256, 64, 16, 4]
    assert feed_forward.widths(3, 8, "conic", 10) == [10, 10, 10]
    assert feed_forward.widths(1, 7, "conic", 3) == [7]


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"shape": "conic", "block": "highway"}, "'rectangular' where block is 'highway'"),
        ({"shape": "conic", "block": "residual"}, "'rectangular' where block is 'residual'"),
        ({"normalization": "batch", "batch_size": 1}, "batch norms need two rows"),
        ({"normalization": "group"}, "normalization must be one of"),
    ],
)
def test_settings_that_exclude_each_other_are_refused(config, words):
    with pytest.raises(InvalidConfig, match=words):
        make_model("feed-forward", task="binary", **config)
