"""Tests across datasets: Friedman's test, and Wilcoxon's test of every pair of models."""

from __future__ import annotations

import itertools
import math

import pandas as pd

from ..aggregation.rank_tests import (
    COLUMNS,
    nemenyi_difference,
    pair_rows,
    row,
    rows_of,
    uses_relative_errors,
    why_no_friedman,
    why_no_pairs,
)
from ..aggregation.ranking_matrix import RankingMatrix
from ..evidence import Evidence
from ..output import escape, footnotes
from ..output.tables import Panel, ReportTable, Section, TableCell, p_text
from ..statistics.tests import ALPHA, friedman
from ..statistics.wilcoxon import smallest_p


def section(evidence: Evidence, matrices: list[RankingMatrix]) -> Section:
    """The file `tests`. `matrices`: one for each scope."""
    parts = [_friedman_rows(m) for m in matrices] + [_pair_rows(m) for m in matrices]
    frame = pd.DataFrame([r for part in parts for r in part], columns=COLUMNS)
    tables = [_friedman_table(evidence, matrices, frame)]
    for name in dict.fromkeys(m.scope.name for m in matrices):
        mine = [m for m in matrices if m.scope.name == name and not why_no_pairs(m)]
        if mine:
            tables.append(_matrix_table(evidence, mine, frame))
    return Section("tests", "Tests across datasets", tuple(tables), frame)


def _friedman_rows(matrix: RankingMatrix) -> list[list[object]]:
    """Friedman's tests and Nemenyi's critical difference, or the reason why there are none."""
    reason = why_no_friedman(matrix)
    if reason:
        return [row(matrix, test="friedman", note=reason)]
    test = friedman(matrix.ranks())
    tie_corrected, degrees = str(test.n_models - 1), f"{test.df[0]} {test.df[1]}"
    f: dict[str, object] = {"statistic": test.f}
    if math.isinf(test.f):
        f = {"note": "infinite: every dataset ranks the models alike"}
    return [
        row(
            matrix,
            test="friedman-chi2-tie-corrected",
            statistic=test.chi2_ties,
            df=tie_corrected,
            p=test.p_ties,
        ),
        row(matrix, test="friedman-chi2", statistic=test.chi2),
        row(matrix, test="iman-davenport-f", df=degrees, p=test.p, **f),
        row(matrix, test="nemenyi-critical-difference-.05", statistic=nemenyi_difference(matrix)),
    ]


def _pair_rows(matrix: RankingMatrix) -> list[list[object]]:
    """One row per pair of models, a before b by name."""
    reason = why_no_pairs(matrix)
    if reason:
        return [row(matrix, test="wilcoxon", note=reason)]
    return pair_rows(matrix, list(itertools.combinations(range(len(matrix.models)), 2)), "wilcoxon")


def _friedman_table(
    evidence: Evidence, matrices: list[RankingMatrix], frame: pd.DataFrame
) -> ReportTable:
    header = ["datasets", "N", "models", "χ² tie-corrected", "p", "F", "df", "p of F", "CD"]
    header += ["significant pairs"]
    panels = []
    for subset in sorted({m.scope.subset for m in matrices}):
        mine = [m for m in matrices if m.scope.subset == subset]
        rows = [_friedman_row(m, frame) for m in mine]
        panels.append(Panel(tuple(rows), mine[0].scope.kind))
    title = "Friedman's test of the models' ranks across datasets."
    notes = [
        *footnotes.setting(evidence),
        footnotes.CLAIMS["datasets"],
        "Each dataset counts once, with the mean over its folds. " + footnotes.TIES,
        "N: datasets with a complete score of every ranked model. χ²: Friedman with tie "
        "correction; F: Iman and Davenport's, from the plain χ². CD: difference of two mean ranks "
        "from which Nemenyi's test calls them different at .05.",
        f"Significant pairs: pairs of models with a Wilcoxon p of at most {_short(ALPHA)} after "
        "Holm's correction over all pairs of the line.",
        *_out_of_reach(matrices),
        *_untested(matrices),
        "A large p does not show that models are equal, only that N datasets show no difference.",
        *_subset_note(evidence, matrices),
    ]
    return ReportTable("tests-friedman", title, tuple(header), tuple(panels), tuple(notes))


def _untested(matrices: list[RankingMatrix]) -> list[str]:
    """Why some scopes have no test of pairs, one note per reason."""
    said: dict[str, list[str]] = {}
    for matrix in matrices:
        if why_no_pairs(matrix):
            said.setdefault(why_no_pairs(matrix), []).append(matrix.scope.title)
    return [f"Pairs in {'; '.join(names)}: {reason}." for reason, names in said.items()]


def _out_of_reach(matrices: list[RankingMatrix]) -> list[str]:
    """Where Wilcoxon's test with Holm's correction cannot call any pair different."""
    named = [
        f"{m.scope.title} ({len(m.datasets)} datasets: at least {p_text(_smallest_holm(m))})"
        for m in matrices
        if not why_no_pairs(m) and _smallest_holm(m) > ALPHA
    ]
    if not named:
        return []
    return [
        f"No pair can be significant, whatever the scores, on {'; '.join(named)}: Wilcoxon's p on "
        "N datasets is at least 2/2^N, and Holm's correction multiplies the smallest p by the "
        "number of pairs. Nemenyi's test compares mean ranks by a critical difference of its own "
        "and may still tell some of these models apart."
    ]


