"""Bags by their predictions out of fold, each dataset's ensemble of them among the models.

A score out of fold is of all rows for training and validation, each predicted by a member that was
fitted without it; so it is of many more rows than a validation or test part has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from ..aggregation.cells import counting
from ..evidence import Evidence
from ..metrics import METRICS
from ..output import escape, footnotes
from ..output.marks import CONSTANT, ScoreText
from ..output.tables import Panel, ReportTable, Section, TableCell, fixed

NAME, TITLE = "out-of-fold", "Scores out of fold"
ENSEMBLE = "ensemble"
ROW_S = "predict_1k_single_s"  # seconds of 1,000 rows one by one: milliseconds of one
_ENSEMBLE = (
    "Ensemble: forward selection with replacement of at most 8 models by their predictions out of "
    "fold (Caruana et al. 2004); share: of each in it. The test rows only score.",
)
HEADER = ("model", "out of fold", "test", "share", "CPU s", "ms per row")


def section(evidence: Evidence) -> Section | None:
    """The file `out-of-fold`, None where nothing was fitted as a bag.

    `evidence.facts.bags`: {dataset: {weights: {model: share}, val, test: its scores, n_rows,
    taken, single: the score of the best model alone}} of each dataset with bags; the weights are
    empty where there is no ensemble.
    """
    bags = evidence.facts.bags
    rows = evidence.trials[counting(evidence) & evidence.having("status", "done")]
    made = []
    for dataset, of in sorted(bags.items()):
        mine = rows[rows["dataset"] == dataset]
        if len(mine):
            made.append(_rows(evidence, dataset, mine, of))
    if not made:
        return None
    frame = pd.concat(made, ignore_index=True)
    tables = [_table(evidence, task, part, bags) for task, part in frame.groupby("task", sort=True)]
    remarks = tuple(_remark(frame[frame["dataset"] == name], of) for name, of in bags.items())
    about = "bags by their predictions out of fold, and the ensemble that `bench fit` takes"
    return Section(NAME, TITLE, tuple(tables), frame, tuple(filter(None, remarks)), about=about)


def _rows(
    evidence: Evidence, dataset: str, mine: pd.DataFrame, of: Mapping[str, Any]
) -> pd.DataFrame:
    """One row a model, and one of the ensemble, the best out of fold first."""
    task = str(mine["task"].iloc[0])
    metric = evidence.headline(task)
    n_folds = mine["fold"].nunique()
    grouped = mine.groupby("model", sort=True)
    table = pd.DataFrame(
        {
            "val": grouped[f"val_{metric}"].mean(),
            "test": grouped[f"test_{metric}"].mean(),
            "cpu_s": grouped["cpu_s"].sum(),
            "row_ms": grouped[ROW_S].mean() if ROW_S in mine else np.nan,
        }
    )[grouped["fold"].nunique() == n_folds]
    weights = dict(of["weights"])
    table["share"] = [weights.get(model, 0.0) if weights else np.nan for model in table.index]
    table["kind"] = "bag"
    if weights:
        members = table.loc[list(weights)]
        sums = {name: members[name].sum(skipna=False) for name in ("cpu_s", "row_ms")}
        both = {"val": of["val"], "test": of["test"], "share": np.nan, "kind": ENSEMBLE}
        table.loc[ENSEMBLE] = pd.Series(sums | both)
    table = table.reset_index(names="model").assign(dataset=dataset, task=task, metric=metric)
    table["loss"] = METRICS[metric].sign * table["val"].astype(float)
    table = table.sort_values(["loss", "model"], kind="stable")
    columns = "dataset task metric model kind val test share cpu_s row_ms".split()
    return table[columns].reset_index(drop=True)


def _table(
    evidence: Evidence, task: str, frame: pd.DataFrame, bags: Mapping[str, Mapping[str, Any]]
) -> ReportTable:
    metric = evidence.headline(task)
    panels = []
    shares = bool(frame["share"].notna().any())  # of an ensemble
    for dataset, part in frame.groupby("dataset", sort=True):
        scores = {}
        for name in ("val", "test"):
            values = part[name].astype(float).tolist()
            text, place = ScoreText.of(metric, values).apart(values)
            scores[name] = [
                TableCell(text(value), bold=at == 1, underline=at == 2)
                for value, at in zip(values, place, strict=True)
            ]
        lines = []
        for i, row in enumerate(part.to_dict("records")):
            share = "" if not row["share"] == row["share"] else f"{row['share']:.0%}"
            ms = "n/a" if row["row_ms"] != row["row_ms"] else fixed(row["row_ms"], 2)
            costs = [TableCell(share)] * shares + [TableCell(fixed(row["cpu_s"], 1)), TableCell(ms)]
            label = TableCell(escape.label(str(row["model"])))
            lines.append((label, scores["val"][i], scores["test"][i], *costs))
        constant = evidence.facts.constants.get(dataset, {}).get(metric)
        if constant is not None:
            score = TableCell(ScoreText.of(metric, part["test"].astype(float).tolist())(constant))
            none = [TableCell()] * (3 if shares else 2)
            lines.append((TableCell(CONSTANT), TableCell(), score, *none))
        n_rows = bags[str(dataset)]["n_rows"]
        panels.append(Panel(tuple(lines), f"{escape.label(str(dataset))}: {n_rows:,} rows"))
    title = (
        f"{footnotes.metric_title(metric)} on {footnotes.TASK_TITLES[task]} out of fold, and on "
        "the test part; mean over the folds."
    )
    notes = (
        *footnotes.setting(evidence),
        "Out of fold: every row for training and validation is predicted by the member of the bag "
        "that was fitted without it; a network or boosting that stopped early stopped by these "
        "rows (bench docs: limits). The models of a dataset are compared by this column.",
        *(_ENSEMBLE if shares else ()),
        "CPU s: of fitting the bags. ms per row: of one row predicted alone, by the whole bag.",
    )
    header = tuple(head for head in HEADER if shares or head != "share")
    return ReportTable(f"{NAME}-{task}", title, header, tuple(panels), notes, best="column")


def _remark(rows: pd.DataFrame, of: Mapping[str, Any]) -> str:
    """A sentence on the model or ensemble that `bench fit` takes."""
    if not len(rows):
        return ""
    dataset, metric = rows["dataset"].iloc[0], rows["metric"].iloc[0]
    text = ScoreText.of(metric, [of["val"] if of["weights"] else rows["val"].min()], more=1)
    best = rows[rows["kind"] != ENSEMBLE].iloc[0]
    label, n_rows = METRICS[metric].label, f"out of fold of {of['n_rows']:,} rows"
    unit = " %" if METRICS[metric].percent else ""
    alone = f"{escape.label(str(best['model']))}, {label} {text(best['val'])}{unit}"
    if of["weights"] and of["taken"]:
        return (
            f"{escape.label(str(dataset))}: bench fit takes the ensemble, {label} "
            f"{text(of['val'])}{unit} {n_rows}; the best model alone is {alone}."
        )
    why = "; the ensemble was not better on rows that did not choose it" if of["weights"] else ""
    return f"{escape.label(str(dataset))}: bench fit takes {alone} {n_rows}{why}."
