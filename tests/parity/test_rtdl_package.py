"""MLP, ResNet and FT-Transformer against the authors' public package, with its weights.

The package is an extra of the tests (`zoo`): its MLP and ResNet take encoded rows and have one
width; its FT-Transformer has one table a column, and computes all tokens to the end.
"""

from __future__ import annotations

import pytest
import torch
from tabsweep.models.deep.layers.token_attention import SHARING
from tabsweep.models.ft_transformer import FTTransformer
from tabsweep.models.mlp import MLPNetwork as MLP
from tabsweep.models.resnet import ResNetNetwork as ResNet
from token_cases import network, put_categories

rtdl = pytest.importorskip(
    "rtdl_revisiting_models", reason="needs the extra `zoo`: rtdl_revisiting_models"
)
PRECISE = [(torch.float32, 1e-5), (torch.float64, 1e-10)]
precise = pytest.mark.parametrize(("dtype", "tolerance"), PRECISE, ids=["float32", "float64"])


def assert_near(ours, theirs, tolerance):
    assert ours.shape == theirs.shape
    assert float((ours - theirs).detach().abs().max()) <= tolerance


def stirred(module):
    """The module with no weight, gain, bias or running statistic at its start."""
    torch.manual_seed(2)
    with torch.no_grad():
        for p in module.parameters():
            p.add_(0.1 * torch.randn_like(p))
        for name, b in module.named_buffers():
            if name.endswith("running_var"):
                b.uniform_(0.5, 2.0)
            elif name.endswith("running_mean"):
                b.normal_()
    return module


def copied(pairs):
    for ours, theirs in pairs:
        ours.load_state_dict(theirs.state_dict())


@precise
def test_the_mlp_is_the_packages(dtype, tolerance):
    theirs = stirred(rtdl.MLP(d_in=9, d_out=3, n_blocks=3, d_block=32, dropout=0.1)).eval()
    ours = MLP(n_numeric=9, sizes=[], width=1, widths=[32] * 3, n_out=3, p=0.1).eval()
    copied((a, b.linear) for a, b in zip(ours.layers, theirs.blocks, strict=True))
    copied([(ours.head, theirs.output)])
    x = torch.randn(50, 9, dtype=dtype)
    assert_near(ours.to(dtype)(x, torch.empty(50, 0).long()), theirs.to(dtype)(x), tolerance)


@precise
def test_the_resnet_is_the_packages(dtype, tolerance):
    theirs = rtdl.ResNet(
        d_in=9, d_out=3, n_blocks=3, d_block=32,
        d_hidden_multiplier=1.9, dropout1=0.2, dropout2=0.1,
    )  # fmt: skip
    theirs = stirred(theirs).eval()
    ours = ResNet(
        n_numeric=9, sizes=[], embedding=1, n_layers=3, width=32,
        hidden=int(32 * 1.9), n_out=3, p_hidden=0.2, p_residual=0.1,
    ).eval()  # fmt: skip
    copied([(ours.first_layer, theirs.input_projection), (ours.head, theirs.output.linear)])
    copied([(ours.last_normalization, theirs.output.normalization)])
    for a, b in zip(ours.layers, theirs.blocks, strict=True):
        copied([(a.norm, b.normalization), (a.linear0, b.linear1), (a.linear1, b.linear2)])
    x = torch.randn(50, 9, dtype=dtype)
    assert_near(ours.to(dtype)(x, torch.empty(50, 0).long()), theirs.to(dtype)(x), tolerance)


# -- FT-Transformer -------------------------------------------------------------------------------

SIZES = [4, 2, 7]


