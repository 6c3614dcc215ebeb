"""The thread that ends a worker at its memory limit, also where Ray or a file cannot be reached."""

from __future__ import annotations

import os
import subprocess
import sys

# Without Ray the cause cannot be reported; without a descriptor the memory cannot be read.
PROGRAM = """
import mmap, os, resource, time
from tabsweep.sweeps.trial import DONE, Limits, Result, Trial
from tabsweep.sweeps.workers.ray_calls import RayLink
from tabsweep.sweeps.workers.trial_actor import TrialWorker

def hog(trial, data):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1, hard))
    time.sleep(1.0)
    try:
        open("/proc/self/statm")
    except OSError:
        print("no descriptor", file=told, flush=True)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    kept = []
    for mb in range(0, 2000, 20):
        kept.append(mmap.mmap(-1, 20 * 2**20))  # no limit of the kernel's counts shared pages
        kept[-1].write(b"x" * (20 * 2**20))
        time.sleep(0.1)
    print("never ended", file=told, flush=True)
    return Result(status=DONE)

told = os.fdopen(os.dup(1), "w")
worker = TrialWorker(RayLink(), hog, "w", [], None, {}, 0.0)
worker.run(Trial("d", 0, "m", {}, 0, {}), "", [], Limits(timeout_s=60.0, memory_mb=100.0), None)
"""


def test_a_worker_ends_at_its_limit_though_neither_ray_nor_a_file_answers(tmp_path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert (done.returncode, done.stdout) == (137, "no descriptor\n"), done.stderr
