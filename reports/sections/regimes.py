"""Default, tuned and ensembled: up to three rows for each model, in tables of their own.

Rows of one model are not independent of each other, so they stand in no other ranking.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from ..aggregation.cells import COMPLETE, PARTIAL
from ..evidence import Evidence
from ..metrics import METRICS
from ..output import escape, footnotes
from ..output.gains import HEADER, NOTES, gain_rows
from ..output.marks import ScoreText, figure_cells
from ..output.tables import Panel, ReportTable, Section, TableCell
from ..statistics.tests import relative_changes

NAME, TITLE = "default-and-tuned", "Default, tuned and ensembled"
DEFAULT, TUNED, ENSEMBLED = "default", "tuned", "tuned + ensembled"
KINDS = {"all": "all datasets", "subset": "independent, learnable subset"}
ORDER = (DEFAULT, TUNED, ENSEMBLED)

# Of the frame: one row per (dataset, fold, model, regime). score: by the metric on test rows, val
# on validation rows; reason: why there is no score; members: {trial id: weight} as JSON.
COLUMNS = (
    "dataset task fold metric model regime score val n_candidates n_members members reason"
).split()

_ONE, _PARTIAL = "¹", "†"
_NOT_TUNED = (
    f"{_ONE} One configuration ran, nothing was tuned: default is its fit under the tuning seed, "
    "tuned its bag or the mean over its evaluation seeds, where there are such."
)


def row_name(model: str, regime: str) -> str:
    """The name of a row among those of all models and regimes.

    >>> row_name("knn", "tuned")
    'knn (tuned)'
    """
    return f"{model} ({regime})"


def _shown(model: str, regime: str) -> str:
    """`row_name` for a sentence: the model as tables show it."""
    return row_name(escape.label(model), regime)


def as_evidence(evidence: Evidence, frame: pd.DataFrame) -> Evidence:
    """Evidence in which each regime is a model of its own: for ranks among the regimes alone.
    frame: COLUMNS; `evidence` is what it was made from."""
    known = frame["score"].notna()
    names = [row_name(m, v) for m, v in zip(frame["model"], frame["regime"], strict=True)]
    planned = frame[["dataset", "task", "fold"]].assign(
        model=names, n_trials=1, reason=np.where(known, "", frame["reason"])
    )
    trials = frame[["dataset", "task", "fold"]].assign(
        model=names, index=0, stage="tune", seed=0, status="done", selected=True
    )
    for metric in sorted(set(frame["metric"])):
        trials[f"test_{metric}"] = frame["score"].where(frame["metric"] == metric).astype(float)
    return Evidence.of(trials[known], planned, evidence.facts)


def section(
    evidence: Evidence,
    frame: pd.DataFrame,
    cells: pd.DataFrame,
    board: pd.DataFrame,
    notes: Sequence[str] = (),
) -> Section:
    """The file `default-and-tuned`: ranks among all regimes and the gains of each step, where there
    are several datasets, and the scores.

    evidence: of the run; frame: COLUMNS; cells: `cells.headline_cells` of `as_evidence`; board: the
    leaderboard's frame of the same; notes: what could not be read.
    """
    split = _by_row(frame)
    cells = cells.assign(
        regime=[split[name][1] for name in cells["model"]],
        row=cells["model"],
        metric=[evidence.headline(task) for task in cells["task"]],
        model=[split[name][0] for name in cells["model"]],
    )
    reasons = _reasons(frame)
    board = board[board["view"] == "complete"]
    board = board.assign(
        regime=[split[name][1] for name in board["model"]],
        model=[split[name][0] for name in board["model"]],
    )
    several = cells["dataset"].nunique() > 1
    tables = [*_boards(evidence, board), _gains(cells)] if several else []
    tables += [
        _scores(evidence, task, frame, cells[cells["task"] == task], reasons)
        for task in evidence.tasks
    ]
    said = (*tables[0].notes, *_notes(several), *notes)
    tables[0] = replace(tables[0], notes=said)
    rows = [_tidy(frame, cells, reasons).assign(part="scores")]
    rows += [board.assign(part="ranks")] if several else []
    tidy = pd.concat(rows, ignore_index=True)
    tidy.insert(0, "part", tidy.pop("part"))
    about = (
        "default, tuned and ensembled results of each model: ranked together, and their scores on "
        "every dataset"
    )
    return Section(NAME, TITLE, tuple(tables), tidy, about=about)


def _by_row(frame: pd.DataFrame) -> dict[str, tuple[str, str]]:
    pairs = frame[["model", "regime"]].drop_duplicates().itertuples(index=False, name=None)
    return {row_name(model, regime): (model, regime) for model, regime in pairs}


def _reasons(frame: pd.DataFrame) -> dict[tuple[str, str, str], str]:
    """{(dataset, model, regime): the first reason why a fold of it has no score}."""
    lost = frame[frame["score"].isna() & (frame["reason"] != "")]
    return {
        (r.dataset, r.model, r.regime): r.reason
        for r in lost.drop_duplicates(["dataset", "model", "regime"]).itertuples(index=False)
    }


# --- ranks among all regimes ---------------------------------------------------------------------


def _boards(evidence: Evidence, board: pd.DataFrame) -> list[ReportTable]:
    header = ("model", "result", "mean rank ↓", "win rate ↑", "Elo ↑", "norm. ↑", "improv. % ↓")
    boards: list[ReportTable] = []
    for scope in list(dict.fromkeys(board["scope"]))[::-1]:
        panels = []
        mine = board[board["scope"] == scope]
        for selection in dict.fromkeys(mine["datasets"]):
            rows = mine[mine["datasets"] == selection]
            panels.append(_board_panel(rows, KINDS[str(selection)], len(header)))
        title = f"{TITLE}, ranked together on {footnotes.TASK_TITLES[str(scope)]}."
        name = f"{NAME}-{str(scope).replace(' ', '-')}"
        said = tuple(footnotes.setting(evidence))
        boards.append(ReportTable(name, title, header, tuple(panels), said, 2, best="column"))
    return boards


def _board_panel(rows: pd.DataFrame, selection: str, width: int) -> Panel:
    ranked = rows[rows["note"] == ""]
    if not len(ranked):
        return Panel(((TableCell(str(rows["note"].iloc[0]), span=width),),), selection)
    n = f"{selection}: {int(ranked['n_datasets'].iloc[0])} of {int(ranked['n_scope'].iloc[0])}"
    cells = figure_cells(ranked)
    order = ("mean_rank", "win_rate", "elo", "normalised", "improvability")
    lines = []
    for i, row in enumerate(ranked.to_dict("records")):
        names = TableCell(escape.label(str(row["model"]))), TableCell(row["regime"])
        lines.append((*names, *(cells[name][i] for name in order)))
    out = [_shown(r.model, r.regime) for r in rows[rows["note"] != ""].itertuples(index=False)]
    if out:
        text = f"not ranked, too few complete scores: {footnotes.join(out, limit=100, whole=True)}"
        lines.append((TableCell(text, span=width),))
    return Panel(tuple(lines), n)


def _notes(several: bool) -> list[str]:
    """several: whether there are ranks."""
    of_ranks = [
        "The rows of a model share trials and are not independent; all figures are among the rows "
        "of this table, so they are not those of the leaderboard, and no other table ranks them.",
        "Norm.: normalised score, 1 for the smallest error of a dataset and 0 for the largest. "
        "Improv.: improvability, 1 − best error of the dataset / own error, in percent.",
    ]
    return [
        "default: the configuration that a study tried first, where its budget begins with the "
        "model's default, under the tuning seed; not measured elsewhere. tuned: the configuration "
        "that validation chose, the score of all other tables. tuned + ensembled: forward "
        "selection with replacement of the study's own trials on the validation rows (Caruana et "
        "al. 2004), from stored predictions; nothing was fitted again. The test rows only score.",
        *(of_ranks if several else []),
        "bench explain default-and-tuned DATASET MODEL --run RUN names the trials and weights "
        "behind every score and computes it again.",
    ]


# --- gains over datasets --------------------------------------------------------------------------


def _gains(cells: pd.DataFrame) -> ReportTable:
    steps = ((DEFAULT, TUNED), (TUNED, ENSEMBLED))
    whole = cells[cells["state"] == COMPLETE]
    metric = whole.groupby("dataset", sort=True)["metric"].first().map(METRICS.__getitem__)
    error = [metric[d].error(v) for d, v in zip(whole["dataset"], whole["mean"], strict=True)]
    wide = whole.assign(error=error).pivot(
        index=["model", "dataset"], columns="regime", values="error"
    )
    wide = wide.reindex(columns=list(ORDER))
    panels = []
    for before, after in steps:
        gains = {
            str(model): relative_changes(
                rows[after].to_numpy(dtype=float), rows[before].to_numpy(dtype=float)
            )
            for model, rows in wide.groupby(level="model", sort=True)
        }
        rows = gain_rows(gains)
        nothing = (TableCell("no model has both", span=len(HEADER) + 1),)
        panels.append(Panel(tuple(rows) or (nothing,), f"from {before} to {after}"))
    title = "Gain of tuning and of ensembling in test error, over datasets."
    return ReportTable(f"{NAME}-gains", title, ("model", *HEADER), tuple(panels), NOTES)


# --- scores ---------------------------------------------------------------------------------------


def _scores(
    evidence: Evidence,
    task: str,
    frame: pd.DataFrame,
    cells: pd.DataFrame,
    reasons: Mapping[tuple[str, str, str], str],
) -> ReportTable:
    name = evidence.headline(task)
    members = frame.groupby(["dataset", "model", "regime"], sort=True)["n_members"].mean()
    tried = frame.groupby(["dataset", "model", "regime"], sort=True)["n_candidates"].max()
    panels, marks = [], set()
    why: dict[str, dict[str, None]] = {}
    for dataset, part in cells.groupby("dataset", sort=True):
        whole = part[part["state"] == COMPLETE]
        score, places = ScoreText.of(name, part["mean"].tolist()).apart(whole["mean"].tolist())
        place = dict(zip(whole["row"], places, strict=True))
        lines = []
        for model in sorted(set(part["model"])):
            line = [TableCell(escape.label(str(model)))]
            mine = {r.regime: r for r in part[part["model"] == model].itertuples(index=False)}
            for regime in ORDER:
                cell = mine.get(regime)
                if cell is None or cell.state not in (COMPLETE, PARTIAL):
                    line.append(TableCell("–"))
                    key = (str(dataset), model, regime)
                    if key in reasons:
                        why.setdefault(reasons[key], {})[_shown(model, regime)] = None
                    continue
                one = regime == TUNED and tried.get((dataset, model, regime)) == 1
                mark = (_PARTIAL if cell.state == PARTIAL else "") + (_ONE if one else "")
                marks |= set(mark)
                at = place.get(cell.row)
                texts = score(cell.mean), score(cell.spread)
                line.append(TableCell(*texts, bold=at == 1, underline=at == 2, mark=mark))
            n = members.get((dataset, model, ENSEMBLED))
            line.append(TableCell("–" if n is None or n != n else f"{n:.1f}"))
            lines.append(tuple(line))
        panels.append(Panel(tuple(lines), escape.label(str(dataset))))
    title = (
        f"Test {footnotes.metric_title(name)} on {footnotes.TASK_TITLES[task]}: default, tuned and "
        "ensembled, mean over the folds."
    )
    notes = [
        *footnotes.setting(evidence),
        "members: different trials in the ensemble, mean over the folds.",
        *([_NOT_TUNED] if _ONE in marks else []),
        *([f"{_PARTIAL} Some folds only: not compared."] if _PARTIAL in marks else []),
        *(
            f"–: {reason}: {footnotes.join(names, limit=12, whole=True)}."
            for reason, names in why.items()
        ),
    ]
    header = ("model", *ORDER, "members")
    name = f"{NAME}-scores-{task}"
    return ReportTable(name, title, header, tuple(panels), tuple(notes), best="dataset")


def _tidy(
    frame: pd.DataFrame, cells: pd.DataFrame, reasons: Mapping[tuple[str, str, str], str]
) -> pd.DataFrame:
    """One row per (dataset, model, regime): the CSV."""
    keys = ["dataset", "model", "regime"]
    counts = frame.groupby(keys, sort=True)[["n_candidates", "n_members"]].mean().reset_index()
    tidy = cells.merge(counts, on=keys, how="left")
    tidy["direction"] = [METRICS[name].direction for name in tidy["metric"]]
    there = zip(tidy["dataset"], tidy["model"], tidy["regime"], strict=True)
    tidy["reason"] = [reasons.get(key, "") for key in there]
    tidy["state"] = tidy["state"].where(tidy["state"].isin([COMPLETE, PARTIAL]), "no score")
    columns = "dataset task model regime metric direction mean spread n_folds n_planned state"
    columns += " n_candidates n_members reason"
    rank = {regime: i for i, regime in enumerate(ORDER)}
    tidy = tidy.assign(at=tidy["regime"].map(rank))
    tidy = tidy.sort_values(["dataset", "model", "at"], kind="stable")
    return tidy[columns.split()].reset_index(drop=True)
