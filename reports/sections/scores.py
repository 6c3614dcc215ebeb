"""The report's tables of test scores: one table per task, datasets by models."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd

from ..aggregation.cells import (
    ABSENT,
    COMPLETE,
    FAILED,
    OPEN,
    PARTIAL,
    UNDEFINED,
    UNSUPPORTED,
    best_models,
)
from ..aggregation.ranking_matrix import RankingMatrix
from ..evidence import Evidence
from ..metrics import METRICS
from ..output import escape, footnotes
from ..output.marks import ScoreText
from ..output.tables import Panel, ReportTable, Section, TableCell

_WORDS = {
    FAILED: (
        "fail",
        "fail: no trial of a fold's study has a validation score, or its evaluation failed "
        "(the coverage table has the cause)",
    ),
    OPEN: ("open", "open: planned trials are not recorded yet"),
    UNSUPPORTED: ("n/s", "n/s: the model does not support this dataset"),
    UNDEFINED: ("undef", "undef: the metric is undefined on these test rows"),
    ABSENT: ("–", "–: not planned"),
}
_PARTIAL_MARK, _OVERLAP_MARK, _UNDEFINED_MARK = "†", "‡", "§"


def section(
    evidence: Evidence,
    blocks: Mapping[tuple[str, str], pd.DataFrame],
    matrices: list[RankingMatrix],
) -> Section:
    """The file `scores`: headline metrics as tables, every metric in the frame.

    `blocks` maps (task, metric) to its cells (`cells.cells`); `matrices`: one for each scope.
    """
    frames = [
        _frame(evidence, block, name, headline=name == evidence.headline(task))
        for (task, name), block in blocks.items()
    ]
    alone = {m.scope.name: m for m in matrices if not m.scope.subset}
    tables = [
        _table(evidence, task, blocks[task, evidence.headline(task)], alone[task])
        for task in evidence.tasks
    ]
    frame = pd.concat(frames, ignore_index=True)
    about = "every model on every dataset: mean over folds, its standard error or spread"
    return Section("scores", "Scores", tuple(tables), frame, about=about)


def _frame(
    evidence: Evidence, block: pd.DataFrame, metric_name: str, headline: bool
) -> pd.DataFrame:
    frame = block.copy()
    best = {
        dataset: best_models(rows, METRICS[metric_name].direction)
        for dataset, rows in block.groupby("dataset", sort=True)
    }
    pairs = zip(frame["dataset"].tolist(), frame["model"].tolist(), strict=True)
    frame["best"] = [m in best[d] for d, m in pairs]
    frame["metric"], frame["direction"] = metric_name, METRICS[metric_name].direction
    frame["headline"] = headline
    cells = zip(frame["dataset"], frame["model"], strict=True)
    frame["n_seeds"] = pd.array([evidence.n_seeds.get(cell) for cell in cells], dtype="Int64")
    overlapping = evidence.overlapping
    frame["spread_kind"] = [
        "" if math.isnan(s) else "standard deviation" if d in overlapping else "standard error"
        for d, s in zip(frame["dataset"], frame["spread"], strict=True)
    ]
    columns = "dataset task model metric direction headline mean spread spread_kind n_folds"
    columns += " n_planned n_seeds n_undefined state cause best"
    return frame[columns.split()]


def _table(
    evidence: Evidence, task: str, block: pd.DataFrame, matrix: RankingMatrix
) -> ReportTable:
    metric_name = evidence.headline(task)
    metric = METRICS[metric_name]
    ranked = [] if matrix.why_not else matrix.order()[0]
    models = [*ranked, *sorted(set(block["model"]) - set(ranked))]
    rows = []
    for dataset, part in block.groupby("dataset", sort=True):
        rows.append(_row(evidence, str(dataset), part, models, metric_name))
    panels = [Panel(tuple(rows))]
    rank_row, rank_note = _rank_row(matrix, models)
    if rank_row:
        panels.append(Panel((rank_row,)))
    title = (
        f"Test {footnotes.metric_title(metric_name)} on {footnotes.TASK_TITLES[task]}: mean over "
        "the folds."
    )
    notes = [
        *footnotes.setting(evidence),
        *footnotes.protocols(evidence, evidence.datasets(task)),
        f"{footnotes.arrow(metric.direction)}: {metric.better} is better.",
        *(["Models stand in the order of their mean rank."] if ranked else []),
        *_spread_notes(evidence, block),
        *_state_notes(block),
        *([rank_note] if rank_note else []),
        "Equal means share their place. Bold does not mean statistically significant: the table of "
        "tests says which differences between models are significant across datasets.",
    ]
    header = ("dataset", *(escape.label(m) for m in models))
    return ReportTable(f"scores-{task}", title, header, tuple(panels), tuple(notes), best="dataset")


def _row(
    evidence: Evidence, dataset: str, mine: pd.DataFrame, models: list[str], metric_name: str
) -> tuple[TableCell, ...]:
    by_model = {r.model: r for r in mine.itertuples(index=False)}
    whole = mine[mine["state"] == COMPLETE]
    score, places = ScoreText.of(metric_name, mine["mean"].tolist()).apart(whole["mean"].tolist())
    place = dict(zip(whole["model"], places, strict=True))
    mark = _OVERLAP_MARK if dataset in evidence.overlapping else ""
    mark += _UNDEFINED_MARK if mine["n_undefined"].any() else ""
    row = [TableCell(escape.label(dataset), mark=mark)]
    for model in models:
        cell = by_model.get(model)
        if cell is None:
            row.append(TableCell(_WORDS[ABSENT][0]))
        elif cell.state not in (COMPLETE, PARTIAL):
            row.append(TableCell(_WORDS[cell.state][0]))
        else:
            row.append(
                TableCell(
                    score(cell.mean),
                    score(cell.spread),
                    bold=place.get(model) == 1,
                    underline=place.get(model) == 2,
                    mark=(_PARTIAL_MARK if cell.state == PARTIAL else "")
                    + footnotes.few_mark(evidence, dataset, model),
                )
            )
    return tuple(row)


def _rank_row(matrix: RankingMatrix, models: list[str]) -> tuple[tuple[TableCell, ...], str]:
    if len(matrix.models) < 2 or len(matrix.datasets) < 2:  # one dataset orders the models itself
        return (), ""
    mean = dict(zip(matrix.models, matrix.ranks().mean(axis=0), strict=True))
    lowest = min(mean.values())
    row = [TableCell("mean rank ↓")]
    for model in models:
        value = mean.get(model)
        text = "–" if value is None else f"{value:.2f}"
        row.append(TableCell(text, bold=value is not None and value <= lowest + 1e-12))
    note = (
        f"Mean rank: over the {len(matrix.datasets)} of "
        f"{footnotes.count(matrix.n_scope, 'dataset')} with a complete score of every ranked model."
    )
    return tuple(row), note


def _spread_notes(evidence: Evidence, block: pd.DataFrame) -> list[str]:
    known = block[block["spread"].notna()]
    overlap = known["dataset"].isin(evidence.overlapping)
    notes = []
    if (~overlap).any():
        n = sorted(set(known.loc[~overlap, "n_folds"]))
        notes.append(
            f"After the mean: its standard error, s/√n over n = {footnotes.join(map(str, n))} "
            "folds (ddof 1). Folds share training rows, so it understates the uncertainty."
        )
    if overlap.any():
        sized = set(known.loc[overlap, "dataset"]) <= set(evidence.facts.sizes)
        parts = "All draws have the same test rows" if sized else "The stored test parts overlap"
        notes.append(
            f"{_OVERLAP_MARK} {parts}: after the mean is the spread "
            "(standard deviation, ddof 1) over them, not a standard error."
        )
    if (block["n_folds"] == 1).any():
        notes.append("A mean without a second number is from one fold.")
    return notes


def _state_notes(block: pd.DataFrame) -> list[str]:
    n, whole = len(block), int((block["state"] == COMPLETE).sum())
    notes = [f"Coverage: {whole} of {n} cells are complete."]
    partial = block[block["state"] == PARTIAL]
    if len(partial):
        folds = sorted({f"{r.n_folds} of {r.n_planned}" for r in partial.itertuples()})
        notes.append(
            f"{_PARTIAL_MARK} Some folds only ({footnotes.join(folds)}): not compared, never bold."
        )
    undefined = block[block["n_undefined"] > 0].drop_duplicates("dataset")
    if len(undefined):
        counts = [f"{r.n_undefined} of {r.dataset}" for r in undefined.itertuples()]
        notes.append(
            f"{_UNDEFINED_MARK} Folds on which the metric is undefined for every model, left out "
            f"for all: {footnotes.join(counts)}."
        )
    for state in (FAILED, OPEN, UNSUPPORTED, UNDEFINED):
        if (block["state"] == state).any():
            notes.append(_WORDS[state][1] + ".")
    planned = block.groupby("dataset", sort=True)["model"].nunique()
    if len(planned) and int(np.min(planned)) < block["model"].nunique():
        notes.append(_WORDS[ABSENT][1] + ".")
    return notes
