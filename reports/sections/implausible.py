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

from ..aggregation.cells import COMPLETE
from ..evidence import STUDY, Evidence
from ..metrics import METRICS
from ..output import escape, footnotes
from ..output.tables import Panel, ReportTable, Section, TableCell, decimals_for, fixed

NAME, TITLE = "look-first", "Look at these first"
MAX_ROWS = 40  # of the printed table; the CSV has all

CONSTANTS = ("constant", "dummy")  # models that predict one value
NO_SKILL = {"r2": 0.0, "roc_auc": 0.5}  # scores that need no such model
NEAR = 0.95  # of the constant's error: from here on nothing was learned
HALF = 0.5  # of the constant's error: up to here a model has learned
DIVERGED = 1.5  # times the constant's error
LEARNERS = 0.25  # share of the other models that must have learned
EVERYWHERE, MIN_EVERYWHERE = 0.5, 3  # share and number of datasets that are one finding

DEFAULT_SUFFIX = "-default"
WORSE_THAN_DEFAULT, WORSE_THAN_DEFAULT_ON_ONE_FOLD = 1.2, 1.5  # times the default's error
OPTIMISTIC = 2.0  # times the usual ratio of test error to validation error
FEW_ROWS = 0.05  # of a share of rows: what chance does to few rows
TEST_SHARE, SEEN_NONE = 0.1, 3.0  # no error in n rows is an error of up to 3/n; rows in a test part
MIN_PEERS = 3  # models whose ratio is the usual one
PRINTED_DIGITS = 6  # of scores that come from a printed table
FAR, FAR_SE = 2.0, 5.0  # times the published error, and joint standard errors

CHECKS = {
    "no better than a constant": "error at least "
    f"{100 * NEAR:g} % of a constant prediction's where at least {100 * LEARNERS:g} % of the other "
    f"models have at most {100 * HALF:g} %",
    "worse than its default": f"error of the tuned configuration at least {WORSE_THAN_DEFAULT:g} "
    f"times that of the default one on every fold ({WORSE_THAN_DEFAULT_ON_ONE_FOLD:g} times with "
    "one fold)",
    "validation far better than test": "ratio of test to validation error at least "
    f"{OPTIMISTIC:g} times the median ratio of the other models on the dataset",
    "identical scores": "all test scores of two models equal on every fold",
    "far from the published score": f"error at least {FAR:g} times the published one, or at most "
    f"1/{FAR:g} of it, and {FAR_SE:g} joint standard errors away (one of the two that is not known "
    "counts as the other), under the published protocol",
}


@dataclass(frozen=True)
class Finding:
    """Cells that one check found implausible together.

    check: a key of CHECKS. cells: (dataset, model, value of the headline metric). weight: orders
    the findings, the largest first.
    """

    check: str
    cells: tuple[tuple[str, str, float], ...]
    seen: str
    cause: str
    weight: float

    @property
    def datasets(self) -> list[str]:
        """The datasets of its cells, each once."""
        return list(dict.fromkeys(dataset for dataset, _, _ in self.cells))

    @property
    def models(self) -> list[str]:
        """The models of its cells, each once."""
        return list(dict.fromkeys(model for _, model, _ in self.cells))


def section(
    evidence: Evidence,
    studies: pd.DataFrame,
    headline: pd.DataFrame,
    published: pd.DataFrame | None = None,
) -> Section:
    """The file `look-first`.

    studies, headline: `cells.studies` and the cells of each task's headline metric. published:
    dataset, model, metric, value, se (its standard error, NaN where not known) and table of scores
    published for the same protocol.
    """
    found = findings(evidence, studies, headline, published)
    checks = [f"{name}: {rule}." for name, rule in CHECKS.items()]
    if not found:
        remark = "No implausible cell was found."
        return Section(NAME, TITLE, (_table([], checks),), _frame(evidence, []), (remark,))
    cells = sum(len(finding.cells) for finding in found)
    remark = (
        f"{footnotes.count(len(found), 'finding')} on {footnotes.count(cells, 'cell')}. A "
        "finding is a reason to look, not a verdict: the tables hold these cells as they are."
    )
    if not evidence.meta.get("foreign"):  # another tool's results are no trials of a run
        remark += " The trials behind a cell: bench explain scores DATASET MODEL; their ids are in "
        remark += "the CSV."
    return Section(NAME, TITLE, (_table(found, checks),), _frame(evidence, found), (remark,))


