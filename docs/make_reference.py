"""Writes docs/reference.md from the reference study that comes with the package.

python docs/make_reference.py            # writes the page
python docs/make_reference.py --check    # exit code 1 where the page is not what would be written
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from make_pictures import reference_ranking
from tabsweep.benchmark.results.entrants import TRIALS, results_file
from tabsweep.reports.aggregation.ranking_matrix import RankingMatrix
from tabsweep.reports.evidence import Evidence
from tabsweep.reports.metrics import METRICS
from tabsweep.reports.output.tables import p_text
from tabsweep.reports.statistics.ranking import ranks, snap, standard_error
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

STUDY = ["dataset", "method", "split"]
TIMES = (1, 3, 10, 30)  # CPU seconds of a study
N_TRIALS = 8  # of a study: the default, three at random, four by TPE
SEARCHES = [  # (what is asked, the trials of one side, those of the other, compared by)
    ("Is the choice of eight better than the default?", range(8), [0], "error"),
    ("Is the choice of four better than the default?", range(4), [0], "error"),
    ("Is the choice of eight better than that of the first four?", range(8), range(4), "error"),
    ("Are three by TPE better than three at random, on validation?", [4, 5, 6], [1, 2, 3], "loss"),
    ("Are three by TPE better than three at random, on test?", [4, 5, 6], [1, 2, 3], "error"),
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


def relative(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:  # (n,), (n,) errors
    """How much lower our error is, as a share of the larger one; 0 for a tie."""
    e = snap(np.stack([ours, theirs], axis=1)) if len(ours) else np.empty((0, 2))
    return (e[:, 1] - e[:, 0]) / np.maximum(np.abs(e).max(axis=1), 1e-12)


def record(gains: np.ndarray) -> str:
    """How often the gain is positive, zero, negative."""
    return " / ".join(
        str(int(n)) for n in ((gains > 0).sum(), (gains == 0).sum(), (gains < 0).sum())
    )


def verdicts(rows: Sequence[tuple[str, ...]], gains: Sequence[np.ndarray]) -> list[str]:
    """Lines of a table: a row's own cells, then the record over datasets, the median gain, and
    Wilcoxon's signed-rank test of the gains, corrected by Holm over the rows."""
    p_values = holm([wilcoxon(gain).p if len(gain) else 1.0 for gain in gains])
    return [
        f"| {' | '.join(row)} | {record(gain)} | "
        f"{f'{100 * np.median(gain):+.1f} %' if len(gain) else 'n/a'} | {p_text(p)} |"
        for row, gain, p in zip(rows, gains, p_values, strict=True)
    ]


def claims_table(folds: pd.DataFrame) -> list[str]:
    """The claims, a row each."""
    networks = sorted(set(folds["model"]) - {*BOOSTING, *OTHERS} - {"grownet"})
    gains = []
    for _, one, other in CLAIMS:
        a, b = errors_of(folds, one or networks), errors_of(folds, other)
        both = sorted(set(a.index) & set(b.index))
        gains.append(relative(a[both].to_numpy(), b[both].to_numpy()))
    return [
        "| question | better / equal / worse | median gain | p |",
        "| --- | --- | ---: | ---: |",
        *verdicts([(question,) for question, _, _ in CLAIMS], gains),
    ]


def tuning_trials(folder: Path) -> pd.DataFrame:
    """The exported tuning trials with `loss`, of validation, and `error`, of test."""
    trials = pd.read_csv(folder / TRIALS)
    metrics = [METRICS[name] for name in trials["metric"]]
    loss = [m.sign * value for m, value in zip(metrics, trials["val"], strict=True)]
    error = [m.error(value) for m, value in zip(metrics, trials["test"], strict=True)]
    return trials.assign(loss=loss, error=error)


