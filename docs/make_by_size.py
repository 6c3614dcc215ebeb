"""Writes docs/by-size.md from the study by training size that comes with the package.

python docs/make_by_size.py            # writes the page
python docs/make_by_size.py --check    # exit code 1 where the page is not what would be written
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from make_reference import claims_table, record, reliability, stopping_table, tuning_trials
from tabsweep.benchmark.planning import suite as suites
from tabsweep.benchmark.results.entrants import folder_of, results_file
from tabsweep.datasets.protocols import MOST_TESTED, NUMBERS
from tabsweep.reports.aggregation import by_size
from tabsweep.reports.aggregation.cells import headline_cells, studies
from tabsweep.reports.aggregation.ranking_matrix import RankingMatrix, ranking_matrices
from tabsweep.reports.aggregation.sides import gains, side
from tabsweep.reports.evidence import Evidence
from tabsweep.reports.output.tables import p_text
from tabsweep.reports.sections.by_size import crossing_words
from tabsweep.reports.statistics.tests import holm
from tabsweep.reports.statistics.wilcoxon import wilcoxon

NAME = "by-size-reference"
PAGE = Path(__file__).with_name("by-size.md")
FIRST = 30001  # the fold that is the first draw of 300 rows
PAIRS = [  # one side, the other
    ("catboost", "xgboost"),
    ("catboost", "lightgbm"),
    ("catboost", "random-forest"),
    ("catboost", "mlp"),
    ("mlp", "xgboost"),
    ("mlp", "lightgbm"),
    ("mlp", "random-forest"),
    ("mlp", "linear"),
    ("modern-nca", "catboost"),
    ("modern-nca", "mlp"),
    ("tabm", "catboost"),
    ("tabm", "mlp"),
    ("tabm", "gaussian-process"),
    ("realmlp", "catboost"),
    ("tabr", "catboost"),
    ("ft-transformer", "catboost"),
    ("ft-transformer", "resnet"),
    ("gaussian-process", "catboost"),
]

FIRST_PAIRS = [  # on the first draw
    ("tabm", "catboost"),
    ("realmlp", "catboost"),
    ("tabr", "catboost"),
    ("modern-nca", "catboost"),
    ("ft-transformer", "catboost"),
    ("hopular", "catboost"),
    ("npt", "catboost"),
    ("gaussian-process", "catboost"),
    ("tabm", "mlp"),
    ("ft-transformer", "resnet"),
    ("tabtransformer-cheatt", "tabtransformer"),
    ("saint-cheatt", "saint"),
    ("met-cheatt", "met"),
]

TEXT = """\
# Who leads at how many rows

The models of the [reference study](reference.md) on {n_datasets} larger tables, of which 300, 1,000
and 3,000 rows train: the suite `by-size`, budget `reference`. A larger training set holds the
smaller ones; a quarter as many rows validate; all models and sizes of a dataset are tested on the
same rows, {most_test:,} at most. 300 rows are drawn three times, 1,000 twice. A study has four
configurations, the default first.

