"""FT-Transformer and AutoInt: published sizes, and laws of their architectures."""

from __future__ import annotations

import pytest
import torch
from looped import each
from tabsweep.models.autoint import AutoInt
from tabsweep.models.deep.layers.token_attention import SHARING, Mixtures
from tabsweep.models.ft_transformer import FTTransformer
from tabsweep.models.hyperparameters import InvalidConfig
from tabsweep.models.registry import make_model, spaces
from token_cases import network


@each(("factor", "parameters"), [(1.333333333333333, 928_507), (4 / 3, 930_241)])
def test_the_default_network_of_100_numbers_has_the_papers_size(factor, parameters):
    module = network(FTTransformer(task="regression", ffn_factor=factor), 100, [], 1)
    assert sum(p.numel() for p in module.parameters()) == parameters
    free = {id(p) for p in module.undecayed()}
    decayed = sum(p.numel() for p in module.parameters() if id(p) not in free)
    assert decayed == (885_120 if factor == 4 / 3 else 885_120 - 3 * 3 * 192)


def test_the_scaled_defaults_are_six_and_the_third_is_the_default():
    space = spaces("ft-transformer", "regression")["defaults"]
    variants = space["params"]["variant"]["values"]
    assert [v["n_layers"] for v in variants] == [1, 2, 3, 4, 5, 6]
    default = FTTransformer(task="regression").get_params()
    assert variants[2].items() <= default.items()
    assert all(v["width"] % default["n_heads"] == 0 for v in variants)


# -- laws -----------------------------------------------------------------------------------------


def test_weights_start_as_the_authors_have_them():
    torch.manual_seed(0)
    module = network(FTTransformer(task="regression", width=64), 200, [300], 1)
    for part in (module.tokens.weight, module.tokens.bias, module.tokens.categories.weight):
        assert part.abs().max() <= 64**-0.5
        assert abs(float(part.detach().std()) - 64**-0.5 / 3**0.5) < 0.002
    for i, block in enumerate(module.blocks):
        assert (block.norm_in is None) == (i == 0)
        assert not block.attention.qkv.bias.any() and not block.attention.out.bias.any()
        assert block.widen.bias.any()


def test_mixtures_share_as_their_name_says():
    counts = {s: len(Mixtures(10, 0.25, s, 3).matrices) for s in SHARING}
    assert counts == {"headwise": 6, "key-value": 3, "layerwise": 1}
    for sharing in SHARING:
        mixtures = Mixtures(10, 0.25, sharing, 3)
        key, value = mixtures.of(1)
        assert key.shape == value.shape == (2, 10)
        assert (key is value) == (sharing != "headwise")
        assert (mixtures.of(2)[0] is key) == (sharing == "layerwise")


@each("name", ["ft-transformer", "autoint"])
def test_heads_that_do_not_divide_the_width_are_refused(name):
    with pytest.raises(InvalidConfig, match="width.*n_heads = 3.*16"):
        make_model(name, task="binary", width=16, n_heads=3)


@each("linformer", ["none", *SHARING])
def test_in_autoint_a_row_of_zeros_gives_the_heads_bias_before_anything_is_learned(linformer):
    """No bias of a token, [CLS] or start value of another bias tells such a row from nothing."""
    config = {"width": 8, "n_layers": 2, "linformer": linformer, "linformer_ratio": 0.5}
    module = network(AutoInt(task="regression", **config), 3, [], 1)
    none = torch.empty(2, 0).long()
    assert module.tokens.n == 3 and not module.tokens(torch.zeros(2, 3).double(), none).any()
    torch.testing.assert_close(
        module(torch.zeros(2, 3).double(), none), module.head.bias.expand(2), rtol=0, atol=1e-12
    )
    assert (module(torch.ones(2, 3).double(), none) - module.head.bias).abs().min() > 1e-3
