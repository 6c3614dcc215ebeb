"""Processes that are ended without Ray, whoever collects them."""

from __future__ import annotations

import subprocess
import sys

import psutil
from tabsweep.sweeps.workers.ray_calls import RayCalls

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
