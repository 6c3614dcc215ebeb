"""Every command of `bench reproduce --list` runs, at its smallest, by its real names."""

from __future__ import annotations

import shlex
import time
from pathlib import Path

import pytest
from calls import bench
from tabsweep.benchmark.papers import catalog
from tabsweep.benchmark.papers.catalog import PaperEntry, entries
from tabsweep.benchmark.papers.cheatt.mean_gains import HOSTS, SUFFIX
from tabsweep.benchmark.papers.published_values import published_table
from tabsweep.benchmark.planning.suite import Suite
from tabsweep.datasets import catalog as datasets
from tabsweep.datasets.errors import ChecksumMismatch, DatasetUnavailable
from tabsweep.models import registry

SMALL_BUDGETS = ("reduced", "quick")  # of a suite, the first that it has


def is_there(name: str, mirror: str) -> bool:
    """Whether a dataset can be had from the mirror alone."""
    try:
        datasets.load_dataset(name, mirror=mirror)
    except (DatasetUnavailable, ChecksumMismatch):
        return False
    return True


def smallest(source: PaperEntry, mirror: str) -> list[str]:
    """The options that make `bench reproduce` of a suite's table small: one fold, one trial, the
    dataset with the fewest cells, one or two of the budget's models."""
    table = catalog.find_entry(source.name)
    suite = catalog.suite_of(table)
    budget = next((b for b in SMALL_BUDGETS if b in suite.budgets), suite.default_budget)
    paper = table.paper.for_run(set(table.paper.file.stand_ins))
    published = published_table(paper, source.name)
    wanted = published.dataset_names() if published.shape != "medians" else suite.datasets
    known = [name for name in suite.datasets if name in wanted]
    cards = sorted(map(datasets.card, known), key=lambda c: c.n_rows * c.n_features)
    dataset = next(card for card in cards if is_there(card.name, mirror))
    words = ["--budget", budget, "--folds", 1, "--trials", 1, "--dataset", dataset.name]
    if source.name == "npt-table-13":  # it ranks eight configurations of one model
        words[1], words[5] = "variants-reduced", 8
    if published.shape == "means":  # those of a host without and with polynomials go together
        models = [HOSTS[0], f"{HOSTS[0]}{SUFFIX}"]
    else:
        models = cheapest(published.model_names(), suite, str(budget))
    for model in models:
        words += ["--model", model]
    return [*map(str, words), "--workers", "0", "--tracking-uri", "none"]


def cheapest(methods: list[str], suite: Suite, budget: str) -> list[str]:
    """Rows of the budget that are methods of the table: two that need no torch, else one."""
    given = suite.budgets[budget]
    rows = dict.fromkeys(name for name in (*given.models, *given.model) if name in methods)
    light = [name for name in rows if "torch" not in registry.spec(given.asked(name)).libraries]
    return light[:2] or list(rows)[:1]


def command_of(source: PaperEntry, out: Path, mirror: str) -> list[str]:
    """The command of the list, made as small as it goes."""
    _, verb, *words = shlex.split(source.command)
    if verb in ("models", "suites"):
        return [verb, *words]
    words = [verb, *words, "--mirror", mirror]
    if verb == "sweep":
        return [*words, "--runs", str(out / "runs"), "--dry-run"]
    if verb == "experiment":
        return [*words, "--size", "tiny", "--out", str(out / "experiments")]
    target = next(s for s in entries() if s.name == words[1])  # an entry may name another's command
    words += ["--runs", str(out / "runs")]
    if target.entry.experiment:
        return [*words, "--budget", "tiny"]
    # a run of its own: one that is extended runs the models of all tables on the datasets of all
    return [*words, *smallest(target, mirror), "--name", target.name]


@pytest.mark.nightly
@pytest.mark.timeout(7200)  # some fifty commands
def test_every_command_of_the_list_runs_at_its_smallest(tmp_path, mirror):
    commands = dict.fromkeys(
        shlex.join(command_of(source, tmp_path, mirror)) for source in entries() if source.command
    )
    failed = {}
    for command in commands:
        began = time.process_time()
        found = bench(*shlex.split(command))
        print(
            f"{time.process_time() - began:7.1f} CPU-s, exit code {found.code}: {command}",
            flush=True,
        )
        if found.code != 0:
            failed[command] = found.err or found.out[-2000:]
    assert not failed, "\n\n".join(f"{command}\n{text}" for command, text in failed.items())
    runs = {path.name for path in (tmp_path / "runs").iterdir()}
    assert {s.name for s in entries() if s.is_reproduced and s.entry.suite} <= runs
    for experiment in {e.entry.experiment for e in entries() if e.entry.experiment}:
        assert list(tmp_path.rglob(f"{experiment}/facts.json")), experiment
