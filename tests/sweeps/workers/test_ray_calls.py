"""What a driver knows of the processes of its workers."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
from tabsweep.sweeps.workers import crash_report
from tabsweep.sweeps.workers.placement import Shape
from tabsweep.sweeps.workers.ray_actors import TrialActor
from tabsweep.sweeps.workers.ray_cluster import Node

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
