"""CPUs and memory that this process may use: Linux's control groups, as containers and SLURM set
them, and the machine's own where they set no limit."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")


def available_cpus() -> int:
    """The number of CPUs that this process may use: its affinity, and its groups' quota of CPU time
    in whole CPUs, rounded up."""
    cpus = float(len(os.sched_getaffinity(0)))
    for group in _groups("cpu"):
        with suppress(OSError, ValueError):  # no such file, or "max"
            quota, period = map(float, (group / "cpu.max").read_text(encoding="utf-8").split())
            cpus = min(cpus, quota / period)
        with suppress(OSError, ValueError):
            quota = float((group / "cpu.cfs_quota_us").read_text(encoding="utf-8"))
            if quota > 0:
                cpus = min(
                    cpus, quota / float((group / "cpu.cfs_period_us").read_text(encoding="utf-8"))
                )
    return max(1, math.ceil(cpus))


def free_memory_mb() -> float:
    """MB of memory that processes here may still take: what the machine has available, or what is
    left to one of this process's groups if that is less."""
    free = [_entry(Path("/proc/meminfo"), "MemAvailable:") * 1024]
    for group in _groups("memory"):
        for limit, used, cache in (
            ("memory.max", "memory.current", "inactive_file"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ):
            with suppress(OSError, ValueError):
                taken = int((group / used).read_text(encoding="utf-8")) - _entry(
                    group / "memory.stat", cache
                )
                free.append(int((group / limit).read_text(encoding="utf-8")) - taken)
    return max(0.0, min(free) / 2**20)


def _entry(path: Path, name: str) -> int:
    """The number that a file of lines "name number ..." has for a name. Raises OSError,
    ValueError."""
    for line in path.read_text(encoding="utf-8").splitlines():
        words = line.split()
        if words[0] == name:
            return int(words[1])
    raise ValueError(f"{path} has no line {name}")


def _groups(controller: str) -> Iterator[Path]:
    """The folders of the groups that this process is in, with those above them. In a container its
    own group may be mounted as the root, whatever its path is called."""
    with suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers and controller not in controllers.split(","):
                continue
            root = ROOT / controllers if controllers else ROOT
            group = root / path.strip("/")
            yield from (one for one in (group, *group.parents) if one.is_relative_to(root))
