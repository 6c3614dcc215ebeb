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


@contextmanager
def importable(checkout: Path) -> Iterator[Path]:
    """A folder for PYTHONPATH from which `tabsweep` is this checkout, whatever it is called.
    FileNotFoundError where there is none: Python would import another one in silence."""
    if not (checkout / "__init__.py").is_file():
        raise FileNotFoundError(f"{checkout} is no checkout of tabsweep")
    with folder_of() as folder:
        (folder / "tabsweep").symlink_to(checkout.resolve())
        yield folder


def status_mb(key: str) -> float:
    """Memory of this process in MB: now (`VmRSS`), or at its peak (`VmHWM`). `getrusage` would
    include the peak of the parent process."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith(key))


class Family:
    """A process and its descendants, those that ended too: `cpu_s`, seconds of all and
    (`largest_cpu_s`) of the one that took most; `mb`, the largest memory of all at one time and
    (`largest_mb`) of one, in MB of proportional set size (PSS: shared pages count once)."""

    def __init__(self, pid: int) -> None:
        self.first = psutil.Process(pid)
        self.mb = self.largest_mb = 0.0
        self._cpu: dict[tuple[int, float], float] = {}

    def look(self) -> None:
        """Takes the figures of now."""
        mb = []
        try:
            family = [self.first, *self.first.children(recursive=True)]
        except psutil.Error:
            return
        for process in family:
            try:
                times = process.cpu_times()
                self._cpu[process.pid, process.create_time()] = times.user + times.system
                mb.append(process.memory_full_info().pss / 2**20)
            except psutil.Error:
                continue
        self.mb, self.largest_mb = max(self.mb, sum(mb)), max(self.largest_mb, *mb, 0.0)

    @property
    def cpu_s(self) -> float:
        """CPU seconds of all."""
        return sum(self._cpu.values())

    @property
    def largest_cpu_s(self) -> float:
        """CPU seconds of the process that took most."""
        return max(self._cpu.values(), default=0.0)


def verdict(name: str, value: float, target: float, *, at_least: bool = False) -> bool:
    """Prints and returns whether a figure is at most, or at least, what it should be."""
    met = value >= target if at_least else value <= target
    sign = ">=" if at_least else "<="
    print(f"{'met ' if met else 'MISS'}  {name}: {value:.4f} (target {sign} {target:g})")
    return met
