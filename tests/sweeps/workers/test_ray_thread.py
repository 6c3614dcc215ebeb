"""Calls to a Ray that is deaf, stopped or dead come to an end; what is known of its workers."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from engine_cases import make_study, run_trial
from simulated_ray import SimulatedRay, homogeneous
from tabsweep.sweeps.engine import Engine
from tabsweep.sweeps.store.ledger import Ledger
from tabsweep.sweeps.trial import Result, Trial
from tabsweep.sweeps.workers import crash_report, ray_thread
from tabsweep.sweeps.workers.actor_pool import ActorPool
from tabsweep.sweeps.workers.actors import TrialActor
from tabsweep.sweeps.workers.placement import Shape
from tabsweep.sweeps.workers.pool import ClusterLost
from tabsweep.sweeps.workers.ray_cluster import Node
from tabsweep.sweeps.workers.ray_thread import RAY, RayThread


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> RayThread:
    """With the limits of this test, in seconds."""
    monkeypatch.setattr(ray_thread, "ANSWER_S", 1.0)
    return RayThread()


@pytest.fixture
def daemon() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


def refuse(question: int) -> None:
    raise ValueError(question)


def test_calls_are_made_one_after_the_other_in_one_thread(ray: RayThread) -> None:
    names = {ray.ask(threading.current_thread) for _ in range(3)}
    assert len(names) == 1 and threading.current_thread() not in names
    assert ray.ask(lambda: ray.ask(lambda: 7)) == 7  # a call in a call
    with pytest.raises(ValueError, match="3"):
        ray.ask(lambda: refuse(3))
    assert ray.lost == ""


@pytest.mark.fault(35)
def test_a_call_without_an_answer_loses_ray_and_the_next_one_does_not_wait(ray: RayThread) -> None:
    told: list[str] = []
    ray.tell = told.append
    over = threading.Event()
    with pytest.raises(ClusterLost, match="not answered"):
        ray.ask(over.wait)
    assert told == [ray.lost] and ray.lost
    began = time.monotonic()
    with pytest.raises(ClusterLost):
        ray.ask(lambda: 1)
    assert time.monotonic() - began < 0.5
    ray.begin_anew()  # another Ray, though a thread hangs in the first
    assert ray.ask(lambda: 1) == 1
    over.set()


@pytest.mark.fault(35)
def test_a_call_ends_with_the_daemon_that_it_waits_for(ray: RayThread, daemon) -> None:
    ray.watch([daemon.pid])
    assert ray.ask(lambda: 1) == 1
    threading.Timer(0.5, daemon.kill).start()
    with pytest.raises(ClusterLost, match="has died"):
        ray.ask(threading.Event().wait, 60.0)


@pytest.mark.fault(35)
def test_a_daemon_may_be_stopped_for_a_moment_and_no_longer(ray: RayThread, daemon) -> None:
    ray.watch([daemon.pid])
    daemon.send_signal(19)
    ray.check()
    time.sleep(0.5)
    daemon.send_signal(18)
    time.sleep(0.1)
    ray.check()
    time.sleep(1.0)
    ray.check()
    daemon.send_signal(19)
    with pytest.raises(ClusterLost, match="was stopped"):
        ray.ask(threading.Event().wait, 60.0)


def test_a_long_act_is_given_up_where_whoever_looks_on_says_so(ray: RayThread) -> None:
    assert ray.look_on(lambda: 3, lambda: None) == 3
    with pytest.raises(ClusterLost):
        ray.look_on(threading.Event().wait, lambda: ray._lose("gone"))


@pytest.mark.fault(35)
def test_an_error_that_says_that_ray_failed_loses_it(ray: RayThread) -> None:
    class RpcError(Exception):
        pass

    def call() -> None:
        raise RpcError("no such server")

    with pytest.raises(ClusterLost, match="no such server"):
        ray.ask(call)
    assert ray.lost


class Daemon(SimulatedRay):
    """Simulated workers under a daemon that is a real process and dies with the fifth trial."""

    def __init__(self) -> None:
        super().__init__(homogeneous(8), self.trial, trial_s=0.0)
        self.process_of_ray = subprocess.Popen(["sleep", "600"])
        self.computed: list[str] = []

    def trial(self, trial: Trial, data: None) -> Result:
        self.computed.append(trial.id)
        if len(self.computed) == 5:
            self.process_of_ray.kill()
            self.process_of_ray.wait()
        return run_trial(trial, data)


@pytest.mark.usefixtures("unsynced")
@pytest.mark.fault(35)
def test_results_that_came_before_ray_died_are_in_the_ledger(tmp_path: Path) -> None:
    calls = Daemon()
    pool = ActorPool(run_trial, lambda key: None, calls=calls)
    RAY.watch([calls.process_of_ray.pid])
    ledger = Ledger(tmp_path, write=True)
    study = make_study(sampler="random", n_trials=12)
    try:
        with pytest.raises(ClusterLost):
            Engine([study], ledger=ledger, pool=lambda: pool).run()
    finally:
        calls.process_of_ray.kill()
        RAY.begin_anew()
        ledger.close()
    found = Ledger(tmp_path)
    assert {record["id"] for record in found.records("result")} == set(calls.computed)
    assert len(calls.computed) >= 5
    assert not list(found.records("death"))


SPINS = (
    "import sys, time\n"
    "while True:\n"
    "    until = time.process_time() + 0.4\n"
    "    while time.process_time() < until: pass\n"
    "    print(flush=True)\n"
    "    sys.stdin.readline()\n"
)


def test_the_cpu_seconds_of_a_job_are_those_of_its_worker_since_it_began() -> None:
    words, pipe = [sys.executable, "-c", SPINS], subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True) as worker:
        assert worker.stdin is not None and worker.stdout is not None
        shape, node = Shape(1, 0.0, 100.0), Node("a", "host", 1, 0, 100.0)
        actor = TrialActor("1", 1, None, shape, node, pid=worker.pid, here=True)
        worker.stdout.readline()
        actor.begins()
        assert actor.cpu_s() == 0.0  # it waits
        worker.stdin.write("\n")
        worker.stdin.flush()
        worker.stdout.readline()
        assert 0.3 < (actor.cpu_s() or 0.0) < 0.6
        worker.kill()
        worker.wait()
        assert actor.cpu_s() is None


def test_workers_that_die_with_their_machine_hold_the_driver_up_no_longer_than_a_few(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Twenty outputs on a machine that does not answer take the time of two."""
    waits: list[float] = []

    def silent(worker: str, node_id: str, within_s: float) -> str:
        waits.append(within_s)
        time.sleep(within_s)
        raise TimeoutError

    monkeypatch.setattr(crash_report, "output_there", silent)
    monkeypatch.setattr(crash_report, "WAIT_S", 0.1)
    monkeypatch.setattr(crash_report, "MOST_S", 0.2)
    outputs = crash_report.CrashOutputs("here")
    assert [outputs.take(str(i), "far") for i in range(20)] == [""] * 20
    assert waits[0] == 0.1 and sum(waits) <= 0.2 + 1e-6
