"""Processes that are ended without Ray, whoever collects them."""

from __future__ import annotations

import subprocess
import sys

import psutil
from tabsweep.sweeps.workers.placement import Shape
from tabsweep.sweeps.workers.ray_actors import TrialActor
from tabsweep.sweeps.workers.ray_calls import RayCalls
from tabsweep.sweeps.workers.ray_cluster import Node

PARENT = (
    "import subprocess, sys\n"
    "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
    "print(child.pid, flush=True)\n"
    "child.wait()"
)


def computes(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_process_ends_with_its_child_also_where_nobody_collects_it() -> None:
    words = [sys.executable, "-c", PARENT]
    with (
        subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as parent,
        subprocess.Popen([sys.executable, "-c", ""]) as ended,
    ):
        assert parent.stdout is not None
        found = [psutil.Process(parent.pid), psutil.Process(int(parent.stdout.readline()))]
        dead = psutil.Process(ended.pid)
        calls = RayCalls()
        assert all(map(computes, found))
        calls.end([dead, calls.process(parent.pid)])
        assert not any(map(computes, [*found, dead]))
        assert found[0].status() == psutil.STATUS_ZOMBIE  # this process has not collected it yet
        parent.wait()
        calls.end(found)  # gone by now, which is fine


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
        actor = TrialActor("1", 1, None, shape, node, process=RayCalls().process(worker.pid))
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
