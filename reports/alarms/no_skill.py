"""Check of a cell against a prediction of one value."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from ...common.text import first_few
from ..evidence import Evidence
from ..metrics import METRICS
from ..output import escape, footnotes
from .finding import NO_SKILL, Finding, Results, errors, is_constant, times

UNKNOWN, UNKNOWN_BOUNDED = 10.0, 0.75  # times the other models' median error; an error
NEAR = 0.95  # of the constant's error: from here on nothing was learned
HALF = 0.5  # of the constant's error: up to here a model has learned
DIVERGED = 1.5  # times the constant's error
LEARNERS = 0.25  # share of the other models that must have learned
EVERYWHERE, MIN_EVERYWHERE = 0.5, 3  # share and number of datasets that are one finding
NOBODY = "nobody learned"  # how the cause begins where no model is better than a constant
NO_SKILL_CHECK = "no better than a constant"
INVERTED = 0.1  # a ROC AUC this near to one less the others' is of the other class
RULES = {
    NO_SKILL_CHECK: "error at least "
    f"{100 * NEAR:g} % of a constant prediction's where at least {100 * LEARNERS:g} % of the other "
    f"models have at most {100 * HALF:g} %, or no model has less; for errors without an upper end "
    f"{DIVERGED:g} times in any case "
    f"(where no constant is known, its error counts as {UNKNOWN_BOUNDED:g} for a metric that is at "
    f"most 1, else as {UNKNOWN:g} times the median of the other models')",
}


def no_better_than_a_constant(results: Results) -> Iterator[Finding]:
    """Models that learned nothing, on a dataset or on many."""
    for _, metric, scores in results.scores(constants=True):
        yield from _of_task(scores, _constants(results.evidence, scores, metric), metric)


def _constants(
    evidence: Evidence, scores: pd.DataFrame, metric: str
) -> np.ndarray:  # (n_datasets, n_models)
    """The error of a constant prediction that each score is compared with: of a model that is one,
    of the plan, or a guess from the other models' errors."""
    known = evidence.facts.constants
    usual = NO_SKILL.get(metric, np.nan)
    values = np.array([(known.get(name) or {}).get(metric, usual) for name in scores.index])
    for name in filter(is_constant, scores):
        values = scores[name].fillna(pd.Series(values, scores.index)).to_numpy()
    constant = errors(values, metric)
    guess = np.full(scores.shape, UNKNOWN_BOUNDED)
    if not METRICS[metric].bounded:
        mine = pd.DataFrame(errors(scores.to_numpy(), metric))
        others = [mine.drop(columns=j).median(axis=1) for j in mine]
        guess = UNKNOWN * np.column_stack(others)
    return np.where(np.isnan(constant)[:, None], guess, constant[:, None])


def _of_task(scores: pd.DataFrame, constant: np.ndarray, metric: str) -> Iterator[Finding]:
    """`scores` has a row for each dataset and a column for each model, NaN without a score."""
    with np.errstate(divide="ignore", invalid="ignore"):
        share = scores.apply(errors, metric=metric) / np.where(constant > 0, constant, np.nan)
    share = share.drop(columns=[name for name in share if is_constant(name)])
    learned = (share <= HALF).sum(axis=1)
    judged = (learned > 0) & (learned >= LEARNERS * (share.notna().sum(axis=1) - 1))
    judged |= share.min(axis=1) >= NEAR  # nobody learned
    flagged = (share >= NEAR).mul(judged, axis=0)
    if METRICS[metric].lowest < 0 or not METRICS[metric].bounded:  # of these an error has no end
        flagged |= share >= DIVERGED
    often, tried = flagged.sum(), share[judged].notna().sum()

    def finding(cells: pd.Series, seen: str, cause: str) -> Finding:
        """cells: the share of each (dataset, model)."""
        places = tuple((d, m, float(scores.at[d, m])) for d, m in cells.index)
        return Finding(NO_SKILL_CHECK, places, seen, cause)

    for model in share.columns[(often >= MIN_EVERYWHERE) & (often >= EVERYWHERE * tried)]:
        cells = share.loc[flagged[model], [model]].stack()
        flagged[model] = False
        yield finding(
            cells,
            f"on {len(cells)} of {footnotes.count(len(share), 'dataset')}; median error "
            f"{times(cells.median())} of a constant's",
            f"not this dataset but this model: {_cause(cells, scores, metric)}",
        )
    for dataset, mine in share.where(flagged).dropna(how="all").iterrows():
        cells = mine.dropna().sort_values(ascending=False, kind="stable")
        best = share.loc[dataset].min()
        shown = [f"{escape.label(model)} {times(value)}" for model, value in cells.items()]
        if best >= NEAR:
            cause = f"{NOBODY}: extreme values of the target, or inputs that say nothing about it"
        else:
            cause = _cause(pd.concat({dataset: cells}), scores, metric)
        yield finding(
            pd.concat({dataset: cells}),
            f"error over a constant's: {first_few(shown, 6)}; best {times(best)}",
            cause,
        )


def _cause(cells: pd.Series, scores: pd.DataFrame, metric: str) -> str:
    """The most likely cause of errors as large as those of a constant prediction. cells: {(dataset,
    model): error as a share of the constant's}, all of one dataset or all of one model."""
    own = np.array([scores.at[place] for place in cells.index])
    if (own == 0.0).all():
        return "missing results that were written as 0"
    if metric == "roc_auc" and (own < NO_SKILL[metric]).all():
        names = set(cells.index.get_level_values(1))
        rest = scores.drop(columns=[name for name in scores if name in names or is_constant(name)])
        others = rest.loc[cells.index.get_level_values(0)].median(axis=1).to_numpy()
        if len(others) and (np.abs(1.0 - own - others) < INVERTED).all():
            return "probabilities of the other class: 1 less its ROC AUC is like the others'"
    if METRICS[metric].bounded and METRICS[metric].lowest == 0.0:
        if cells.max() >= DIVERGED:
            return "answers in the place of others: classes in another order, or rows shuffled"
        return (
            "ended before it learned (best step 0, a rate too small), or it does not fit the task"
        )
    if cells.max() >= DIVERGED:
        return (
            "diverged, or extrapolates: inputs or target are not scaled; or the score is in "
            "another unit or another metric's"
        )
    return "ended before it learned (best step 0, a rate too small), or its target is not scaled"
