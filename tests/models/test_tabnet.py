"""TabNet against the official numbers, and laws of its steps and norms."""

from __future__ import annotations

import re

import pytest
import torch
from looped import each
from parity import assert_same, case, names
from small_tables import TINY, table
from tabsweep.models.registry import make_model
from tabsweep.models.tabnet import GhostNorm, TabNet, TabNetNetwork

PARITY = names("tabnet_*max")


def our_name(name: str, n_shared: int) -> str:
    """A parameter or buffer of the public package, by our name."""
    name = name.removeprefix("encoder.").replace(".bn.bn.", ".bn.")
    found = re.fullmatch(r"(initial_splitter|feat_transformers\.(\d+))\.(.*)", name)
    if found is None:
        for theirs, ours in (
            (r"initial_bn", "input_norm"),
            (r"att_transformers\.(\d+)\.fc\.weight", r"attention.\1"),
            (r"att_transformers\.(\d+)\.bn", r"norms.\1"),
            (r"final_mapping\.weight", "head"),
        ):
            name = re.sub(theirs, ours, name)
        return name
    step, rest = int(found[2] or -1) + 1, found[3]
    if "shared_layers" in rest:
        return f"shared.{rest.split('.')[2]}"
    kind, _, layer, what = rest.split(".", 3)
    if what == "fc.weight":
        return f"steps.{step}.own.{layer}" if kind == "specifics" else f"shared.{layer}"
    place = int(layer) + (n_shared if kind == "specifics" else 0)
    return what.replace("bn", f"steps.{step}.norms.{place}")


def network_of(meta, state) -> TabNetNetwork:
    """Ours, in float64, with the weights of the package's."""
    network = TabNetNetwork(
        n_numeric=meta["input_dim"], sizes=[], width=1, n_d=meta["n_d"], n_a=meta["n_a"],
        n_steps=meta["n_steps"], relaxation=meta["gamma"], n_shared=meta["n_shared"],
        n_own=meta["n_independent"], mask=meta["mask_type"], size=meta["virtual_batch_size"],
        momentum=meta["momentum"], input_norm=True, n_out=meta["output_dim"],
    ).double()  # fmt: skip
    network.load_state_dict({our_name(n, meta["n_shared"]): t for n, t in state.items()})
    return network


def codes_for(x: torch.Tensor) -> torch.Tensor:
    return torch.zeros(len(x), 0, dtype=torch.int64)


@each("name", PARITY)
def test_every_intermediate_and_output_is_the_official_one(name):
    given = case(name)
    m = given.meta
    state = {**given.under("param/"), **given.under("buffer/")}
    network = network_of(m, {n: torch.from_numpy(a) for n, a in state.items()}).eval()
    rows = given.tensor("in/x")
    out, entropy = network.with_entropy(rows, codes_for(rows))
    assert_same(
        out, given["out/logits"].squeeze(-1) if m["output_dim"] == 1 else given["out/logits"]
    )
    shipped = given["out/logits_as_shipped_float32_scale"]  # its factor sqrt(1/2) is a float32
    assert_same(out, shipped.squeeze(-1) if m["output_dim"] == 1 else shipped, 1e-5)
    assert_same(-entropy, given["out/sparsity"])
    assert_same(network.importance(rows, codes_for(rows)), given["out/explain"])
    assert torch.equal(network(rows, codes_for(rows)), out)


def test_a_ghost_batch_norm_is_the_official_one_and_moves_its_statistics_alike():
    given = case("tabnet_ghost_batchnorm")
    m = given.meta
    norm = GhostNorm(m["input_dim"], m["virtual_batch_size"], m["momentum"]).double()
    state = {**given.under("param/bn."), **given.under("buffer/bn.")}
    norm.load_state_dict({n: torch.from_numpy(a) for n, a in state.items()})
    assert_same(norm(given.tensor("in/x").t()).t(), given["out/y_train"])
    assert_same(norm.running_mean, given["out/running_mean"])
    assert_same(norm.running_var, given["out/running_var"])


# -- laws -----------------------------------------------------------------------------------------


def test_the_entropy_of_masks_weighs_in_the_loss_and_makes_them_sparser():
    frame, y = table("regression", 120)
    config = {**TINY["tabnet"], "n_steps": 2}

    def entropy(sparsity: float) -> float:
        fitted = make_model("tabnet", task="regression", **config, sparsity=sparsity)
        fitted.fit(frame, y)
        rows = fitted._rows(fitted.preprocessor_.transform(frame))
        with fitted._ready() as module:
            return float(module.with_entropy(*rows)[1])

    assert entropy(1.0) < 0.7 * entropy(0.0)


def test_an_epochs_rows_are_shared_out_evenly_among_its_batches():
    model = TabNet(task="binary", batch_size=1000)
    assert model.rows_a_batch(2600) == 868  # and not 867: four virtual batches of one size
    assert model.rows_a_batch(90) == 90
    auto = TabNet(task="binary")
    sizes = {n: auto.rows_a_batch(n) for n in (9, 600, 26_048, 53_588, 371_847)}
    assert sizes[9] == 9 and sizes[600] == 100
    for n, paper in ((26_048, 2048), (53_588, 8192), (371_847, 16_384)):
        assert abs(sizes[n] - paper) < 0.1 * paper


def test_the_rate_falls_by_the_decay_rate_in_so_many_steps():
    model = TabNet(task="binary", lr=0.02, decay_rate=0.5, decay_steps=100)
    model._steps_an_epoch = 1
    recipe = model._recipe()
    assert [recipe.rate(s) for s in (0, 100, 200)] == pytest.approx([0.02, 0.01, 0.005])
    assert recipe.rate(50) == pytest.approx(0.02 * 0.5**0.5) and recipe.clip_value == 2000.0
