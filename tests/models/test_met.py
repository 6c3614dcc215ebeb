"""MET against the official numbers, and laws of its pre-training."""

from __future__ import annotations

import numpy as np
import torch
from looped import each
from parity import Case, assert_same, case
from small_tables import small_task
from tabsweep.models.met import RADIUS, Block, Decoder, METNetwork, METTask, visible_count
from tabsweep.models.registry import defaults

DENSE = {"ffn0": "widen", "ffn1": "narrow"}
NORM = {"layernorm1": "norm_in", "layernorm2": "norm_ff"}


def block_of(given: Case, name: str) -> Block:
    """Ours, in float64, with the weights of a block of Keras."""
    m = given.meta
    width = m["embed_dim"] + 1
    block = Block(
        width, m["ff_dim"], n_heads=m["num_heads"], attention="softmax", order=1, p=0.1
    ).double()
    theirs = given.under(f"param/{name}.")
    parts = [theirs[f"{part}.kernel"].reshape(width, -1).T for part in ("query", "key", "value")]
    biases = [theirs[f"{part}.bias"].ravel() for part in ("query", "key", "value")]
    state = {
        "attention.qkv.weight": np.vstack(parts),
        "attention.qkv.bias": np.concatenate(biases),
        "attention.out.weight": theirs["out.kernel"].reshape(-1, width).T,
        "attention.out.bias": theirs["out.bias"],
    }
    for key, ours in DENSE.items():
        state[f"{ours}.weight"] = theirs[f"{key}.kernel"].T
        state[f"{ours}.bias"] = theirs[f"{key}.bias"]
    for key, ours in NORM.items():
        state[f"{ours}.weight"] = theirs[f"{key}.gamma"]
        state[f"{ours}.bias"] = theirs[f"{key}.beta"]
    block.load_state_dict({n: torch.from_numpy(np.ascontiguousarray(a)) for n, a in state.items()})
    return block


def official() -> tuple[Case, METNetwork, Decoder]:
    """The file, and our encoder and decoder with its weights."""
    given = case("met_reconstruction")
    m = given.meta
    network = METNetwork(
        [block_of(given, f"encoder{i}") for i in range(m["enc"])],
        n_numeric=m["n_features"], n_categories=0, embedding=m["embed_dim"], hidden=4, n_out=1,
    ).double()  # fmt: skip
    network.columns.data = given.tensor("param/pos_emb")
    blocks = [block_of(given, f"decoder{i}") for i in range(m["dec"])]
    decoder = Decoder(blocks, m["embed_dim"] + 1).double()
    absent = given["param/mask.kernel"].sum() + given["param/mask.bias"]
    decoder.absent.data = torch.from_numpy(absent)
    decoder.value.weight.data = given.tensor("param/pred.kernel").T
    decoder.value.bias.data = given.tensor("param/pred.bias")
    return given, network, decoder


def test_the_reconstruction_and_its_loss_are_the_official_ones():
    given, network, decoder = official()
    network.pretext = decoder
    seen, masked = (given.tensor(f"in/{n}_index") for n in ("visible", "masked"))
    places = torch.cat([seen, masked], dim=1)
    wanted, n = given.tensor("in/x").gather(1, places), seen.shape[1]
    assert visible_count(places.shape[1], given.meta["mask_pct"]) == n
    encoded = network.encode(wanted[:, :n], network.columns[seen])
    assert_same(decoder(encoded, network.columns[masked]), given["out/reconstruction"][..., 0])
    assert_same(wanted, given["out/target"][..., 0])
    task = METTask.__new__(METTask)
    task.module = network
    network.blocks.apply(undropped), decoder.blocks.apply(undropped)
    found = task._lost(wanted[:, :n], places, wanted, (0, 0))
    assert_same(found, given["out/loss"], 1e-6)  # a training step computes its loss in float32


def undropped(module: torch.nn.Module) -> None:
    if isinstance(module, Block):
        module.p = 0.0


# -- laws -----------------------------------------------------------------------------------------


def task_of(name: str = "met", **config) -> METTask:
    """A task on a table of five numbers (one says where another is missing) and a category."""
    return small_task(name, "regression", batch_size=16, **config)


def test_a_rows_columns_are_all_there_once_and_the_visible_ones_stand_in_order():
    task = task_of(mask_percent=50)
    values = task.module.values(*task.rows)
    places = task._places(values, 3).numpy()
    assert (np.sort(places, axis=1) == np.arange(6)).all()
    assert (np.diff(places[:, :3]) > 0).all() and (np.diff(places[:, 3:]) > 0).all()
    assert len(np.unique(places[:, :3], axis=0)) > 10  # a draw for each row
    assert (task._places(values, 3).numpy() == places).all()
    assert (task._places(values, 4).numpy() != places).any()


@each("name", ["met", "met-cheatt"])
def test_a_masked_column_never_reaches_the_encoder(name):
    task = task_of(name, mask_percent=50)
    values = task.module.values(*task.rows)
    places = task._places(values, 0)
    wanted = values.gather(1, places)
    wanted.requires_grad_()
    encoded = task.module.encode(wanted[:, :3], task.module.columns[places[:, :3]], (0, 0))
    (slope,) = torch.autograd.grad(encoded.square().sum(), wanted)
    assert (slope[:, :3] != 0).any() and not slope[:, 3:].any()
    # and the reconstruction depends on what is hidden by the target alone
    hidden = wanted.detach().clone()
    hidden[:, 3:] = 99.0
    seed = (0, 0)
    outs = []
    for x in (wanted.detach(), hidden):
        encoded = task.module.encode(x[:, :3], task.module.columns[places[:, :3]], seed)
        outs.append(task.module.pretext(encoded, task.module.columns[places[:, 3:]], seed))
    assert torch.equal(*outs)


def test_an_adversary_stays_in_its_ball_and_climbs_from_where_it_starts(monkeypatch):
    task = task_of(mask_percent=30, dropout=0.0, pretrain_epochs=4)
    places = task._places(task.module.values(*task.rows), 0)
    wanted = task.module.values(*task.rows).gather(1, places)
    visible = wanted[:, :4]
    before = [p.clone() for p in task.module.parameters()]
    other = task._adversary(visible, places, wanted, 0)
    length = (other - visible).norm(dim=1)
    assert (length <= RADIUS * (1 + 1e-5)).all() and (length > 0).all()
    assert not other.requires_grad and all(p.grad is None for p in task.module.parameters())
    assert all(torch.equal(a, b) for a, b in zip(before, task.module.parameters(), strict=True))
    assert torch.equal(other, task._adversary(visible, places, wanted, 0))
    monkeypatch.setattr("tabsweep.models.met.ASCENT", 0.0)
    start = task._adversary(visible, places, wanted, 0)
    lost = [float(task._lost(x, places, wanted, (0, 0)).detach()) for x in (start, other)]
    assert lost[1] > lost[0]


def test_every_second_step_is_adversarial_from_its_epoch_on():
    task = task_of(adversarial_from=2, pretrain_epochs=4)
    assert task.unit == 4
    assert [s for s in range(16) if task._is_adversarial(s)] == [9, 11, 13, 15]
    assert defaults("met")["adversarial_from"] == 10
