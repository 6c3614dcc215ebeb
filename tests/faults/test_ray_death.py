"""A driver whose own Ray dies, or is stopped, ends with BENCH-E021; its run goes on later."""

from __future__ import annotations

import signal
from pathlib import Path

import psutil
import pytest
from chaos import Sweep, alive, wait_for
from tabsweep.sweeps.store.ledger import Ledger

pytestmark = pytest.mark.xdist_group("ray-faults")

OPTIONS = ["--suite", "smoke", "--dataset", "iris", "--model", "knn", "--model", "linear"]
OPTIONS += ["--folds", 2, "--trials", 4, "--workers", 2, "--tracking-uri", "none"]
SLOW = pytest.mark.nightly
VICTIMS = {  # part of the command line of the process that is hit
    "raylet": "/raylet/raylet",
    "gcs_server": "/gcs/gcs_server",
    "agent": "ray::DashboardAgent",  # with which Ray ends the raylet
    "driver": "driver.py",  # the process in which Ray's library lives
}


def below(sweep: Sweep) -> list[psutil.Process]:
    assert sweep.driver is not None
    return psutil.Process(sweep.driver.pid).children(recursive=True)


@pytest.mark.fault(35)
@pytest.mark.parametrize(
    ("victim", "number"),
    [
        ("agent", signal.SIGKILL),
        ("gcs_server", signal.SIGSTOP),
        pytest.param("raylet", signal.SIGKILL, marks=SLOW),
        pytest.param("raylet", signal.SIGSTOP, marks=SLOW),
        pytest.param("gcs_server", signal.SIGKILL, marks=SLOW),
        pytest.param("driver", signal.SIGKILL, marks=SLOW),
    ],
)
def test_a_driver_whose_ray_dies_says_how_to_go_on_and_blames_no_trial(
    tmp_path: Path, victim: str, number: int
) -> None:
    sweep = Sweep(tmp_path / "sweep", *OPTIONS)
    driver = sweep.start(pause_s=2.0)
    try:
        line = sweep.wait(sweep.running, "a running trial")[0]
        family = below(sweep)
        hit = [one for one in family if any(VICTIMS[victim] in word for word in one.cmdline())]
        hit[0].send_signal(number)
        assert driver.wait(60) == 3, sweep.output()
    finally:
        sweep.off()
    assert not alive(line.pid)
    if number == signal.SIGKILL:  # a trial was hit; beside a server that stands still it ends
        assert line in sweep.running()
    last = sweep.output().strip().splitlines()[-1]
    assert last.startswith("error BENCH-E021: ") and last.endswith(f"bench resume {sweep.run}")
    wait_for(lambda: not any(alive(process.pid) for process in family), "the end of all of Ray")
    assert not list(Ledger(sweep.run).records("death"))  # it was nobody's attempt
    sweep.finish("--workers", 0)
    sweep.check_nothing_lost(2 * 2 * 4)
    sweep.check_nothing_twice()


@pytest.mark.nightly
@pytest.mark.fault(36)
def test_a_worker_that_is_stopped_is_ended_and_its_trial_runs_again(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path / "sweep", *OPTIONS)
    sweep.start(pause_s=2.0)
    try:
        line = sweep.wait(sweep.running, "a running trial")[0]
        psutil.Process(line.pid).suspend()
        sweep.end()
    finally:
        sweep.off()
    assert sum(other.trial == line.trial and other.word == "start" for other in sweep.lines()) == 2
    assert not list(Ledger(sweep.run).records("death"))
    sweep.check_nothing_lost(2 * 2 * 4)
