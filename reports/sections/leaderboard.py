"""The leaderboard: Elo, ranks, win rate, normalised score and improvability, with intervals.

Each scope has two views: the datasets on which every ranked model has a complete score, and all
datasets with each missing cell imputed by one stated rule and counted. Models are never compared on
different datasets: a model that fails on difficult ones would gain by that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from ...common.text import did_you_mean
from ..aggregation.rank_tests import verdict
from ..aggregation.ranking_matrix import (
    MIN_COVERAGE,
    RankingMatrix,
    Scope,
    loss_table,
    widest,
)
from ..evidence import Evidence, EvidenceError
from ..output import escape, footnotes
from ..output.marks import FIGURES, figure_cells
from ..output.tables import Panel, ReportTable, Section, TableCell, fixed
from ..statistics.distributions import t_isf
from ..statistics.ranking import (
    ELO_MEAN,
    elo,
    elo_of_wins,
    improvability,
    normalised,
    places,
    separable,
    standard_error,
    win_rate,
)

COMPLETE, IMPUTED = "complete", "imputed"
TOO_FEW = "too few"  # datasets for an interval
WORST = "worst"  # the fallback that ranks a missing cell last
DEFAULT_FALLBACK = "constant"

LEVEL = 0.95
RESAMPLES, SEED = 1000, 0
MIN_BOOTSTRAP = 15  # with fewer datasets the percentile interval is too narrow

_INTERVALS = [f"{n}_{end}" for n in FIGURES for end in ("low", "high")]
_COLUMNS = """scope datasets view fallback model place n_scope n_datasets n_models n_imputed elo
    mean_rank mean_rank_se median_rank win_rate n_best normalised improvability interval""".split()

Array = np.ndarray


@dataclass(frozen=True)
class View:
    """What a panel shows: a matrix without holes, whose losses are +infinity where a model ranks
    last. (n_datasets, n_models): `errors` are finite; `imputed` marks the cells that had no
    score."""

    kind: str  # COMPLETE or IMPUTED
    matrix: RankingMatrix
    errors: Array
    imputed: Array

    @property
    def scope(self) -> Scope:
        """The scope of its matrix."""
        return self.matrix.scope

    @property
    def n(self) -> int:
        """Number of datasets."""
        return len(self.matrix.datasets)


def section(
    evidence: Evidence,
    headline: pd.DataFrame,
    matrices: list[RankingMatrix],
    fallback: str | None = None,
    *,
    caveat: str = "",
) -> Section:
    """The file `leaderboard`. `headline`: `cells.headline_cells`; `matrices`: one for each scope.

    `fallback`: the model whose score replaces a missing one, or 'worst'; by default the model
    `constant` if it is planned, else 'worst'. `caveat`: a sentence after the verdict. Raises
    EvidenceError for any other name.
    """
    name = fallback_of(evidence, fallback)
    views = []
    for matrix in matrices:
        views.append(complete(matrix))
        filled = imputed(evidence, headline, matrix.scope, name)
        if filled.imputed.any():
            views.append(filled)
    frame = pd.concat([_frame(b, evidence.models, name) for b in views], ignore_index=True)
    tables = [
        _table(evidence, [b for b in views if b.scope.name == scope], matrices, frame, name)
        for scope in dict.fromkeys(m.scope.name for m in reversed(matrices))
    ]
    remarks = (f"{verdict(widest(matrices), evidence.own)} {caveat}".strip(),)
    about = (
        "Elo, mean rank, win rate, normalised score and improvability with 95 % intervals: on "
        "complete datasets, and with missing cells imputed"
    )
    return Section("leaderboard", "Leaderboard", tuple(tables), frame, remarks, about)


def fallback_of(evidence: Evidence, name: str | None) -> str:
    """The fallback to use; EvidenceError for a model that is not planned."""
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


def complete(matrix: RankingMatrix) -> View:
    """The view of the datasets on which every ranked model has a complete score."""
    return View(COMPLETE, matrix, matrix.errors, np.zeros(matrix.losses.shape, dtype=bool))


def imputed(evidence: Evidence, headline: pd.DataFrame, scope: Scope, fallback: str) -> View:
    """The view of every dataset and model with any score. A missing cell gets the fallback's score;
    if the fallback has none or is 'worst', the cell ranks last with the dataset's largest error."""
    table = loss_table(headline, scope, evidence.subset)
    thin = {str(model): 0 for model in table.columns[table.isna().all()]}
    there = table.loc[table.notna().any(axis=1), table.notna().any()]
    matrix = RankingMatrix.of_table(there, headline, scope, len(table), thin)
    loss, error, hole = matrix.losses, matrix.errors, there.isna().to_numpy()
    if fallback in there:
        column = matrix.models.index(fallback)
        loss = np.where(hole, loss[:, [column]], loss)
        error = np.where(hole, error[:, [column]], error)
    if loss.size:
        error = np.where(np.isnan(error), np.nanmax(error, axis=1, keepdims=True), error)
    loss = np.where(np.isnan(loss), np.inf, loss)
    return View(IMPUTED, replace(matrix, losses=loss), error, hole)


