"""Implausible cells: results to check before the tables are believed, each with a likely cause.

Each check returns findings on cells of the headline metrics. An error is 0 for a perfect score:
1 - score for metrics that are at most 1, the root for squared errors, so that half of an error
means the same for RMSE, MSE and R2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ...common.text import first_few
from ..aggregation.cells import COMPLETE, counting
from ..evidence import STUDY, Evidence
from ..metrics import METRICS
from ..output import escape, footnotes
from ..output.tables import Panel, ReportTable, Section, TableCell, decimals_for, fixed

NAME, TITLE = "look-first", "Look at these first"
ABOUT = "implausible cells, each with a likely cause"
MAX_ROWS = 40  # of the printed table; the CSV has all

CONSTANTS = ("constant", "dummy")  # models that predict one value
NO_SKILL = {"r2": 0.0, "roc_auc": 0.5}  # scores of a constant, whatever the data
UNKNOWN, UNKNOWN_BOUNDED = 10.0, 0.75  # times the other models' median error; an error
NEAR = 0.95  # of the constant's error: from here on nothing was learned
HALF = 0.5  # of the constant's error: up to here a model has learned
DIVERGED = 1.5  # times the constant's error
LEARNERS = 0.25  # share of the other models that must have learned
EVERYWHERE, MIN_EVERYWHERE = 0.5, 3  # share and number of datasets that are one finding
NOBODY = "nobody learned"  # how the cause begins where no model is better than a constant
NO_SKILL_CHECK = "no better than a constant"

DEFAULT_SUFFIX = "-default"
WORSE_THAN_DEFAULT, WORSE_THAN_DEFAULT_ON_ONE_FOLD = 1.2, 1.5  # times the default's error
OPTIMISTIC = 2.0  # times the usual ratio of test error to validation error
FEW_ROWS = 0.05  # of a share of rows: what chance does to few rows
TEST_SHARE, SEEN_NONE = 0.1, 3.0  # no error in n rows is an error of up to 3/n; rows in a test part
LEAKS = ("missingness-leak", "feature-is-target")  # flags of a passport
MIN_PEERS = 3  # models whose ratio is the usual one
PRINTED_DIGITS = 6  # of scores that come from a printed table

CHECKS = {
    NO_SKILL_CHECK: "error at least "
    f"{100 * NEAR:g} % of a constant prediction's where at least {100 * LEARNERS:g} % of the other "
    f"models have at most {100 * HALF:g} %, or no model has less; for errors without an upper end "
    f"{DIVERGED:g} times in any case "
    f"(where no constant is known, its error counts as {UNKNOWN_BOUNDED:g} for a metric that is at "
    f"most 1, else as {UNKNOWN:g} times the median of the other models')",
    "worse than its default": f"error of the tuned configuration at least {WORSE_THAN_DEFAULT:g} "
    f"times that of the default one on every fold ({WORSE_THAN_DEFAULT_ON_ONE_FOLD:g} times with "
    "one fold)",
    "validation far better than test": "ratio of test to validation error at least "
    f"{OPTIMISTIC:g} times the median ratio of the other models on the dataset",
    "a feature tells the target": "the passport's flag of a leak",
    "identical scores": "all test scores of two models equal on every fold",
}


@dataclass(frozen=True)
class Finding:
    """Cells that one check found implausible together.

    check: a key of CHECKS. cells: (dataset, model, value of the headline metric).
    """

    check: str
    cells: tuple[tuple[str, str, float], ...]
    seen: str
    cause: str

    @property
    def datasets(self) -> list[str]:
        """The datasets of its cells, each once."""
        return list(dict.fromkeys(dataset for dataset, _, _ in self.cells))

    @property
    def models(self) -> list[str]:
        """The models of its cells, each once."""
        return list(dict.fromkeys(model for _, model, _ in self.cells))


def section(evidence: Evidence, studies: pd.DataFrame, headline: pd.DataFrame) -> Section:
    """The file `look-first`.

    studies, headline: `cells.studies` and the cells of each task's headline metric.
    """
    flagged = findings(evidence, studies, headline)
    cells = sum(len(finding.cells) for finding in flagged)
    remark = "No implausible cell was found."
    if flagged:
        remark = (
            f"{footnotes.count(len(flagged), 'finding')} on {footnotes.count(cells, 'cell')}. A "
            "finding is a reason to look, not a verdict: the tables hold these cells as they are."
        )
    if flagged and not evidence.meta.get("foreign"):  # another tool's results are no trials
        remark += " The trials behind a cell: bench explain scores DATASET MODEL --run RUN; their "
        remark += "ids are in the CSV."
    return Section(NAME, TITLE, (_table(flagged),), _frame(evidence, flagged), (remark,), ABOUT)


def findings(evidence: Evidence, studies: pd.DataFrame, headline: pd.DataFrame) -> list[Finding]:
    """The findings of all checks: in the order of CHECKS, those on many cells first."""
    whole = headline[headline["state"] == COMPLETE]
    flagged: list[Finding] = []
    for task in evidence.tasks:
        name = evidence.headline(task)
        mine = whole[whole["task"] == task]
        if not len(mine):
            continue
        scores = mine.pivot(index="dataset", columns="model", values="mean")
        flagged += _no_better_than_a_constant(scores, _constants(evidence, scores, name), name)
        flagged += _worse_than_default(evidence, studies, scores, name, task)
        flagged += _validation_far_better(evidence, scores, name, task)
    flagged += _identical(evidence, studies, whole)
    flagged += _leaks(evidence, whole)
    order = list(CHECKS)
    return sorted(flagged, key=lambda f: (order.index(f.check), -len(f.cells), f.cells))


def caveat(frame: pd.DataFrame) -> str:
    """What the verdict on a table must say after the findings in this frame of the section: on
    which datasets nobody learned; "" for none."""
    names = frame.loc[frame["cause"].str.startswith(NOBODY), "dataset"].unique()
    if not len(names):
        return ""
    where = footnotes.join(names, limit=3)
    return (
        f"Nobody learned on {where}: no model has an error below {100 * NEAR:g} % of a constant "
        "prediction's."
    )


def errors(values: np.ndarray, metric: str) -> np.ndarray:
    """Scores of a metric as errors, 0 for a perfect one; squared errors as their roots."""
    one = METRICS[metric]
    error = 1.0 - values if one.bounded else np.asarray(values, dtype=float)
    return np.sqrt(np.maximum(error, 0.0)) if metric in ("mse", "r2") else error


# --- checks ---------------------------------------------------------------------------------------


def _constants(
    evidence: Evidence, scores: pd.DataFrame, metric: str
) -> np.ndarray:  # (n_datasets, n_models)
    """The error of a constant prediction that each score is compared with: of a model that is one,
    of the plan, or a guess from the other models' errors."""
    known = evidence.meta.get("constants") or {}
    usual = NO_SKILL.get(metric, np.nan)
    values = np.array([(known.get(name) or {}).get(metric, usual) for name in scores.index])
    for name in CONSTANTS:
        if name in scores:
            values = scores[name].fillna(pd.Series(values, scores.index)).to_numpy()
    constant = errors(values, metric)
    guess = np.full(scores.shape, UNKNOWN_BOUNDED)
    if not METRICS[metric].bounded:
        mine = pd.DataFrame(errors(scores.to_numpy(), metric))
        others = [mine.drop(columns=j).median(axis=1) for j in mine]
        guess = UNKNOWN * np.column_stack(others)
    return np.where(np.isnan(constant)[:, None], guess, constant[:, None])


