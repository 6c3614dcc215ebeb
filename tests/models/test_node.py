"""NODE's trees against the official numbers and the paper."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import torch
from looped import each
from parity import assert_same, case, names
from small_tables import TINY, table
from tabsweep.models import node
from tabsweep.models.deep.row_network import Batch
from tabsweep.models.node import Layer, NODENetwork, _Leaves
from tabsweep.models.registry import make_model

CHOICE = {"entmax15": "entmax", "sparsemax": "sparsemax"}
LAYERS = names("node_odst_*")
DENSE = names("node_dense*")


def filled(layer: Layer, given, prefix: str = "") -> Layer:
    """A layer with official weights: theirs has the features first."""
    names = {
        "selection": given.tensor(f"param/{prefix}feature_selection_logits").permute(1, 2, 0),
        "thresholds": given.tensor(f"param/{prefix}feature_thresholds"),
        "log_temperatures": given.tensor(f"param/{prefix}log_temperatures"),
        "response": given.tensor(f"param/{prefix}response"),
    }
    layer.double().load_state_dict({n: t.contiguous() for n, t in names.items()})
    return layer


def one_layer(name: str):
    given = case(name)
    m = given.meta
    sizes = (m["in_features"], m["num_trees"], m["depth"], m["tree_dim"])
    return filled(Layer(*sizes, CHOICE[m["choice"]]), given), given


@each("name", LAYERS)
def test_a_layer_is_the_official_one(name):
    layer, given = one_layer(name)
    x = given.tensor("in/x").t().contiguous()
    assert_same(layer(x).permute(2, 0, 1), given["out/y"])


@each("name", LAYERS)
def test_a_layer_starts_as_the_official_one(name):
    layer, given = one_layer(name)
    layer.start(given.tensor("in/x_init").t().contiguous(), given.tensor("init/quantile_levels"))
    assert_same(layer.thresholds, given["param/feature_thresholds"])
    assert_same(layer.log_temperatures, given["init/log_temperatures"])


@each("name", DENSE)
def test_the_network_starts_and_answers_as_the_official_one(name, monkeypatch):
    given = case(name)
    m = given.meta
    sizes = m["categories"] or []
    network = NODENetwork(
        n_numeric=m["d_in"], sizes=sizes, width=m["d_embedding"], n_layers=m["num_layers"],
        n_trees=m["layer_dim"], depth=m["depth"], tree_dim=m["tree_dim"], choice="entmax",
        n_out=m["d_out"],
    ).double()  # fmt: skip
    if sizes:  # ours has one row more for each column
        starts = network.input.categories.offsets - torch.arange(len(sizes))
        assert starts.tolist() == given["buffer/category_offsets"].tolist()
        rows = network.input.categories.offsets[:, None] + torch.arange(max(sizes))
        ours = torch.cat([r[:n] for r, n in zip(rows, sizes, strict=True)])
        theirs = given.tensor("param/category_embeddings.weight")
        network.input.categories.weight.data[ours] = theirs
    for i, layer in enumerate(network.layers):
        filled(layer, given, f"block.{i}.")
        layer.thresholds.data.zero_()
        layer.log_temperatures.data.zero_()

    def rows_of(suffix: str) -> Batch:
        numbers = given.tensor(f"in/x_num{suffix}")
        codes = given.tensor(f"in/x_cat{suffix}") if sizes else torch.zeros(len(numbers), 0).long()
        return Batch(numbers, codes)

    levels = [given[f"init/quantile_levels_{i}"] for i in range(m["num_layers"])]
    drawn = SimpleNamespace(uniform=lambda size: levels.pop(0))
    monkeypatch.setattr(node.np.random, "default_rng", lambda seed: drawn)
    network.start(rows_of("_init"), 0)
    for i, layer in enumerate(network.layers):
        assert_same(layer.thresholds, given[f"param/block.{i}.feature_thresholds"])
        assert_same(layer.log_temperatures, given[f"param/block.{i}.log_temperatures"])
    assert_same(network(*rows_of("")), given["out/logits"])


# -- laws -----------------------------------------------------------------------------------------


def test_the_thresholds_at_the_start_are_drawn_by_the_seed():
    network = NODENetwork(
        n_numeric=4, sizes=[3], width=2, n_layers=2, n_trees=80, depth=3, tree_dim=2,
        choice="sparsemax", n_out=1,
    )  # fmt: skip
    rows = Batch(torch.randn(50, 4), torch.randint(0, 4, (50, 1)))
    drawn = []
    for seed in (5, 5, 6):
        network.start(rows, seed)
        drawn.append(network.layers[1].thresholds.clone())
    assert torch.equal(*drawn[:2]) and not torch.equal(*drawn[1:])


def plain(p: torch.Tensor, response: torch.Tensor) -> torch.Tensor:
    """The sum over leaves, with all weights at hand."""
    weights = torch.ones_like(p[:, :1])
    for d in range(p.shape[1]):
        q = p[:, d : d + 1]
        weights = torch.cat([weights * q, weights * (1 - q)], dim=1)
    return response @ weights


@each(("depth", "m"), [(1, 1), (3, 2), (5, 40), (6, 2)])
@each("room", [1, 10**9])
def test_trees_in_blocks_give_what_all_leaves_at_once_give(depth, m, room):
    p = torch.rand(5, depth, 6).double().requires_grad_()
    response = torch.randn(5, m, 2**depth).double().requires_grad_()
    grad = torch.randn(5, m, 6).double()
    ours, theirs = _Leaves.apply(p, response, room), plain(p, response)
    assert torch.allclose(ours, theirs, atol=1e-12)
    for a, b in zip(
        torch.autograd.grad(ours, (p, response), grad),
        torch.autograd.grad(theirs, (p, response), grad),
        strict=True,
    ):
        assert torch.allclose(a, b, atol=1e-12)


def test_a_tree_has_an_answer_for_each_class_and_a_layer_its_share_of_the_trees():
    frame, y = table("multiclass")
    config = {**TINY["node"], "epochs": 1, "n_layers": 3, "n_trees": 10, "tree_dim": 2}
    fitted = make_model("node", task="multiclass", **config).fit(frame, y)
    weights = fitted.model_["weights"]
    assert [weights[f"layers.{i}.response"].shape for i in range(3)] == [(3, 3, 8)] * 3
    inputs = [weights[f"layers.{i}.selection"].shape[2] for i in range(3)]
    assert np.diff(inputs).tolist() == [9, 9]
