"""AutoInt: a law of its architecture."""

from __future__ import annotations

import torch
from looped import each
from tabsweep.models.autoint import AutoInt
from tabsweep.models.deep.layers.token_attention import SHARING
from token_cases import network


@each("linformer", ["none", *SHARING])
def test_a_row_of_zeros_gives_the_heads_bias_before_anything_is_learned(linformer):
    """No bias of a token, [CLS] or start value of another bias tells such a row from nothing."""
    config = {"width": 8, "n_layers": 2, "linformer": linformer, "linformer_ratio": 0.5}
    module = network(AutoInt(task="regression", **config), 3, [], 1)
    none = torch.empty(2, 0).long()
    assert module.tokens.n == 3 and not module.tokens(torch.zeros(2, 3).double(), none).any()
    torch.testing.assert_close(
        module(torch.zeros(2, 3).double(), none), module.head.bias.expand(2), rtol=0, atol=1e-12
    )
    assert (module(torch.ones(2, 3).double(), none) - module.head.bias).abs().min() > 1e-3
