"""What the measurements share: folders, peaks of memory, verdicts."""

from __future__ import annotations

import math
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def folder_of(keep: Path | None = None) -> Iterator[Path]:
    """The folder `keep`, or one that is gone afterwards."""
    folder = keep or Path(tempfile.mkdtemp(prefix="tabsweep-perf-"))
    try:
        yield folder
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


def status_mb(key: str) -> float:
    """Memory of this process: what it holds (VmRSS), or the most that it held (VmHWM), which a
    resource usage would inherit from its parent."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith(key))


@contextmanager
def peak_printed() -> Iterator[None]:
    """Prints the peak memory in MB of what is done inside, over what the process held before."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak so far is forgotten
    before = status_mb("VmRSS")
    yield
    print(status_mb("VmHWM") - before)


def peak_mb(script: str, case: str, threads: int, which: str) -> float:
    """What `peak_printed` prints in a process of its own: the script, called with
    `--inside WHICH --only CASE --threads THREADS`."""
    command = [sys.executable, script, "--inside", which, "--only", case]
    command += ["--threads", str(threads)]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(found.stdout)


def or_dash(value: float | None, how: str = ".2f") -> str:
    """The number in that format, "-" for None and NaN."""
    return "-" if value is None or math.isnan(value) else f"{value:{how}}"


def verdict(name: str, value: float, target: float, *, at_least: bool = False) -> bool:
    """Prints and returns whether a figure is at most, or at least, what it should be."""
    met = value >= target if at_least else value <= target
    sign = ">=" if at_least else "<="
    print(f"{'met ' if met else 'MISS'}  {name}: {value:.4f} (target {sign} {target:g})")
    return met
