"""Writes docs/reference.md from the reference study that comes with the package.

python docs/make_reference.py            # writes the page
python docs/make_reference.py --check    # exit code 1 where the page is not what would be written
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from tabsweep.benchmark.results.csv_lines import Choice
from tabsweep.benchmark.results.entrants import folder_of, read_card, results_file
from tabsweep.reports.aggregation.cells import headline_cells, studies
from tabsweep.reports.evidence import Evidence
from tabsweep.reports.metrics import METRICS
from tabsweep.reports.statistics.ranking import ranks, snap
from tabsweep.reports.statistics.tests import holm
from tabsweep.reports.statistics.wilcoxon import smallest_p, wilcoxon

NAME = "uci-small-reference"
PAGE = Path(__file__).with_name("reference.md")
BOOSTING = ["catboost", "gradient-boosting", "hist-gradient-boosting", "lightgbm", "xgboost"]
OTHERS = ["constant", "decision-tree", "ebm", "extra-trees", "gaussian-process", "knn", "linear"]
OTHERS += ["random-forest", "svm", "xrfm"]
OLDER = ["ft-transformer", "mlp", "resnet"]
CLAIMS = [  # (what is asked, one side, the other side)
    ("Does Hopular lead boosting on small tables (Hopular)?", ["hopular"], BOOSTING),
    ("Does NPT lead boosting on small tables (NPT)?", ["npt"], BOOSTING),
    ("Does the best network beat the best boosting (RTDL)?", None, BOOSTING),
    ("Does CheAtt help TabTransformer?", ["tabtransformer-cheatt"], ["tabtransformer"]),
    ("Does CheAtt help SAINT?", ["saint-cheatt"], ["saint"]),
    ("Does CheAtt help MET?", ["met-cheatt"], ["met"]),
    ("Does TabM lead the older networks (TabM)?", ["tabm"], OLDER),
    ("Does RealMLP lead the older networks (RealMLP)?", ["realmlp"], OLDER),
    ("Does ModernNCA lead the older networks (ModernNCA)?", ["modern-nca"], OLDER),
]


def losses_by_fold(evidence: Evidence) -> pd.DataFrame:
    """dataset, fold, model, val, test: losses in the metric of the task, means over the seeds."""
    done = evidence.trials[evidence.trials["status"] == "done"]
    frames = []
    for task in evidence.tasks:
        metric = METRICS[evidence.headline(task)]
        mine = done[done["task"] == task]
        frames.append(
            mine.assign(
                val=metric.sign * mine[f"val_{metric.name}"],
                test=[metric.error(value) for value in mine[f"test_{metric.name}"]],
            )
        )
    return (
        pd.concat(frames)
        .groupby(["dataset", "fold", "model"])[["val", "test"]]
        .mean()
        .reset_index()
    )


def errors_of(folds: pd.DataFrame, models: list[str]) -> pd.Series:
    """{dataset: test error} of a model, or of the one of several that validation chooses by fold;
    only of datasets on which all of them have a score on every fold."""
    mine = folds[folds["model"].isin(models)]
    n_folds = folds.groupby("dataset")["fold"].nunique()
    counts = mine.groupby("dataset").size()
    whole = counts[counts == n_folds.reindex(counts.index) * len(models)].index
    mine = mine[mine["dataset"].isin(whole)].sort_values(["val", "model"], kind="stable")
    return mine.drop_duplicates(["dataset", "fold"]).groupby("dataset")["test"].mean()


def claims_table(folds: pd.DataFrame) -> list[str]:
    """Wins, ties and losses over datasets, the median relative difference of errors, and
    Wilcoxon's signed-rank test, corrected by Holm."""
    networks = sorted(set(folds["model"]) - {*BOOSTING, *OTHERS} - {"grownet"})
    rows, p_values = [], []
    for question, one, other in CLAIMS:
        a, b = errors_of(folds, one or networks), errors_of(folds, other)
        both = sorted(set(a.index) & set(b.index))
        e = snap(np.stack([a[both], b[both]], axis=1)) if both else np.empty((0, 2))
        wins, losses = (e[:, 0] < e[:, 1]).sum(), (e[:, 0] > e[:, 1]).sum()
        relative = (e[:, 1] - e[:, 0]) / np.maximum(np.maximum(e[:, 0], e[:, 1]), 1e-12)
        p_values.append(wilcoxon(relative).p if both else 1.0)
        gain = f"{100 * np.median(relative):+.1f} %" if both else "n/a"
        rows.append((question, f"{wins} / {len(e) - wins - losses} / {losses}", gain))
    lines = [
        "| question | better / equal / worse | median gain | p |",
        "| --- | --- | ---: | ---: |",
    ]
    for (question, record, gain), p in zip(rows, holm(p_values), strict=True):
        lines.append(f"| {question} | {record} | {gain} | {p:.3f} |")
    return lines


