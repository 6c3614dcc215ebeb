"""Sweeps over several hosts, some of which fail, give the tables of one machine.

A Ray head without CPUs for trials and two worker hosts with one CPU each. Each host is a set of
Linux namespaces with an address of its own (processes/hosts.py).
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import hosts
import pytest
from chaos import Line, Sweep
from cluster import Cluster
from hosts import Host
from tabsweep.benchmark.results.evidence_builder import load_results

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.xdist_group("ray-faults"),
    pytest.mark.skipif(bool(hosts.missing()), reason=hosts.missing()),
]

# uci-small, reduced to tables that come with scikit-learn
DATASETS = ("breast-cancer-wdbc", "diabetes", "wine")
MODELS = ("knn", "lightgbm", "linear")
REDUCED = ["--suite", "uci-small", "--folds", 2, "--trials", 4]
for name in DATASETS:
    REDUCED += ["--dataset", name]
for name in MODELS:
    REDUCED += ["--model", name]
N_STUDIES = len(DATASETS) * 2 * len(MODELS)
N_TRIALS = 4 * N_STUDIES
PAUSE_S = 0.3  # before every trial
COUNT = itertools.count(1)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="hosts-", dir="/tmp"))  # a short path, for Ray's sockets
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(scope="module")
def cluster(folder: Path) -> Iterator[Cluster]:
    made = Cluster(folder)
    yield made
    made.off()


@pytest.fixture(scope="module")
def alone(folder: Path, cluster: Cluster) -> Sweep:
    """The same sweep on this machine alone, without Ray, while the cluster comes up."""
    sweep = Sweep(folder / "alone", *REDUCED, "--tracking-uri", "none", "--workers", 0)
    sweep.start()
    try:
        cluster.have(2)
        sweep.end()
    finally:
        sweep.off()
    sweep.check_nothing_lost(N_TRIALS)
    sweep.check_ran_once()
    return sweep


@pytest.fixture
def sweep(cluster: Cluster, folder: Path) -> Iterator[Sweep]:
    """A sweep whose driver runs on the head."""
    options = [*REDUCED, "--address", cluster.address, "--tracking-uri", "none"]
    made = Sweep(folder / f"sweep-{next(COUNT)}", *options, host=cluster.head, env=cluster.env)
    yield made
    made.off()


def check_same(sweep: Sweep, alone: Sweep, *, cut_off: tuple[str, ...] = ()) -> None:
    """Nothing lost, nothing twice, and the tables of one machine."""
    sweep.check_nothing_lost(N_TRIALS)
    sweep.check_nothing_twice(cut_off=cut_off)
    assert sorted(load_results(sweep.run)["id"]) == sorted(load_results(alone.run)["id"])
    assert sweep.tables() == alone.tables()


def on(sweep: Sweep, host: Host) -> Callable[[], list[Line]]:
    """The trials that run on a host now."""
    return lambda: [line for line in sweep.running() if line.host == host.name]


def lost(sweep: Sweep) -> list[str]:
    """Hosts that the driver saw go."""
    return [event["host"] for event in sweep.events("lost node")]


def underway(sweep: Sweep, n: int = 8) -> None:
    sweep.wait(lambda: len(sweep.finished()) >= n, f"{n} finished trials")


def ran_on(sweep: Sweep) -> set[str]:
    return {line.host for line in sweep.lines() if line.word == "finish"}


def test_a_worker_host_that_is_cut_off_is_given_up_and_its_trials_run_elsewhere(
    cluster, sweep, alone
):
    """Both run trials, one is lost, and the tables are those of one machine."""
    one, two = cluster.have(2)
    sweep.start(pause_s=2 * PAUSE_S)
    underway(sweep)
    sweep.wait(lambda: ran_on(sweep) == {one.name, two.name}, "finished trials of both hosts")
    sweep.wait(on(sweep, two), "a trial on the host that will be cut off")
    cluster.network.plug(two, False)
    hit = sweep.wait(on(sweep, two), "a trial that runs on the host though it is cut off")[0]
    assert cluster.up(two)  # the host itself is well
    sweep.wait(lambda: two.name in lost(sweep), "the driver to see that the host is gone")
    before = len(sweep.finished())
    sweep.wait(lambda: len(sweep.finished()) > before, "the sweep to go on")
    cluster.network.plug(two, True)  # it must not matter that it comes back
    sweep.end()
    cluster.part(two)
    starts = [line.host for line in sweep.lines() if line[:2] == ("start", hit.trial)]
    assert sorted(starts) == sorted([two.name, one.name])
    check_same(sweep, alone, cut_off=(two.name,))


def test_a_worker_host_that_joins_late_takes_its_share(cluster, sweep, alone):
    (one,) = cluster.have(1)
    sweep.start(pause_s=2 * PAUSE_S)
    underway(sweep)
    assert ran_on(sweep) == {one.name}
    two = cluster.join()
    sweep.wait(lambda: two.name in ran_on(sweep), "a trial on the host that joined")
    sweep.end()
    late = [line for line in sweep.lines() if line.word == "finish" and line.host == two.name]
    assert len(late) > N_TRIALS / 10
    sweep.check_ran_once()
    check_same(sweep, alone)
