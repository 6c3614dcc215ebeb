"""A sweep of 600 very short trials that is interrupted at random moments, again and again."""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

from chaos import DRIVER, Line, Sweep, wait_for

HITS = int(os.environ.get("TABSWEEP_STORM_HITS", "10"))
SEED = int(os.environ.get("TABSWEEP_STORM_SEED", "0"))
PAUSE_S = 0.3  # before every trial, so that the sweep outlasts the hits
STARTING = 1 / 3  # share of the hits that come while everything starts
START_S, RUN_S = 12.0, 4.0  # such a hit comes so long after the start, another after a trial's end

DATASETS = ("breast-cancer-wdbc", "diabetes", "wine")
MODELS = ("knn", "linear")
FOLDS, TRIALS = 5, 20
N_TRIALS = len(DATASETS) * len(MODELS) * FOLDS * TRIALS
OPTIONS = ["--suite", "uci-small", "--folds", FOLDS, "--trials", TRIALS, "--tracking-uri", "none"]
OPTIONS += [word for name in DATASETS for word in ("--dataset", name)]
OPTIONS += [word for name in MODELS for word in ("--model", name)]


def logging_bench(folder: Path, log: Path, pause_s: float = PAUSE_S) -> Path:
    """A folder for the PATH with a `bench` that logs its trials and pauses before each."""
    path = folder / "bin"
    path.mkdir()
    words = f'exec "{sys.executable}" "{DRIVER}" "{log}" {pause_s} "$@"'
    (path / "bench").write_text(f"#!/bin/sh\n{words}\n")
    (path / "bench").chmod(0o755)
    return path


class Storm:
    """Draws the moments of the hits, and counts what they hit. `starting`: share of the hits that
    come while everything starts."""

    def __init__(self, sweep: Sweep, name: str, starting: float = STARTING) -> None:
        self.sweep, self.name, self._starting = sweep, name, starting
        self._chance = random.Random(f"{SEED} {name}")
        self._hits: list[tuple[int, float]] = []  # trials that ran then, seconds to the end

    def moment(self, alive: Callable[[], object] = lambda: True) -> None:
        """Wait for the next one after a start. `alive`: raises where the sweep has ended."""
        if self._chance.random() < self._starting:
            time.sleep(self._chance.uniform(0.0, START_S))
            return
        before = len(self.sweep.lines())

        def trial() -> bool:
            alive()
            return any(line.word == "finish" for line in self.sweep.lines()[before:])

        wait_for(trial, f"a trial's end before hit {len(self._hits) + 1}", timeout_s=240)
        time.sleep(self._chance.uniform(0.0, RUN_S))

    def hit(self, act: Callable[[], object]) -> None:
        """One interruption; `act` returns when everything has ended."""
        running = self._fresh()
        began = time.monotonic()
        act()
        self._hits.append((len(running), time.monotonic() - began))

    def _fresh(self) -> list[Line]:
        newest = time.time() - 5.0  # a trial that an earlier hit ended has no end in the log
        return [line for line in self.sweep.running() if line.time > newest]

    def check(self, quiet: Sweep) -> str:
        """The laws, and a line with the figures."""
        assert len(self._hits) == HITS
        assert sum(1 for n, _ in self._hits if n) > 0, "no hit met a running trial"
        self.sweep.check_nothing_lost(N_TRIALS)
        self.sweep.check_nothing_twice()
        results = self.sweep.results()
        assert [r for r in results if r["status"] != "done"] == []
        assert self.sweep.tables() == quiet.tables()
        with_trials = sum(1 for n, _ in self._hits if n)
        took = sorted(seconds for _, seconds in self._hits)
        starts = sum(1 for line in self.sweep.lines() if line.word == "start")
        return (
            f"{self.name}: {HITS} hits, {with_trials} of them while trials ran; over "
            f"{took[0]:.0f} to {took[-1]:.0f} s later; {len(results)} results, 0 failed, "
            f"{starts - len(results)} trials ran again, the tables of a quiet sweep"
        )
