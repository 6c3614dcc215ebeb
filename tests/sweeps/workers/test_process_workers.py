"""Sweeps of one's own table, whose workers are processes without Ray: each kind of process, hit."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import pytest
from chaos import Sweep, alive, kill_worker, wait_for

pytestmark = pytest.mark.xdist_group("ray-faults")

N_TRIALS = 8


@pytest.fixture
def sweep(tmp_path: Path) -> Sweep:
    """Eight trials of a table of 120 rows on two workers."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(120, 3)), columns=["a", "b", "c"])
    frame["y"] = frame["a"] + rng.normal(size=120)
    frame.to_csv(tmp_path / "table.csv", index=False)
    options = ["--csv", tmp_path / "table.csv", "--target", "y", "--model", "knn", "--folds", 2]
    options += ["--trials", 4, "--bag", 0, "--workers", 2, "--tracking-uri", "none"]
    return Sweep(tmp_path / "sweep", *options)


def family(sweep: Sweep) -> tuple[psutil.Process, list[psutil.Process]]:
    """The fork server, and the workers."""
    assert sweep.driver is not None
    (server,) = [
        one
        for one in psutil.Process(sweep.driver.pid).children()
        if "process_worker" in " ".join(one.cmdline())
    ]
    return server, server.children()


def check(sweep: Sweep, started: list[psutil.Process]) -> None:
    """Every trial has one row, and no process is left."""
    n = len(sweep.finished())
    sweep.check_nothing_lost(n)
    sweep.check_nothing_twice()
    assert n >= N_TRIALS and "Traceback" not in sweep.whole_output()
    wait_for(lambda: not any(alive(one.pid) for one in started), "the end of all processes")


@pytest.mark.fault(2)
def test_a_worker_that_is_killed_is_replaced_and_its_trial_runs_again(sweep: Sweep) -> None:
    sweep.start(pause_s=1.0)
    hit = kill_worker(sweep)
    server, workers = family(sweep)
    sweep.end()
    check(sweep, [server, *workers])
    (again,) = [one for one in sweep.results() if one["id"] == hit.trial]
    assert (again["status"], again["attempt"]) == ("done", 2)


@pytest.mark.fault(36)
def test_a_worker_that_is_told_to_end_has_its_trial_run_again_which_is_no_attempt(sweep) -> None:
    sweep.start(pause_s=1.0)
    (line, *_) = sweep.wait(sweep.running, "a running trial")
    os.kill(line.pid, signal.SIGTERM)
    sweep.end()
    check(sweep, [])
    assert {record["attempt"] for record in sweep.results()} == {1}


@pytest.mark.fault(2)
def test_the_fork_server_is_started_again(sweep: Sweep) -> None:
    sweep.start(pause_s=1.0)
    sweep.wait(sweep.running, "a running trial")
    server, workers = family(sweep)
    assert server.num_threads() == 1 and workers  # a fork inherits the locks of other threads
    server.kill()
    sweep.end()
    check(sweep, [server, *workers])
    assert {record["attempt"] for record in sweep.results()} == {1}


@pytest.mark.nightly
@pytest.mark.fault(36)
def test_a_worker_that_is_stopped_is_replaced(sweep: Sweep) -> None:
    sweep.start(pause_s=1.0)
    (line, *_) = sweep.wait(sweep.running, "a running trial")
    os.kill(line.pid, signal.SIGSTOP)
    sweep.end()
    check(sweep, [psutil.Process(line.pid)] if psutil.pid_exists(line.pid) else [])
    assert f"the worker {line.pid} was stopped" in sweep.whole_output()


@pytest.mark.fault(1)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_when_the_driver_ends_its_workers_end_and_the_run_goes_on(sweep: Sweep, number) -> None:
    driver = sweep.start(pause_s=1.0)
    sweep.wait(lambda: len(sweep.finished()) >= 2 and sweep.running(), "two results")
    server, workers = family(sweep)
    driver.send_signal(number)
    assert driver.wait(60) == (-9 if number == signal.SIGKILL else 130)
    wait_for(lambda: not any(alive(one.pid) for one in (server, *workers)), "the workers' end")
    done = sweep.finished()
    sweep.resume()
    check(sweep, [])
    assert done < sweep.finished()


def test_workers_without_ray_give_the_bytes_of_those_with_it(sweep: Sweep, tmp_path) -> None:
    sweep.finish()
    other = Sweep(tmp_path / "other", *sweep.options, "--address", "local")
    other.finish()
    assert sweep.finished() == other.finished() and sweep.tables() == other.tables()
    assert {one["val"]["rmse"] for one in sweep.results()} == {
        one["val"]["rmse"] for one in other.results()
    }
