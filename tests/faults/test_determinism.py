"""The tables of a sweep do not depend on its workers, nor on what was killed when.

TABSWEEP_DETERMINISM_SEED (0 where it is not set) draws other moments for the kills.
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from chaos import Sweep, kill_all, kill_worker
from tabsweep.benchmark.results.evidence_builder import load_results

pytestmark = pytest.mark.xdist_group("ray-faults")

SEED = int(os.environ.get("TABSWEEP_DETERMINISM_SEED", "0"))
DATASETS = ("breast-cancer-wdbc", "diabetes", "wine")  # one a task
TUNED = {"knn": "hyperopt", "lightgbm": "tpe", "linear": "random"}  # each with its sampler
N_TRIALS = 4  # of a tuned model

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
NETWORKS: dict[str, dict[str, int]] = {
    "npt": {"steps": 10, "max_width": 64},
    "resnet": {"epochs": 5, "width": 16},
    "hopular": {"steps": 10, "max_width": 64},
    "ft-transformer": {"epochs": 5, "width": 8},
    "tabtransformer-cheatt": {"epochs": 6, "pretrain_epochs": 3, "width": 8},
    **{
        name: {"epochs": 5, "pretrain_epochs": 3, "batch_size": 128, **sizes}
        for name, sizes in PRETRAINED.items()
    },
}
"""Small sizes; every network keeps checkpoints and is fitted once."""


def suite_text(networks: Mapping[str, Mapping[str, int]], folds: int) -> str:
    """The suite file of the tuned models, the constant and some networks."""
    models = ["constant", *TUNED, *networks]
    text = f"""
name = "reduced"
title = "A reduced suite for the determinism test"
datasets = {[*DATASETS]}

[budgets.quick]
models = {models}
folds = {folds}
trials = {N_TRIALS}
timeout_s = 120

[budgets.quick.model.constant]
trials = 1
"""
    for name, sampler in TUNED.items():
        text += f'[budgets.quick.model.{name}]\nsampler = "{sampler}"\n'
    for name, fixed in networks.items():
        space = "" if name in PRETRAINED else 'space = "quick"\n'
        text += f"[budgets.quick.model.{name}]\n{space}trials = 1\nsave_every = 2\n"
        text += "".join(f"fixed.{key} = {value}\n" for key, value in fixed.items())
    return text


def n_planned(networks: Mapping[str, object], folds: int) -> int:
    """The trials of `suite_text`."""
    return len(DATASETS) * folds * (1 + N_TRIALS * len(TUNED) + len(networks))


def make_sweep(folder: Path, name: str, suite: str, workers: int) -> Sweep:
    path = folder / "suite.toml"
    path.write_text(suite)
    options = ["--suite", path, "--workers", workers, "--tracking-uri", "none"]
    return Sweep(folder / name, *options)


def kill_often(sweep: Sweep, moments: Sequence[int]) -> None:
    """Start the sweep; at each moment, a number of finished trials, kill first a worker, then the
    driver with all its workers, and start it again; let it end at last. What was in the ledger at
    a kill never starts again."""
    durable: list[set[str]] = []
    marks: list[int] = []
    spared: set[str] = set()
    for moment in sorted(moments):
        since = len(sweep.lines())
        driver = sweep.start(pause_s=0.25)
        sweep.wait(lambda n=moment: len(sweep.finished()) >= n, f"{moment} finished trials")
        dead = kill_worker(sweep, since, spared)  # alone: the sweep goes on without it
        spared.add(dead.trial)
        before = len(sweep.finished())
        sweep.wait(lambda n=before: len(sweep.finished()) > n, "the sweep to go on")
        sweep.wait(lambda n=since, d=dead: set(sweep.running(n)) - {d}, "a running trial")
        kill_all(driver)
        hit = set(sweep.running(since)) - {dead}
        assert hit, "the kill of driver and workers hit no running trial"
        durable.append(sweep.finished())
        marks.append(len(sweep.lines()))
    sweep.finish()
    lines = sweep.lines()
    for finished, mark in zip(durable, marks, strict=True):
        assert not {line.trial for line in lines[mark:] if line.word == "start"} & finished


def check_same(undisturbed: Sequence[Sweep], killed: Sweep, planned: int) -> None:
    """Nothing lost, nothing twice; the same tables, to the last byte, of the same trials."""
    for run in (*undisturbed, killed):
        run.check_nothing_lost(planned)
        run.check_nothing_twice()
    for run in undisturbed:
        run.check_ran_once()
    first = undisturbed[0]
    for run in (*undisturbed[1:], killed):
        assert run.tables() == first.tables()
        assert sorted(load_results(run.run)["id"]) == sorted(load_results(first.run)["id"])


@pytest.mark.fault(1, 2)
def test_tables_do_not_depend_on_workers_nor_on_what_was_killed(tmp_path):
    """Without workers, and with two of them when a worker and then the driver are killed."""
    networks = {name: NETWORKS[name] for name in ("npt", "resnet", "tabtransformer-cheatt")}
    planned, suite = n_planned(networks, 1), suite_text(networks, 1)
    here, killed = (make_sweep(tmp_path, *each) for each in (("here", suite, 0), ("two", suite, 2)))
    moment = random.Random(SEED).randrange(2, planned // 2)
    print(f"TABSWEEP_DETERMINISM_SEED={SEED}: kills after {moment} of {planned} trials")
    here.start()  # beside the other one
    try:
        kill_often(killed, [moment])
        here.end()
    finally:
        here.off()
        killed.off()
    check_same([here], killed, planned)
    assert "(raylet)" not in killed.whole_output()  # Ray's own words about the worker, in colour


@pytest.mark.nightly
@pytest.mark.fault(1, 2)
def test_tables_of_every_network_do_not_depend_on_workers_nor_on_kills(tmp_path):
    """All networks, two folds; without workers, with one, with two, and under three pairs of
    kills."""
    planned, suite = n_planned(NETWORKS, 2), suite_text(NETWORKS, 2)
    undisturbed = [make_sweep(tmp_path, f"quiet {n}", suite, n) for n in (0, 1, 2)]
    killed = make_sweep(tmp_path, "killed", suite, 2)
    moments = random.Random(SEED).sample(range(2, planned - 15), 3)
    print(f"TABSWEEP_DETERMINISM_SEED={SEED}: kills after {sorted(moments)} of {planned} trials")
    try:
        for run in undisturbed:
            run.finish()
        kill_often(killed, moments)
    finally:
        killed.off()
    check_same(undisturbed, killed, planned)
