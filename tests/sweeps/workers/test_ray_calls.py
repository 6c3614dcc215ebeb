"""What a driver knows of the processes of its workers."""

from __future__ import annotations

import subprocess
import sys

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
