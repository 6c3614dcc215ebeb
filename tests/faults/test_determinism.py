"""The tables of a sweep do not depend on its workers, nor on what was killed when.

TABSWEEP_DETERMINISM_SEED (0 where it is not set) draws another moment for the kills.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from chaos import Sweep, kill_all, kill_worker
from tabsweep.benchmark.results.evidence_builder import load_results

pytestmark = pytest.mark.xdist_group("ray-faults")

SEED = int(os.environ.get("TABSWEEP_DETERMINISM_SEED", "0"))
SUITE = """
name = "reduced"
title = "A table of each task, each sampler, and networks that keep checkpoints"
datasets = ["breast-cancer-wdbc", "diabetes", "wine"]

[budgets.quick]
models = ["constant", "knn", "lightgbm", "linear", "npt", "resnet", "tabtransformer-cheatt"]
folds = 1
trials = 4
timeout_s = 120

[budgets.quick.model]
constant.trials = 1
knn.sampler = "hyperopt"
lightgbm.sampler = "tpe"
linear.sampler = "random"

[budgets.quick.model.npt]
space = "quick"
trials = 1
save_every = 2
fixed = { steps = 10, max_width = 64 }

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
PLANNED = 3 * (1 + 3 * 4 + 3)


def make_sweep(folder: Path, name: str, workers: int) -> Sweep:
    path = folder / "suite.toml"
    path.write_text(SUITE)
    options = ["--suite", path, "--workers", workers, "--tracking-uri", "none"]
    return Sweep(folder / name, *options)


def kill_and_go_on(sweep: Sweep, moment: int) -> None:
    """Start the sweep; after so many finished trials kill first a worker, then the driver with all
    its workers, and resume it without. What was in the ledger then never starts again."""
    driver = sweep.start(pause_s=0.25)
    sweep.wait(lambda: len(sweep.finished()) >= moment, f"{moment} finished trials")
    dead = kill_worker(sweep)  # alone: the sweep goes on without it
    before = len(sweep.finished())
    sweep.wait(lambda: len(sweep.finished()) > before, "the sweep to go on")
    sweep.wait(lambda: set(sweep.running()) - {dead}, "a running trial")
    kill_all(driver)
    assert set(sweep.running()) - {dead}, "the kill of driver and workers hit no running trial"
    finished, mark = sweep.finished(), len(sweep.lines())
    sweep.resume()
    assert not {line.trial for line in sweep.lines()[mark:] if line.word == "start"} & finished


@pytest.mark.fault(1, 2)
def test_tables_do_not_depend_on_workers_nor_on_what_was_killed(tmp_path):
    """Without workers, and with two of them when a worker and then the driver are killed."""
    here, killed = (make_sweep(tmp_path, *each) for each in (("here", 0), ("two", 2)))
    moment = random.Random(SEED).randrange(2, PLANNED // 2)
    print(f"TABSWEEP_DETERMINISM_SEED={SEED}: kills after {moment} of {PLANNED} trials")
    here.start()  # beside the other one
    try:
        kill_and_go_on(killed, moment)
        here.end()
    finally:
        here.off()
        killed.off()
    for run in (here, killed):
        run.check_nothing_lost(PLANNED)
        run.check_nothing_twice()
    here.check_ran_once()
    assert killed.tables() == here.tables()
    assert sorted(load_results(killed.run)["id"]) == sorted(load_results(here.run)["id"])
    assert "(raylet)" not in killed.whole_output()  # Ray's own words about the worker, in colour
