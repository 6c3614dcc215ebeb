"""Soak: a sweep that is hit every half minute ends with the tables of a quiet one.

On one machine the driver with everything below it is killed, or a worker, or all of Ray but the
driver; on several hosts (processes/hosts.py) the driver, a worker, a host's Ray or a whole host.
Half an hour each. TABSWEEP_SOAK_KILLS=6 is a rehearsal, TABSWEEP_SOAK_SEED draws other kills.
"""

from __future__ import annotations

import itertools
import math
import os
import random
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import hosts
import psutil
import pytest
from chaos import Line, Sweep, alive, kill_all, wait_for
from cluster import Cluster

KILLS = int(os.environ.get("TABSWEEP_SOAK_KILLS", "60"))
SEED = int(os.environ.get("TABSWEEP_SOAK_SEED", "0"))
APART_S = (10.0, 40.0)
PAUSE_S = 1.2  # before every trial, which then takes less than 2 s

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.xdist_group("ray-faults"),
    pytest.mark.timeout(1800 + 90 * KILLS),
]

DATASETS = ("breast-cancer-wdbc", "diabetes", "wine")
MODELS = ("knn", "lightgbm", "linear")
FOLDS = 5
TRIALS = max(4, KILLS)  # two workers begin at most 42 trials between two kills, and 45 are there
N_TRIALS = len(DATASETS) * len(MODELS) * FOLDS * TRIALS
OPTIONS = ["--suite", "uci-small", "--folds", FOLDS, "--trials", TRIALS, "--tracking-uri", "none"]
OPTIONS += [word for name in DATASETS for word in ("--dataset", name)]
OPTIONS += [word for name in MODELS for word in ("--model", name)]


class Machine:
    """A sweep with two workers on this machine, and what can happen to it."""

    kinds = ("worker", "worker", "ray")  # besides the driver

    def __init__(self, folder: Path) -> None:
        self.sweep = Sweep(folder / "soak", *OPTIONS, "--workers", 2)
        self.spared: set[str] = set()  # trials whose worker was killed: the third time they fail
        self._gone: set[Line] = set()

    def start(self) -> None:
        """A driver, where there is none."""
        if self.sweep.driver is None:
            self.sweep.start(pause_s=PAUSE_S)

    def alive(self, line: Line) -> bool:
        return alive(line.pid)

    def running(self) -> list[Line]:
        """The trials that run now."""
        found = [line for line in self.sweep.running() if line not in self._gone]
        self._gone.update(line for line in found if not self.alive(line))
        return [line for line in found if line not in self._gone]

    def strike(self, kind: str) -> list[Line]:
        """Something happens while a trial runs; the trials that did not survive it."""

        def fair() -> list[Line]:
            there = self.running()
            return [] if any(line.trial in self.spared for line in there) else there

        target = self.sweep.wait(fair, "a running trial")[0]
        before = {*self._gone}
        getattr(self, kind)(target)
        wait_for(lambda: not self.alive(target), f"the end of {target}")
        self.running()
        return [*(self._gone - before)]

    def driver(self, target: Line) -> None:
        """With every process below it, Ray's too if that is its own."""
        assert self.sweep.driver is not None
        kill_all(self.sweep.driver)
        self.sweep.driver = None

    def worker(self, target: Line) -> None:
        self.spared.add(target.trial)
        os.kill(target.pid, signal.SIGKILL)

    def ray(self, target: Line) -> None:
        """Every process but the driver, which cannot go on, says so and ends."""
        self.spared.update(line.trial for line in self.running())
        driver, self.sweep.driver = self.sweep.driver, None
        assert driver is not None
        for process in psutil.Process(driver.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                process.kill()
        assert driver.wait(120) == 3, self.sweep.output()

    def off(self) -> None:
        self.sweep.off()


class Hosts(Machine):
    """A sweep on two worker hosts."""

    kinds = ("worker", "worker", "raylet", "host")

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.cluster = Cluster(folder)
        self.cluster.have(2)
        self.sweep = Sweep(
            folder / "hosts",
            *(*OPTIONS, "--address", self.cluster.address),
            host=self.cluster.head,
            env=self.cluster.env,
        )

    def alive(self, line: Line) -> bool:
        host = self.cluster.network.hosts.get(line.host)
        return host is not None and host.alive(line.pid)

    def worker(self, target: Line) -> None:
        self.spared.add(target.trial)
        self.cluster.network.hosts[target.host].kill(target.pid)

    def raylet(self, target: Line) -> None:
        """Ray's process of one host; the host starts Ray again."""
        host = self.cluster.network.hosts[target.host]
        host.kill(self.cluster.raylet(host))
        wait_for(lambda: not self.cluster.up(host), f"the end of Ray on {host.name}")
        wait_for(lambda: not self.alive(target), f"the end of {target}")
        self.cluster.rejoin(host)

    def host(self, target: Line) -> None:
        """A host falls silent (no connection is closed), and another one joins."""
        host = self.cluster.network.hosts[target.host]
        self.cluster.network.plug(host, False)
        self.cluster.part(host)
        self.cluster.join()

    def off(self) -> None:
        super().off()
        self.cluster.off()


@pytest.fixture
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="soak-", dir="/tmp"))  # a short path, for Ray's sockets
    yield made
    shutil.rmtree(made, ignore_errors=True)