def both(activation="ReGLU", sharing="none", dropout=0.0, **config):
    """(the package's, ours): weights copied, in float64 and evaluation mode."""
    shape = {"n_layers": 3, "width": 32, "n_heads": 8, "ffn_factor": 4 / 3} | config
    torch.manual_seed(0)
    theirs = rtdl.FTTransformer(
        n_cont_features=5, cat_cardinalities=SIZES, d_out=3,
        n_blocks=shape["n_layers"], d_block=shape["width"], attention_n_heads=shape["n_heads"],
        attention_dropout=dropout, ffn_d_hidden_multiplier=shape["ffn_factor"],
        ffn_dropout=dropout, ffn_activation=activation, residual_dropout=dropout,
        linformer_kv_compression_ratio=None if sharing == "none" else 0.4,
        linformer_kv_compression_sharing=None if sharing == "none" else sharing,
    ).double()  # fmt: skip
    theirs = stirred(theirs).eval()
    model = FTTransformer(
        task="multiclass", activation=activation.lower(), linformer=sharing,
        linformer_ratio=0.4, **shape,
    )  # fmt: skip
    ours = network(model, 5, SIZES, 3)
    with torch.no_grad():
        cls, numbers = theirs.cls_embedding.weight, theirs.cont_embeddings
        ours.tokens.weight.copy_(torch.cat([cls[None], numbers.weight]))
        ours.tokens.bias.copy_(torch.cat([numbers.bias, theirs.cat_embeddings.bias]))
        put_categories(ours.tokens, [e.weight for e in theirs.cat_embeddings.embeddings])
        matrices = []
        for a, b in zip(ours.blocks, theirs.backbone.blocks, strict=True):
            attention = b["attention"]
            thirds = attention.W_q, attention.W_k, attention.W_v
            a.attention.qkv.weight.copy_(torch.cat([w.weight for w in thirds]))
            a.attention.qkv.bias.copy_(torch.cat([w.bias for w in thirds]))
            copied([(a.attention.out, attention.W_out), (a.norm_ff, b["ffn_normalization"])])
            copied([(a.widen, b["ffn"].linear1), (a.narrow, b["ffn"].linear2)])
            if a.norm_in is not None:
                copied([(a.norm_in, b["attention_normalization"])])
            mixed = attention.key_compression, attention.value_compression
            matrices += [m.weight for m in mixed if m is not None]
        if ours.mixtures is not None:
            for mine, matrix in zip(ours.mixtures.matrices, matrices, strict=True):
                mine.copy_(matrix)
    output = theirs.backbone.output
    copied([(ours.norm_out, output.normalization), (ours.head, output.linear)])
    return theirs, ours


def rows(n=40):
    torch.manual_seed(1)
    codes = [torch.randint(0, k, (n,)) for k in SIZES]
    return torch.randn(n, 5, dtype=torch.double), torch.stack(codes, dim=1)


@precise
@pytest.mark.parametrize("activation", ["ReGLU", "ReLU"])
def test_ft_transformer_is_the_packages(activation, dtype, tolerance):
    theirs, ours = both(activation)
    numbers, codes = rows()
    given = numbers.to(dtype), codes
    assert_near(ours.to(dtype)(*given), theirs.to(dtype)(*given), tolerance)


@pytest.mark.parametrize("sharing", [s for s in SHARING if s != "layerwise"])
def test_ft_transformer_with_mixed_keys_is_the_packages(sharing):
    theirs, ours = both(sharing=sharing)
    assert_near(ours(*rows()), theirs(*rows()), 1e-10)


def test_gradients_are_the_packages():
    theirs, ours = both()
    for module in (theirs, ours):
        module(*rows()).square().sum().backward()
    tokens, first = theirs.cont_embeddings, theirs.backbone.blocks[0]
    last = theirs.backbone.blocks[-1]
    pairs = [
        (ours.tokens.weight.grad[1:], tokens.weight.grad),
        (ours.tokens.weight.grad[0], theirs.cls_embedding.weight.grad),
        (ours.tokens.bias.grad[:5], tokens.bias.grad),
        (ours.blocks[0].attention.qkv.weight.grad[:32], first["attention"].W_q.weight.grad),
        (ours.blocks[-1].attention.qkv.weight.grad[32:64], last["attention"].W_k.weight.grad),
        (ours.blocks[-1].attention.qkv.weight.grad[64:], last["attention"].W_v.weight.grad),
        (ours.blocks[-1].widen.weight.grad, last["ffn"].linear1.weight.grad),
        (ours.norm_out.weight.grad, theirs.backbone.output.normalization.weight.grad),
    ]
    for mine, official in pairs:
        assert_near(mine, official, 1e-9)
        assert official.abs().max() > 1e-3


def test_default_sizes_and_the_decayed_part_are_the_packages():
    for n_layers in range(1, 7):
        kwargs = rtdl.FTTransformer.get_default_kwargs(n_layers)
        theirs = rtdl.FTTransformer(n_cont_features=20, cat_cardinalities=[], d_out=1, **kwargs)
        model = FTTransformer(task="regression", n_layers=n_layers, width=kwargs["d_block"])
        ours = network(model, 20, [], 1)
        decayed, free = (
            sum(p.numel() for p in group["params"]) for group in theirs.make_parameter_groups()
        )
        exempt = {id(p): p.numel() for p in ours.undecayed()}
        assert sum(exempt.values()) == free
        assert sum(p.numel() for p in ours.parameters()) == decayed + free
