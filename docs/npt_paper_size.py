"""NPT at the paper's sizes on its small tables: test scores, and those beside corrupted rows.

Prints a JSON line a fold: docs/experiments.md has the tables. A fold takes a GPU minutes, a CPU
hours.

python docs/npt_paper_size.py yacht --p-target 0.1 --folds 0 1 --device cuda

The network is the paper's variant with this share of masked targets (C.1.2: 1, 0.5 or 0.1), fitted
on all rows of the table as in the paper, test rows without labels. `before` is its score on the
test rows, `after` that with every other row corrupted (B.2.1, Algorithm 1).
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import torch
from tabsweep.benchmark.papers.experiment_result import Setting
from tabsweep.benchmark.papers.npt.corrupted_rows import scores_of
from tabsweep.benchmark.papers.npt.fitted_inputs import fitted, inputs_of, paper_configs


def main() -> None:
    """Print the scores of the folds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dataset", choices=["yacht", "boston", "breast-cancer-wdbc", "concrete"])
    parser.add_argument("--p-target", type=float, default=1.0, choices=[1.0, 0.5, 0.1])
    parser.add_argument("--folds", type=int, nargs="+", default=list(range(10)))
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    setting = Setting("full", 0, given.device, 1, Path(), lambda _: None)
    data = setting.load(given.dataset)
    config = next(c for c in paper_configs(data.name) if c["p_target"] == given.p_target)
    for fold in (setting.folds(data)[number] for number in given.folds):
        began = time.perf_counter()
        model = fitted(setting, data, fold, config)
        seconds = time.perf_counter() - began
        y_train, y_test = data.target[fold.train], data.target[fold.test]
        scores = scores_of(inputs_of(model, data, fold), y_train, y_test, limit=0, seed=0)
        facts = {
            "dataset": data.name,
            "p_target": given.p_target,
            "fold": fold.index,
            **scores,
            "best_step": model.best_iteration_,
            "steps": model.n_iter_,
            "fit_s": round(seconds, 1),
            "step_ms": round(1000 * model.step_s_, 2),
            "precision": model.precision_,
            "torch": torch.__version__,
            "on": torch.cuda.get_device_name() if given.device == "cuda" else "CPU",
        }
        print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    main()