def _no_better_than_a_constant(
    scores: pd.DataFrame, constant: np.ndarray, metric: str
) -> Iterator[Finding]:
    """`scores` has a row for each dataset and a column for each model, NaN without a score."""
    with np.errstate(divide="ignore", invalid="ignore"):
        share = scores.apply(errors, metric=metric) / np.where(constant > 0, constant, np.nan)
    share = share.drop(columns=[name for name in CONSTANTS if name in share])
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
            f"{_times(cells.median())} of a constant's",
            "not this dataset but this model: its target or inputs are not scaled, it does not "
            "train, or it does not fit the task",
        )
    for dataset, mine in share.where(flagged).dropna(how="all").iterrows():
        cells = mine.dropna().sort_values(ascending=False, kind="stable")
        best = share.loc[dataset].min()
        shown = [f"{escape.label(model)} {_times(value)}" for model, value in cells.items()]
        if best >= NEAR:
            cause = f"{NOBODY}: extreme values of the target, or inputs that say nothing about it"
        elif cells.max() >= DIVERGED:
            cause = "diverged, or extrapolates: inputs or target are not scaled"
        else:
            cause = "ended before it learned (best step 0, a rate too small), or its target is "
            cause += "not scaled"
        yield finding(
            pd.concat({dataset: cells}),
            f"error over a constant's: {first_few(shown, 6)}; best {_times(best)}",
            cause,
        )


