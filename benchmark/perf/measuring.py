"""What the measurements share: folders, processes with their memory and CPU time, verdicts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil


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


class Family:
    """A process and its descendants: CPU seconds of all that were seen, of those that ended too,
    and the largest memory, in MB of proportional set size (PSS: shared pages count once)."""

    def __init__(self, pid: int) -> None:
        self.first = psutil.Process(pid)
        self.peak_mb = self.first_peak_mb = 0.0
        self._cpu: dict[tuple[int, float], float] = {}

    def look(self) -> None:
        """Takes the figures of now."""
        mb = 0.0
        try:
            family = [self.first, *self.first.children(recursive=True)]
        except psutil.Error:
            return
        for process in family:
            try:
                times = process.cpu_times()
                key = process.pid, process.create_time()
                self._cpu[key] = times.user + times.system
                own = process.memory_full_info().pss / 2**20
            except psutil.Error:
                continue
            mb += own
            if process is self.first:
                self.first_peak_mb = max(self.first_peak_mb, own)
        self.peak_mb = max(self.peak_mb, mb)

    @property
    def cpu_s(self) -> float:
        """CPU seconds of all."""
        return sum(self._cpu.values())

    @property
    def first_cpu_s(self) -> float:
        """CPU seconds of the first process alone."""
        return next(iter(self._cpu.values()), 0.0)


def verdict(name: str, value: float, target: float, *, at_least: bool = False) -> bool:
    """Prints and returns whether a figure is at most, or at least, what it should be."""
    met = value >= target if at_least else value <= target
    sign = ">=" if at_least else "<="
    print(f"{'met ' if met else 'MISS'}  {name}: {value:.4f} (target {sign} {target:g})")
    return met
