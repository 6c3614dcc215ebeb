"""The library's estimators as a newcomer uses them: seconds and scores beside LightGBM's.

    python benchmark/perf/library.py [--class NAME ...] [--rows 2000] [--seeds 3]

Each estimator is fitted with its defaults (preset "quick", one thread) on three quarters of WDBC
(scikit-learn's breast cancer) and of Adult's first rows, both as DataFrames, and scored on the
rest. Adult is read from TABSWEEP_MIRROR. Also printed: the time of `import tabsweep`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator

import numpy as np
import pandas as pd
import tabsweep
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import accuracy_score, roc_auc_score
from sklearn.model_selection import train_test_split

NAMED = (
    "LightGBMClassifier",
    "FTTransformerClassifier",
    "NPTClassifier",
    "HopularClassifier",
    "TabTransformerClassifier",
)


def tables(n_adult: int) -> Iterator[tuple[str, pd.DataFrame, np.ndarray]]:
    """(name, features, labels) of the two tables."""
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    yield "wdbc", X, y.to_numpy()
    adult = tabsweep.load_dataset("adult")
    first = np.arange(n_adult)
    yield f"adult[:{n_adult}]", adult.rows(first), np.array(adult.classes)[adult.target[first]]


def measure(name: str, X: pd.DataFrame, y: np.ndarray, seed: int) -> tuple[float, ...]:
    """(seconds, CPU seconds, accuracy, ROC AUC) of one fit and prediction."""
    train, test, y_train, y_test = train_test_split(
        X, y, test_size=0.25, stratify=y, random_state=seed
    )
    model = getattr(tabsweep, name)(random_state=seed)
    began, cpu = time.perf_counter(), time.process_time()
    model.fit(train, y_train)
    p = model.predict_proba(test)
    spent = time.perf_counter() - began, time.process_time() - cpu
    predicted = model.classes_[p.argmax(axis=1)]
    return (
        *spent,
        accuracy_score(y_test, predicted),
        roc_auc_score(y_test == model.classes_[1], p[:, 1]),
    )


def import_s() -> float:
    """Seconds that `import tabsweep` takes in a process of its own, the least of five."""
    command = [sys.executable, "-X", "importtime", "-c", "import tabsweep"]
    found = []
    for _ in range(5):
        told = subprocess.run(command, capture_output=True, text=True, check=True).stderr
        line = next(line for line in told.splitlines() if line.endswith(" tabsweep"))
        found.append(float(line.split("|")[1]) / 1e6)
    return min(found)


def main() -> None:
    """Prints one line for each table and estimator, means over the seeds."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--class", dest="names", action="append", default=[])
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    warnings.simplefilter("ignore", tabsweep.ColumnNotice)
    print(f"import tabsweep: {import_s() * 1000:.1f} ms")
    print(f"{'table':<14} {'estimator':<32} {'s':>7} {'CPU s':>7} {'accuracy':>9} {'ROC AUC':>8}")
    for table, X, y in tables(given.rows):
        for name in given.names or NAMED:
            found = np.mean([measure(name, X, y, seed) for seed in range(given.seeds)], axis=0)
            print(
                f"{table:<14} {name:<32} {found[0]:7.1f} {found[1]:7.1f} {found[2]:9.3f} "
                f"{found[3]:8.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
