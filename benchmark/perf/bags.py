"""Single fits against bags, a holdout against inner cross-validation, on the tables of a suite.

    python -m tabsweep.benchmark.perf.bags --mirror DIR --runs DIR [--model lightgbm ...]

Two sweeps a model, by the command `bench sweep`: with `--validation holdout` and with `--validation
cv --bag 5`. Their configurations are the same (the default, then at random), so that the two hold
all that is compared on the test rows of each fold: the single fit of the configuration that the
holdout chose, the bag of the same, the single fit of the configuration that the out-of-fold
predictions chose, and its bag. Errors are means over the folds; a gain is the share of the single
fit's error that is gone, and the test is Wilcoxon's over tables. CPU seconds are those of all fits
that a choice needs, without the seconds of a start. Started again, it goes on where it was; with
`--read` it only prints.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
from statistics import median

import numpy as np
import pandas as pd
from tabsweep.benchmark.planning.plan_record import plan_in
from tabsweep.benchmark.results.evidence_builder import load_results
from tabsweep.reports.metrics import METRICS
from tabsweep.reports.statistics.tests import relative_changes
from tabsweep.reports.statistics.wilcoxon import wilcoxon
from tabsweep.sweeps.store.ledger import Ledger

VARIANTS = ("single, cv's choice", "bag, holdout's choice", "bag, cv's choice")
WORDS = {"holdout": ("holdout",), "cv": ("cv", "--bag", "5")}


def sweep(model: str, validation: str, given: argparse.Namespace) -> Path:
    """One sweep, or what is left of it; the folder of its run."""
    name = f"{model}-{validation}"
    words = ["--suite", given.suite, "--budget", given.budget, "--model", model, "--name", name]
    words += ["--folds", str(given.folds), "--trials", str(given.trials), "--sampler", "random"]
    words += ["--mirror", str(given.mirror), "--runs", str(given.runs), "--workers", "1"]
    words += [word for dataset in given.dataset for word in ("--dataset", dataset)]
    command = [str(Path(sys.executable).with_name("bench")), "sweep", *words]
    command += ["--validation", *WORDS[validation], "--tracking-uri", "none", "--quiet"]
    if not given.read:
        subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False)
    return given.runs / name


def studies(run: Path) -> dict[tuple[str, int], pd.DataFrame]:
    """{(dataset, fold): the trials of its search, one row a configuration, with their "error" on
    the test rows}, of the searches that have ended."""
    plan, rows = plan_in(Ledger(run)), load_results(run)
    found = {}
    for (dataset, fold), mine in rows[rows["stage"] == "tune"].groupby(["dataset", "fold"]):
        planned = {study.n_trials for study in plan.studies_of(dataset)}
        metric = METRICS[plan.metric[mine["task"].iloc[0]]]
        if {len(mine)} == planned and (mine["status"] == "done").all():
            errors = [metric.error(value) for value in mine[f"test_{metric.name}"]]
            found[str(dataset), int(fold)] = mine.assign(error=errors).set_index("config")
    return found


def compared(holdout: Path, cv: Path) -> pd.DataFrame:
    """One row a dataset: the mean error over folds, and the mean CPU seconds of a study, of the
    single fit that the holdout chose ("single") and of `VARIANTS`."""
    one, other = studies(holdout), studies(cv)
    rows = []
    for place in sorted(one.keys() & other.keys()):
        single, bag = one[place], other[place]
        if set(single.index) != set(bag.index):
            raise SystemExit(f"{place}: the two runs have other configurations")
        by_part, by_all = single.index[single["selected"]][0], bag.index[bag["selected"]][0]
        spent, spent_cv = single["cpu_s"].sum(), bag["cpu_s"].sum()
        rows.append(
            {
                "dataset": place[0],
                "single": single.loc[by_part, "error"],
                VARIANTS[0]: single.loc[by_all, "error"],
                VARIANTS[1]: bag.loc[by_part, "error"],
                VARIANTS[2]: bag.loc[by_all, "error"],
                "single s": spent,
                f"{VARIANTS[0]} s": spent_cv + single.loc[by_all, "cpu_s"],
                f"{VARIANTS[1]} s": spent + bag.loc[by_part, "cpu_s"],
                f"{VARIANTS[2]} s": spent_cv,
            }
        )
    return pd.DataFrame(rows).groupby("dataset").mean()


def table_of(model: str, table: pd.DataFrame) -> list[str]:
    """Lines of a Markdown table: a line a variant."""
    lines = []
    for variant in VARIANTS:
        base, errors = table["single"].to_numpy(), table[variant].to_numpy()
        gains = -relative_changes(base, errors) / 2
        shares = [
            1 - e / b if b else 0.0 if e == b else -np.inf
            for b, e in zip(base, errors, strict=True)
        ]
        better, worse = int((gains > 0).sum()), int((gains < 0).sum())
        p = wilcoxon(gains).p
        cost = table[f"{variant} s"].mean() / table["single s"].mean()
        lines.append(
            f"| {model} | {variant} | {len(table)} | {median(shares):+.1%} | {better} / {worse} | "
            f"{p:.3f} | {table[f'{variant} s'].mean():.1f} ({cost:.1f}x) |"
        )
    return lines


def main() -> None:
    """Sweep, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--mirror", type=Path, required=True)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--suite", default="uci-small")
    parser.add_argument("--budget", default="modern")
    parser.add_argument("--folds", type=int, default=2)
    parser.add_argument("--trials", type=int, default=4)
    parser.add_argument("--model", action="append")
    parser.add_argument("--dataset", action="append", default=[])
    parser.add_argument("--read", action="store_true")
    given = parser.parse_args()
    lines = [
        "| model | what | tables | median gain | better / worse | p | CPU-s a study |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for model in given.model or ["lightgbm", "mlp"]:
        runs = [sweep(model, validation, given) for validation in WORDS]
        table = compared(*runs)
        print(table.round(4).to_string(), flush=True)
        lines += table_of(model, table)
    print("\n".join(lines))


if __name__ == "__main__":
    main()
