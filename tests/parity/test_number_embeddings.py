"""Embeddings of numbers against the authors' modules: bins, encodings, outputs and gradients.

Files and names: the folder that TABSWEEP_PARITY names. Everything is float64, the tolerance 1e-9.
The library makes its buffers in torch's default type, which is float64 here for that reason.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from looped import each
from parity import assert_same, assert_same_gradients, case, names
from tabsweep.models.deep.layers.number_embedding import Embedding, Inside, NumberVectors, edges_of

pytestmark = pytest.mark.usefixtures("double_by_default")


def bins_of(given):
    there = given.under("bins/")
    return [there[str(j)] for j in range(len(there))]


@each("name", names("ple_bins_*"))
def test_bins_and_encodings_are_the_official_ones(name):
    given, config = case(name), case(name).meta
    tree = {}
    if config["bins"] != "quantile":
        y, regression = given.tensor("in/y_train"), config["bins"] == "tree_regression"
        tree = {"y": y, "regression": regression, **config["tree_kwargs"]}
    found = edges_of(given.tensor("in/x_train"), config["n_bins"], **tree)
    for ours, theirs in zip(found, bins_of(given), strict=True):
        assert_same(ours, theirs)
    bins = [edges.numpy() for edges in found]
    vectors = Embedding("ple-quantile", 3).made(len(bins), bins).impl
    assert_same(vectors.weight, given["buffer/impl.weight"])
    assert_same(vectors.bias, given["buffer/impl.bias"])
    x = given.tensor("in/x")
    padded = vectors(Inside(bins)(x))
    assert_same(padded, given["out/encoding_padded"])
    flat = [
        torch.cat([padded[:, j, : len(b) - 2], padded[:, j, -1:]], dim=1)
        for j, b in enumerate(bins)
    ]
    assert_same(torch.cat(flat, dim=1), given["out/encoding"])
    at_edge = given["in/x_at_edge"]  # there the encoding has no fraction: each part is 0 or 1
    assert at_edge.any() and np.isin(given["out/encoding_padded"][at_edge].round(12), (0, 1)).all()


def embedding_of(config):
    kind = {"PeriodicEmbeddings": "plr", "PLREmbeddings": "plr", "LinearReLUEmbeddings": "linear"}
    if config["kind"] == "ple_emb":
        return Embedding(
            "ple-quantile",
            config["d_embedding"],
            activation=config["activation"],
            version=config["version"],
        )
    if kind[config["module"]] == "linear":
        return Embedding("linear-relu", config["d_embedding"])
    return Embedding(
        "plr-lite" if config["lite"] else "plr",
        config["d_embedding"],
        config["n_frequencies"],
        activation=config.get("activation", True),
    )


@each("name", names("ple_embedding_*", "plr_*"))
def test_vectors_and_their_gradients_are_the_official_ones(name):
    given = case(name)
    config, bins = given.meta, bins_of(given)
    x = given.tensor("in/x").requires_grad_()
    module = NumberVectors(embedding_of(config), x.shape[1], bins)
    official = {"0.frequencies": "periodic.weight", "1.weight": "linear.weight"}
    official["1.bias"] = "linear.bias"
    params = {official.get(n, n): torch.from_numpy(v) for n, v in given.under("param/").items()}
    assert {n for n, _ in module.vectors.named_parameters()} == set(params)
    module.vectors.load_state_dict(params, strict=False)
    out = module(x)
    assert_same(out, given["out/embedding"])
    if "act/encoding_padded" in given:
        assert_same(module.vectors.impl(module.inside(x)), given["act/encoding_padded"])
    if "act/periodic" in given:
        assert_same(module.vectors.periodic(x), given["act/periodic"])
    loss = (out * given.tensor("in/out_grad")).sum()
    assert_same(loss, given["out/loss"])
    loss.backward()
    assert_same_gradients(module.vectors, given.under("grad/"), lambda n: official.get(n, n))
    smooth = np.ones(x.shape, bool)
    if "in/x_at_edge" in given:
        smooth = ~given["in/x_at_edge"]
    assert_same(x.grad.numpy()[smooth], given["grad_in/x"][smooth])
