"""Tests within one dataset: its best model against every other one, over the folds.

Folds share training rows, so their scores are not independent and a plain paired t-test reports too
many differences. Nadeau and Bengio (2003) correct its variance by n_test / n_train.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from ..aggregation.cells import COMPLETE
from ..evidence import Evidence
from ..metrics import METRICS
from ..output import escape, footnotes
from ..output.tables import Panel, ReportTable, Section, TableCell, p_text
from ..statistics.ranking import differences, snap
from ..statistics.tests import ALPHA, holm, nadeau_bengio

MIN_FOLDS = 3  # two leave one degree of freedom
NO_SPREAD = "n/a"

_COLUMNS = """dataset task metric direction reference model n_folds test_over_train mean_gain t p
    p_holm n_pairs note""".split()


def section(evidence: Evidence, studies: pd.DataFrame, headline: pd.DataFrame) -> Section:
    """The file `folds`; `studies`: `cells.studies`, `headline`: `cells.headline_cells`."""
    rows: list[dict[str, object]] = []
    whole = headline[headline["state"] == COMPLETE]
    models_of = {str(d): sorted(part["model"]) for d, part in whole.groupby("dataset")}
    scored = studies[studies["state"] == COMPLETE]
    for task in evidence.tasks:
        name = evidence.headline(task)
        mine = scored[scored["task"] == task]
        parts = {str(d): part for d, part in mine.groupby("dataset", sort=True)}
        for dataset in evidence.datasets(task):
            scores = pd.DataFrame()
            if dataset in parts and dataset in models_of:
                wide = parts[dataset].pivot(index="fold", columns="model", values=f"test_{name}")
                scores = wide[models_of[dataset]].dropna().sort_index()
            base = {"dataset": dataset, "task": task, "metric": name}
            rows += [{**base, **row} for row in _rows(evidence, dataset, name, scores)]
    frame = pd.DataFrame(rows, columns=_COLUMNS)
    tested = [
        task for task in evidence.tasks if task in set(frame.loc[frame["note"] == "", "task"])
    ]
    tables = tuple(_table(evidence, task, frame[frame["task"] == task]) for task in tested)
    about = "within a dataset, across its folds: the best model against each other one"
    remarks = tuple(
        f"No test within {_who(sorted(part['dataset']))}: {str(reason).removeprefix('n/a: ')}."
        for reason, part in frame[~frame["task"].isin(tested)].groupby("note", sort=True)
    )
    return Section("folds", "Folds of one dataset", tables, frame, remarks, about)


def _who(datasets: list[str]) -> str:
    """The name of one dataset, the number of several."""
    return escape.label(datasets[0]) if len(datasets) == 1 else f"{len(datasets)} datasets"


def why_not(evidence: Evidence, dataset: str, scores: pd.DataFrame) -> str:
    """Empty, or the reason why a dataset has no test; `scores`: (n_folds, n_models), complete."""
    if scores.shape[1] < 2:
        return f"n/a: needs at least 2 models with complete scores, has {scores.shape[1]}"
    if dataset in evidence.facts.sizes:
        return "n/a: folds are draws of several sizes, tested on the same rows"
    if dataset in evidence.overlapping:
        return "n/a: the stored test parts overlap, for which the correction does not hold"
    if len(scores) < MIN_FOLDS:
        return f"n/a: needs at least {MIN_FOLDS} folds, has {len(scores)}"
    if dataset not in evidence.facts.test_over_train:
        return "n/a: the sizes of training and test parts are not known"
    return ""


def _rows(
    evidence: Evidence, dataset: str, metric: str, scores: pd.DataFrame
) -> list[dict[str, object]]:
    """One row per model other than the best by mean (of equal ones the first by name), or one with
    the reason why there is no test. mean_gain: the best model's advantage, in the metric's unit."""
    direction = METRICS[metric].direction
    base: dict[str, object] = {"direction": direction, "n_folds": len(scores)}
    reason = why_not(evidence, dataset, scores)
    if reason:
        return [{**base, "note": reason}]
    ratio = float(evidence.facts.test_over_train[dataset])
    loss = scores.to_numpy(dtype=np.float64) * METRICS[metric].sign
    best = int(snap(loss.mean(axis=0)).argmin())
    others = [j for j in range(loss.shape[1]) if j != best]
    tests = [nadeau_bengio(differences(loss[:, j], loss[:, best]), ratio) for j in others]
    adjusted = holm([t.p for t in tests])
    base |= {"reference": str(scores.columns[best]), "test_over_train": ratio}
    return [
        {
            **base,
            "model": str(scores.columns[j]),
            "mean_gain": t.mean,
            "t": t.t,
            "p": t.p,
            "p_holm": p_holm,
            "n_pairs": int((~np.isnan(adjusted)).sum()),
            "note": "n/a: the same difference on every fold, no spread" if np.isnan(t.p) else "",
        }
        for j, t, p_holm in zip(others, tests, adjusted, strict=True)
    ]


def _table(evidence: Evidence, task: str, frame: pd.DataFrame) -> ReportTable:
    named = frame["model"].dropna().tolist() + frame["reference"].dropna().tolist()
    models = sorted(set(named))
    header = ("dataset", "folds", *(escape.label(m) for m in models))
    rows: list[tuple[TableCell, ...]] = []
    untested: dict[str, list[str]] = {}
    for dataset, part in frame.groupby("dataset", sort=True):
        head = (TableCell(escape.label(str(dataset))), TableCell(str(part["n_folds"].iloc[0])))
        if part["model"].isna().any():
            untested.setdefault(str(part["note"].iloc[0]), []).append(str(dataset))
            continue
        p = dict(zip(part["model"], part["p_holm"], strict=True))
        best = part["reference"].iloc[0]
        rows.append((*head, *(_cell(m, best, p) for m in models)))
    for reason, names in untested.items():
        rows.append((TableCell(_who(names)), TableCell(reason, span=len(header) - 1)))
    metric = footnotes.metric_title(evidence.headline(task))
    title = (
        f"The best model of each dataset against the others, {metric} on "
        f"{footnotes.TASK_TITLES[task]}: p-values over the folds."
    )
    ratios = sorted({f"{r:.3g}" for r in frame["test_over_train"].dropna()})
    notes = [
        *footnotes.setting(evidence),
        footnotes.CLAIMS["folds"],
        "Best: the best mean over the folds, chosen from these same results, which no correction "
        "accounts for. "
        "Other entries: two-sided p of the corrected resampled t-test (Nadeau and Bengio 2003) "
        "of the model against the best, after Holm's correction over the row; bold: "
        f"p ≤ {ALPHA:g}.",
        f"n test / n train: {footnotes.join(ratios)}; all rows that are not tested count as "
        "trained on, validation rows as well."
        if ratios
        else "",
        "–: no complete score." if any(c.text == "–" for row in rows for c in row) else "",
        f"{NO_SPREAD}: the same difference on every fold, without a spread to test it by."
        if any(c.text == NO_SPREAD for row in rows for c in row)
        else "",
        "The CSV names the datasets without a test." if untested else "",
        "A large p does not show that two models are equal.",
    ]
    name = f"folds-{task}"
    return ReportTable(name, title, header, (Panel(tuple(rows)),), tuple(filter(None, notes)))


def _cell(model: str, best: str, p: dict[str, float]) -> TableCell:
    if model == best:
        return TableCell("best")
    if model not in p:
        return TableCell("–")
    if pd.isna(p[model]):
        return TableCell(NO_SPREAD)
    return TableCell(p_text(p[model]), bold=p[model] <= ALPHA)
