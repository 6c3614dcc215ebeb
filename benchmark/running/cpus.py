"""The CPUs of this machine, and how many workers they carry."""

from __future__ import annotations

import os

from ..console import count
from ..errors import SweepError


def available_cpus() -> int:
    """The number of CPUs that this process may use."""
    return max(1, len(os.sched_getaffinity(0)))


def check_workers(workers: int | None, address: str) -> None:
    """Every worker is a process with its libraries: refuse numbers that would exhaust a machine."""
    most = max(16, 4 * available_cpus())
    if workers is not None and address == "local" and workers > most:
        raise SweepError(
            f"--workers {workers} on {count(available_cpus(), 'CPU')}: at most {most} here; "
            "--address joins a cluster"
        )