def ranks_table(evidence: Evidence) -> list[str]:
    """Mean rank of each model that has a score on every dataset, and on how many it is best."""
    cells = headline_cells(evidence, studies(evidence))
    directions = {task: METRICS[evidence.headline(task)].sign for task in evidence.tasks}
    cells = cells.assign(loss=cells["mean"] * cells["task"].map(directions))
    table = cells.pivot_table(index="dataset", columns="model", values="loss").dropna(axis=1)
    rank = ranks(table.to_numpy(), "min")
    cost = evidence.trials.groupby("model")["cpu_s"].median()
    spread = rank.std(axis=0, ddof=1) / np.sqrt(len(rank)) if len(rank) > 1 else rank[0] * np.nan
    found = pd.DataFrame(
        {
            "rank": rank.mean(axis=0),
            "se": spread,
            "best": (rank == rank.min(axis=1)[:, None]).sum(0),
        },
        index=table.columns,
    ).sort_values("rank", kind="stable")
    lines = ["| model | mean rank | best on | CPU s a fit |", "| --- | ---: | ---: | ---: |"]
    for model, row in found.iterrows():
        error = f" ± {row['se']:.2f}" if len(rank) > 1 else ""
        lines.append(
            f"| {model} | {row['rank']:.2f}{error} | {int(row['best'])} | {cost[model]:.2f} |"
        )
    absent = sorted(set(evidence.models) - set(table.columns))
    return [
        *lines,
        *(["", f"Without a score on every dataset: {', '.join(absent)}."] * bool(absent)),
    ]


SWEEP = (
    f"bench sweep --suite uci-small --budget reference --model mymodel.py:MyModel --beside {NAME}"
)
TEXT = """\
# The reference study

Every trainable model of the registry on the same datasets, folds and numbers of configurations,
chosen by the same rule: the budget `reference` of the suite `uci-small`. Eight configurations a
study (the default at that size, then TPE), the choice by validation, three evaluation seeds where
a fit draws random numbers. Networks have sizes that one CPU core fits in seconds, far below their
papers' budgets; the suite names each cut.

Complete are {n} of 25 datasets: {datasets}.
{note}

```sh
bench report --beside uci-small-reference                   # these tables, with nothing run
{sweep}
bench beside check uci-small-reference --rows 10 --seed 1   # doubt it
```

## Ranks

Rank of the mean test score over three folds, 1 is best: mean over the datasets with its standard
error, among the models with a score on every dataset. CPU seconds: the median of the chosen
configurations' fits.

{ranks}

## What it says about the papers' claims

Datasets on which the first side of the question has the lower, equal and higher test error; the
median over datasets of the relative difference of errors (positive: the first side is better);
the p-value of Wilcoxon's signed-rank test of these differences, two-sided, corrected by Holm for
all questions. A side of several models is the one that validation chooses, fold by fold.

{claims}

## What to look at first

* CatBoost on yacht: the card follows NPT's code and takes all six columns as categories, and on
  some 200 training rows the target statistics of CatBoost leave an error of 1 to 10 where models
  that see codes or 0/1 columns have less than one.
* NPT on yacht, fold 2: its chosen setting learned under one seed of three (errors .8, 15.5, 15.2).
  A mean over seeds shows that; a best seed would not.
* Early stopping, and not the limit of epochs or steps, ended 779 of haberman-survival's 810 fits of
  models that have one, and 647 of yacht's; there it ended of ModernNCA's 30 fits 4, of Hopular's
  14, TabM's 17, NODE's 19, NPT's 20: what these models could reach on yacht is more.

## What it cannot say

With {n} datasets the smallest p-value that a single test can have is {smallest:.3g}, before the
correction; a large p-value means that no difference was shown, not that there is none. The tables
are small (at most 1,030 rows) and old; networks with their papers' widths, epochs and hundreds of
configurations may rank differently, and so may any model on larger data. Scores of folds of one
dataset are not independent, so only datasets count as observations.
"""


def page() -> str:
    """The page's text."""
    evidence = results_file(Path(NAME)).evidence(Choice())
    datasets = evidence.datasets()
    return TEXT.format(
        n=len(datasets),
        sweep=SWEEP,
        datasets=", ".join(datasets),
        note=read_card(folder_of(Path(NAME))).note,
        ranks="\n".join(ranks_table(evidence)),
        claims="\n".join(claims_table(losses_by_fold(evidence))),
        smallest=smallest_p(len(datasets)),
    )


if __name__ == "__main__":
    text = page()
    if "--check" in sys.argv:
        sys.exit(0 if PAGE.read_text(encoding="utf-8") == text else 1)
    PAGE.write_text(text, encoding="utf-8")
