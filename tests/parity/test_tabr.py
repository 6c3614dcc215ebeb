"""TabR against the authors' module: outputs, losses and gradients.

Files and names: the folder that TABSWEEP_PARITY names. Everything is float64, the tolerance 1e-9.
"""

from __future__ import annotations

from functools import partial

import torch
from looped import each
from parity import assert_same, assert_same_gradients, assert_same_step, case, names, renamed
from tabsweep.models.deep.layers.number_embedding import Embedding, NumberVectors
from tabsweep.models.deep.row_network import Batch
from tabsweep.models.tabr import TabR, TabRNetwork, TabRTask

RENAMED = (
    (r"num_embeddings\.0\.frequencies", "numbers.vectors.periodic.weight"),
    (r"num_embeddings\.1\.(\w+)", r"numbers.vectors.linear.\1"),
    (r"normalization\.(\w+)", r"norm.\1"),
    (r"label_encoder\.(?:0\.)?(\w+)", r"label.\1"),
    (r"K\.(\w+)", r"to_key.\1"),
    (r"T\.0\.(\w+)", r"change0.\1"),
    (r"T\.3\.(\w+)", r"change1.\1"),
    (r"blocks0\.0\.0\.(\w+)", r"encoder.0.linear0.\1"),
    (r"blocks0\.0\.3\.(\w+)", r"encoder.0.linear1.\1"),
    (r"blocks0\.(\d)\.0\.(\w+)", r"encoder.\1.norm.\2"),
    (r"blocks0\.(\d)\.1\.(\w+)", r"encoder.\1.linear0.\2"),
    (r"blocks0\.(\d)\.4\.(\w+)", r"encoder.\1.linear1.\2"),
    (r"blocks1\.(\d)\.0\.(\w+)", r"predictor.\1.norm.\2"),
    (r"blocks1\.(\d)\.1\.(\w+)", r"predictor.\1.linear0.\2"),
    (r"blocks1\.(\d)\.4\.(\w+)", r"predictor.\1.linear1.\2"),
    (r"head\.0\.(\w+)", r"head_norm.\1"),
    (r"head\.2\.(\w+)", r"head.\1"),
)
ours = partial(renamed, table=RENAMED)


def loaded(given):
    config = given.meta
    numbers = None
    if config["plr"]:
        embedding = Embedding(
            "plr-lite", config["plr"]["d_embedding"], config["plr"]["n_frequencies"]
        )
        numbers = NumberVectors(embedding, config["n_num"])
    classes = config["n_classes"] or 0
    module = TabRNetwork(
        n_numeric=config["n_num"],
        sizes=[1] * config["n_bin"] + config["cats"],
        n_classes=classes,
        n_out=classes if classes > 2 else 1,
        width=config["d_main"],
        hidden=int(config["d_main"] * config["d_multiplier"]),
        n_encoder=config["encoder_n_blocks"],
        n_predictor=config["predictor_n_blocks"],
        context_size=config["context_size"],
        p_context=0.0,
        p_hidden=0.0,
        p_out=0.0,
        numbers=numbers,
    ).double()
    state = {ours(n): torch.from_numpy(v) for n, v in given.under("param/").items()}
    module.load_state_dict(state)
    return module


def rows(given, part):
    """A 0/1 column is a category with one known level, which stands where the column is 1."""
    y, parts = given.tensor(f"in/{part}_y"), []
    if f"in/{part}_bin" in given:
        parts.append(1 - given.tensor(f"in/{part}_bin").long())
    if f"in/{part}_cat" in given:
        parts.append(given.tensor(f"in/{part}_cat"))
    codes = torch.cat(parts, 1) if parts else torch.empty(len(y), 0).long()
    return Batch(given.tensor(f"in/{part}_num"), codes), y


def task_of(config):
    classes = config["n_classes"] or 0
    return "regression" if not classes else "binary" if classes == 2 else "multiclass"


CASES = names("tabr_*")


@each("name", CASES)
def test_a_training_step_is_the_official_one(name):
    given = case(name)
    module, (table, y), batch = loaded(given), rows(given, "train"), given.tensor("in/batch_index")
    task = object.__new__(TabRTask)  # its batch is the file's
    task.module, task.rows, task.targets = module, table, y
    task.settings = TabR(task=task_of(given.meta), seed=0)
    task.batch = lambda step: batch
    assert_same_step(task, given, "train")
    assert_same_gradients(module, given.under("grad/train/"), ours)


@each("name", CASES)
def test_predictions_read_all_training_rows_as_the_official_ones_do(name):
    given = case(name)
    module, (table, y), (asked, wanted) = loaded(given), rows(given, "train"), rows(given, "test")
    module.remember(table, y)
    out = module(*asked)
    assert_same(out, given["out/test/logits"])
    task = object.__new__(TabRTask)
    task.settings = TabR(task=task_of(given.meta))
    loss = task.criterion(out, wanted)
    assert_same(loss, given["out/test/loss"])
    loss.backward()
    assert_same_gradients(module, given.under("grad/test/"), ours)