def _worse_than_default(
    evidence: Evidence, studies: pd.DataFrame, scores: pd.DataFrame, metric: str, task: str
) -> Iterator[Finding]:
    """A cell that lacks a fold has no score and is passed by."""
    column, place = f"test_{metric}", ["dataset", "fold", "model"]
    tuned = studies.loc[studies["task"] == task, [*place, column]]
    is_default = tuned["model"].astype(str).str.endswith(DEFAULT_SUFFIX)
    defaults = tuned[is_default].assign(other=tuned["model"])
    defaults["model"] = defaults["model"].astype(str).str.removesuffix(DEFAULT_SUFFIX)
    pairs = [tuned.merge(defaults, on=place, suffixes=("", "_default"))]
    # validation did not choose the first trial, where that is the default
    trials = evidence.trials.loc[
        evidence.having("stage", "tune")
        & evidence.having("status", "done")
        & evidence.having("task", task),
        [*place, "index", "selected", column],
    ]
    begins = trials["model"].isin(list(evidence.meta.get("default_first") or []))
    chosen = trials["selected"].astype(bool)
    first = trials[begins & (trials["index"] == 0) & ~chosen].assign(other="")
    pairs.append(trials[chosen].merge(first, on=place, suffixes=("", "_default")))
    folds = pd.concat([pair[[*place, "other", column, f"{column}_default"]] for pair in pairs])
    default = errors(folds[f"{column}_default"].to_numpy(dtype=float), metric)
    folds["ratio"] = errors(folds[column].to_numpy(dtype=float), metric) / np.where(
        default > 0, default, np.nan
    )
    for (model, other, dataset), mine in folds.groupby(["model", "other", "dataset"], sort=True):
        ratio = mine["ratio"].to_numpy()
        limit = WORSE_THAN_DEFAULT if len(ratio) > 1 else WORSE_THAN_DEFAULT_ON_ONE_FOLD
        value = scores[model].get(dataset, np.nan) if model in scores else np.nan
        if np.isnan([*ratio, value]).any() or ratio.min() < limit:
            continue
        named = escape.label(other) if other else "its default configuration"
        yield Finding(
            "worse than its default",
            ((str(dataset), str(model), float(value)),),
            f"error {_times(float(np.exp(np.log(ratio).mean())))} times that of {named}",
            "validation rows too few to choose by, or a choice that overfits them",
        )


