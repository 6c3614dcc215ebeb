"""TabM against the authors' modules: outputs, losses and gradients.

Files and names: the folder that TABSWEEP_PARITY names. Everything is float64, the tolerance 1e-9.
"""

from __future__ import annotations

import pytest
import torch
from looped import each
from parity import assert_same, assert_same_gradients, case, names
from tabsweep.models.deep.layers.number_embedding import Embedding
from tabsweep.models.tabm import TabMNetwork, mean_loss

pytestmark = pytest.mark.usefixtures("double_by_default")


def embedding_of(config):
    made = config["embeddings"]
    if made is None:
        return None
    if made["type"] == "piecewise-linear":
        activation = made["activation"]
        return Embedding("ple-quantile", made["d_embedding"], activation=activation, version="B")
    kind = {True: "plr-lite", False: "plr"}[made["lite"]]
    return Embedding(kind, made["d_embedding"], made["n_frequencies"])


def loaded(given):
    config, bins = given.meta, given.under("bins/")
    module = TabMNetwork(
        n_numeric=config["n_num"],
        sizes=config["cats"],
        n_out=0 if config["task"] == "regression" else config["d_out"],
        k=config["k"],
        n_blocks=config["n_blocks"],
        width=config["d_block"],
        p=0.0,
        variant=config["arch_type"].removeprefix("tabm-"),
        embedding=embedding_of(config),
        bins=[bins[str(j)] for j in range(len(bins))],
    )
    params = {n: torch.from_numpy(v) for n, v in given.under("param/").items()}
    assert {n for n, _ in module.layers.named_parameters()} == set(params)
    module.layers.load_state_dict(params, strict=False)
    return module


@each("name", names("tabm_*"))
def test_members_losses_gradients_and_the_ensemble_are_the_official_ones(name):
    given = case(name)
    module, config = loaded(given), given.meta
    y = given.tensor("in/y")
    n = y.shape[:2] if config["separate_batches"] else y.shape[:1]
    numbers = given.tensor("in/x_num") if "in/x_num" in given else torch.empty(*n, 0)
    codes = given.tensor("in/x_cat") if "in/x_cat" in given else torch.empty(*n, 0).long()
    out = module.members(numbers, codes)
    assert_same(out if module.n_out else out[..., None], given["out/logits"])
    loss = mean_loss(out, y)
    assert_same(loss, given["out/loss"])
    one = [mean_loss(out[:, [i]], y[:, [i]] if y.dim() == 2 else y) for i in range(config["k"])]
    assert_same(torch.stack(one), given["out/loss_per_member"])
    loss.backward()
    assert_same_gradients(module.layers, given.under("grad/"))
    if not config["separate_batches"]:
        mean = module(numbers, codes)
        assert_same(mean.exp() if module.n_out else mean, given["out/mean_prediction"])
