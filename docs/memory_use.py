"""Scores of models that keep training rows, with these rows damaged before they predict.

Prints the table of docs/reproduction/later-models.md.

python docs/memory_use.py [--mirror FOLDER]

A model is fitted with the sizes of the budget `reference` (first of each choice) on fold 0. Before
it predicts the test rows its stored labels are permuted, or each of its stored columns is shuffled
by itself; the network's weights stay. SAINT stores no labels. NPT's is `bench experiment
npt-corruption`; with p_target = 1, its default, its predictions see no label of another row.
"""

from __future__ import annotations

import argparse
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import tabsweep
from sklearn.metrics import accuracy_score, roc_auc_score, root_mean_squared_error
from tabsweep.benchmark.planning import suite as suites

DATASETS = ["yacht", "haberman-survival", "vertebral-column3", "glass", "statlog-heart"]
MODELS = ["tabr", "saint", "hopular"]
LABELS, COLUMNS = ("y", "targets"), ("x", "numbers", "codes")
SEEDS = (0, 1, 2)


def score(model: Any, X: Any, y: np.ndarray, task: str) -> float:
    """ROC AUC, accuracy or RMSE, by the task."""
    if task == "binary":
        return float(roc_auc_score(y, model.predict_proba(X)[:, 1]))
    if task == "multiclass":
        return float(accuracy_score(y, model.predict(X)))
    return float(root_mean_squared_error(y, model.predict(X)))


def scores(name: str, dataset: str, seed: int, mirror: Path | None) -> list[float]:
    """The scores of a fit as it is, with permuted labels, with shuffled columns; NaN where it
    stores none."""
    suite = suites.load("uci-small")
    search = suite.budget("reference")[1].search(name, dataset)
    config = {**search.fixed, **{key: values[0] for key, values in search.choices.items()}}
    table = tabsweep.load_dataset(dataset, mirror=mirror)
    fold = tabsweep.splits(dataset, mirror=mirror)[0]
    X, y = table.rows, table.target
    model = tabsweep.make_model(name, task=table.task, seed=seed, threads=1, **config)
    model.fit(X(fold.train), y[fold.train], X_val=X(fold.val), y_val=y[fold.val])
    fitted, rng = pickle.dumps(model), np.random.default_rng(seed)
    found = []
    for disturbed in ((), LABELS, COLUMNS):
        model = pickle.loads(fitted)  # nothing is kept of another prediction
        there = [key for key in disturbed if key in model.model_]
        for key in there:
            axis_wise = model.model_[key].ndim == 2 and disturbed is COLUMNS
            how = rng.permuted if axis_wise else rng.permutation
            model.model_ = {**model.model_, key: how(model.model_[key], axis=0)}
        known = not disturbed or there
        found.append(score(model, X(fold.test), y[fold.test], table.task) if known else np.nan)
    return found


def main() -> None:
    """Print a line a model and dataset: means over the seeds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mirror", type=Path)
    mirror = parser.parse_args().mirror
    print("| dataset | model | as fitted | labels permuted | columns shuffled |")
    print("| --- | --- | ---: | ---: | ---: |")
    for dataset in DATASETS:
        for name in MODELS:
            runs = np.array([scores(name, dataset, seed, mirror) for seed in SEEDS])
            cells = [
                "none stored" if np.isnan(mean) else f"{mean:.3f} ± {spread:.3f}"
                for mean, spread in zip(runs.mean(axis=0), runs.std(axis=0, ddof=1), strict=True)
            ]
            print(f"| {dataset} | {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
