"""What the measurements share: folders, peaks of memory, verdicts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory


@contextmanager
def folder_of(keep: Path | None = None) -> Iterator[Path]:
    """The folder `keep`, or one that is gone afterwards."""
    with nullcontext(keep) if keep else TemporaryDirectory(prefix="tabsweep-perf-") as folder:
        yield Path(folder)


def status_mb(key: str) -> float:
    """Memory of this process in MB: now (`VmRSS`), or at its peak (`VmHWM`). `getrusage` would
    include the peak of the parent process."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith(key))


def verdict(name: str, value: float, target: float, *, at_least: bool = False) -> bool:
    """Prints and returns whether a figure is at most, or at least, what it should be."""
    met = value >= target if at_least else value <= target
    sign = ">=" if at_least else "<="
    print(f"{'met ' if met else 'MISS'}  {name}: {value:.4f} (target {sign} {target:g})")
    return met