def findings(
    evidence: Evidence,
    studies: pd.DataFrame,
    headline: pd.DataFrame,
    published: pd.DataFrame | None = None,
) -> list[Finding]:
    """The findings of all checks, the heaviest first; equal ones by check and cells."""
    whole = headline[headline["state"] == COMPLETE]
    found: list[Finding] = []
    for task in evidence.tasks:
        name = evidence.headline(task)
        mine = whole[whole["task"] == task]
        if not len(mine):
            continue
        scores = mine.pivot(index="dataset", columns="model", values="mean")
        found += _no_better_than_a_constant(scores, name)
        found += _worse_than_default(evidence, studies, scores, name, task)
        found += _validation_far_better(evidence, scores, name, task)
    found += _identical(evidence, studies, whole)
    if published is not None and len(published):
        found += _far_from_published(evidence, whole, published)
    return sorted(found, key=lambda f: (-f.weight, f.check, f.cells))


def errors(values: np.ndarray, metric: str) -> np.ndarray:
    """Scores of a metric as errors, 0 for a perfect one; squared errors as their roots."""
    one = METRICS[metric]
    found = 1.0 - values if one.bounded else np.asarray(values, dtype=float)
    return np.sqrt(np.maximum(found, 0.0)) if metric in ("mse", "r2") else found


# --- checks ---------------------------------------------------------------------------------------


def _no_better_than_a_constant(scores: pd.DataFrame, metric: str) -> Iterator[Finding]:
    """`scores` has a row for each dataset and a column for each model, NaN without a score."""
    base = next((name for name in CONSTANTS if name in scores), None)
    if base is not None:
        constant = errors(scores[base].to_numpy(), metric)
    elif metric in NO_SKILL:
        constant = errors(np.full(len(scores), NO_SKILL[metric]), metric)
    else:
        return
    scores = scores.drop(columns=[name for name in CONSTANTS if name in scores])
    with np.errstate(divide="ignore", invalid="ignore"):
        share = errors(scores.to_numpy(), metric) / constant[:, None]  # (n_datasets, n_models)
    share[~(constant > 0)] = np.nan
    known = ~np.isnan(share)
    learned = (share <= HALF).sum(axis=1)
    others = np.maximum(known.sum(axis=1) - 1, 1)
    judged = (learned > 0) & (learned >= LEARNERS * others)
    flagged = (share >= NEAR) & judged[:, None]
    often = flagged.sum(axis=0)
    tried = (known & judged[:, None]).sum(axis=0)
    everywhere = (often >= MIN_EVERYWHERE) & (often >= EVERYWHERE * tried)
    names, datasets = scores.columns.tolist(), scores.index.tolist()

    def cell(i: int, j: int) -> tuple[str, str, float]:
        return datasets[i], names[j], float(scores.iat[i, j])

    for j in np.flatnonzero(everywhere).tolist():
        at = np.flatnonzero(flagged[:, j]).tolist()
        yield Finding(
            "no better than a constant",
            tuple(cell(i, j) for i in at),
            f"on {often[j]} of {footnotes.count(int(tried[j]), 'dataset')} on which others learn; "
            f"median error {np.median(share[at, j]):.2f} of a constant's",
            "not this dataset but this model: its target or inputs are not scaled, it does not "
            "train, or it does not fit the task",
            100.0 + float(often[j]),
        )
    flagged[:, everywhere] = False
    for i in np.flatnonzero(flagged.any(axis=1)).tolist():
        at = sorted(np.flatnonzero(flagged[i]).tolist(), key=lambda j: -share[i, j])
        shown = [f"{escape.label(names[j])} {_times(share[i, j])}" for j in at[:6]]
        more = f" and {len(at) - 6} more" if len(at) > 6 else ""
        yield Finding(
            "no better than a constant",
            tuple(cell(i, j) for j in at),
            f"error over a constant's: {', '.join(shown)}{more}; best {np.nanmin(share[i]):.2f}",
            _cause_of_no_skill(share[i, at]),
            2.0 * len(at) + float(learned[i]) / int(others[i]) + _size(share[i, at].max()),
        )


def _size(ratio: float) -> float:
    """How much a ratio of errors counts: its decimal digits, at most three."""
    return min(3.0, max(0.0, float(np.log10(ratio))))


def _cause_of_no_skill(share: np.ndarray) -> str:
    if len(share) >= MIN_EVERYWHERE:
        return "several models at once: an outlier in the target, or one scaling that they share"
    if share.max() >= DIVERGED:
        return "diverged, or extrapolates: inputs or target are not scaled"
    return "ended before it learned (best step 0, a rate too small), or its target is not scaled"


