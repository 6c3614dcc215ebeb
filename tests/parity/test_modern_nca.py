"""ModernNCA against TALENT's module: outputs, losses and gradients.

Files and names: the folder that TABSWEEP_PARITY names. Everything is float64, the tolerance 1e-9.
"""

from __future__ import annotations

from functools import partial

import torch
from looped import each
from parity import assert_same, assert_same_gradients, assert_same_step, case, names, renamed
from tabsweep.models.deep.layers.number_embedding import Embedding, NumberVectors
from tabsweep.models.deep.row_network import Batch
from tabsweep.models.modern_nca import ModernNCA, NCANetwork, NCATask


def ours(name, n_blocks):
    """Our name of an official parameter or buffer."""
    table = (
        (r"num_embeddings\.0\.frequencies", "numbers.vectors.periodic.weight"),
        (r"num_embeddings\.1\.(\w+)", r"numbers.vectors.linear.\1"),
        (rf"post_encoder\.{n_blocks}\.(\w+)", r"norm.\1"),
        (r"post_encoder\.(\d)\.block\.0\.(\w+)", r"blocks.\1.norm.\2"),
        (r"post_encoder\.(\d)\.block\.1\.(\w+)", r"blocks.\1.linear0.\2"),
        (r"post_encoder\.(\d)\.block\.4\.(\w+)", r"blocks.\1.linear1.\2"),
    )
    return renamed(name, table)


def loaded(given):
    config = given.meta
    numbers = None
    if config["plr"] and config["n_num"]:
        kind = "plr-lite" if config["plr"]["lite"] else "plr"
        embedding = Embedding(kind, config["plr"]["d_embedding"], config["plr"]["n_frequencies"])
        numbers = NumberVectors(embedding, config["n_num"])
    module = NCANetwork(
        n_numeric=config["n_num"],
        sizes=config["cats"],
        n_out=0 if config["task"] == "regression" else config["d_out"],
        width=config["dim"],
        n_blocks=config["n_blocks"],
        hidden=config["d_block"],
        p=0.0,
        temperature=config["temperature"],
        numbers=numbers,
    ).double()
    state = {
        ours(n, config["n_blocks"]): torch.from_numpy(v)
        for kind in ("param/", "buffer/")
        for n, v in given.under(kind).items()
    }
    own = module.state_dict()
    assert {n for n in own if not n.endswith("num_batches_tracked")} == set(state)
    module.load_state_dict(state, strict=False)
    return module


def rows(given, name):
    """Rows whose 0/1 columns are turned back into codes."""
    x, n, codes = given.tensor(name), given.meta["n_num"], []
    at = n
    for size in given.meta["cats"]:
        codes.append(x[:, at : at + size].argmax(1))
        at += size
    codes = torch.stack(codes, 1) if codes else torch.empty(len(x), 0).long()
    assert torch.equal(torch.cat([x[:, :n], one_hot(given, codes)], 1), x)
    return Batch(x[:, :n], codes)


def one_hot(given, codes):
    sizes = given.meta["cats"]
    parts = [torch.nn.functional.one_hot(codes[:, j], n) for j, n in enumerate(sizes)]
    return torch.cat(parts, 1) if parts else codes.double()


CASES = names("mnca_*")


@each("name", CASES)
def test_a_training_step_is_the_official_one(name):
    given = case(name)
    modes = ["train", "train_eval_bn"] if given.meta["n_blocks"] else ["train"]
    for mode in modes:
        module = loaded(given).train(mode == "train")
        _step(given, module, mode)
        if mode == "train" and given.meta["n_blocks"]:
            after = given.under("out/train/buffer/")
            for n in after:
                assert_same(module.state_dict()[ours(n, given.meta["n_blocks"])], after[n])


def _step(given, module, mode):
    batch, more = (given.tensor(f"in/{kind}_index") for kind in ("batch", "candidate"))
    table = rows(given, "in/train_x")
    task = object.__new__(NCATask)  # its batch and candidates are the file's
    task.module, task.rows, task.targets = module, table, given.tensor("in/train_y")
    task.settings = ModernNCA(task=given.meta["task"], seed=0)
    task.batch, task.candidates = lambda step: batch, lambda rows, step: more
    assert_same_step(task, given, mode)
    gradients(given, module, mode)


def gradients(given, module, mode):
    names = partial(ours, n_blocks=given.meta["n_blocks"])
    assert_same_gradients(module, given.under(f"grad/{mode}/"), names)


@each("name", CASES)
def test_predictions_look_up_all_training_rows_as_the_official_ones_do(name):
    given = case(name)
    module, table = loaded(given).eval(), rows(given, "in/train_x")
    asked, targets = rows(given, "in/test_x"), given.tensor("in/train_y")
    module.remember(table, targets)
    out = module(*asked)
    assert_same(out, given["out/test/logits"])
    if module.n_out:
        assert_same(out.softmax(1), given["out/test/probabilities"])
    task = object.__new__(NCATask)
    task.settings = ModernNCA(task=given.meta["task"])
    loss = task.criterion(out, given.tensor("in/test_y"))
    assert_same(loss, given["out/test/loss"])
    loss.backward()
    gradients(given, module, "test")
