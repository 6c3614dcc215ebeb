"""Which weights decay in FT-Transformer and AutoInt, against RTDL's groups of parameters."""

from __future__ import annotations

from looped import each
from parity import case
from token_cases import made


@each("which", ["default100", "numcat_small", "linformer_small"])
def test_the_decayed_weights_of_ft_transformer_are_the_official_ones(which):
    given = case("rtdl_weight_decay_groups")
    config = given.meta[which]
    module = made(config)
    names, sizes = given[f"{which}/names"].tolist(), given[f"{which}/numel"].tolist()
    decayed = dict(zip(names, given[f"{which}/decayed"].tolist(), strict=True))
    spare = len(config["categories"] or []) * config["d_token"]  # a row for unseen levels each
    free = {id(p) for p in module.undecayed()}
    ours = dict(module.named_parameters())
    assert sum(p.numel() for p in ours.values()) == sum(sizes) + spare
    kept = [p.numel() for p in ours.values() if id(p) not in free]
    assert sum(kept) == sum(n for name, n in zip(names, sizes, strict=True) if decayed[name])
    assert decayed["last_normalization.weight"] and not decayed["layers.0.norm1.weight"]
    for name, parameter in ours.items():
        block = name.startswith("blocks.")
        exempt = name.endswith("bias") or name.startswith("tokens.") or (block and "norm" in name)
        assert (id(parameter) in free) == exempt, name


def test_the_decayed_weights_of_autoint_are_the_official_ones():
    given = case("rtdl_weight_decay_groups")
    config = given.meta["autoint_small"]
    module = made(config)
    sizes, decayed = given["autoint_small/numel"], given["autoint_small/decayed"]
    kept = [n for n, d in zip(given["autoint_small/names"].tolist(), decayed, strict=True) if d]
    assert "head.weight" in kept and not [n for n in kept if ".norm" in n or "tokenizer" in n]
    spare = len(config["categories"]) * config["d_token"]  # a row for unseen levels each
    free = {id(p) for p in module.undecayed()}
    ours = dict(module.named_parameters())
    assert sum(p.numel() for p in ours.values()) == sizes.sum() + spare
    assert sum(p.numel() for p in ours.values() if id(p) not in free) == sizes[decayed].sum()
    for name, parameter in ours.items():
        exempt = name.endswith("bias") or name.startswith("tokens.") or ".norm." in name
        assert (id(parameter) in free) == exempt, name
