"""How much too good a bag's out-of-fold score is, because its members stop by the part they score.

    python -m tabsweep.benchmark.perf.stopping_bias --mirror DIR [--dataset NAME ...]

LightGBM's default configuration as a bag of five, with early stopping, and again with a fixed
number of rounds, the mean of the members' before. The share of the error that stopping hides is
1 - (out-of-fold / test error with stopping) / (the same with fixed rounds): the ratio takes out
that one member predicts a part and the mean of five the test rows.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from statistics import mean, median
from typing import Any

from tabsweep.benchmark.bag import run_bag
from tabsweep.benchmark.bag_members import fidelity_of, members_of
from tabsweep.benchmark.column_encoding import table_of_trial
from tabsweep.benchmark.results.trial_scores import rescored
from tabsweep.datasets import catalog
from tabsweep.datasets.inner_parts import out_of_fold
from tabsweep.datasets.protocols import Fold, make_folds
from tabsweep.datasets.table import Table
from tabsweep.models.registry import MODELS
from tabsweep.reports.metrics import METRICS

DATASETS = ["boston", "concrete", "yacht", "energy-y2", "statlog-german-credit", "mammographic"]
DATASETS += ["breast-cancer-wdbc", "credit-approval"]
METRIC = {"regression": "rmse", "binary": "log_loss", "multiclass": "log_loss"}
N_FOLDS = 3


def ratio(table: Table, fold: Fold, members: Any, config: dict[str, Any]) -> tuple[float, int]:
    """(out-of-fold error / test error, mean number of rounds) of a bag."""
    target = MODELS["lightgbm"].target
    how: dict[str, Any] = {"target": target, "task": table.task, "threads": 1, "config": config}
    cell = run_bag(members, partial(table_of_trial, table, identity={}), seed=0, **how)
    scores = rescored(table, out_of_fold(fold, members), cell.predictions)
    metric = METRICS[METRIC[table.task]]
    known = [scores[part][metric.name] for part in ("val", "test")]
    out, test = (metric.loss(value) for value in known if value is not None)
    return out / test, round(mean(cell.info.get("best_iterations") or [0]))


def main() -> None:
    """Measure and print a line a table."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--mirror", type=Path, required=True)
    parser.add_argument("--dataset", action="append")
    given = parser.parse_args()
    hidden = []
    for name in given.dataset or DATASETS:
        table = catalog.load_dataset(name, mirror=str(given.mirror))
        of_table = []
        for fold in make_folds(table, catalog.card(name).protocol)[:N_FOLDS]:
            members = members_of(table, fold, fidelity_of(table, fold, 5, seed=0))
            stopped, rounds = ratio(table, fold, members, {})
            fixed = {"n_estimators": max(rounds, 1), "early_stopping_rounds": 0}
            of_table.append(1 - stopped / ratio(table, fold, members, fixed)[0])
        hidden.append(mean(of_table))
        print(f"{name}: {hidden[-1]:+.1%}", flush=True)
    print(f"median of {len(hidden)} tables: {median(hidden):+.1%}")


if __name__ == "__main__":
    main()