def _worse_than_default(
    evidence: Evidence, studies: pd.DataFrame, scores: pd.DataFrame, metric: str, task: str
) -> Iterator[Finding]:
    column = f"test_{metric}"
    mine = studies[studies["task"] == task]
    for tuned in scores:
        default = f"{tuned}{DEFAULT_SUFFIX}"
        if default not in scores:
            continue
        whole = scores[[tuned, default]].dropna().index
        sides = [
            mine.loc[
                (mine["model"] == m) & mine["dataset"].isin(whole), ["dataset", "fold", column]
            ]
            for m in (tuned, default)
        ]
        both = sides[0].merge(sides[1], on=["dataset", "fold"], suffixes=("", "_default"))
        folds = pd.DataFrame(
            {
                "dataset": both["dataset"],
                "tuned": errors(both[column].to_numpy(dtype=float), metric),
                "default": errors(both[f"{column}_default"].to_numpy(dtype=float), metric),
            }
        )
        yield from _worse(folds, scores, str(tuned), default)
    first = [name for name in evidence.meta.get("default_first") or [] if name in scores]
    if first:
        chosen = _chosen_and_first(evidence, task, metric)
        for model, folds in chosen[chosen["model"].isin(first)].groupby("model", sort=True):
            yield from _worse(folds, scores, str(model), "")


def _chosen_and_first(evidence: Evidence, task: str, metric: str) -> pd.DataFrame:
    """Columns dataset, model, tuned, default: a row for each fold on which validation did not
    choose the first trial; test errors of the chosen one and of the first."""
    trials = evidence.trials
    first = (trials["index"] == 0).to_numpy()
    chosen = trials["selected"].to_numpy(dtype=bool)
    mine = evidence.having("stage", "tune") & evidence.having("status", "done")
    mine &= evidence.having("task", task) & (first != chosen)
    column = f"test_{metric}"
    rows = trials.loc[mine, [*STUDY, "selected", column]]
    picked = rows["selected"].to_numpy(dtype=bool)
    both = rows[picked].merge(rows[~picked], on=STUDY, suffixes=("", "_first"))
    return pd.DataFrame(
        {
            "dataset": both["dataset"],
            "model": both["model"],
            "tuned": errors(both[column].to_numpy(dtype=float), metric),
            "default": errors(both[f"{column}_first"].to_numpy(dtype=float), metric),
        }
    )


def _worse(
    folds: pd.DataFrame, scores: pd.DataFrame, tuned: str, default: str
) -> Iterator[Finding]:
    """folds: dataset, and the errors `tuned` and `default`. default: the model of the second, or ''
    for the first trial of the same study. A cell that lacks a fold has no score and is passed by.
    """
    scored = scores.index[scores[tuned].notna()]
    folds = folds[(folds["default"] > 0) & folds["dataset"].isin(scored)]
    names = folds["dataset"].to_numpy(dtype=object)
    ratios = (folds["tuned"] / folds["default"]).to_numpy()
    for dataset in sorted(set(names[ratios >= WORSE_THAN_DEFAULT])):
        ratio = ratios[names == dataset]
        limit = WORSE_THAN_DEFAULT if len(ratio) > 1 else WORSE_THAN_DEFAULT_ON_ONE_FOLD
        if np.isnan(ratio).any() or ratio.min() < limit:
            continue
        other = escape.label(default) if default else "its default configuration"
        yield Finding(
            "worse than its default",
            ((str(dataset), tuned, float(scores.at[dataset, tuned])),),
            f"error {_times(float(np.exp(np.log(ratio).mean())))} times that of {other}",
            "validation rows too few to choose by, or a choice that overfits them",
            float(np.log(ratio).mean()),
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
    frame = pd.DataFrame(
        {
            "dataset": rows["dataset"],
            "model": rows["model"],
            "val": errors(rows[val].to_numpy(dtype=float), metric),
            "test": errors(rows[test].to_numpy(dtype=float), metric),
        }
    )
    means = frame.groupby(["dataset", "model"], sort=True).mean()
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
                float(beyond),
            )