# --- figures --------------------------------------------------------------------------------------


def figures(view: View) -> pd.DataFrame:
    """One row per model: FIGURES with the ends of their 95 % intervals, the rank's `se`, the median
    rank, and `n_best`, the datasets on which no other model ranks better.

    From MIN_BOOTSTRAP datasets on the intervals are percentiles over RESAMPLES resamples of the
    datasets, all models together. With fewer datasets they are t intervals of means over datasets;
    Elo is not a mean and has none.
    """
    rank = view.matrix.ranks()
    n, k = rank.shape
    figured = pd.DataFrame(index=pd.Index(view.matrix.models, name="model"))
    each = {
        "mean_rank": rank,
        "win_rate": win_rate(rank),
        "normalised": normalised(view.errors),
        "improvability": improvability(np.maximum(view.errors, 0.0)),
    }
    figured["elo"] = elo(rank)
    for name, values in each.items():
        figured[name] = values.mean(axis=0)
    figured["mean_rank_se"] = standard_error(rank) if n > 1 else math.nan
    figured["median_rank"] = np.median(rank, axis=0)
    figured["n_best"] = (rank == rank.min(axis=1, keepdims=True)).sum(axis=0)
    ends = [50.0 * (1.0 - LEVEL), 50.0 * (1.0 + LEVEL)]
    if n < MIN_BOOTSTRAP:
        wide = t_isf(0.5 * (1.0 - LEVEL), n - 1) if n > 1 else math.nan
        figured[["elo_low", "elo_high"]] = np.nan
        for name, values in each.items():
            half = wide * standard_error(values) if n > 1 else math.nan
            figured[f"{name}_low"] = figured[name] - half
            figured[f"{name}_high"] = figured[name] + half
        return _rounded(figured)
    counts = np.random.default_rng(SEED).multinomial(n, np.full(n, 1.0 / n), size=RESAMPLES)
    resampled = {"elo": elo_of_wins(counts @ (k - rank), n, start=figured["elo"].to_numpy())}
    resampled |= {name: counts @ values / n for name, values in each.items()}
    for name, values in resampled.items():
        figured[[f"{name}_low", f"{name}_high"]] = np.percentile(values, ends, axis=0).T
    return _rounded(figured)


def _rounded(figured: pd.DataFrame) -> pd.DataFrame:
    """Figures without the last bits, which vary by machine: 9 decimals, Elo 6."""
    names = ["elo", *_INTERVALS]
    return figured.assign(
        **{name: figured[name].round(6 if "elo" in name else 9) for name in names}
    )


