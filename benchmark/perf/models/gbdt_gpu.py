"""Boosting on a GPU beside a CPU: seconds of a fit, and how far the scores are apart.

python benchmark/perf/models/gbdt_gpu.py [--device cuda] [--rows 10000 100000 1000000]
    [--features 50] [--rounds 300] [--threads 1] [--repeats 3] [--only xgboost]

Generated tables of normal features, two classes that depend on ten of them; 20,000 other rows are
scored. Each model is fitted with the same configuration on both devices in turn; times are medians
of wall seconds, after a fit that is not timed. `--device cpu` times the CPU alone and needs no GPU.
A LightGBM that cannot compute on a GPU says why and has no figure there; a machine without a GPU
is an error. The scores of both
devices should differ by no more than seeds do: beside their difference stands that between two
seeds on the CPU.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from tabsweep.benchmark.perf.measuring import or_dash
from tabsweep.models import registry
from tabsweep.models.boosting_devices import NoGpuFound
from tabsweep.reports.metrics import roc_auc

NAMES = [name for name, spec in registry.MODELS.items() if spec.family == "gbdt" and spec.gpu_mb]
INFORMATIVE, SCORED = 10, 20_000
# What is drawn makes seeds differ; depth and rate are those of none of the libraries' defaults.
CONFIG: dict[str, dict[str, Any]] = {
    "catboost": {"max_depth": 6, "learning_rate": 0.1},
    "lightgbm": {"num_leaves": 63, "learning_rate": 0.1, "subsample": 0.8, "subsample_freq": 1},
    "xgboost": {"max_depth": 6, "learning_rate": 0.1, "subsample": 0.8},
}


def table(n_rows: int, n_features: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """(features (n_rows, n_features), two noisy classes)."""
    rng = np.random.default_rng([seed, n_rows])
    x = rng.standard_normal((n_rows, n_features))
    a = x[:, :INFORMATIVE]
    score = a[:, 0] * a[:, 1] + np.abs(a[:, 2]) + a[:, 3:].sum(axis=1) / 3
    y = (score + rng.logistic(size=n_rows) > np.sqrt(2 / np.pi)).astype(int)
    return pd.DataFrame(x, columns=[f"x{i}" for i in range(n_features)]), y


def fit(
    name: str, device: str, rounds: int, threads: int, seed: int, data: tuple[Any, Any], test: Any
) -> tuple[float, float]:
    """(wall seconds of a fit, ROC AUC on the scored rows)."""
    model: Any = registry.make_model(
        name, task="binary", seed=seed, threads=threads, device=device, n_estimators=rounds,
        early_stopping_rounds=0, **CONFIG[name],
    )  # fmt: skip
    start = time.perf_counter()
    model.fit(*data)
    seconds = time.perf_counter() - start
    auc = roc_auc(test[1], model.predict_proba(test[0]))
    assert auc is not None  # both classes are among the scored rows
    return seconds, auc


def measured(name: str, device: str, given: argparse.Namespace, n_rows: int) -> dict[str, float]:
    """Medians of one model on tables of one length: seconds and AUC on the CPU and, if asked for
    and if the library can, on the GPU, and the AUC of another seed."""
    data, test = table(n_rows, given.features, 0), table(SCORED, given.features, 1)
    devices = {"cpu": "cpu"}
    if device != "cpu":
        there, why = registry.spec(name).on_gpu()
        if why:
            print(f"{name}: {why}")
        else:
            devices["gpu"] = there
    fit(name, devices.get("gpu", "cpu"), 5, given.threads, 0, data, test)
    found: dict[str, list[float]] = {f"{d} s": [] for d in devices}
    scores: dict[str, float] = {}
    for _ in range(given.repeats):
        for label, where in devices.items():
            seconds, auc = fit(name, where, given.rounds, given.threads, 0, data, test)
            found[f"{label} s"].append(seconds)
            scores[f"{label} auc"] = auc
    _, scores["other auc"] = fit(name, "cpu", given.rounds, given.threads, 1, data, test)
    return {key: statistics.median(values) for key, values in found.items()} | scores


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--features", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", choices=NAMES, nargs="+", default=NAMES)
    given = parser.parse_args(arguments)
    if given.features < INFORMATIVE:
        parser.error(f"--features must be at least {INFORMATIVE}")
    print(
        f"{'model':10} {'rows':>9} {'CPU s':>8} {'GPU s':>8} {'speedup':>8} {'AUC CPU':>8}", end=""
    )
    print(f" {'GPU-CPU':>9} {'seed-seed':>10}")
    for name in given.only:
        for n_rows in given.rows:
            try:
                got = measured(name, given.device, given, n_rows)
            except NoGpuFound as error:
                print(f"{error} (--device cpu)", file=sys.stderr)
                return 3
            gpu_s, gpu_auc = got.get("gpu s"), got.get("gpu auc")
            speedup = None if gpu_s is None else got["cpu s"] / gpu_s
            off = None if gpu_auc is None else gpu_auc - got["cpu auc"]
            print(
                f"{name:10} {n_rows:9} {got['cpu s']:8.2f} {or_dash(gpu_s):>8} "
                f"{or_dash(speedup):>8} {got['cpu auc']:8.4f} {or_dash(off, '+.4f'):>9} "
                f"{got['other auc'] - got['cpu auc']:+10.4f}",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
