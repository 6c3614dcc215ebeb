"""What a warm start gains: 20 datasets of uci-small, portfolios learned with each of them left out.

    python benchmark/perf/portfolio/warm_start.py [--trials 24] [--size 5] [--keep FOLDER]

Sweeps five cheap models without a warm start, learns a portfolio of each model from the other
datasets' ledgers alone, sweeps the same studies with it, and compares both after equal numbers of
trials, on validation and test rows, by Wilcoxon's test over the datasets. About six CPU-minutes; it
needs the datasets' files (TABSWEEP_MIRROR). The four commands that it runs are printed.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tabsweep.benchmark.perf.measuring import folder_of

# Independent of each other: of datasets that share rows one is here.
SUITE = """\
name = "warm-start"
title = "Warm start: cheap models on 20 independent datasets of uci-small"
datasets = [
    "boston", "breast-cancer-wdbc", "concrete", "yacht", "blood-transfusion", "breast-cancer",
    "conn-bench-sonar-mines-rocks", "credit-approval", "cylinder-bands", "ecoli", "energy-y2",
    "glass", "haberman-survival", "heart-cleveland", "horse-colic", "mammographic", "monks-2",
    "primary-tumor", "statlog-german-credit", "vertebral-column2",
]
default_budget = "small"

[budgets.small]
models = ["knn", "svm", "mlp-sklearn", "xgboost", "lightgbm"]
folds = 1
trials = 24
sampler = "tpe"
timeout_s = 300

[budgets.small.model.mlp-sklearn]
fixed = { max_iter = 60 }
[budgets.small.model.xgboost]
fixed = { n_estimators = 100 }
[budgets.small.model.lightgbm]
fixed = { n_estimators = 100 }
"""


def commands(folder: Path, trials: int, size: int) -> list[list[str]]:
    """The four commands, as words after `bench`."""
    runs = folder / "runs"
    both = ["--suite", str(folder / "warm-start.toml"), "--trials", str(trials), "--workers", "0"]
    both += ["--runs", str(runs), "--tracking-uri", "none"]
    portfolio = str(folder / "portfolio.toml")
    learn = ["portfolio", "learn", str(runs / "cold"), "--per-model", "--size", str(size)]
    return [
        ["sweep", *both, "--name", "cold"],
        [*learn, "--leave-one-out", "--out", portfolio],
        ["sweep", *both, "--name", "warm", "--warm-start", portfolio],
        ["analyse", str(runs / "cold"), str(runs / "warm"), "--what", "warm-start"],
    ]


def main(words: Sequence[str] | None = None) -> int:
    """Run the commands and print the comparison; returns the exit code of the first that fails."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trials", type=int, default=24, help="configurations of each study")
    parser.add_argument("--size", type=int, default=5, help="of them of the portfolio")
    parser.add_argument("--keep", type=Path, help="folder for runs and portfolio; kept")
    options = parser.parse_args(words)
    with folder_of(options.keep) as folder:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "warm-start.toml").write_text(SUITE, encoding="utf-8")
        for command in commands(folder, options.trials, options.size):
            print(f"$ bench {shlex.join(command)}", flush=True)
            quiet = command[0] == "sweep"
            ended = subprocess.run(
                [sys.executable, "-m", "tabsweep.benchmark.cli", *command],
                stdout=subprocess.DEVNULL if quiet else None,
                stderr=subprocess.DEVNULL if quiet else None,
            )
            if ended.returncode not in ((0, 1) if quiet else (0,)):  # 1: some trials failed
                print(f"that ended with exit code {ended.returncode}")
                return ended.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