def _frame(view: View, everyone: list[str], fallback: str) -> pd.DataFrame:
    """One row per model of the plan, the best first; figures if the model is in the view."""
    kind = "t" if view.n < MIN_BOOTSTRAP else "bootstrap"
    matrix, reason = view.matrix, view.matrix.why_not
    base = {
        "scope": view.scope.name,
        "datasets": view.scope.selection,
        "view": view.kind,
        "fallback": fallback if view.kind == IMPUTED else "",
        "n_scope": matrix.n_scope,
        "n_datasets": 0 if reason else view.n,
        "n_models": 0 if reason else len(matrix.models),
        "interval": "" if reason or view.n < 2 else kind,
    }
    figured = pd.DataFrame() if reason else figures(view)
    rows: list[dict[str, object]] = []
    if len(figured):
        figured["place"] = places(figured["mean_rank"].tolist(), "min")
        figured["n_imputed"] = view.imputed.sum(axis=0)
        for row in figured.sort_values(["mean_rank", "model"]).reset_index().to_dict("records"):
            rows.append({**base, **row, "note": ""})
    for model in everyone:
        if not reason and model in matrix.models:
            continue
        note = "n/a: not planned"
        if model in matrix.thin:
            note = f"n/a: complete on {matrix.thin[model]} of {matrix.n_scope} datasets"
        rows.append({**base, "model": model, "note": reason or note})
    return pd.DataFrame(rows, columns=[*_COLUMNS, *_INTERVALS, "note"])


# --- the table ------------------------------------------------------------------------------------

HEADS = {
    "elo": "Elo ↑",
    "interval": "95 %",
    "mean_rank": "mean rank ↓",
    "win_rate": "win rate ↑",
    "normalised": "norm. ↑",
    "improvability": "improv. % ↓",
}


def _table(
    evidence: Evidence,
    views: list[View],
    matrices: list[RankingMatrix],
    frame: pd.DataFrame,
    fallback: str,
) -> ReportTable:
    scope = views[0].scope
    enough = any(b.n >= MIN_BOOTSTRAP for b in views)
    heads = {name: head for name, head in HEADS.items() if enough or name != "interval"}
    panels = [_panel(b, frame, list(heads)) for b in views]
    title = f"Leaderboard on {footnotes.TASK_TITLES[scope.name]}."
    mine = [m for m in matrices if m.scope.name == scope.name]
    notes = [*footnotes.setting(evidence), *_notes(evidence, views, mine, fallback)]
    name = "leaderboard-" + scope.name.replace(" ", "-")
    header = ("model", *heads.values())
    return ReportTable(name, title, header, tuple(panels), tuple(notes), best="column")


def _panel(view: View, frame: pd.DataFrame, shown: list[str]) -> Panel:
    how = "complete scores" if view.kind == COMPLETE else "missing cells imputed"
    reason, n_scope = view.matrix.why_not, view.matrix.n_scope
    title = f"{view.scope.kind}, {how}: {view.n if not reason else 0} of {n_scope}"
    if reason:
        return Panel(((TableCell(reason, span=1 + len(shown)),),), title)
    same = (frame["scope"] == view.scope.name) & (frame["datasets"] == view.scope.selection)
    mine = frame[same & (frame["view"] == view.kind) & (frame["note"] == "")]
    cells_of = figure_cells(mine)
    rows = []
    for i, row in enumerate(mine.to_dict("records")):
        mark = f"¶{row['n_imputed']:.0f}" if row["n_imputed"] else ""
        cells = {name: column[i] for name, column in cells_of.items()}
        low, high = row["elo_low"], row["elo_high"]
        cells["interval"] = TableCell(TOO_FEW if math.isnan(low) else interval_text(low, high))
        named = TableCell(escape.label(str(row["model"])), mark=mark)
        rows.append((named, *(cells[name] for name in shown)))
    return Panel(tuple(rows), title)


def interval_text(low: float, high: float) -> str:
    """The ends of an interval of the Elo, as tables and pages print them."""
    return f"[{fixed(low, 0)}, {fixed(high, 0)}]"


