"""Seconds of the networks: a training step, a whole fit, predictions of one row and of a thousand.

    python benchmark/perf/models.py [--models mlp tabm] [--rows 300 1000 4000] [--repeats 3]
    python benchmark/perf/models.py --against CHECKOUT

Tables of 8 numbers and 3 categories, two classes. A step is one of the registered model with its
defaults; the median of `STEPS`, of NPT and Hopular the mean wall time of `FEW`. Fit and predictions
are those of the library's estimator with its quick preset, the predictions on a DataFrame.

Each measurement is a process of its own. With `--against` the same script runs there with the other
checkout's package, in turn with this one, so that both meet the same load: the ratio of the least
times (other over this) is what counts on a busy machine. Steps are in CPU time, the others in wall
time.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[2]
ESTIMATORS = {
    "mlp": "MLPClassifier",
    "resnet": "ResNetClassifier",
    "ft-transformer": "FTTransformerClassifier",
    "tabm": "TabMClassifier",
    "modern-nca": "ModernNCAClassifier",
    "tabr": "TabRClassifier",
    "npt": "NPTClassifier",
    "hopular": "HopularClassifier",
}
NUMBERS, LEVELS = 8, (4, 9, 30)
STEPS, FEW, ASKED = 15, 3, 20
FIGURES = {
    "step_ms": "step ms",
    "fit_s": "fit s",
    "row_ms": "1 row ms",
    "thousand_ms": "1,000 ms",
}


# -- in a process of its own ----------------------------------------------------------------------


def table(n: int, seed: int = 0) -> tuple[Any, Any]:
    """n rows and their labels."""
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.standard_normal((n, NUMBERS)), columns=[*"abcdefgh"])
    for j, size in enumerate(LEVELS):
        frame[f"c{j}"] = pd.Categorical([f"v{code}" for code in rng.integers(0, size, n)])
    noise = rng.standard_normal(n)
    return frame, (frame["a"] + frame["b"] * frame["c"] + noise > 0).to_numpy().astype(int)


def step(name: str, n: int) -> dict[str, float]:
    """Median CPU milliseconds of a step."""
    from tabsweep.models.deep.trainer import computing
    from tabsweep.models.registry import make_model

    with computing(1):
        frame, y = table(n)
        model = make_model(name, task="binary")
        if model.resource == "steps":  # NPT, Hopular: they count their steps themselves
            model = make_model(name, task="binary", steps=FEW, eval_every=FEW).fit(frame, y)
            return {"step_ms": 1e3 * model.step_s_}
        training = model._training(model._prepare(frame, y), None)
        taken = []
        for _ in range(STEPS + 2):
            began = time.process_time()
            training.run(training.step + 1)
            taken.append(1e3 * (time.process_time() - began))
    return {"step_ms": statistics.median(taken[2:])}


def fitted(name: str, n: int) -> dict[str, float]:
    """Seconds of a fit of the library's estimator, and median milliseconds of predictions."""
    import tabsweep

    frame, y = table(n)
    began = time.perf_counter()
    model = getattr(tabsweep, ESTIMATORS[name])().fit(frame, y)
    found = {"fit_s": time.perf_counter() - began}
    asked = table(1000, seed=1)[0]
    for which, rows, times in (("row_ms", asked.iloc[:1], ASKED), ("thousand_ms", asked, 3)):
        taken = []
        for _ in range(times + 1):
            began = time.perf_counter()
            model.predict_proba(rows)
            taken.append(1e3 * (time.perf_counter() - began))
        found[which] = statistics.median(taken[1:])
    return found


# -- side by side ---------------------------------------------------------------------------------


def measured(checkout: Path, name: str, n: int) -> dict[str, float]:
    """The figures of a model with a checkout's package, from a process of its own."""
    from tabsweep.benchmark.perf.measuring import importable

    words = [sys.executable, str(Path(__file__).resolve()), "--inside", name, str(n)]
    with importable(checkout) as folder:
        env = {**os.environ, "PYTHONPATH": str(folder)}
        told = subprocess.run(words, env=env, cwd="/", capture_output=True, text=True)
    if told.returncode:
        raise RuntimeError(f"{name}, {n:,} rows in {checkout}: {told.stderr[-2000:]}")
    return json.loads(told.stdout.splitlines()[-1])


def least(runs: list[dict[str, float]]) -> dict[str, float]:
    """The smallest value of each figure: what other programs disturbed least."""
    return {key: min(run[key] for run in runs) for key in runs[0]}


def line(label: str, found: dict[str, float], how: str) -> str:
    """One line of the table."""
    cells = [format(found[key], how) if key in found else "-" for key in FIGURES]
    return f"{label:32}" + "".join(f"{cell:>11}" for cell in cells)


def main() -> int:
    """Parse the options and measure; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", default=list(ESTIMATORS), choices=list(ESTIMATORS))
    parser.add_argument("--rows", type=int, nargs="+", default=[300, 1000, 4000])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--against", type=Path, metavar="CHECKOUT")
    parser.add_argument("--inside", nargs=2, metavar=("MODEL", "ROWS"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        name, n = given.inside[0], int(given.inside[1])
        print(json.dumps({**step(name, n), **fitted(name, n)}))
        return 0
    from tabsweep.benchmark.planning.environment import cpu_model

    sides = {"this": HERE} | ({"other": given.against} if given.against else {})
    print(f"{cpu_model()}; load {os.getloadavg()[0]:.1f}; least of {given.repeats} processes")
    print(f"{'':32}" + "".join(f"{title:>11}" for title in FIGURES.values()))
    for name in given.models:
        for n in given.rows:
            runs: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
            for _ in range(given.repeats):
                for side, checkout in sides.items():
                    runs[side].append(measured(checkout, name, n))
            found = {side: least(taken) for side, taken in runs.items()}
            for side, figures in found.items():
                print(line(f"{name}, {n:,} rows, {side}", figures, ".2f"), flush=True)
            if given.against:
                ratios = {k: v / found["this"][k] for k, v in found["other"].items()}
                print(line("  other / this", ratios, ".2f"), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
