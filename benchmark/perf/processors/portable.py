"""Cost of pinned instruction sets (`bench sweep --portable`): CPU time of fits, pinned over not.

python benchmark/perf/processors/portable.py [--repeats 3] [MODEL...]

Two processes take turns, one pinned and one not, so that both see the same load.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from tabsweep.benchmark.perf.measuring import verdict
from tabsweep.benchmark.planning.environment import cpu_model
from tabsweep.common.portable import PINS

MODELS = (
    "CatBoost FTTransformer Hopular KNN LightGBM Linear NPT RandomForest ResNet SVM "
    "TabTransformer XGBoost"
).split()  # the twelve of the first table


def fit(name: str, seed: int) -> float:
    """CPU seconds of a fit and a prediction with the preset quick on 200 rows of WDBC."""
    import tabsweep
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    model = getattr(tabsweep, f"{name}Classifier")(random_state=seed)
    start = time.process_time()
    model.fit(X[:200], y[:200]).predict_proba(X[200:])
    return time.process_time() - start


def capability(_: int) -> str:
    """The kernels that torch takes in this process."""
    import torch

    return str(torch.backends.cpu.get_cpu_capability())


def process(pins: dict[str, str]) -> ProcessPoolExecutor:
    """A process of its own whose libraries have been loaded under these variables."""
    for name in PINS:
        os.environ.pop(name, None)
    os.environ.update(pins)
    pool = ProcessPoolExecutor(1, mp_context=get_context("spawn"))
    print(
        f"{'pinned' if pins else 'not pinned'}: torch takes {pool.submit(capability, 0).result()}"
    )
    return pool


def main() -> int:
    """Measure and print; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("models", nargs="*", default=MODELS)
    given = parser.parse_args()
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"
    print(f"{cpu_model()}, load {os.getloadavg()[0]:.1f}, {given.repeats} repeats")
    plain, pinned = process({}), process(PINS)
    ratios = []
    print(f"{'model':24} {'CPU s':>7} {'pinned':>7} {'ratio':>6}")
    for name in given.models:
        times: dict[str, list[float]] = {"plain": [], "pinned": []}
        for pool in (plain, pinned):
            pool.submit(fit, name, 0).result()  # imports, and memory for the first time
        for repeat in range(given.repeats):
            times["plain"].append(plain.submit(fit, name, repeat).result())
            times["pinned"].append(pinned.submit(fit, name, repeat).result())
        a, b = (statistics.median(times[key]) for key in ("plain", "pinned"))
        ratios.append(b / a if a > 0 else math.nan)
        print(f"{name:24} {a:7.3f} {b:7.3f} {ratios[-1]:6.2f}", flush=True)
    known = [ratio for ratio in ratios if ratio > 0]
    mean = math.exp(statistics.fmean(map(math.log, known)))
    return 0 if verdict("CPU time pinned over not, geometric mean", mean, 1.1) else 1


if __name__ == "__main__":
    sys.exit(main())
