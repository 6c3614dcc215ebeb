"""AutoInt against RTDL's numbers, and laws of its architecture.

Parity: the files of the folder that TABSWEEP_PARITY names, float64, 1e-9.
"""

from __future__ import annotations

import torch
from looped import each
from parity import assert_same, case, names
from tabsweep.models.autoint import AutoInt
from tabsweep.models.deep.layers.token_attention import SHARING
from token_cases import inputs, loaded, network, probabilities


@each("name", names("rtdl_autoint_*"))
def test_every_intermediate_and_output_is_the_official_one(name):
    given = case(name)
    module, (numbers, codes) = loaded(given), inputs(given)
    with torch.no_grad():
        x = module.tokens(numbers, codes)
        assert_same(x, given["act/tokens"])
        for i, block in enumerate(module.blocks):
            assert_same(block.attention(x), given[f"act/attention_{i}"])
            shares = probabilities(block.attention, x, None, first=False)
            assert_same(shares, given[f"act/attention_probs_{i}"])
            x = block(x)
            assert_same(x, given[f"act/block_{i}"])
        assert_same(module(numbers, codes), given["out/logits"])


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


def test_dropout_depends_on_the_seed_alone_and_is_none_without():
    torch.manual_seed(0)
    config = {"width": 8, "attention_dropout": 0.3, "residual_dropout": 0.2}
    module = network(AutoInt(task="regression", **config), 3, [], 1).train()
    rows = torch.randn(40, 3).double(), torch.empty(40, 0).long()
    first = module(*rows, (0, 1))
    assert torch.equal(module(*rows, (0, 1)), first)
    assert not torch.allclose(module(*rows, (0, 2)), first)
    torch.testing.assert_close(module(*rows), module.eval()(*rows))
