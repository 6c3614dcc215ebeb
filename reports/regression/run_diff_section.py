"""The report on the comparison of two runs: a summary in sentences, and tables."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from ..output import escape, footnotes
from ..output.tables import (
    Panel,
    ReportTable,
    Row,
    Section,
    TableCell,
    decimals_for,
    fixed,
)
from .run_diff import Comparison, percent
from .verdicts import ALPHA, BOUND, UNDECIDED

SHOWN = 40  # rows of a printed table; the CSV has all cells


def section(diff: Comparison) -> Section:
    """The file `compare`: the summary as remarks, and a table for each kind of change."""
    title = f"{diff.a} against {diff.b}"
    tables = [_models_table(diff), _cells_table(diff)]
    if len(diff.coverage):
        tables.append(_coverage_table(diff))
    if len(diff.failures):
        tables.append(_failures_table(diff))
    return Section("compare", title, tuple(tables), diff.cells, tuple(summary(diff)))


def summary(diff: Comparison) -> list[str]:
    """The result in sentences, regressions first."""
    n = footnotes.count(len(diff.cells), "cell")
    if diff.identical:
        return [f"Identical: {n}, equal to the last bit on every fold; no change of coverage."]
    said = [f"REGRESSION, {reason}." for reason in diff.regressions]
    kinds = diff.coverage["kind"].value_counts()
    said.append(
        f"{n} with a score in both runs, {diff.n_equal} of them equal to the last bit. Coverage: "
        f"{kinds.get('gained', 0)} gained, {kinds.get('lost', 0)} lost, {kinds.get('new', 0)} only "
        f"in {diff.b}, {kinds.get('left out', 0)} only in {diff.a}."
    )
    both, other = diff.same_id
    if other:
        said.append(f"Not deterministic: of {both} trials of one id in both runs {other} differ.")
    open_ = diff.models.loc[diff.models["verdict"] == UNDECIDED, "model"].tolist()
    if open_:
        said.append(f"Undecided (more folds or seeds would tell): {footnotes.join(open_)}.")
    return said


def _names(diff: Comparison) -> tuple[str, str]:
    return escape.label(diff.a), escape.label(diff.b)


def _percent(d: float) -> str:
    return percent(d, 2).replace("-", "−")


def _models_table(diff: Comparison) -> ReportTable:
    rows = [
        (
            TableCell(escape.label(r.model)),
            *map(TableCell, map(str, (r.n_datasets, r.n_equal, r.n_better, r.n_worse))),
            TableCell(_percent(r.median_change)),
            TableCell(_percent(r.mean_change)),
            TableCell("n/a" if math.isnan(r.upper) else _percent(r.upper)),
            TableCell(r.verdict, bold=bool(r.regression)),
        )
        for r in diff.models.itertuples(index=False)
    ]
    header: tuple[str, ...] = ("model", "datasets", "equal", "better", "worse", "median change")
    header += ("mean change", "at most", "verdict")
    notes = (
        "Verdict, on these datasets: worse if the mean over datasets of the changes in pairs (of a "
        f"fold; with one fold, of a seed) exceeds {100 * diff.min_effect:g} % and 0 (one-sided t "
        f"test with the spread within datasets, p < {ALPHA:g} after Holm over the models that "
        f"changed); harmless if its one-sided {100 - 100 * BOUND:g} % bound (at most) is below "
        f"{100 * diff.min_effect:g} %; otherwise undecided: more folds or seeds would tell. With "
        "one pair a dataset, worse follows from Wilcoxon's test over datasets. Changes are of the "
        "error, positive is worse.",
    )
    return ReportTable(
        "compare-models", "Models over datasets.", header, _panels(rows, header), notes
    )


def _panels(rows: Sequence[Row], header: Sequence[str]) -> tuple[Panel, ...]:
    return (Panel(tuple(rows) or ((TableCell("n/a: nothing in common", span=len(header)),),)),)


def _cells_table(diff: Comparison) -> ReportTable:
    changed = diff.cells[~diff.cells["equal"]]
    changed = changed.sort_values("change", key=abs, ascending=False, kind="stable")
    large = changed["change"].abs() > diff.min_effect
    rows: list[Row] = []
    for r in changed[large].head(SHOWN).itertuples(index=False):
        decimals = decimals_for([r.a, r.b], 4)
        rows.append(
            (
                TableCell(escape.label(r.dataset)),
                TableCell(escape.label(r.model)),
                TableCell(fixed(r.a, decimals)),
                TableCell(fixed(r.b, decimals)),
                TableCell(_percent(r.change)),
                TableCell(str(r.n_folds)),
            )
        )
    header = ("dataset", "model", *_names(diff), "error", "folds")
    if not rows:
        nothing = f"no cell changed by more than {100 * diff.min_effect:g} %"
        rows = [(TableCell(nothing, span=len(header)),)]
    rest = int(large.sum()) - SHOWN
    notes = [
        f"Cells whose error changed by more than {100 * diff.min_effect:g} %, the largest first; "
        f"{int((~large).sum())} changed by less, {diff.n_equal} are equal to the last bit. "
        "Error: change of the error, positive is worse.",
        *([f"{rest} more stand in the CSV."] if rest > 0 else []),
    ]
    panels = (Panel(tuple(rows)),)
    return ReportTable("compare-cells", "Cells.", header, panels, tuple(notes), n_labels=2)


def _coverage_table(diff: Comparison) -> ReportTable:
    changed = _coverage_rows(diff)
    rows = [tuple(map(TableCell, map(escape.label, row))) for row in changed[:SHOWN]]
    header = ("dataset", "model", "change", *_names(diff), "cause")
    rest = len(changed) - SHOWN
    notes = (f"{rest} more.",) if rest > 0 else ()
    return ReportTable(
        "compare-coverage", "Changed coverage.", header, _panels(rows, header), notes, 6
    )


def _coverage_rows(diff: Comparison) -> list[tuple[str, ...]]:
    """Rows of the table, lost cells first. A model or dataset that only one run plans is a
    single row: one run may be a part of the other on purpose."""
    rows: list[tuple[str, ...]] = []
    for kind in ("lost", "other", "gained", "new", "left out"):
        mine = diff.coverage[diff.coverage["kind"] == kind]
        for name, part in mine[mine["lacks"] == "model"].groupby("model", sort=True):
            rows.append((_one_or_many(part, "dataset"), str(name), kind, *_both_states(part), ""))
        for name, part in mine[mine["lacks"] == "dataset"].groupby("dataset", sort=True):
            rows.append((str(name), _one_or_many(part, "model"), kind, *_both_states(part), ""))
        single = mine[mine["lacks"] == ""]
        rows += single[["dataset", "model", "kind", "a", "b", "cause"]].itertuples(index=False)
    return rows


def _one_or_many(part: pd.DataFrame, what: str) -> str:
    return str(part[what].iloc[0]) if len(part) == 1 else footnotes.count(len(part), what)


def _both_states(part: pd.DataFrame) -> tuple[str, ...]:
    return tuple(", ".join(sorted(set(part[run]))) for run in ("a", "b"))


def _failures_table(diff: Comparison) -> ReportTable:
    rows = [
        (
            TableCell(escape.label(r.model)),
            TableCell(escape.label(r.cause or "error")),
            TableCell(str(r.a)),
            TableCell(str(r.b), bold=r.b > r.a),
        )
        for r in diff.failures.itertuples(index=False)
    ]
    header = ("model", "cause", *_names(diff))
    return ReportTable("compare-failures", "Failed trials.", header, _panels(rows, header), (), 2)