def choices(trials: pd.DataFrame) -> pd.DataFrame:
    """{(dataset, method): loss, error} of the trial of a study that validation chooses, as means
    over the folds; NaN where a fold has no trial."""
    best = trials.sort_values(["loss", "index"], kind="stable").drop_duplicates(STUDY)
    by_fold = best.set_index(STUDY)[["loss", "error"]].unstack("split")
    return by_fold.T.groupby(level=0).mean(skipna=False).T


def tuning_table(trials: pd.DataFrame) -> list[str]:
    """What the searched configurations are worth, over the studies with all trials: a gain is the
    median over the models of a dataset."""
    whole = trials.dropna(subset=["loss", "error"]).groupby(STUDY)
    trials = trials[trials.set_index(STUDY).index.isin(
        whole.size().loc[lambda n: n == N_TRIALS].index
    )]  # fmt: skip
    rows, gains = [], []
    for question, one, other, column in SEARCHES:
        a, b = (choices(trials[trials["index"].isin(of)])[column] for of in (one, other))
        gain = pd.Series(relative(a.to_numpy(), b.to_numpy()), index=a.index)
        rows.append((question, record(gain.to_numpy())))
        gains.append(gain.groupby("dataset").median().to_numpy())
    return [
        "| question | of models on datasets | of datasets | median gain | p |",
        "| --- | --- | --- | ---: | ---: |",
        *verdicts(rows, gains),
    ]


def stopping_table(trials: pd.DataFrame) -> list[str]:
    """Of each dataset the share of fits that early stopping ended, and the models of which more
    than a tenth of the fits reached their limit."""
    fits = trials.dropna(subset=["limit"])
    fits = fits.assign(stopped=fits["steps"] < fits["limit"])
    lines = ["| dataset | ended early | reached their limit (of 24 fits) |", "| --- | ---: | --- |"]
    for dataset, mine in fits.groupby("dataset"):
        of_model = mine.groupby("method")
        reached = (~mine["stopped"]).groupby(mine["method"]).sum()
        often = reached[reached > of_model.size() / 10].sort_values(ascending=False, kind="stable")
        limits = of_model[["limit", "unit"]].first()
        named = [
            f"{model} {n} ({limits['limit'][model]:.0f} {limits['unit'][model]})"
            for model, n in often.items()
        ]
        share = f"{mine['stopped'].sum()} of {len(mine)}"
        lines.append(f"| {dataset} | {share} | {', '.join(named)} |")
    return lines


def ranks_after(seconds: float, trials: pd.DataFrame, matrix: RankingMatrix) -> dict[str, float]:
    """{model: mean rank of what its studies had chosen after so many CPU seconds}. A model that had
    no score by then on some fold of a dataset ranks there behind all that had one."""
    trials = trials.sort_values([*STUDY, "index"])
    ended = trials[trials.groupby(STUDY)["cpu_seconds"].cumsum() <= seconds]
    errors = choices(ended)["error"].unstack("method")
    known = errors.reindex(index=matrix.datasets, columns=matrix.models).fillna(np.inf)
    return dict(zip(matrix.models, ranks(known.to_numpy()).mean(axis=0), strict=True))


