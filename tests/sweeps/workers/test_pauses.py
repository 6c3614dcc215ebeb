"""Machines and containers that are paused: the time in which nothing could run is no trial's."""

from __future__ import annotations

import signal
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from chaos import Sweep
from small_sweeps import write_suite
from tabsweep.sweeps.machine import awake_clock
from tabsweep.sweeps.trial import DONE

pytestmark = pytest.mark.xdist_group("ray")

LIMIT_S = 20  # of a trial; its worker is ended 5 s later
PAUSE_S = 27.0
OPTIONS = ["--folds", 1, "--workers", 1, "--timeout", LIMIT_S, "--tracking-uri", "none"]


def pause(sweep: Sweep) -> list[int]:
    """Stop the driver, Ray and the workers for a while, as `docker pause` does; returns whom."""
    assert sweep.driver is not None
    driver = psutil.Process(sweep.driver.pid)
    family = [driver, *driver.children(recursive=True)]
    try:
        for process in family:
            process.send_signal(signal.SIGSTOP)
        time.sleep(PAUSE_S)
    finally:
        for process in reversed(family):
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGCONT)
    return [process.pid for process in family]


@pytest.mark.fault(8)
@pytest.mark.parametrize("how", ["engine", pytest.param("asha", marks=pytest.mark.nightly)])
def test_a_pause_longer_than_the_time_limit_of_a_trial_is_no_timeout(tmp_path: Path, how) -> None:
    what = ["--suite", "smoke", "--dataset", "iris", "--model", "knn", "--trials", 2]
    if how == "asha":
        few = {"hist-gradient-boosting": {"fixed": {"n_estimators": 9}}}
        suite = write_suite(
            tmp_path / "suite.json", "reduced", ["iris"], [*few], sampler="random", model=few,
            halving={"eta": 3, "rungs": 2},
        )  # fmt: skip
        what = ["--suite", suite, "--async", "asha"]
    sweep = Sweep(tmp_path / "sweep", *what, *OPTIONS)
    sweep.start(pause_s=2.0)
    try:
        line = sweep.wait(sweep.running, "a running trial")[0]
        assert line.pid in pause(sweep)  # the trial stood still, too
        sweep.end()
    finally:
        sweep.off()
    (finish,) = (
        other for other in sweep.lines() if (other.word, other.trial) == ("finish", line.trial)
    )
    assert finish.time - line.time > PAUSE_S > LIMIT_S + 5.0  # the fault did happen
    assert {record["status"] for record in sweep.results()} == {DONE}
    assert not sweep.events("retry", "lost worker")


def test_of_a_pause_five_seconds_count_and_of_a_long_computation_all(monkeypatch) -> None:
    """C code that keeps Python's lock lets no thread look at the clock, but uses the CPU."""
    now = {"monotonic": 100.0, "process_time": 1.0}
    looks = {name: lambda name=name: now[name] for name in now}
    still = SimpleNamespace(**looks, sleep=threading.Event().wait)
    monkeypatch.setattr(awake_clock, "time", still)
    monkeypatch.setattr(awake_clock, "TICK_S", 3600.0)
    clock = awake_clock._AwakeClock()
    began = clock.now()
    for seconds, cpu_s, counts in ((2.0, 0.0, 2.0), (36.0, 0.5, 5.0), (36.0, 30.0, 36.0)):
        now["monotonic"] += seconds
        now["process_time"] += cpu_s
        assert clock.now() - began == counts
        began = clock.now()
