"""A sweep is a pure function of its suite: not of its workers, and not of who killed it when."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest
from tabsweep.benchmark.frame import load_results
from tabsweep.benchmark.status import status_of
from tabsweep.sweeps.ledger import Ledger

DRIVER = Path(__file__).with_name("driver.py")
TABLES = [f"{table}.{kind}" for table in ("scores", "ranks", "tests") for kind in ("tex", "csv")]
N_TRIALS = 3 * 2 * (3 * 4 + 1)  # datasets x folds x (three tuned models, and the constant)
SUITE = """
name = "reduced"
title = "A reduced suite for the determinism test"
datasets = ["breast-cancer-wdbc", "diabetes", "wine"]

[budgets.quick]
models = ["constant", "linear", "knn", "lightgbm"]
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
"""


class Sweep:
    """One run of the reduced suite in a folder of its own, killed and started at will."""

    def __init__(self, folder: Path, *, workers: int) -> None:
        self.folder = folder
        self.workers = workers
        self.run = folder / "runs" / "reduced"
        self.log = folder / "execution.log"
        folder.mkdir()
        (folder / "suite.toml").write_text(SUITE)
        self.log.touch()

    def start(self, *, pause_s: float) -> subprocess.Popen[str]:
        command = [sys.executable, str(DRIVER), str(self.folder / "suite.toml")]
        command += [str(self.run.parent), self.run.name, str(self.workers), str(self.log)]
        return subprocess.Popen(
            [*command, str(pause_s)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def finish(self, *, pause_s: float) -> str:
        process = self.start(pause_s=pause_s)
        output = process.communicate(timeout=300)[0]
        assert process.returncode == 0, output
        return output

    def lines(self) -> list[tuple[str, str, str]]:
        return [tuple(line.split()) for line in self.log.read_text().splitlines()]  # type: ignore

    def running(self, since: int = 0) -> dict[tuple[str, str], int]:
        """{(trial, process): starts without a finish} in the log's lines from `since` on."""
        open_: Counter[tuple[str, str]] = Counter()
        for word, trial, process in self.lines()[since:]:
            open_[trial, process] += 1 if word == "start" else -1
        return {key: n for key, n in open_.items() if n > 0}

    def finished(self) -> set[str]:
        """Trials whose results are in the ledger."""
        if not (self.run / "ledger" / "MANIFEST.json").exists():
            return set()
        ledger = Ledger(self.run)
        return {record["id"] for record in ledger.records("result")}

    def tables(self) -> dict[str, bytes]:
        return {name: (self.run / "report" / name).read_bytes() for name in TABLES}


def wait_for(condition, what: str, *, driver=None, timeout_s: float = 300) -> None:
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, f"waited {timeout_s} s for {what}"
        assert driver is None or driver.poll() is None, driver.communicate()[0]
        time.sleep(0.05)


def alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def kill_all(driver: subprocess.Popen[str]) -> None:
    """SIGKILL for the driver and every process below it (Ray's own and the workers)."""
    family = [psutil.Process(driver.pid), *psutil.Process(driver.pid).children(recursive=True)]
    for process in family:
        try:
            process.send_signal(signal.SIGKILL)
        except psutil.NoSuchProcess:
            pass
    driver.wait()
    wait_for(lambda: not any(alive(p.pid) for p in family), "the killed processes to be gone")


def kill_worker(sweep: Sweep, since: int, spared: set[str]) -> tuple[str, str]:
    """SIGKILL for one worker in the middle of a trial; returns (trial, process). A trial that was
    hit before is spared: the third time it would be a failure."""
    hit: list[tuple[str, str]] = []

    def strike() -> bool:
        for trial, process in sweep.running(since):
            if alive(int(process)) and trial not in spared:
                psutil.Process(int(process)).send_signal(signal.SIGKILL)
                hit.append((trial, process))
                return True
        return False

    wait_for(strike, "a running trial")
    return hit[0]


@pytest.mark.xdist_group("ray")
def test_tables_do_not_depend_on_workers_nor_on_what_was_killed(tmp_path):
    one = Sweep(tmp_path / "one", workers=1)
    two = Sweep(tmp_path / "two", workers=2)
    one.finish(pause_s=0.0)
    two.finish(pause_s=0.0)

    killed = Sweep(tmp_path / "killed", workers=2)
    chance = random.Random(time.time_ns())
    durable: list[set[str]] = []
    marks: list[int] = []
    spared: set[str] = set()
    for at in sorted(chance.sample(range(2, N_TRIALS - 15), 3)):
        since = len(killed.lines())
        driver = killed.start(pause_s=0.25)
        enough = f"{at} finished trials"
        wait_for(lambda at=at: len(killed.finished()) >= at, enough, driver=driver)
        trial, process = kill_worker(killed, since, spared)  # alone: the sweep goes on without it
        spared.add(trial)
        before = len(killed.finished())
        wait_for(lambda n=before: len(killed.finished()) > n, "the sweep to go on", driver=driver)
        dead = (trial, process)
        wait_for(lambda n=since, d=dead: set(killed.running(n)) - {d}, "a running trial")
        kill_all(driver)
        hit = set(killed.running(since)) - {dead}
        assert hit, "the kill of driver and workers hit no running trial"
        durable.append(killed.finished())
        marks.append(len(killed.lines()))
    killed.finish(pause_s=0.0)

    # Nothing lost: every planned trial has a terminal state, and all of them a score.
    for sweep in (one, two, killed):
        status = status_of(sweep.run)
        assert (status.planned, status.done, status.left) == (N_TRIALS, N_TRIALS, 0), status
    # Nothing twice: what was durable at a kill never started again.
    lines = killed.lines()
    for finished, mark in zip(durable, marks, strict=True):
        again = {trial for word, trial, _ in lines[mark:] if word == "start"} & finished
        assert not again
    # Without a kill every distinct trial starts exactly once.
    for sweep in (one, two):
        starts = Counter(trial for word, trial, _ in sweep.lines() if word == "start")
        assert set(starts.values()) == {1}
        assert set(starts) == sweep.finished()
    # The same tables, to the last byte.
    assert one.tables() == two.tables() == killed.tables()
    # And the same trials behind them.
    ids = [sorted(load_results(sweep.run)["id"]) for sweep in (one, two, killed)]
    assert ids[0] == ids[1] == ids[2]
