"""From the command to the first result of `bench sweep`.

    python -m tabsweep.benchmark.perf.first_result [--before CHECKOUT] [--times 5]

Each measurement is a process of its own in a folder of its own: `bench sweep --suite smoke --budget
quick`, the same of uci-small, and a sweep of one CSV file. The clock runs from the start of the
process to the first result in the run's ledger; the sweep is then told to stop. The CPU seconds are
those of the command and of all that it had started by then (without processes that have ended).
With `--before` the other checkout's command runs in turns with this one's, so that both meet the
same load, and the ratio of the medians is what counts. What is imported until then:
`python -X importtime -c "from tabsweep.benchmark.cli import main"`.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import psutil

HERE = Path(__file__).parents[2]
PATIENCE_S = 300.0
CASES = {
    "smoke quick": ("--suite", "smoke", "--budget", "quick"),
    "uci-small quick": ("--suite", "uci-small", "--budget", "quick"),
    "one CSV": ("--csv", "mine.csv", "--target", "y", "--budget", "quick"),
}


class First(NamedTuple):
    """Seconds on the clock, and of CPU, from the start of a command to its first result."""

    wall_s: float
    cpu_s: float


def first_result(checkout: Path, words: tuple[str, ...]) -> First:
    """Measure one command; NaN where it ended without a result."""
    with tempfile.TemporaryDirectory(prefix="tabsweep-first-") as folder:
        lines = ["x,z,y"] + [f"{i % 17},{(i * 7) % 13},{(i % 17) > 8}" for i in range(300)]
        Path(folder, "mine.csv").write_text("\n".join(lines) + "\n")
        began = time.monotonic()
        # of the checkout's own environment: workers import the package by its name
        command = [str(checkout / ".venv" / "bin" / "bench"), "sweep", *words, "--name", "r"]
        sweep = subprocess.Popen(
            command,
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": ""},
        )
        ledger = Path(folder, "runs", "r", "ledger")
        try:
            while time.monotonic() - began < PATIENCE_S and sweep.poll() is None:
                if any(b'"kind":"result"' in f.read_bytes() for f in ledger.glob("*.jsonl")):
                    return First(time.monotonic() - began, cpu_of_family(sweep.pid))
                time.sleep(0.02)
            return First(float("nan"), float("nan"))
        finally:
            if sweep.poll() is None:
                sweep.send_signal(signal.SIGINT)
                sweep.wait(PATIENCE_S)


def cpu_of_family(pid: int) -> float:
    """CPU seconds of a process and of its descendants that live."""
    parent = psutil.Process(pid)
    seconds = 0.0
    for process in [parent, *parent.children(recursive=True)]:
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        seconds += times.user + times.system
    return seconds


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--case", choices=sorted(CASES))
    asked = parser.parse_args()
    sides = {"after": HERE, **({"before": asked.before} if asked.before else {})}
    for case in [asked.case] if asked.case else CASES:
        found: dict[str, list[First]] = {side: [] for side in sides}
        for turn in range(asked.times):
            for side in sorted(sides, reverse=turn % 2 == 0):
                found[side].append(first_result(sides[side], CASES[case]))
                wall, cpu = found[side][-1]
                print(f"  {case}, {side}: {wall:.1f} s, {cpu:.1f} s CPU", flush=True)
        for kind in First._fields:
            unit = "s" if kind == "wall_s" else "s CPU"
            median = {}
            for side, firsts in found.items():
                values = sorted(getattr(first, kind) for first in firsts)
                median[side] = statistics.median(values)
                each = ", ".join(f"{v:.1f}" for v in values)
                print(f"{case}, {side}: {median[side]:.1f} {unit}  ({each})", flush=True)
            if asked.before:
                print(f"{case}: after / before {median['after'] / median['before']:.2f}")


if __name__ == "__main__":
    main()
