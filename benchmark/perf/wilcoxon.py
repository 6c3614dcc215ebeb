"""Time of all Wilcoxon tests of 30 methods on 25 datasets: at once and one by one.

python benchmark/perf/wilcoxon.py
"""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Callable

import numpy as np
from tabsweep.benchmark.perf.measuring import verdict
from tabsweep.reports.statistics.wilcoxon import wilcoxon, wilcoxon_columns

N_METHODS, N_DATASETS = 30, 25
MOST_MS = 50.0
REPEATS = 7


def main() -> int:
    """Measure and print; returns the exit code."""
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(N_DATASETS, N_METHODS)) + np.linspace(0, 1, N_METHODS)
    a, b = np.array(list(itertools.combinations(range(N_METHODS), 2))).T
    print(f"{len(a)} pairs, {N_DATASETS} datasets; load {os.getloadavg()[0]:.1f}")
    print(f"{'scores':34} {'at once ms':>11} {'one by one ms':>14} {'largest difference':>19}")
    slowest = 0.0
    for title, matrix in (
        ("all different", scores),
        ("one decimal: zeros and ties", np.round(scores, 1)),
        ("whole numbers: mostly ties", np.round(scores)),
    ):
        d = matrix[:, a] - matrix[:, b]
        fast, at_once = best_of(lambda d=d: wilcoxon_columns(d))  # type: ignore[misc]
        slow, one_by_one = best_of(lambda d=d: [wilcoxon(row) for row in d.T], 1)  # type: ignore[misc]
        apart = max(abs(x.p - y.p) / y.p for x, y in zip(at_once, one_by_one, strict=True))
        slowest = max(slowest, fast)
        print(f"{title:34} {1000 * fast:11.1f} {1000 * slow:14.0f} {apart:19.1e}")
    return 0 if verdict("all pairs, ms", 1000 * slowest, MOST_MS) else 1


def best_of(call: Callable[[], list], repeats: int = REPEATS) -> tuple[float, list]:
    """(least CPU seconds of so many calls, the last result)"""
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        found = call()
        seconds.append(time.process_time() - start)
    return min(seconds), found


if __name__ == "__main__":
    sys.exit(main())
