"""SAINT against the authors' code, with its weights.

Files and names: the folder that TABSWEEP_PARITY names. Everything is float64, the tolerance 1e-9.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch
from looped import each
from parity import assert_same, case, names
from tabsweep.models.saint.network import HEAD, Cells, Embedding, Layer, SAINTNetwork
from tabsweep.models.saint.pretext import (
    CONTRASTIVE,
    LOG_LOSS,
    SQUARED,
    Damage,
    Pretext,
    cutmix,
    losses,
)

LAYER = {
    "norm_in": "{0}.norm",
    "attention.qkv": "{0}.fn.fn.to_qkv",
    "attention.out": "{0}.fn.fn.to_out",
    "norm_ff": "{1}.norm",
    "feed_forward.widen": "{1}.fn.fn.net.0",
    "feed_forward.narrow": "{1}.fn.fn.net.3",
}


def official(given, first, ours=""):
    """Weights of one layer: theirs are two modules, `first` the number of the first."""
    block, at = first.rpartition(".")[0], int(first.rpartition(".")[2])
    found = {}
    for own, theirs in LAYER.items():
        for kind in ("weight", "bias"):
            name = f"param/{theirs.format(f'{block}.{at}', f'{block}.{at + 1}')}.{kind}"
            if name in given:
                found[f"{ours}{own}.{kind}"] = given.tensor(name)
    return found


def stacked(given, names, kind):
    return torch.stack([given.tensor(f"param/{name}.{kind}") for name in names])


def embedding_of(given, levels):
    """The weights of the tokens. Ours has a row more for each categorical column: NaN, so that none
    is read. Theirs counts [CLS] as a category, and has a second, unused vector for a missing cell.
    """
    meta = given.meta
    sizes, n = meta["categories"][1:], meta["num_continuous"]
    theirs, missing = given.tensor("param/embeds.weight"), "param/mask_embeds_{}.weight"
    assert list(given["buffer/categories_offset"]) == [0, *np.cumsum(meta["categories"])[:-1]]
    rows = torch.full((sum(sizes) + len(sizes), meta["dim"]), torch.nan, dtype=torch.float64)
    for j, (a, b) in enumerate(pairwise(np.cumsum(meta["categories"]))):
        rows[a - 1 + j : b - 1 + j] = theirs[a:b]
    gone = [given.tensor(missing.format(kind))[::2] for kind in ("cat", "cont")]
    first = [f"simple_MLP.{j}.layers.0" for j in range(n)]
    second = [f"simple_MLP.{j}.layers.2" for j in range(n)]
    assert levels == sizes
    return {
        "cls": theirs[0],
        "categories.weight": rows,
        "missing": torch.cat([gone[0][1:], gone[1]]),
        "weight_in": stacked(given, first, "weight")[..., 0],
        "bias_in": stacked(given, first, "bias"),
        "weight_out": stacked(given, second, "weight").transpose(1, 2),
        "bias_out": stacked(given, second, "bias")[:, None],
    }


def network_of(given, gaps=()):
    meta = given.meta
    levels = meta["categories"][1:]
    embedding = Embedding(meta["num_continuous"], levels, meta["dim"], gaps=gaps)
    module = SAINTNetwork(
        embedding,
        style=meta["attentiontype"],
        n_layers=meta["depth"],
        n_heads=meta["heads"],
        attention="softmax",
        order=5,
        p=0.8,
        hidden=len(given.get("param/mlpfory.layers.0.weight", range(1000))),
        n_out=meta["y_dim"],
    ).double()
    state = {f"embedding.{n}": t for n, t in embedding_of(given, levels).items()}
    for i in range(len(module.layers)):
        depth, first = divmod(2 * i, 4 if meta["attentiontype"] == "colrow" else 2)
        state |= official(given, f"transformer.layers.{depth}.{first}", f"layers.{i}.")
    for own, at in (("widen", 0), ("head", 2)):
        for kind in ("weight", "bias"):
            name = f"param/mlpfory.layers.{at}.{kind}"
            state[f"{own}.{kind}"] = (
                given.tensor(name)
                if name in given
                else torch.zeros_like(module.get_parameter(f"{own}.{kind}"))
            )
    module.load_state_dict(state)
    return module.eval()


def cells_of(given):
    """The table of a file without its first category, which is [CLS]."""
    codes = given.tensor("in/x_categ")
    assert not codes[:, 0].any()
    missing = torch.cat([given.tensor("in/cat_mask")[:, 1:], given.tensor("in/con_mask")], dim=1)
    return Cells(given.tensor("in/x_cont"), codes[:, 1:], missing == 0)


@each("name", names("saint_*_block"))
def test_a_layer_between_columns_or_rows_is_the_official_one(name):
    given, kind = case(name), name.split("_")[1]
    meta, x = given.meta, given.tensor("in/tokens")
    assert meta["dim_head"] == HEAD[kind]
    shape = x.shape if kind == "column" else (1, len(x), meta["n_tokens"] * meta["dim"])
    layer = Layer(
        shape[2], n_heads=meta["heads"], d_head=HEAD[kind], attention="softmax", order=5,
        p_attention=0.0, p_ffn=0.0,
    ).double()  # fmt: skip
    layer.load_state_dict(official(given, "layers.0.0"))
    assert_same(layer(x.view(shape)).view(x.shape), given["out/tokens"])
    if kind == "row":
        changed = layer(given.tensor("in/tokens_row0_changed").view(shape)).view(x.shape)
        assert_same(changed, given["out/tokens_row0_changed"])
        assert ((changed - layer(x.view(shape)).view(x.shape)).abs().amax(dim=(1, 2)) > 1e-3).all()


@each("name", names("saint_*_model"))
def test_tokens_and_logits_are_the_official_ones(name):
    given = case(name)
    module, cells = network_of(given), cells_of(given)
    assert cells.missing.any() and not cells.missing.all()
    x = module.encode(module.embedding(cells)[None])
    assert_same(x, given["out/tokens"][None])
    logits = module.read(x[0])
    assert_same(logits if logits.dim() == 2 else logits[:, None], given["out/logits"])


def pretext_of(given, module):
    """Its own weights; a level to spare has the logit -1e30, so that it is never told."""
    n, sizes = given.meta["num_continuous"], given.meta["categories"][1:]
    columns = [f"mlp1.layers.{j + 1}" for j in range(len(sizes))]
    columns += [f"mlp2.layers.{j}" for j in range(n)]
    first = [f"{name}.layers.0" for name in columns]
    pretext = Pretext(module.embedding).double()
    state = {
        "weight": stacked(given, first, "weight").transpose(1, 2),
        "bias": stacked(given, first, "bias")[:, None],
    }
    weights, biases = [], []
    for j, name in enumerate(columns):
        spare = int(j < len(sizes))
        weight, bias = (given.tensor(f"param/{name}.layers.2.{k}") for k in ("weight", "bias"))
        weights += [weight, weight.new_zeros(spare, weight.shape[1])]
        biases += [bias, bias.new_full((spare,), -1e30)]
    state |= {"decoder.weight": torch.cat(weights), "decoder.bias": torch.cat(biases)}
    for own, theirs in (("clean", "pt_mlp"), ("damaged", "pt_mlp2")):
        for at in (0, 2):
            for kind in ("weight", "bias"):
                state[f"{own}.{at}.{kind}"] = given.tensor(f"param/{theirs}.layers.{at}.{kind}")
    pretext.load_state_dict(state)
    return pretext


def test_a_step_of_pretraining_is_the_official_one():
    given = case("saint_pretraining")
    meta = given.meta
    module, cells = network_of(given), cells_of(given)
    pretext = pretext_of(given, module)
    kept = torch.cat(
        [given.tensor("aug/cutmix_keep_categ")[:, 1:], given.tensor("aug/cutmix_keep_cont")], dim=1
    )
    damage = Damage(
        given.tensor("aug/cutmix_permutation"), kept == 0, given.tensor("aug/mixup_permutation"),
        meta["mixup_lam"],
    )  # fmt: skip
    changed = cutmix(cells, damage)
    assert_same(changed.codes, given["aug/x_categ_cutmix"][:, 1:])
    assert_same(changed.numbers, given["aug/x_cont_cutmix"])
    found = losses(module, pretext, cells, damage, temperature=meta["nce_temp"])
    both = given["out/loss_clean_to_corrupted"] + given["out/loss_corrupted_to_clean"]
    assert_same(found[0], both / 2)
    assert_same(found[1], given["out/denoise_ce_per_column"].sum())
    assert_same(found[2], given["out/denoise_mse"])
    assert (CONTRASTIVE, LOG_LOSS, SQUARED) == (meta["lam0"], meta["lam2"], meta["lam3"])
    assert_same(CONTRASTIVE * found[0], given["out/contrastive_weighted"])
    assert_same(LOG_LOSS * found[1] + SQUARED * found[2], given["out/denoise_weighted"])
    total = CONTRASTIVE * found[0] + LOG_LOSS * found[1] + SQUARED * found[2]
    assert_same(total, given["out/total"])
    assert_same(total, given["out/total_official_loop"])