def ranks_table(evidence: Evidence, trials: pd.DataFrame) -> list[str]:
    """Mean rank of each model that the report ranks, on how many datasets it is best, and its mean
    rank at equal times."""
    matrix = reference_ranking()
    timed = [ranks_after(seconds, trials, matrix) for seconds in TIMES]
    rank = matrix.ranks()
    error = dict(zip(matrix.models, standard_error(rank), strict=True))
    n_best = (rank == rank.min(axis=1, keepdims=True)).sum(axis=0)
    best = dict(zip(matrix.models, n_best, strict=True))
    cost = evidence.trials.groupby("model")["cpu_s"].median()
    after = " | ".join(f"after {seconds} s" for seconds in TIMES)
    lines = [
        f"| model | mean rank | best on | CPU s a fit | {after} |",
        "| --- | ---: | ---: | ---: |" + " ---: |" * len(TIMES),
    ]
    for model, mean in zip(*matrix.order(), strict=True):
        lines.append(
            f"| {model} | {mean:.2f} ± {error[model]:.2f} | {best[model]} | {cost[model]:.2f} | "
            + " | ".join(f"{of[model]:.2f}" for of in timed)
            + " |"
        )
    thin = ", ".join(f"{model} (a score on {n})" for model, n in sorted(matrix.thin.items()))
    lacking = ", ".join(matrix.dropped)
    return [
        *lines,
        *(["", f"Not ranked: {thin}."] * bool(thin)),
        *(["", f"Left out, as a ranked model has no score there: {lacking}."] * bool(lacking)),
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

The {n} datasets: {datasets}.
{note}

```sh
bench report --beside uci-small-reference                   # these tables, with nothing run
{sweep}
bench beside check uci-small-reference --rows 10 --seed 1   # doubt it
```

## Ranks

Rank of the mean test score over three folds, 1 is best: mean over the datasets with its standard
error, over the datasets on which every ranked model has a score, as in the report. Models that tie
for the best are all counted as best. CPU seconds: the median over the chosen configurations'
trials, a fit and its predictions each. "After 10 s": the mean rank at equal time, of what each
study had chosen after 10 CPU seconds of its trials, in their order and without evaluation seeds; a
model whose study had no score by then ranks behind all that had one.

{ranks}

## What it says about the papers' claims

Datasets on which the first side of the question has the lower, equal and higher test error (1 -
score, or RMSE); the median over datasets of the difference of errors as a share of the larger one
(positive: the first side is better); the p-value of Wilcoxon's signed-rank test of these shares,
two-sided, corrected by Holm for all questions. A side of several models is the one that validation
chooses, fold by fold.

{claims}

## What tuning is worth

The chosen one of some trials of a study against the chosen one of others, from the {n_searched}
datasets with stored tuning trials; equal numbers of TPE's suggestions and of random draws are the
next three after the fourth trial and the three after the default. Counted are pairs of a model and
a dataset, then datasets (the median of their models), then as above.

{tuning}

## What early stopping ended

Tuning fits in steps that ended before their limit of epochs, steps or trees; beside it the models
of which more than a tenth reached it, as what these could reach there may be more.

{stopping}

## What to look at first

* CatBoost on yacht: the card follows NPT's code and takes all six columns as categories, and on
  some 200 training rows the target statistics of CatBoost leave an error of 1.5 to 10.6 where the
  other boosting models, which see codes or 0/1 columns, have less than one.
* NPT on yacht: in two of three folds its chosen setting stays at the error of a constant (15) under
  every seed; in the third, where a constant has 9.2, its seeds have 1.6, 2.6 and 8.3 (widths of 8
  and 16, at most 1,000 steps).

## What it cannot say

With {n} datasets the smallest p-value that a single test can have is {smallest:.3g}, before the
correction; a large p-value means that no difference was shown, not that there is none. The tables
are small (at most 1,030 rows) and old; networks with their papers' widths, epochs and hundreds of
configurations may rank differently, and so may any model on larger data. Scores of folds of one
dataset are not independent, so only datasets count as observations.
"""


def page() -> str:
    """The page's text."""
    file = results_file(Path(NAME))
    evidence = file.evidence()
    datasets = evidence.datasets()
    trials = tuning_trials(file.path.parent)
    return TEXT.format(
        n=len(datasets),
        sweep=SWEEP,
        datasets=", ".join(datasets),
        note=file.card.note,
        ranks="\n".join(ranks_table(evidence, trials)),
        claims="\n".join(claims_table(losses_by_fold(evidence))),
        n_searched=trials["dataset"].nunique(),
        tuning="\n".join(tuning_table(trials)),
        stopping="\n".join(stopping_table(trials)),
        smallest=smallest_p(len(datasets)),
    )


if __name__ == "__main__":
    text = page()
    if "--check" in sys.argv:
        sys.exit(0 if PAGE.read_text(encoding="utf-8") == text else 1)
    PAGE.write_text(text, encoding="utf-8")
