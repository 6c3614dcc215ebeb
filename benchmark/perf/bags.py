"""Single fits against bags, a holdout against inner cross-validation, on the tables of a suite.

    python -m tabsweep.benchmark.perf.bags --mirror DIR --runs DIR [--model lightgbm ...] [--cv]

A sweep a model, by the command `bench sweep --bag 5`: its configurations are the default and others
at random, and it holds the single fit of the configuration that the holdout chose, and the bag of
the same. With `--cv` a second sweep of the same configurations, each as a bag: the single fit of
the configuration that the out-of-fold predictions chose, and its bag. Errors on the test rows are
means over the folds; a gain is the share of the single fit's error that is gone, and the test is
Wilcoxon's over tables. CPU seconds are those of all fits that a choice needs, without the seconds
of a start. Started again, it goes on where it was; with `--read` it only prints.
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
from tabsweep.sweeps.study_state import HOLDOUT

SINGLE, BAG = "single", "bag, holdout's choice"
CV_SINGLE, CV_BAG = "single, cv's choice", "bag, cv's choice"


def sweep(model: str, validation: str, given: argparse.Namespace) -> Path:
    """One sweep, or what is left of it; the folder of its run."""
    name = f"{model}-{validation}"
    words = ["--suite", given.suite, "--budget", given.budget, "--model", model, "--name", name]
    words += ["--folds", str(given.folds), "--trials", str(given.trials), "--sampler", "random"]
    words += ["--mirror", str(given.mirror), "--runs", str(given.runs), "--workers", "1"]
    words += [word for dataset in given.dataset for word in ("--dataset", dataset)]
    command = [str(Path(sys.executable).with_name("bench")), "sweep", *words, "--bag", "5"]
    command += ["--validation", validation, "--tracking-uri", "none", "--quiet"]
    if not given.read:
        subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False)
    return given.runs / name


def studies(run: Path) -> dict[tuple[str, int], dict[str, pd.DataFrame]]:
    """{(dataset, fold): {stage: its trials, one row a configuration, with their "error" on the test
    rows}}, of the studies that have ended."""
    plan, rows = plan_in(Ledger(run)), load_results(run)
    planned = {
        (study.dataset, study.fold): study.n_trials + (study.validation == HOLDOUT)  # and its bag
        for study in plan.studies
    }
    found = {}
    for (dataset, fold), mine in rows.groupby(["dataset", "fold"]):
        metric = METRICS[plan.metric[mine["task"].iloc[0]]]
        if len(mine) == planned[str(dataset), int(fold)] and (mine["status"] == "done").all():
            errors = [metric.error(value) for value in mine[f"test_{metric.name}"]]
            by_stage = mine.assign(error=errors).set_index("config").groupby("stage")
            found[str(dataset), int(fold)] = {str(stage): part for stage, part in by_stage}
    return found


def compared(holdout: Path, cv: Path | None) -> pd.DataFrame:
    """One row a dataset: the mean error over folds, and the mean CPU seconds of a study, of the
    single fit and the bag of what the holdout chose, and with a run `cv` of what that chose."""
    one, other = studies(holdout), studies(cv) if cv else {}
    rows = []
    for place in sorted(one.keys() & other.keys() if cv else one):
        single, bag = one[place]["tune"], one[place]["eval"].iloc[0]
        spent = single["cpu_s"].sum()
        errors = {SINGLE: single.loc[single["selected"], "error"].iloc[0], BAG: bag["error"]}
        seconds = {SINGLE: spent, BAG: spent + bag["cpu_s"]}
        if cv:
            bags = other[place]["tune"]
            if set(single.index) != set(bags.index):
                raise SystemExit(f"{place}: the two runs have other configurations")
            chosen, spent = bags.index[bags["selected"]][0], bags["cpu_s"].sum()
            errors |= {CV_SINGLE: single.loc[chosen, "error"], CV_BAG: bags.loc[chosen, "error"]}
            seconds |= {CV_SINGLE: spent + single.loc[chosen, "cpu_s"], CV_BAG: spent}
        costs = {f"{variant} s": value for variant, value in seconds.items()}
        rows.append({"dataset": place[0], **errors, **costs})
    return pd.DataFrame(rows).groupby("dataset").mean()


def table_of(model: str, table: pd.DataFrame) -> list[str]:
    """Lines of a Markdown table: a line a variant."""
    lines = []
    for variant in (CV_SINGLE, BAG, CV_BAG):
        if variant not in table:
            continue
        base, errors = table[SINGLE].to_numpy(), table[variant].to_numpy()
        gains = -relative_changes(base, errors) / 2
        shares = [
            1 - e / b if b else 0.0 if e == b else -np.inf
            for b, e in zip(base, errors, strict=True)
        ]
        better, worse = int((gains > 0).sum()), int((gains < 0).sum())
        p = wilcoxon(gains).p
        cost = table[f"{variant} s"].mean() / table[f"{SINGLE} s"].mean()
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
    parser.add_argument("--cv", action="store_true")
    parser.add_argument("--read", action="store_true")
    given = parser.parse_args()
    lines = [
        "| model | what | tables | median gain | better / worse | p | CPU-s a study |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for model in given.model or ["lightgbm", "mlp"]:
        holdout = sweep(model, "holdout", given)
        table = compared(holdout, sweep(model, "cv", given) if given.cv else None)
        print(table.round(4).to_string(), flush=True)
        lines += table_of(model, table)
    print("\n".join(lines))


if __name__ == "__main__":
    main()
