"""FT-Transformer and AutoInt against RTDL's: outputs, and which weights decay."""

from __future__ import annotations

import torch
from looped import each
from parity import assert_same, case, names
from token_cases import inputs, loaded, made


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
