"""Who leads, by how much, and how sure is that? Elo, ranks, wins, normalised score, improvability.

Two views of every scope. One stands on the datasets on which every ranked model has a complete
score; the other on all datasets, with each missing cell imputed by one stated rule and counted.
There is none of every model on the datasets that it happens to have: a model that fails where it is
weak would gain by it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ...common.text import did_you_mean
from ..aggregation.cells import Pool, Scope, losses, places
from ..evidence import Evidence, EvidenceError
from ..metrics import METRICS
from ..output import escape, footnotes
from ..output.tables import Cell, Panel, Section, Table, fixed
from ..statistics.distributions import t_isf
from ..statistics.tests import (
    elo,
    elo_of_wins,
    improvability,
    normalised,
    ranks,
    separable,
    standard_error,
)
from .ranks import absences, which, why_no_ranks

COMPLETE, IMPUTED = "complete", "imputed"
WORST = "worst"  # the fallback that ranks a missing cell behind every score
DEFAULT_FALLBACK = "constant"

CENTRE = 1000.0  # mean Elo of the models
LEVEL = 0.95
RESAMPLES, SEED = 1000, 0
MIN_DATASETS = 2
MIN_BOOTSTRAP = 15  # with fewer datasets the percentile interval covers too little

# figure -> is more better
FIGURES = {
    "elo": "max",
    "mean_rank": "min",
    "win_rate": "max",
    "normalised": "max",
    "improvability": "min",
}
_INTERVALS = [f"{name}_{end}" for name in FIGURES for end in ("low", "high")]
_COLUMNS = """scope datasets view fallback model place n_scope n_datasets n_models n_imputed elo
    mean_rank mean_rank_se win_rate normalised improvability interval""".split()

Array = np.ndarray


@dataclass(frozen=True)
class Board:
    """A matrix without holes, (n_datasets, n_models): lower is better in `losses`, where +infinity
    is behind every score; `errors` are finite. `imputed` marks the cells that had no score."""

    scope: Scope
    view: str
    models: list[str]
    losses: Array
    errors: Array
    imputed: Array
    n_scope: int
    reason: str = ""  # why it says nothing

    @property
    def n(self) -> int:
        """Number of datasets."""
        return len(self.losses)


def section(
    evidence: Evidence, headline: pd.DataFrame, pools: list[Pool], fallback: str | None = None
) -> Section:
    """The file `leaderboard`. `headline`: the cells of each task's headline metric.

    `fallback`: the model whose score stands for a missing one, or 'worst'; default: the model
    `constant` where the plan has it, else 'worst'. Raises EvidenceError for any other name.
    """
    name = fallback_of(evidence, fallback)
    boards = []
    for pool in pools:
        boards.append(complete(pool))
        filled = imputed(evidence, headline, pool.scope, name)
        if filled.imputed.any():
            boards.append(filled)
    frame = pd.concat([_frame(b, evidence.models, name) for b in boards], ignore_index=True)
    tables = [
        _table(evidence, [b for b in boards if b.scope.name == scope], pools, frame, name)
        for scope in dict.fromkeys(p.scope.name for p in reversed(pools))
    ]
    return Section("leaderboard", "Leaderboard", tuple(tables), frame)


def fallback_of(evidence: Evidence, name: str | None) -> str:
    """The fallback that is meant; EvidenceError for one that the plan does not have."""
    if name is None:
        return DEFAULT_FALLBACK if DEFAULT_FALLBACK in evidence.models else WORST
    if name != WORST and name not in evidence.models:
        raise EvidenceError(
            f"the fallback must be a model of the results or {WORST!r}, not {name!r}"
            f"{did_you_mean(name, [*evidence.models, WORST])}; "
            f"models: {', '.join(evidence.models)}"
        )
    return name


# --- the two views --------------------------------------------------------------------------------


def complete(pool: Pool) -> Board:
    """The datasets on which every ranked model has a score."""
    reason = why_no_ranks(pool)
    if not reason and len(pool.datasets) < MIN_DATASETS:
        reason = f"n/a: needs at least {MIN_DATASETS} complete datasets, has {len(pool.datasets)}"
    nothing = np.zeros(pool.scores.shape, dtype=bool)
    return Board(
        pool.scope, COMPLETE, pool.models, pool.scores, pool.errors, nothing, pool.n_scope, reason
    )


def imputed(evidence: Evidence, headline: pd.DataFrame, scope: Scope, fallback: str) -> Board:
    """Every dataset and model with any score. A missing cell gets the fallback's score; where that
    has none, or is 'worst', it ranks behind all scores, with the largest error among them."""
    table = losses(headline, scope, evidence.subset)
    n_scope = len(table)
    table = table.loc[table.notna().any(axis=1), table.notna().any()]
    hole = table.isna().to_numpy()
    loss = table.to_numpy(dtype=np.float64)
    task_of = dict(zip(headline["dataset"], headline["task"], strict=True))
    head = dict(zip(scope.tasks, scope.metrics, strict=True))
    bounded = np.array([METRICS[head[task_of[d]]].bounded for d in table.index], dtype=bool)
    error = np.where(bounded[:, None], 1.0 + loss, loss)
    if fallback in table:
        column = list(table.columns).index(fallback)
        loss = np.where(hole, loss[:, [column]], loss)
        error = np.where(hole, error[:, [column]], error)
    if loss.size:
        error = np.where(np.isnan(error), np.nanmax(error, axis=1, keepdims=True), error)
    loss = np.where(np.isnan(loss), np.inf, loss)
    reason = ""
    if loss.shape[1] < 2 or len(loss) < MIN_DATASETS:
        what, n = ("models", loss.shape[1]) if loss.shape[1] < 2 else ("datasets", len(loss))
        reason = f"n/a: needs at least 2 {what} with scores, has {n}"
    models = [str(m) for m in table.columns]
    return Board(scope, IMPUTED, models, loss, error, hole, n_scope, reason)


# --- figures --------------------------------------------------------------------------------------


def figures(board: Board) -> pd.DataFrame:
    """One row a model: FIGURES with the ends of their 95 % intervals, and the rank's `se`.

    From MIN_BOOTSTRAP datasets on the intervals are percentiles over RESAMPLES resamples of the
    datasets, all models together. With fewer they are t intervals of means over datasets, and Elo,
    which is no mean, has none.
    """
    rank = ranks(board.losses, "min")
    n, k = rank.shape
    found = pd.DataFrame(index=pd.Index(board.models, name="model"))
    each = {
        "mean_rank": rank,
        "win_rate": (k - rank) / (k - 1),
        "normalised": normalised(board.errors),
        "improvability": improvability(np.maximum(board.errors, 0.0)),
    }
    found["elo"] = elo(rank, centre=CENTRE)
    for name, values in each.items():
        found[name] = values.mean(axis=0)
    found["mean_rank_se"] = standard_error(rank)
    ends = [50.0 * (1.0 - LEVEL), 50.0 * (1.0 + LEVEL)]
    if n < MIN_BOOTSTRAP:
        wide = t_isf(0.5 * (1.0 - LEVEL), n - 1)
        found[["elo_low", "elo_high"]] = np.nan
        for name, values in each.items():
            half = wide * standard_error(values)
            found[f"{name}_low"] = found[name] - half
            found[f"{name}_high"] = found[name] + half
        return _rounded(found)
    counts = np.random.default_rng(SEED).multinomial(n, np.full(n, 1.0 / n), size=RESAMPLES)
    start = found["elo"].to_numpy() - CENTRE
    resampled = {"elo": elo_of_wins(counts @ (k - rank), n, centre=CENTRE, start=start)}
    resampled |= {name: counts @ values / n for name, values in each.items()}
    for name, values in resampled.items():
        found[[f"{name}_low", f"{name}_high"]] = np.percentile(values, ends, axis=0).T
    return _rounded(found)


def _rounded(found: pd.DataFrame) -> pd.DataFrame:
    """What the last bits of a matrix product may change is cut off, Elo at a millionth."""
    names = ["elo", *_INTERVALS]
    return found.assign(**{name: found[name].round(6 if "elo" in name else 9) for name in names})


def _frame(board: Board, everyone: list[str], fallback: str) -> pd.DataFrame:
    """One row a model of the plan, the leader first; figures where the board has them."""
    base = {
        "scope": board.scope.name,
        "datasets": which(board.scope),
        "view": board.view,
        "fallback": fallback if board.view == IMPUTED else "",
        "n_scope": board.n_scope,
        "n_datasets": 0 if board.reason else board.n,
        "n_models": 0 if board.reason else len(board.models),
        "interval": "" if board.reason else "t" if board.n < MIN_BOOTSTRAP else "bootstrap",
    }
    found = pd.DataFrame() if board.reason else figures(board)
    rows: list[dict[str, object]] = []
    if len(found):
        found["place"] = places(found["mean_rank"].tolist(), "min")
        found["n_imputed"] = board.imputed.sum(axis=0)
        for row in found.sort_values(["mean_rank", "model"]).reset_index().to_dict("records"):
            rows.append({**base, **row, "note": ""})
    for model in everyone:
        if board.reason or model not in board.models:
            few = "n/a: too few complete scores"
            rows.append({**base, "model": model, "note": board.reason or few})
    return pd.DataFrame(rows, columns=[*_COLUMNS, *_INTERVALS, "note"])


# --- the table ------------------------------------------------------------------------------------

HEADER = (
    "model",
    "Elo ↑",
    "95 %",
    "mean rank ↓",
    "win rate ↑",
    "norm. ↑",
    "improv. % ↓",
)


def _table(
    evidence: Evidence, boards: list[Board], pools: list[Pool], frame: pd.DataFrame, fallback: str
) -> Table:
    scope = boards[0].scope
    panels = [_panel(b, frame) for b in boards]
    title = (
        f"Leaderboard on {footnotes.TASK_TITLES[scope.name]}. The best of each column is bold, the "
        "second best underlined."
    )
    mine = [p for p in pools if p.scope.name == scope.name]
    notes = [*footnotes.setting(evidence), *_notes(evidence, boards, mine, fallback)]
    name = "leaderboard-" + scope.name.replace(" ", "-")
    return Table(name, title, HEADER, tuple(panels), tuple(notes))


def _panel(board: Board, frame: pd.DataFrame) -> Panel:
    how = "complete scores" if board.view == COMPLETE else "missing cells imputed"
    title = f"{board.scope.kind}, {how}: {board.n if not board.reason else 0} of {board.n_scope}"
    if board.reason:
        return Panel(((Cell(board.reason, span=len(HEADER)),),), title)
    same = (frame["scope"] == board.scope.name) & (frame["datasets"] == which(board.scope))
    mine = frame[same & (frame["view"] == board.view) & (frame["note"] == "")]
    place = {name: places(mine[name].tolist(), way) for name, way in FIGURES.items()}
    rows = []
    for i, row in enumerate(mine.to_dict("records")):
        at = {name: place[name][i] for name in FIGURES}
        mark = f"¶{row['n_imputed']:.0f}" if row["n_imputed"] else ""
        cells = [
            Cell(escape.label(str(row["model"])), mark=mark),
            _cell(f"{row['elo']:.0f}", at["elo"]),
            Cell(_interval(row)),
            _cell(f"{row['mean_rank']:.2f}", at["mean_rank"], f"{row['mean_rank_se']:.2f}"),
            _cell(f"{row['win_rate']:.2f}", at["win_rate"]),
            _cell(f"{row['normalised']:.2f}", at["normalised"]),
            _cell(f"{100 * row['improvability']:.1f}", at["improvability"]),
        ]
        rows.append(tuple(cells))
    return Panel(tuple(rows), title)


def _cell(text: str, place: int, sub: str = "") -> Cell:
    return Cell(text, sub, bold=place == 1, underline=place == 2)


def _interval(row: dict) -> str:
    low, high = row["elo_low"], row["elo_high"]
    return "too few" if math.isnan(low) else f"[{fixed(low, 0)}, {fixed(high, 0)}]"


def _notes(evidence: Evidence, boards: list[Board], pools: list[Pool], fallback: str) -> list[str]:
    tasks = boards[0].scope.tasks
    metrics = [
        f"{footnotes.TASK_TITLES[t]} by {METRICS[evidence.headline(t)].label}" for t in tasks
    ]
    used = [b for b in boards if not b.reason]
    notes = [
        f"Compared: {'; '.join(metrics)}; every dataset counts once. {footnotes.TIES}",
        "Elo: Bradley-Terry strengths from who is before whom on each dataset, a tie counting half "
        f"for both; 400 points are odds of ten to one, the models' mean is {CENTRE:g}. Without "
        "holes, Elo, win rate and mean rank put the models in the same order.",
    ]
    if any(b.n >= MIN_BOOTSTRAP for b in used):
        notes.append(
            f"95 %: percentiles of the Elo over {RESAMPLES} resamples of the datasets (bootstrap, "
            f"seed {SEED}); those of the other figures stand in the CSV."
        )
    if any(b.n < MIN_BOOTSTRAP for b in used):
        notes.append(
            f"Too few: with fewer than {MIN_BOOTSTRAP} datasets a bootstrap interval is too "
            "narrow; the CSV has t intervals of the figures that are means over datasets."
        )
    notes += [
        "After the mean rank: s/√N over the datasets. Win rate: share of (opponent, dataset) pairs "
        "won. Norm.: normalised score, 1 for the smallest error of a dataset, 0 for the largest, 1 "
        "where all are equal. Improv.: improvability, the share of a model's error that the best "
        "of the dataset does without. Errors are 1 − score where more is better. All of it depends "
        "on who competes: a model without any error makes the others' improvability 100 %.",
    ]
    if any(
        separable((b.losses.shape[1] - ranks(b.losses, "min")).sum(axis=0)[None], b.n)[0]
        for b in used
    ):
        notes.append(
            "Some models won every game against all the others, which no finite Elo expresses: "
            "half a win and half a loss were added to every pair. Such a gap is a guess."
        )
    if any(b.view == IMPUTED for b in boards):
        notes.append(_imputation(boards, fallback))
    return notes + absences(pools)


def _imputation(boards: list[Board], fallback: str) -> str:
    cells = max(int(b.imputed.sum()) for b in boards)
    rule = (
        "ranks behind every score, with the largest error of the dataset"
        if fallback == WORST
        else f"gets the score of {escape.label(fallback)}, and where that has none, ranks behind "
        "every score with the largest error of the dataset"
    )
    return (
        f"¶n: imputed on n datasets. Of {footnotes.plural(cells, 'cell')} without a complete score "
        f"each {rule}. "
        "Every model with any score competes. Left out instead, a model that fails where it is "
        "weak would gain."
    )