**{n_done} of its {n_all} models are complete; {n_first} have at least [the first draw of 300
rows](#the-first-draw-of-300-rows).**{missing}

{note}

```sh
bench report --beside by-size-reference                  # these tables, with nothing run
bench sweep --suite by-size --budget reference --model mymodel.py:MyModel --beside {name}
bench beside check by-size-reference --rows 10 --seed 1  # doubt it
```

## Mean ranks

Rank of the mean test score over the draws of a size among these {n_done} models, 1 is best: the
mean over the datasets, with its 95 % interval over resamples of these (bootstrap).

![Mean ranks of the complete models at 300, 1,000 and 3,000 rows](pictures/by-size-light.svg)

{ranks}

{crossing}

## Pairs

Datasets on which the first model has the lower, equal and higher test error (1 - score, or RMSE),
the median of the difference as a share of the larger one (positive: the first is better), and the
p-value of Wilcoxon's signed-rank test of these shares, two-sided, corrected by Holm over this
table.

{pairs}

What the papers claim, of the models that are complete; a side of several models is the best of them
by validation (of all networks: of as many as boosting has), and p is corrected by Holm over a size.
Networks have the sizes that the suite names, below those of their papers.

{claims_by_size}

## The first draw of 300 rows

{n_first} models on one draw of 300 training rows of each dataset, tested on the same large parts.

{first_ranks}

The same claims on this draw, of all models that have it:

{claims}

{first_pairs}

Of all pairs of these models {first_differ} differ on it; two halves of the datasets agree with
{first_halves}.

## How reliable they are

* Of the pairs of these models {differ} differ at the 5 % level over all sizes (Wilcoxon's
  signed-rank test, corrected by Holm).
* The mean ranks of all models on two random halves of the datasets correlate with {halves}
  (Spearman: mean and 95 % of 2,000 halvings).
* The median interval of a mean rank over all sizes is {width} places wide.
* First in the resamples of the datasets: {leaders}.

## What early stopping ended

Fits in steps that ended before their limit of epochs, steps or trees, and the models of which more
than a tenth reached it.

{stopped}

## What it cannot say

Of models without all draws nothing is said at 1,000 and 3,000 rows. One draw says less of a model
than three: how much a score changes with the draw is part of its interval over datasets, and not
seen apart. Networks have the sizes that the suite names, below those of their papers, and nothing
was fitted as a bag. To go on, one or several models at a time; finished trials are not run again,
and studies that stand in the folder are kept (`--folds 1` is the first draw alone):

```sh
bench sweep --suite by-size --budget reference --model realmlp --workers 1
bench beside export runs/by-size-reference --out benchmark/entrants/by-size-reference \\
  --title "The reference study by training size" --mark reference
python docs/make_by_size.py
```
"""


def ranks_table(ranked: list[by_size.Ranked]) -> list[str]:
    """A row a model, best at the largest size first; a column a size."""
    sizes = " | ".join(f"{one.size:,} rows" for one in ranked)
    lines = [f"| model | {sizes} |", "| --- |" + " ---: |" * len(ranked)]
    for model in ranked[-1].models:
        cells = []
        for one in ranked:
            at = one.models.index(model)
            cells.append(f"{one.mean[at]:.2f} ({one.low[at]:.1f} to {one.high[at]:.1f})")
        lines.append(f"| {model} | {' | '.join(cells)} |")
    return lines


def pairs_table(folds: pd.DataFrame, pairs: Sequence[tuple[str, str]]) -> list[str]:
    """Each pair whose models are there, at each size."""
    there = {*folds["model"]}
    rows, found = [], []
    for size, here in folds.groupby("size"):
        for one, other in (pair for pair in pairs if {*pair} <= there):
            errors = pd.DataFrame({"a": side(here, [one]), "b": side(here, [other])}).dropna()
            mean = errors.groupby("dataset").mean()
            gain = gains(mean["a"].to_numpy(), mean["b"].to_numpy())
            rows.append(f"| {size:,} | {one} | {other} | {record(gain)} ")
            found.append(gain)
    p_values = holm([wilcoxon(gain).p for gain in found])
    return [
        "| training rows | first | second | better / equal / worse | median gain | p |",
        "| ---: | --- | --- | --- | ---: | ---: |",
        *(
            f"{row}| {100 * np.median(gain):+.1f} % | {p_text(p)} |"
            for row, gain, p in zip(rows, found, p_values, strict=True)
        ),
    ]


def matrices_of(evidence: Evidence) -> list[RankingMatrix]:
    """The matrices of its tasks, that of all tasks last."""
    return ranking_matrices(evidence, headline_cells(evidence, studies(evidence)))


def with_folds(evidence: Evidence, folds: list[int]) -> Evidence:
    """The evidence on these folds of the models that have a score on all of them, everywhere."""
    scored = evidence.trials[evidence.trials["status"] == "done"]
    scored = scored[scored["fold"].isin(folds)]
    n = scored.drop_duplicates(["dataset", "fold", "model"]).groupby("model").size()
    whole = n.index[n == len(folds) * len(evidence.datasets())]
    trials, planned = (
        frame[frame["model"].isin(whole) & frame["fold"].isin(folds)]
        for frame in (evidence.trials, evidence.planned)
    )
    return Evidence.of(trials, planned, evidence.facts)


def complete() -> Evidence:
    """The study's models that have every draw of every size."""
    everything = results_file(Path(NAME)).evidence()
    return with_folds(everything, sorted(set(everything.trials["fold"])))


def claims_by_size(evidence: Evidence) -> list[str]:
    """The claims whose models are there, a row for each and size."""
    folds = pd.Series(sorted({*evidence.trials["fold"]}))
    tables = {
        n: claims_table(with_folds(evidence, here.tolist()), ())
        for n, here in folds.groupby(folds // NUMBERS)
    }
    head, rule = next(iter(tables.values()))[:2]
    rows = [f"| {n:,} {row}" for n, table in tables.items() for row in table[2:]]
    return [f"| training rows {head}", f"| ---: {rule}", *rows]


def page() -> str:
    """The page's text."""
    file = results_file(Path(NAME))
    everything, evidence = file.evidence(), complete()
    first = with_folds(everything, [FIRST])
    [at_first] = by_size.ranked(by_size.sized(first))
    of_first = reliability(matrices_of(first)[-1])
    folds = by_size.sized(evidence)
    ranked = by_size.ranked(folds)
    sides = by_size.networks_and_boosting(evidence, folds)
    planned = suites.load("by-size").budget("reference")[1].models
    at_first_draw = everything.trials[everything.trials["fold"] == FIRST]
    n_scores = at_first_draw.groupby("model")["dataset"].nunique()
    missing = [model for model in planned if model not in n_scores]
    left_out = [
        f" {model} is not ranked: it has a score on {n} of {len(evidence.datasets())} datasets."
        for model, n in n_scores.items()
        if model not in first.models
    ]
    trials = tuning_trials(folder_of(Path(NAME)))
    trials["size"] = trials["split"] // NUMBERS
    return TEXT.format(
        stopped="\n".join(stopping_table(trials, "size", "training rows")),
        n_datasets=len(evidence.datasets()),
        most_test=MOST_TESTED,
        n_done=len(evidence.models),
        n_all=len(planned),
        n_first=len(first.models),
        missing="".join([f" Not yet there: {', '.join(missing)}."] * bool(missing) + left_out),
        first_ranks="\n".join(ranks_table([at_first])),
        first_pairs="\n".join(pairs_table(by_size.sized(first), FIRST_PAIRS)),
        first_differ=of_first["differ"],
        first_halves=of_first["halves"],
        claims="\n".join(claims_table(first, ())),
        note=file.card.note,
        ranks="\n".join(ranks_table(ranked)),
        crossing=crossing_words(sides) if sides else "",
        pairs="\n".join(pairs_table(folds, PAIRS)),
        claims_by_size="\n".join(claims_by_size(evidence)),
        name=NAME,
        **reliability(matrices_of(evidence)[-1]),
    )


if __name__ == "__main__":
    text = page()
    if "--check" in sys.argv:
        sys.exit(0 if PAGE.read_text(encoding="utf-8") == text else 1)
    PAGE.write_text(text, encoding="utf-8")