def plan(kinds: tuple[str, ...], chance: random.Random) -> list[str]:
    """Every fifth kill is the driver's, the last one too."""
    n_drivers = math.ceil(KILLS / 5)
    others = itertools.islice(itertools.cycle(kinds), KILLS - n_drivers)
    found = [*others, *["driver"] * (n_drivers - 1)]
    chance.shuffle(found)
    return [*found, "driver"]


@pytest.mark.fault(1, 2)
@pytest.mark.parametrize("place", [Machine, Hosts])
def test_a_sweep_under_fire_ends_with_the_tables_of_a_quiet_one(place, folder, capsys):
    if place is Hosts and hosts.missing():
        pytest.skip(hosts.missing())
    quiet = Sweep(folder / "quiet", *OPTIONS, "--workers", 2)
    quiet.start()
    quiet.end(timeout_s=3600)
    quiet.check_nothing_lost(N_TRIALS)
    quiet.check_ran_once()

    chance = random.Random(SEED)
    hits: list[tuple[str, list[Line]]] = []
    apart: list[float] = []
    began = at = time.monotonic()
    site = place(folder)
    try:
        for kind in plan(site.kinds, chance):
            site.start()
            time.sleep(max(0.0, at + chance.uniform(*APART_S) - time.monotonic()))
            hits.append((kind, site.strike(kind)))
            apart.append(time.monotonic() - at)
            at = time.monotonic()
        under_fire_s = time.monotonic() - began
        left = N_TRIALS - len(site.sweep.finished())
        site.sweep.start()
        site.sweep.end(timeout_s=3600)
    finally:
        site.off()

    # Every kill hit a trial, which never ended where it ran then.
    assert all(lines for _, lines in hits), hits
    assert {line for _, lines in hits for line in lines} <= {*site.sweep.running()}
    assert left > 0, "the sweep had ended before the kills had"
    site.sweep.check_nothing_lost(N_TRIALS)
    site.sweep.check_nothing_twice()
    assert site.sweep.tables() == quiet.tables()
    with capsys.disabled():
        kinds = ", ".join(f"{n} {kind}" for kind, n in Counter(kind for kind, _ in hits).items())
        n_hit = sum(len(lines) for _, lines in hits)
        print(
            f"\n{place.__name__}, seed {SEED}: {len(hits)} kills ({kinds}) hit {n_hit} trials in "
            f"{under_fire_s:.0f} s, {min(apart):.0f} to {max(apart):.0f} s apart; "
            f"{N_TRIALS} trials, {left} of them after the last kill"
        )