def _validation_far_better(
    evidence: Evidence, scores: pd.DataFrame, metric: str, task: str
) -> Iterator[Finding]:
    test, val = f"test_{metric}", f"val_{metric}"
    trials = evidence.trials
    if val not in trials:
        return
    mine = trials["selected"].to_numpy(dtype=bool) & evidence.having("task", task)
    rows = trials.loc[mine & evidence.having("status", "done"), [*STUDY, val, test]]
    rows = rows[~rows["model"].isin(CONSTANTS)]
    both = rows.assign(
        val=errors(rows[val].to_numpy(dtype=float), metric),
        test=errors(rows[test].to_numpy(dtype=float), metric),
    )
    means = both.groupby(["dataset", "model"], sort=True)[["val", "test"]].mean()
    scored = set(scores.stack().dropna().index)
    n_folds = rows.groupby("dataset")["fold"].nunique()
    rows_of = evidence.meta.get("rows") or {}
    for dataset, block in means.dropna().groupby(level="dataset", sort=True):
        # an error of 0 on few rows is no surprise
        floor = 0.1 * float(block["test"].median())
        if METRICS[metric].bounded:
            few = SEEN_NONE / (TEST_SHARE * rows_of[dataset]) if dataset in rows_of else 0.0
            floor = max(floor, FEW_ROWS, few / n_folds[dataset])
        ratio = np.log((block["test"] + floor) / (block["val"] + floor)).to_numpy()
        if floor <= 0 or len(ratio) <= MIN_PEERS:
            continue
        models = block.index.get_level_values("model").tolist()
        for j, model in enumerate(models):
            usual = float(np.median(np.delete(ratio, j)))
            beyond = ratio[j] - max(usual, 0.0)
            if (dataset, model) not in scored or beyond < np.log(OPTIMISTIC):
                continue
            v, t = float(block["val"].iloc[j]), float(block["test"].iloc[j])
            yield Finding(
                "validation far better than test",
                ((str(dataset), model, float(scores.at[dataset, model])),),
                f"error {t:.3g} in test, {v:.3g} in validation; of the other models "
                f"{_times(float(np.exp(usual)))} times the validation error",
                "chosen among many on few validation rows, or trained on validation rows",
            )


def _identical(evidence: Evidence, studies: pd.DataFrame, whole: pd.DataFrame) -> Iterator[Finding]:
    metrics = [c for c in studies.columns if c.startswith("test_")]
    means = whole.set_index(["dataset", "model"])["mean"].to_dict()
    done = studies[(studies["state"] == COMPLETE) & ~studies["model"].isin(CONSTANTS)]
    done = done.sort_values(["dataset", "model", "fold"], kind="stable")
    values = done[metrics].to_numpy(dtype=float)
    alike: dict[tuple[str, bytes], list[tuple[str, int]]] = {}
    for (dataset, model), at in done.reset_index().groupby(["dataset", "model"]).indices.items():
        if (dataset, model) in means:
            key = str(dataset), values[at].tobytes()
            alike.setdefault(key, []).append((str(model), int(at[0])))
    n_folds = done.groupby("dataset").size() // done.groupby("dataset")["model"].nunique()
    behind: dict[tuple[str, str], list[str]] = {}
    for (dataset, _), group in sorted(alike.items()):
        models = [model for model, _ in group]
        if len(models) < 2 or not _improbable(values[group[0][1]], metrics, int(n_folds[dataset])):
            continue
        behind = behind or _trials(evidence)
        ids = {frozenset(behind.get((dataset, model), [])) for model in models}
        if len(ids) == 1 and any(ids):
            continue  # the same trials under two names
        known = ~np.isnan(values[group[0][1]])
        labels = [METRICS[c.removeprefix("test_")].label for c in np.array(metrics)[known]]
        yield Finding(
            "identical scores",
            tuple((dataset, model, means[dataset, model]) for model in models),
            f"{', '.join(labels)} equal to the last digit",
            "two names of one model, or all predict the same (a constant)",
        )


