"""Slowdown of two trials side by side against one, with threads as declared.

python benchmark/perf/threads.py
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from tabsweep.benchmark.perf.measuring import verdict

CONFIG = {"catboost": {"n_estimators": 50}}  # its default takes as long as all others together
MODELS = ("xgboost", "lightgbm", "catboost", "random-forest", "hist-gradient-boosting", "svm")


def prepare() -> None:
    """What a worker's environment holds, and the imports, before anything is timed."""
    for name in MODELS:
        fit(name, 0)


def fit(name: str, seed: int) -> float:
    """Wall seconds of one default fit on WDBC with the model's declared threads."""
    import tabsweep
    from tabsweep.models import registry

    table = tabsweep.load_dataset("breast-cancer-wdbc")
    threads = registry.spec(name).threads
    start = time.perf_counter()
    for repeat in range(3):
        config = CONFIG.get(name, {})
        model = registry.make_model(
            name, task=table.task, seed=seed + repeat, threads=threads, **config
        )
        model.fit(table.frame, table.target)
    return time.perf_counter() - start


def main() -> int:
    """Measure and print; returns the exit code."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"
    worst = 0.0
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        list(pool.map(_prepared, range(2)))
        print(f"load {os.getloadavg()[0]:.1f}")
        print(f"{'model':24} {'alone s':>8} {'beside s':>9} {'ratio':>6}")
        for name in MODELS:
            ratios, alone, beside = [], [], []
            for repeat in range(5):
                alone.append(pool.submit(fit, name, repeat).result())
                pair = [pool.submit(fit, name, 10 + repeat), pool.submit(fit, name, 20 + repeat)]
                beside.append(max(future.result() for future in pair))
                ratios.append(beside[-1] / alone[-1])
            ratio = statistics.median(ratios)
            worst = max(worst, ratio)
            print(
                f"{name:24} {statistics.median(alone):8.3f} {statistics.median(beside):9.3f} "
                f"{ratio:6.2f}",
                flush=True,
            )
    return 0 if verdict("time of two side by side over one alone", worst, 1.3) else 1


def _prepared(_: int) -> None:
    prepare()


if __name__ == "__main__":
    sys.exit(main())
