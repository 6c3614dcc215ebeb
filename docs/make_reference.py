"""Writes docs/reference.md from the reference study that comes with the package.

python docs/make_reference.py            # writes the page
python docs/make_reference.py --check    # exit code 1 where the page is not what would be written
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from make_pictures import reference_ranking
from tabsweep.benchmark.results.entrants import TRIALS, results_file
from tabsweep.reports.aggregation.by_size import BOOSTING as BOOSTED
from tabsweep.reports.aggregation.by_size import NETWORKS, of_families
from tabsweep.reports.aggregation.cells import cells, headline_cells, studies
from tabsweep.reports.aggregation.rank_tests import COLUMNS, pair_rows
from tabsweep.reports.aggregation.ranking_matrix import RankingMatrix
from tabsweep.reports.aggregation.sides import errors_by_fold, gains, side
from tabsweep.reports.evidence import Evidence
from tabsweep.reports.metrics import METRICS
from tabsweep.reports.output.tables import p_text
from tabsweep.reports.sections.implausible import findings
from tabsweep.reports.statistics.crossing import resampled
from tabsweep.reports.statistics.ranking import ranks
from tabsweep.reports.statistics.reliability import split_half
from tabsweep.reports.statistics.tests import ALPHA, holm
from tabsweep.reports.statistics.wilcoxon import smallest_p, wilcoxon

NAME = "uci-small-reference"
PAGE = Path(__file__).with_name("reference.md")
BOOSTING = ["catboost", "gradient-boosting", "hist-gradient-boosting", "lightgbm", "xgboost"]
OLDER = ["ft-transformer", "mlp", "resnet"]
CLAIMS = [  # (what is asked, one side, the other side; None: all networks)
    ("Does Hopular lead boosting on small tables (Hopular)?", ["hopular"], BOOSTING),
    ("Does NPT lead boosting on small tables (NPT)?", ["npt"], BOOSTING),
    ("Does the best network beat the best boosting (RTDL)?", None, BOOSTING),
    (
        "Does FT-Transformer lead MLP, ResNet, SNN and DCN V2 (RTDL)?",
        ["ft-transformer"],
        ["mlp", "resnet", "snn", "dcn-v2"],
    ),
    ("Does CheAtt help TabTransformer?", ["tabtransformer-cheatt"], ["tabtransformer"]),
    ("Does CheAtt help SAINT?", ["saint-cheatt"], ["saint"]),
    ("Does CheAtt help MET?", ["met-cheatt"], ["met"]),
    ("Does TabM lead the older networks (TabM)?", ["tabm"], OLDER),
    ("Does RealMLP lead the older networks (RealMLP)?", ["realmlp"], OLDER),
    ("Does ModernNCA lead the older networks (ModernNCA)?", ["modern-nca"], OLDER),
    ("Does TabR lead boosting (TabR)?", ["tabr"], BOOSTING),
]
UNTESTED = (["hopular"], ["npt"])  # sides at widths that test no claim of their papers
BEST = 25  # models whose agreement is said apart
SHOWN = 12  # findings

STUDY = ["dataset", "method", "split"]
OTHER_METRICS = ("log_loss", "accuracy")
TIMES = (1, 3, 10, 30)  # CPU seconds of a study
N_TRIALS = 8  # of a study: the default, three at random, four by TPE
SEARCHES = [  # (what is asked, the trials of one side, those of the other, compared by)
    ("Is the choice of eight better than the default?", range(8), [0], "error"),
    ("Is the choice of four better than the default?", range(4), [0], "error"),
    ("Is the choice of eight better than that of the first four?", range(8), range(4), "error"),
    ("Are three by TPE better than three at random, on validation?", [4, 5, 6], [1, 2, 3], "loss"),
    ("Are three by TPE better than three at random, on test?", [4, 5, 6], [1, 2, 3], "error"),
]


def record(gains: np.ndarray) -> str:
    """How often the gain is positive, zero, negative."""
    return " / ".join(
        str(int(n)) for n in ((gains > 0).sum(), (gains == 0).sum(), (gains < 0).sum())
    )


def verdicts(
    rows: Sequence[tuple[str, ...]], found: Sequence[np.ndarray], tested: Sequence[bool] = ()
) -> list[str]:
    """Lines of a table: a row's own cells, then the record over datasets, the median gain, and
    Wilcoxon's signed-rank test of the gains, corrected by Holm over the rows that are tested."""
    tested = tested or [True] * len(rows)
    of_tested = [gain for gain, asked in zip(found, tested, strict=True) if asked]
    p_values = iter(holm([wilcoxon(gain).p if len(gain) else 1.0 for gain in of_tested]))
    return [
        f"| {' | '.join(row)} | {record(gain)} | "
        f"{f'{100 * np.median(gain):+.1f} %' if len(gain) else 'n/a'} | "
        f"{p_text(next(p_values)) if asked else 'not tested'} |"
        for row, gain, asked in zip(rows, found, tested, strict=True)
    ]


