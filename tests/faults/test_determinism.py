"""A sweep is a pure function of its suite: not of its workers, and not of who killed it when."""

from __future__ import annotations

import random
import time

import pytest
from chaos import Sweep, kill_all, kill_worker
from tabsweep.benchmark.results.evidence_builder import load_results

N_TRIALS = 3 * 2 * (3 * 4 + 12)  # datasets x folds x (three tuned models, 11 networks, constant)
SUITE = """
name = "reduced"
title = "A reduced suite for the determinism test"
datasets = ["breast-cancer-wdbc", "diabetes", "wine"]

[budgets.quick]
models = [
    "constant", "linear", "knn", "lightgbm", "npt", "hopular", "ft-transformer", "resnet",
    "tabtransformer-cheatt", "tabtransformer", "saint", "saint-cheatt", "met", "met-cheatt", "vime",
]
folds = 2
trials = 4
sampler = "tpe"
timeout_s = 120

[budgets.quick.model.knn]
sampler = "hyperopt"
[budgets.quick.model.constant]
trials = 1
[budgets.quick.model.linear]
sampler = "random"
[budgets.quick.model.npt]
space = "quick"
trials = 1
save_every = 4
fixed = { steps = 10, max_width = 64 }
[budgets.quick.model.hopular]
space = "quick"
trials = 1
save_every = 4
fixed = { steps = 10, max_width = 64 }
[budgets.quick.model.ft-transformer]
space = "quick"
trials = 1
save_every = 2
fixed = { epochs = 5, width = 8 }
[budgets.quick.model.resnet]
space = "quick"
trials = 1
save_every = 2
fixed = { epochs = 5, width = 16 }
[budgets.quick.model.tabtransformer-cheatt]
space = "quick"
trials = 1
save_every = 2
fixed = { epochs = 6, pretrain_epochs = 3, width = 8 }
"""
MET = {"embedding": 4, "n_heads": 1, "n_layers": 1, "n_decoder_layers": 1, "hidden": 16}
SAINT = {"width": 4, "n_heads": 1, "hidden": 16}
PRETRAINED: dict[str, dict[str, int]] = {
    "tabtransformer": {"width": 8, "n_layers": 1, "n_heads": 2, "d_head": 4, "hidden": 16},
    "saint": SAINT,
    "saint-cheatt": {**SAINT, "order": 3},
    "met": {**MET, "adversarial_from": 1},
    "met-cheatt": MET,
    "vime": {"hidden": 16},
}
for name, sizes in PRETRAINED.items():
    fixed = {"epochs": 5, "pretrain_epochs": 3, "batch_size": 128, **sizes}
    SUITE += f"[budgets.quick.model.{name}]\ntrials = 1\nsave_every = 2\n"
    SUITE += "".join(f"fixed.{key} = {value}\n" for key, value in fixed.items())


@pytest.mark.fault(1, 2)
@pytest.mark.xdist_group("ray")
def test_tables_do_not_depend_on_workers_nor_on_what_was_killed(tmp_path):
    suite = tmp_path / "suite.toml"
    suite.write_text(SUITE)

    def sweep(name: str, workers: int) -> Sweep:
        options = ["--suite", suite, "--workers", workers, "--tracking-uri", "none"]
        return Sweep(tmp_path / name, *options)

    here, one, two, killed = (
        sweep("here", 0),
        sweep("one", 1),
        sweep("two", 2),
        sweep("killed", 2),
    )
    for run in (here, one, two):
        run.finish()

    chance = random.Random(time.time_ns())
    durable: list[set[str]] = []
    marks: list[int] = []
    spared: set[str] = set()
    for at in sorted(chance.sample(range(2, N_TRIALS - 15), 3)):
        since = len(killed.lines())
        driver = killed.start(pause_s=0.25)
        killed.wait(lambda at=at: len(killed.finished()) >= at, f"{at} finished trials")
        dead = kill_worker(killed, since, spared)  # alone: the sweep goes on without it
        spared.add(dead.trial)
        before = len(killed.finished())
        killed.wait(lambda n=before: len(killed.finished()) > n, "the sweep to go on")
        killed.wait(lambda n=since, d=dead: set(killed.running(n)) - {d}, "a running trial")
        kill_all(driver)
        hit = set(killed.running(since)) - {dead}
        assert hit, "the kill of driver and workers hit no running trial"
        durable.append(killed.finished())
        marks.append(len(killed.lines()))
    killed.finish()

    for run in (here, one, two, killed):
        run.check_nothing_lost(N_TRIALS)
        run.check_nothing_twice()
    # What was durable at a kill never started again.
    lines = killed.lines()
    for finished, mark in zip(durable, marks, strict=True):
        assert not {line.trial for line in lines[mark:] if line.word == "start"} & finished
    for run in (here, one, two):
        run.check_ran_once()
    # The same tables, to the last byte.
    assert here.tables() == one.tables() == two.tables() == killed.tables()
    # And the same trials behind them.
    ids = [sorted(load_results(run.run)["id"]) for run in (here, one, two, killed)]
    assert ids[0] == ids[1] == ids[2] == ids[3]
