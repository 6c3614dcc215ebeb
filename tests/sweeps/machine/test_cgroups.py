"""In a control group with less than the machine has, as containers are: its CPUs and its memory."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tabsweep.sweeps.machine.cgroups import available_cpus

ROOT = Path("/sys/fs/cgroup")
Group = Callable[[str, dict[str, str]], list[str]]


@pytest.fixture
def group() -> Iterator[Group]:
    """Makes a group of a controller with these settings of cgroups v1, and
    returns the words before a command that runs it there; skips the test where none can be made."""
    made: list[Path] = []

    def make(controller: str, settings: dict[str, str]) -> list[str]:
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controller in controllers.split(","):
                folder = ROOT / controllers / path.strip("/") / f"tabsweep-test-{os.getpid()}"
                try:
                    folder.mkdir()
                    made.append(folder)
                    for name, value in settings.items():
                        (folder / name).write_text(value)
                except OSError as error:
                    pytest.skip(f"no control group can be made here: {error}")
                return ["sh", "-c", f'echo $$ > {folder}/cgroup.procs; exec "$@"', "sh"]
        pytest.skip(f"no {controller} controller of cgroups v1 here")

    yield make
    for folder in made:
        end = time.monotonic() + 10
        while folder.exists() and time.monotonic() < end:  # its processes may be ending
            with suppress(OSError):
                folder.rmdir()
            time.sleep(0.1)


def run(words: list[str], *more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*words, *more], capture_output=True, text=True, timeout=200)


@pytest.mark.parametrize(("quota", "cpus"), [("100000", 1), ("50000", 1), ("-1", available_cpus())])
def test_a_quota_of_cpu_time_is_the_number_of_workers(group: Group, quota: str, cpus: int) -> None:
    words = group("cpu", {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": quota})
    sweep = ["sweep", "--suite", "smoke", "--dataset", "iris", "--model", "knn", "--dry-run"]
    main = "from tabsweep.benchmark.cli import main; main()"
    found = run(words, sys.executable, "-c", main, *sweep)
    assert f" on {cpus} CPU{'s' if cpus > 1 else ''}," in found.stdout, found


HOG = """
import mmap, os, sys, time
import ray  # as in its actors: there is no room left to load it
from tabsweep.sweeps.trial import DONE, Limits, Result, Trial
from tabsweep.sweeps.workers.ray_calls import RayLink
from tabsweep.sweeps.workers.trial_actor import TrialWorker

def hog(trial, data):
    kept = []
    for _ in range(200):
        # no limit of the kernel's on a process counts shared pages: the thread must see them
        kept.append(mmap.mmap(-1, 10 * 2**20) if sys.argv[1] == "mapped" else bytearray(10 * 2**20))
        kept[-1][:] = b"x" * (10 * 2**20)
        time.sleep(0.03)
    return Result(status=DONE)

worker = TrialWorker(RayLink(), hog, "w", [], None, {}, 0.0)
limits = Limits(timeout_s=60.0, memory_mb=8192.0)
result = worker.run(Trial("d", 0, "m", {}, 0, {}), "", [], limits, None)
print(result.cause)
"""


@pytest.mark.parametrize(("how", "end"), [("allocated", (0, "oom\n")), ("mapped", (137, ""))])
def test_a_trial_that_takes_all_memory_of_its_container_is_ended_before_the_kernel_kills(
    group: Group, how: str, end: tuple[int, str]
) -> None:
    words = group("memory", {"memory.limit_in_bytes": "600M"})
    done = run(words, sys.executable, "-c", HOG, how)
    assert (done.returncode, done.stdout) == end, done.stderr