def claims_table(evidence: Evidence, untested: Sequence[list[str]] = UNTESTED) -> list[str]:
    """The claims whose models are there, a row each, over the independent, learnable datasets;
    without a test those of the sides `untested`."""
    folds = errors_by_fold(evidence)
    folds = folds[folds["dataset"].isin(evidence.subset)]
    n_folds = folds.groupby("dataset")["fold"].nunique()
    asked = [claim for claim in CLAIMS if {*(claim[1] or []), *claim[2]} <= {*evidence.models}]
    found = []
    for _, one, other in asked:
        ours = one or of_families(evidence, NETWORKS)
        k = None if one else min(len(ours), len(other))
        errors = pd.DataFrame({"a": side(folds, ours, k), "b": side(folds, other, k)}).dropna()
        both = errors.groupby("dataset").agg(["mean", "size"])
        both = both[both["a", "size"] == n_folds.reindex(both.index)]
        found.append(gains(both["a", "mean"].to_numpy(), both["b", "mean"].to_numpy()))
    return [
        "| question | better / equal / worse | median gain | p |",
        "| --- | --- | ---: | ---: |",
        *verdicts([(q,) for q, _, _ in asked], found, [o not in untested for _, o, _ in asked]),
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
    rows, found = [], []
    for question, one, other, column in SEARCHES:
        a, b = (choices(trials[trials["index"].isin(of)])[column] for of in (one, other))
        gain = pd.Series(gains(a.to_numpy(), b.to_numpy()), index=a.index)
        rows.append((question, record(gain.to_numpy())))
        found.append(gain.groupby("dataset").median().to_numpy())
    return [
        "| question | of models on datasets | of datasets | median gain | p |",
        "| --- | --- | --- | ---: | ---: |",
        *verdicts(rows, found),
    ]


def stopping_table(trials: pd.DataFrame, by: str, title: str) -> list[str]:
    """For each value of the column `by`: how many fits early stopping ended, and the models of
    which more than a tenth of the fits reached their limit."""
    fits = trials.dropna(subset=["limit"])
    fits = fits.assign(stopped=fits["steps"] < fits["limit"])
    lines = [f"| {title} | ended early | reached their limit |", "| --- | ---: | --- |"]
    form = "," if pd.api.types.is_integer_dtype(fits[by]) else ""
    for value, mine in fits.groupby(by):
        of_model, n_fits = mine.groupby("method"), mine.groupby("method").size()
        reached = (~mine["stopped"]).groupby(mine["method"]).sum()
        often = reached[reached > n_fits / 10].sort_values(ascending=False, kind="stable")
        limits = of_model[["limit", "unit"]].first()
        named = [
            f"{model} {n} of {n_fits[model]} ({limits['limit'][model]:.0f} {limits['unit'][model]})"
            for model, n in often.items()
        ]
        share = f"{mine['stopped'].sum()} of {len(mine)}"
        lines.append(f"| {value:{form}} | {share} | {', '.join(named)} |")
    return lines


def ranks_after(seconds: float, trials: pd.DataFrame, matrix: RankingMatrix) -> dict[str, float]:
    """{model: mean rank of what its studies had chosen after so many CPU seconds}. A model that had
    no score by then on some fold of a dataset ranks there behind all that had one."""
    trials = trials.sort_values([*STUDY, "index"])
    ended = trials[trials.groupby(STUDY)["cpu_seconds"].cumsum() <= seconds]
    errors = choices(ended)["error"].unstack("method")
    known = errors.reindex(index=matrix.datasets, columns=matrix.models).fillna(np.inf)
    return dict(zip(matrix.models, ranks(known.to_numpy()).mean(axis=0), strict=True))


def ranks_by(evidence: Evidence, matrix: RankingMatrix, name: str) -> dict[str, float]:
    """{model: mean rank by another metric} on the datasets of the matrix that have it."""
    table = studies(evidence)
    tasks = METRICS[name].tasks
    of = cells(evidence, table[table["task"].isin(tasks)], name)
    wide = of.pivot(index="dataset", columns="model", values="mean")
    wide = METRICS[name].sign * wide.reindex(columns=matrix.models)
    wide = wide[wide.index.isin(matrix.datasets)].dropna()
    return dict(zip(matrix.models, ranks(wide.to_numpy()).mean(axis=0), strict=True))


def ranks_table(evidence: Evidence, trials: pd.DataFrame, matrix: RankingMatrix) -> list[str]:
    """Mean rank of each model that the report ranks with its interval, on how many datasets it is
    best, its mean rank by other metrics, and at equal times."""
    timed = [ranks_after(seconds, trials, matrix) for seconds in TIMES]
    others = [ranks_by(evidence, matrix, name) for name in OTHER_METRICS]
    rank = matrix.ranks()
    ends = dict(zip(matrix.models, zip(*resampled(rank), strict=True), strict=True))
    n_best = (rank == rank.min(axis=1, keepdims=True)).sum(axis=0)
    best = dict(zip(matrix.models, n_best, strict=True))
    cost = evidence.trials.groupby("model")["cpu_s"].median()
    by = " | ".join(METRICS[name].label for name in OTHER_METRICS)
    after = " | ".join(f"after {seconds} s" for seconds in TIMES)
    lines = [
        f"| model | mean rank | 95 % interval | best on | {by} | CPU s a fit | {after} |",
        "| --- | ---: | ---: | ---: |" + " ---: |" * (len(others) + 1 + len(TIMES)),
    ]
    for model, mean in zip(*matrix.order(), strict=True):
        low, high = ends[model]
        lines.append(
            f"| {model} | {mean:.2f} | {low:.1f} to {high:.1f} | {best[model]} | "
            + " | ".join(f"{of[model]:.2f}" for of in others)
            + f" | {cost[model]:.2f} | "
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


def places_of_leaders(matrix: RankingMatrix) -> list[str]:
    """The models with the best mean rank in at least a twentieth of the resamples of datasets."""
    rank = matrix.ranks()
    rng = np.random.default_rng(0)
    drawn = rng.integers(0, len(rank), size=(2000, len(rank)))
    first = np.bincount(rank[drawn].mean(axis=1).argmin(axis=1), minlength=len(matrix.models))
    share = sorted(zip(-first / len(drawn), matrix.models, strict=True))
    return [f"{model} ({-p:.2f})" for p, model in share if -p >= 0.05]


def differing(matrix: RankingMatrix, of: Sequence[int]) -> str:
    """How many pairs of these models differ by Wilcoxon's test, corrected by Holm over them."""
    part = replace(matrix, models=[matrix.models[i] for i in of], losses=matrix.losses[:, of])
    pairs = [(a, b) for a in range(len(of)) for b in range(a)]
    tested = pd.DataFrame(pair_rows(part, pairs, "wilcoxon"), columns=COLUMNS)
    return f"{(tested['p_holm'] < ALPHA).sum() or 'none'} of {len(pairs)}"


def reliability(matrix: RankingMatrix) -> dict[str, object]:
    """What the page says of how reliable the ranks are."""
    rank = matrix.ranks()
    best = [matrix.models.index(model) for model in matrix.order()[0][:BEST]]
    everyone, leaders = split_half(rank), split_half(rank[:, best])
    low, high = resampled(rank)
    return {
        "halves": f"{everyone.mean:.2f} ({everyone.low:.2f} to {everyone.high:.2f})",
        "halves_best": f"{leaders.mean:.2f} ({leaders.low:.2f} to {leaders.high:.2f})",
        "agree": f"{leaders.mean:.2f}",
        "differ": differing(matrix, range(len(matrix.models))),
        "differ_best": differing(matrix, best),
        "width": f"{np.median(high - low):.0f}",
        "leaders": ", ".join(places_of_leaders(matrix)),
    }


def sizes_said(evidence: Evidence) -> str:
    """How the sizes of networks were chosen; of RealMLP by what its rows say."""
    configs = evidence.trials.loc[evidence.trials["model"] == "realmlp", "config"]
    own = all(json.loads(text).get("width", 256) == 256 for text in configs)
    realmlp = "RealMLP has its authors' size; settings of the other" if own else "Settings of the"
    return (
        f"{realmlp} networks were chosen by hand for small\ntables, which authors' defaults are not"
    )


def findings_list(evidence: Evidence) -> list[str]:
    """What the product's own checks find in the results."""
    table = studies(evidence)
    found = findings(evidence, table, headline_cells(evidence, table))
    lines: list[str] = []
    for one in found[:SHOWN]:
        places = ", ".join(f"{model} on {dataset}" for dataset, model, _ in one.cells[:4])
        more = f" and {len(one.cells) - 4} more" if len(one.cells) > 4 else ""
        lines.append(f"* {places}{more}: {one.check}; {one.cause}.")
    rest = [f"* {len(found) - SHOWN} more findings: `look-first` of the report."]
    return [*lines, *(rest * (len(found) > SHOWN))]


SWEEP = (
    f"bench sweep --suite uci-small --budget reference --model mymodel.py:MyModel --beside {NAME}"
)
TEXT = """\
# The reference study

Every trainable model of the registry on the same datasets, folds and numbers of configurations,
chosen by the same rule: the budget `reference` of the suite `uci-small`. **These tables tell few of
the models apart: {differ_best} pairs of the best {best} models differ significantly, and the ranks
of these on two halves of the tables agree with {agree}. Read a place as its interval: what leads
here may well be tenth on other tables of this kind.**

On larger tables with one large test part models can be told apart: [who leads at how many
rows](by-size.md).

Eight configurations a study (the default at that size, then TPE), the choice by validation, three
evaluation seeds where a fit draws random numbers. Networks have sizes that one CPU core fits in
seconds, far below their papers' budgets; the suite names each cut. {sizes_said}.

The {n} datasets: {datasets}.
{note}

Ranks and tests are over the {n_subset} independent datasets that can be learned. {why}
horse-colic and monks-2 have the same test rows in all of their splits, so that the mean over these
is one over training sets alone.

```sh
bench report --beside uci-small-reference                   # these tables, with nothing run
{sweep}
bench beside check uci-small-reference --rows 10 --seed 1   # doubt it
```

## Ranks

Rank of the mean test score over three folds, 1 is best: mean over the datasets on which every
ranked model has a score, with the 95 % interval over resamples of these datasets (bootstrap).
Models that tie for the best are all counted as best. Then the mean rank by other metrics, on the
datasets with classes. CPU seconds: the median over the chosen configurations' trials, a fit and
its predictions each. "After 10 s": the mean rank at equal time, of what each study had chosen after
10 CPU seconds of its trials, in their order and without evaluation seeds; a model whose study had
no score by then ranks behind all that had one.

![Mean ranks of all models with standard errors](pictures/reference-light.svg)

{ranks}

## How reliable they are

* The mean ranks of all models on two random halves of the datasets correlate with {halves}
  (Spearman: mean and 95 % of 2,000 halvings); those of the best {best} with {halves_best}.
* Of the pairs of all models {differ} differ at the 5 % level (Wilcoxon's signed-rank test,
  corrected by Holm), of those of the best {best} {differ_best}.
* Half of the intervals of mean ranks are wider than {width} places.
* First in the resamples of the datasets: {leaders}.

## What it says about the papers' claims

Datasets on which the first side of the question has the lower, equal and higher test error (1 -
score, or RMSE); the median over datasets of the difference of errors as a share of the larger one
(positive: the first side is better); the p-value of Wilcoxon's signed-rank test of these shares,
two-sided, corrected by Holm for all questions. A side of several models is the one that validation
chooses, fold by fold: of the networks it is what is expected of {n_boosting} of them at random, as
many as there are boosting models, since a larger side has more chances. One model against several
has fewer.

NPT and Hopular have widths of 8 and 16 here, a small part of their papers': their rows are no test
of what the papers claim, and have no p-value.

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

What the checks of `bench report` find ([rules](reports.md#implausible-cells)):

{findings}

## What it cannot say

With {n_ranked} datasets the smallest p-value that a single test can have is {smallest:.3g}, before
the correction; a large p-value means that no difference was shown, not that there is none. The
tables are small (at most 1,030 rows) and old; networks with their papers' widths, epochs and
hundreds of configurations may rank differently, and so may any model on larger data. Scores of
folds of one dataset are not independent, so only datasets count as observations.
"""


def page() -> str:
    """The page's text."""
    file = results_file(Path(NAME))
    evidence = file.evidence()
    datasets, matrix = evidence.datasets(), reference_ranking()
    trials = tuning_trials(file.path.parent)
    return TEXT.format(
        n=len(datasets),
        best=BEST,
        sizes_said=sizes_said(evidence),
        n_subset=len(evidence.subset),
        why=evidence.facts.subset_note,
        n_boosting=len(of_families(evidence, BOOSTED)),
        sweep=SWEEP,
        datasets=", ".join(datasets),
        note=file.card.note,
        ranks="\n".join(ranks_table(evidence, trials, matrix)),
        **reliability(matrix),
        claims="\n".join(claims_table(evidence)),
        n_searched=trials["dataset"].nunique(),
        tuning="\n".join(tuning_table(trials)),
        stopping="\n".join(stopping_table(trials, "dataset", "dataset")),
        findings="\n".join(findings_list(evidence)),
        n_ranked=len(matrix.datasets),
        smallest=smallest_p(len(matrix.datasets)),
    )


if __name__ == "__main__":
    text = page()
    if "--check" in sys.argv:
        sys.exit(0 if PAGE.read_text(encoding="utf-8") == text else 1)
    PAGE.write_text(text, encoding="utf-8")