def _notes(
    evidence: Evidence, views: list[View], matrices: list[RankingMatrix], fallback: str
) -> list[str]:
    metrics = footnotes.headlines(evidence, views[0].scope.tasks)
    used = [b for b in views if not b.matrix.why_not]
    notes = [
        f"Compared: {metrics}; every dataset counts once. {footnotes.TIES}",
        "Complete scores: ranked are the models with one on at least "
        f"{100 * MIN_COVERAGE:g} % of the datasets, on the datasets on which all of them have one.",
        "Elo: Bradley-Terry strengths from which of two models is better on each dataset, a tie "
        f"counting half for both; 400 points are odds of ten to one, the models' mean is "
        f"{ELO_MEAN:g}. On complete data Elo, win rate and mean rank order the models alike.",
    ]
    if any(b.n >= MIN_BOOTSTRAP for b in used):
        notes.append(
            f"95 %: percentiles of the Elo over {RESAMPLES} resamples of the datasets (bootstrap, "
            f"seed {SEED}), with one tie added to every pair where some models won every game of a "
            "resample; those of the other figures are in the CSV."
        )
    if any(b.n < MIN_BOOTSTRAP for b in used):
        notes.append(
            f"Fewer than {MIN_BOOTSTRAP} datasets are too few for an interval, as a bootstrap of "
            "them is too narrow; the CSV has t intervals of the figures that are means over two "
            "datasets or more."
        )
    notes += [
        "After the mean rank: s/√N over the datasets (ddof 1); as ranks of different models are "
        "not independent, it is no significance test. The CSV also has the median of the ranks, "
        "and the number of datasets on which no ranked model does better. Win rate: share of "
        "(opponent, dataset) pairs won, ties count one half. Norm.: normalised score, 1 for the "
        "smallest error of a dataset, 0 for the largest, 1 where all are equal. Improv.: "
        "improvability, 1 − best error of the dataset / own error, in percent. Errors are 1 − "
        "score where more is better. All figures depend on which models are compared: a model "
        "without any error makes the others' improvability 100 %.",
    ]
    if any(
        separable((len(b.matrix.models) - b.matrix.ranks()).sum(axis=0)[None], b.n)[0] for b in used
    ):
        notes.append(
            "Some models won every game against all the others, which no finite Elo expresses: "
            "one tie was added to every pair. Their distance is not reliable."
        )
    if any(b.kind == IMPUTED for b in views):
        notes.append(_imputation(views, fallback))
    notes += _absences(matrices)
    subset = any(m.scope.subset for m in matrices)
    return [*notes, *([footnotes.left_out_of_subset(evidence)] if subset else [])]


def _absences(matrices: list[RankingMatrix]) -> list[str]:
    """Which datasets and models the rankings leave out, one note per reason, naming its scopes."""
    said: dict[str, list[str]] = {}
    for matrix in matrices:
        scope = matrix.scope.title
        if matrix.why_not:
            said.setdefault(matrix.why_not, []).append(scope)
            continue
        if matrix.dropped:
            dropped = footnotes.join(matrix.dropped)
            text = f"datasets without a complete score of every model: {dropped}"
            said.setdefault(text, []).append(scope)
        if matrix.thin:
            few = [
                f"{escape.label(m)} ({n} of {matrix.n_scope} datasets)"
                for m, n in matrix.thin.items()
            ]
            said.setdefault(f"models not ranked: {', '.join(few)}", []).append(scope)
    return [f"In {'; '.join(names)}: {text}." for text, names in said.items()]


def _imputation(views: list[View], fallback: str) -> str:
    cells = max(int(b.imputed.sum()) for b in views)
    rule = (
        "ranks behind every score, with the largest error of the dataset"
        if fallback == WORST
        else f"gets the score of {escape.label(fallback)}, and where that has none, ranks behind "
        "every score with the largest error of the dataset"
    )
    return (
        f"¶n: imputed on n datasets. Of {footnotes.count(cells, 'cell')} without a complete score "
        f"each {rule}. "
        "Ranked there is every model with any score, on all datasets. Leaving missing cells out "
        "instead would favour a model that fails on difficult datasets."
    )