def _identical(evidence: Evidence, studies: pd.DataFrame, whole: pd.DataFrame) -> Iterator[Finding]:
    metrics = [c for c in studies.columns if c.startswith("test_")]
    means = dict(
        zip(zip(whole["dataset"], whole["model"], strict=True), whole["mean"], strict=True)
    )
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
    for (dataset, _), found in sorted(alike.items()):
        models = [model for model, _ in found]
        if len(models) < 2 or not _improbable(values[found[0][1]], metrics, int(n_folds[dataset])):
            continue
        behind = behind or _trials(evidence)
        ids = {frozenset(behind.get((dataset, model), [])) for model in models}
        if len(ids) == 1 and any(ids):
            continue  # the same trials under two names
        known = ~np.isnan(values[found[0][1]])
        labels = [METRICS[c.removeprefix("test_")].label for c in np.array(metrics)[known]]
        yield Finding(
            "identical scores",
            tuple((dataset, model, means[dataset, model]) for model in models),
            f"{', '.join(labels)} equal to the last digit",
            "two names of one model, or all predict the same (a constant)",
            0.5 + 0.1 * len(models),
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


def _far_from_published(
    evidence: Evidence, whole: pd.DataFrame, published: pd.DataFrame
) -> Iterator[Finding]:
    """Where one of the two standard errors is not known, it counts as that of the other score.
    Where test parts overlap ours is the standard deviation over folds, which is more."""
    heads = {task: evidence.headline(task) for task in evidence.tasks}
    mine = whole.assign(metric=whole["task"].map(heads))
    both = mine.merge(published, on=["dataset", "model", "metric"], suffixes=("", "_published"))
    for row in both.itertuples(index=False):
        ours, theirs = errors(np.array([row.mean, row.value]), str(row.metric))
        known = [se for se in (row.spread, row.se) if se == se]
        if min(ours, theirs) <= 0 or not known:
            continue
        joint = float(np.hypot(known[0], known[-1]))
        away = abs(row.mean - row.value) / joint if joint > 0 else np.inf
        ratio = ours / theirs
        if max(ratio, 1 / ratio) < FAR or away < FAR_SE:
            continue
        yield Finding(
            "far from the published score",
            ((str(row.dataset), str(row.model), float(row.mean)),),
            f"error {_times(ratio)} times that of {escape.label(str(row.table))}",
            "another split, preprocessing or unit than the published one"
            if ratio > 1
            else "another unit or split than the published one, or a leak of the target",
            float(abs(np.log(ratio))),
        )


def _times(ratio: float) -> str:
    """A ratio in two decimals, huge ones as a power of ten."""
    return f"{ratio:.2f}" if ratio < 1000 else f"1e{int(np.log10(ratio))}"


# --- output ---------------------------------------------------------------------------------------


def _trials(evidence: Evidence) -> dict[tuple[str, str], list[str]]:
    """{(dataset, model): ids of the trials behind the cell}: the evaluations of its folds, or the
    chosen trials where it has none."""
    found: dict[tuple[str, str], list[str]] = {}
    for mine in (
        evidence.having("stage", "eval"),
        evidence.trials["selected"].to_numpy(dtype=bool),
    ):
        rows = evidence.trials.loc[mine, ["dataset", "model", "id"]]
        for (dataset, model), ids in rows.groupby(["dataset", "model"], sort=False)["id"]:
            named = [name for name in dict.fromkeys(ids.tolist()) if name]
            found.setdefault((str(dataset), str(model)), named)
    return found


def _frame(evidence: Evidence, found: Sequence[Finding]) -> pd.DataFrame:
    """One row per cell of a finding."""
    tasks = dict(zip(evidence.planned["dataset"], evidence.planned["task"], strict=True))
    behind = _trials(evidence) if found else {}
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
        for number, finding in enumerate(found, start=1)
        for dataset, model, value in finding.cells
    ]
    columns = "finding check dataset task model metric value seen cause trials".split()
    return pd.DataFrame(rows, columns=columns)


def _table(found: Sequence[Finding], checks: Sequence[str]) -> ReportTable:
    rows = [
        (
            TableCell(finding.check),
            TableCell(footnotes.join(finding.datasets, limit=3)),
            TableCell(footnotes.join(finding.models, limit=6)),
            TableCell(_value(finding)),
            TableCell(finding.seen),
            TableCell(finding.cause),
        )
        for finding in found[:MAX_ROWS]
    ]
    notes = [f"Checks: {' '.join(checks)}"]
    if len(found) > MAX_ROWS:
        notes.insert(0, f"{len(found) - MAX_ROWS} more findings stand in the CSV.")
    header = ("check", "dataset", "model", "score", "seen", "likely cause")
    panels = (Panel(tuple(rows)),) if rows else ()
    title = "Cells to check before the tables are believed."
    return ReportTable(NAME, title, header, panels, tuple(notes), 6, outputs=("md",))


def _value(finding: Finding) -> str:
    """The score where the finding is on one cell."""
    if len(finding.cells) > 1:
        return ""
    value = finding.cells[0][2]
    return fixed(value, decimals_for([value]))
