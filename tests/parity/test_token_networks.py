"""FT-Transformer, AutoInt and TabTransformer against the official modules."""

from __future__ import annotations

import torch
from looped import each
from parity import assert_same, case, names
from tabsweep.models.tabtransformer import Block, Embedding, TabTransformerNetwork
from token_cases import inputs, loaded, made, put_categories


@each("name", names("rtdl_autoint_*", "rtdl_ftt_*"))
def test_outputs_are_the_official_ones(name):
    given = case(name)
    with torch.no_grad():
        assert_same(loaded(given)(*inputs(given)), given["out/logits"])


def test_the_decayed_weights_are_the_official_ones():
    given = case("rtdl_weight_decay_groups")
    for which, config in given.meta.items():
        module = made(config)
        sizes, decayed = given[f"{which}/numel"], given[f"{which}/decayed"]
        theirs = dict(zip(given[f"{which}/names"].tolist(), decayed.tolist(), strict=True))
        spare = len(config["categories"] or []) * config["d_token"]  # a row for unseen levels each
        free, ours = {id(p) for p in module.undecayed()}, dict(module.named_parameters())
        assert sum(p.numel() for p in ours.values()) == sizes.sum() + spare
        assert sum(p.numel() for p in ours.values() if id(p) not in free) == sizes[decayed].sum()
        # of norms, only the last of FT-Transformer decays, as officially
        assert theirs["head.weight"] and theirs.get("last_normalization.weight", True)
        for name, parameter in ours.items():
            norm = ".norm" in name and name.startswith("blocks.")
            exempt = name.endswith("bias") or name.startswith("tokens.") or norm
            assert (id(parameter) in free) == exempt, name


# -- TabTransformer --

PARTS = {  # official layer -> ours, both versions
    "to_qkv": "attention.qkv",
    "to_out": "attention.out",
    "net.0": "feed_forward.widen",
    "net.3": "feed_forward.narrow",
}


def tabtransformer(given):
    """Our network with the weights of a file: only categories are tokens."""
    config = given.meta
    shared = given.get("param/shared_category_embed")
    identity = 0 if shared is None else shared.shape[1]
    layers = {n: a for n, a in given.under("param/mlp.mlp.").items() if n.endswith("weight")}
    widths = [len(layer) for layer in layers.values()][:-1]
    sizes, width, n = config["categories"], config["dim"], config["num_continuous"]
    tokens = Embedding(n, sizes, width, numeric=False, identity=identity)
    qkv = next(a for n, a in given.under("param/").items() if n.endswith("to_qkv.weight"))
    heads = {"n_heads": config["heads"], "d_head": len(qkv) // (3 * config["heads"])}
    blocks = [
        Block(width, **heads, attention="softmax", order=1, p_attention=0.0, p_ffn=0.0)
        for _ in range(config["depth"])
    ]
    out = config["dim_out"]
    module = (
        TabTransformerNetwork(tokens, blocks, n_numeric=n, widths=widths, n_out=out).double().eval()
    )
    unseen = {name for name, _ in module.named_parameters()}
    offsets = given["buffer/categories_offset"]
    assert offsets[0] == 2  # of the two special rows
    for name, array in given.under("param/").items():
        value = torch.from_numpy(array)
        if name in ("transformer.embeds.weight", "category_embed.weight"):
            tables = [value[at : at + n] for at, n in zip(offsets, sizes, strict=True)]
            put_categories(tokens.cells, tables)
            unseen.discard("tokens.cells.categories.weight")
        else:
            module.get_parameter(tabtransformer_name(name)).data.copy_(value)
            unseen.remove(tabtransformer_name(name))
    assert unseen == {"tokens.cells.weight"} and not tokens.cells.weight.numel()
    return module


def tabtransformer_name(name):
    """Our name of an official parameter."""
    parts = name.split(".")
    if name == "shared_category_embed":
        return "tokens.columns"
    if parts[0] == "mlp":
        return f"{['hidden.0', 'hidden.1', 'head'][int(parts[2]) // 2]}.{parts[3]}"
    if parts[0] == "norm":
        return name
    _, _, layer, half, *rest = parts
    inner = ".".join(part for part in rest[:-1] if part != "fn")
    norm = ["norm_in", "norm_ff"][int(half)]
    return f"blocks.{layer}.{norm if inner == 'norm' else PARTS[inner]}.{parts[-1]}"


@each("name", names("tabtransformer_*"))
def test_outputs_of_tabtransformer_are_the_official_ones(name):
    given = case(name)
    module, numbers, codes = (
        tabtransformer(given),
        given.tensor("in/x_cont"),
        given.tensor("in/x_categ"),
    )
    if "buffer/continuous_mean_std" in given:  # what our preprocessing does
        mean, std = given.tensor("buffer/continuous_mean_std").T
        numbers = (numbers - mean) / std
    with torch.no_grad():
        out = module(numbers, codes)
    for key in ("out/last_linear", "out/logits"):
        assert_same(out.view(given[key].shape), given[key])