def _improbable(scores: np.ndarray, metrics: Sequence[str], n_folds: int) -> bool:
    """Whether equal scores are no accident: not perfect, and some with more digits than a table
    prints, or accuracies of several folds."""
    perfect, long = True, False
    for value, column in zip(scores.tolist(), metrics, strict=True):
        name = column.removeprefix("test_")
        if value != value:
            continue
        perfect &= bool(errors(np.array([value]), name)[0] <= 1e-9)
        printed = float(f"{value:.{PRINTED_DIGITS}g}") == value
        long |= not printed and (not METRICS[name].percent or n_folds >= MIN_EVERYWHERE)
    return long and not perfect


def _leaks(evidence: Evidence, whole: pd.DataFrame) -> Iterator[Finding]:
    for dataset, facts in (evidence.meta.get("facts") or {}).items():
        mine = whole.loc[whole["dataset"] == dataset, ["dataset", "model", "mean"]]
        seen = [flag["detail"] for flag in facts.get("flags", ()) if flag["id"] in LEAKS]
        if seen and len(mine):
            cause = "known only after the target: leave the feature out (--drop)"
            cells = tuple(mine.itertuples(index=False, name=None))
            yield Finding("a feature tells the target", cells, "; ".join(seen), cause)


def _times(ratio: float) -> str:
    """A ratio in two decimals, huge ones as a power of ten."""
    return f"{ratio:.2f}" if ratio < 1000 else f"1e{int(np.log10(ratio))}"


# --- output ---------------------------------------------------------------------------------------


def _trials(evidence: Evidence) -> dict[tuple[str, str], list[str]]:
    """{(dataset, model): ids of the trials behind the cell}: the evaluations of its folds, or the
    chosen trials where it has none."""
    rows = evidence.trials.loc[counting(evidence), ["dataset", "model", "id"]]
    return {
        (str(dataset), str(model)): [name for name in dict.fromkeys(ids.tolist()) if name]
        for (dataset, model), ids in rows.groupby(["dataset", "model"], sort=False)["id"]
    }


def _frame(evidence: Evidence, flagged: Sequence[Finding]) -> pd.DataFrame:
    """One row per cell of a finding."""
    tasks = dict(zip(evidence.planned["dataset"], evidence.planned["task"], strict=True))
    behind = _trials(evidence) if flagged else {}
    rows = [
        {
            "finding": number,
            "check": finding.check,
            "dataset": dataset,
            "task": tasks[dataset],
            "model": model,
            "metric": evidence.headline(tasks[dataset]),
            "value": value,
            "seen": finding.seen,
            "cause": finding.cause,
            "trials": " ".join(behind.get((dataset, model), [])),
        }
        for number, finding in enumerate(flagged, start=1)
        for dataset, model, value in finding.cells
    ]
    columns = "finding check dataset task model metric value seen cause trials".split()
    return pd.DataFrame(rows, columns=columns)


def _table(flagged: Sequence[Finding]) -> ReportTable:
    rows = [
        (
            TableCell(finding.check),
            TableCell(footnotes.join(finding.datasets, limit=3)),
            TableCell(footnotes.join(finding.models, limit=6)),
            TableCell(_value(finding)),
            TableCell(finding.seen),
            TableCell(finding.cause),
        )
        for finding in flagged[:MAX_ROWS]
    ]
    notes = ["Checks: " + " ".join(f"{name}: {rule}." for name, rule in CHECKS.items())]
    if len(flagged) > MAX_ROWS:
        notes.insert(0, f"{len(flagged) - MAX_ROWS} more findings stand in the CSV.")
    header = ("check", "dataset", "model", "score", "seen", "likely cause")
    panels = (Panel(tuple(rows)),) if rows else ()
    title = "Cells to check before the tables are believed."
    return ReportTable(NAME, title, header, panels, tuple(notes), 6, in_latex=False)


def _value(finding: Finding) -> str:
    """The score where the finding is on one cell."""
    if len(finding.cells) > 1:
        return ""
    value = finding.cells[0][2]
    return fixed(value, decimals_for([value]))