def _smallest_holm(matrix: RankingMatrix) -> float:
    """The smallest p that Holm's correction over all pairs can leave."""
    n_pairs = math.comb(len(matrix.models), 2)
    return min(1.0, smallest_p(len(matrix.datasets)) * n_pairs)


def _short(p: float) -> str:
    return f"{p:g}".lstrip("0")


def _friedman_row(matrix: RankingMatrix, frame: pd.DataFrame) -> tuple[TableCell, ...]:
    counts = (len(matrix.datasets), len(matrix.models))
    head = [TableCell(text) for text in (matrix.scope.name, *map(str, counts))]
    reason, no_pairs = why_no_friedman(matrix), why_no_pairs(matrix)
    if reason and no_pairs:
        return (*head, TableCell(no_pairs if matrix.why_not else reason, span=7))
    if reason:
        return (*head, TableCell(reason, span=6), _pairs_cell(matrix, frame))
    test = friedman(matrix.ranks())
    return (
        *head,
        TableCell(f"{test.chi2_ties:.2f}"),
        TableCell(p_text(test.p_ties)),
        TableCell(f"{test.f:.2f}" if math.isfinite(test.f) else "all alike"),
        TableCell(f"{test.df[0]}, {test.df[1]}"),
        TableCell(p_text(test.p), bold=test.p <= ALPHA),
        TableCell(f"{nemenyi_difference(matrix):.2f}"),
        TableCell("n/a") if no_pairs else _pairs_cell(matrix, frame),
    )


def _pairs_cell(matrix: RankingMatrix, frame: pd.DataFrame) -> TableCell:
    lines = rows_of(matrix, frame)
    return TableCell(f"{int((lines['p_holm'] <= ALPHA).sum())} of {len(lines)}")


def _matrix_table(
    evidence: Evidence, matrices: list[RankingMatrix], frame: pd.DataFrame
) -> ReportTable:
    """Holm's p-values of all pairs: all datasets above the diagonal, the subset below it."""
    models = sorted({model for matrix in matrices for model in matrix.models})
    number = {m: i + 1 for i, m in enumerate(models)}
    grid = [[TableCell("·") if a == b else TableCell("n/a") for b in models] for a in models]
    for matrix in matrices:
        below = matrix.scope.subset
        for line in rows_of(matrix, frame).itertuples(index=False):
            a, b = number[line.model_a] - 1, number[line.model_b] - 1
            i, j = (b, a) if below else (a, b)
            sign = line.w_plus - line.w_minus  # > 0: model a is better
            grid[i][j] = _p_cell(line.p_holm, -sign if below else sign)
    has_subset = any(m.scope.subset for m in matrices)
    if not has_subset:
        grid = [[TableCell()] * i + line[i:] for i, line in enumerate(grid)]
    rows = [
        (TableCell(f"({number[model]}) {escape.label(model)}"), *line)
        for model, line in zip(models, grid, strict=True)
    ]
    header = ("model", *(f"({number[m]})" for m in models))
    scope = matrices[0].scope.name
    and_subset = ", the independent, learnable subset below it" if has_subset else ""
    title = (
        f"Wilcoxon's signed-rank test between every two models on {footnotes.TASK_TITLES[scope]}: "
        f"p-values after Holm's correction, all datasets above the diagonal{and_subset}."
    )
    name = "tests-wilcoxon-" + scope.replace(" ", "-")
    notes = [*_matrix_notes(matrices), *_subset_note(evidence, matrices)]
    return ReportTable(name, title, header, (Panel(tuple(rows)),), tuple(notes))


def _p_cell(p: float, sign: float) -> TableCell:
    mark = "+" if sign > 0 else "−" if sign < 0 else ""
    return TableCell(p_text(p), bold=p <= ALPHA, mark=mark)


def _matrix_notes(matrices: list[RankingMatrix]) -> list[str]:
    notes = [
        "+: the model of the row does better, −: the model of the column, by the rank sums; bold: "
        f"p ≤ {_short(ALPHA)} after Holm. {footnotes.WILCOXON} The one-sided and uncorrected "
        "p-values are in the CSV.",
        "Differences are of errors relative to their sum, which has no unit."
        if uses_relative_errors(matrices[0])
        else "Differences are of the scores.",
    ]
    for matrix in matrices:
        n, n_pairs = len(matrix.datasets), math.comb(len(matrix.models), 2)
        text = f"{'Subset' if matrix.scope.subset else 'All'}: {n} datasets, "
        text += f"{n_pairs} pairs in the family"
        if _smallest_holm(matrix) > ALPHA:
            text += (
                f"; the smallest p on so few datasets is {p_text(smallest_p(n))}, after Holm's "
                f"correction {p_text(_smallest_holm(matrix))}, so no pair can be significant"
            )
        notes.append(text + ".")
    return notes


def _subset_note(evidence: Evidence, matrices: list[RankingMatrix]) -> list[str]:
    if not any(m.scope.subset for m in matrices):
        return []
    return [footnotes.left_out_of_subset(evidence)]
