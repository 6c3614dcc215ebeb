"""Tests across datasets: Friedman's, and Wilcoxon's of all pairs and against one reference.

Nemenyi's test, which the critical-difference diagrams show, compares mean ranks, so its result for
two models depends on which other models are compared (Benavoli et al. 2016), and with many models
it finds few differences. Therefore every model is also tested against one reference, by Wilcoxon's
test on the differences of the two models, with Holm's correction.
"""

from __future__ import annotations

import itertools
import math

import pandas as pd

from ...common.text import did_you_mean
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
from ..evidence import Evidence, EvidenceError
from ..output import escape, footnotes
from ..output.tables import Panel, ReportTable, Section, TableCell, p_text
from ..statistics.tests import ALPHA, friedman
from ..statistics.wilcoxon import smallest_p

TEST = "wilcoxon-reference"
SHORT = f"{ALPHA:g}".lstrip("0")
AFTER_LOOKING = "the best by mean rank, chosen after looking, which no correction undoes"


def section(
    evidence: Evidence, matrices: list[RankingMatrix], reference: str | None = None
) -> Section:
    """The file `tests`. `matrices`: one for each scope. `reference`: a model of the results, by
    default the best by mean rank in each scope.

    Raises EvidenceError for a reference that is not in the results.
    """
    if reference is not None and reference not in evidence.models:
        raise EvidenceError(
            f"the reference must be a model of the results, not {reference!r}"
            f"{did_you_mean(reference, evidence.models)}; "
            f"models: {', '.join(evidence.models)}"
        )
    parts = [_friedman_rows(m) for m in matrices] + [_pair_rows(m) for m in matrices]
    parts += [_reference_rows(m, reference) for m in matrices]
    frame = pd.DataFrame([r for part in parts for r in part], columns=COLUMNS)
    tables = [_friedman_table(evidence, matrices, frame)]
    for name in dict.fromkeys(m.scope.name for m in matrices):
        mine = [m for m in matrices if m.scope.name == name and not why_no_pairs(m)]
        if mine:
            tables.append(_matrix_table(evidence, mine, frame))
    for name in dict.fromkeys(m.scope.name for m in reversed(matrices)):
        mine = [m for m in matrices if m.scope.name == name]
        tables.append(_reference_table(evidence, mine, frame, reference))
    about = (
        "across datasets: Friedman, Nemenyi, and Wilcoxon with Holm's correction for every pair of "
        "models and for all against one reference"
    )
    return Section("tests", "Tests across datasets", tuple(tables), frame, about=about)


def _friedman_rows(matrix: RankingMatrix) -> list[list[object]]:
    """Friedman's tests and Nemenyi's critical difference, or the reason why there are none."""
    reason = why_no_friedman(matrix)
    if reason:
        return [row(matrix, test="friedman", note=reason)]
    test = friedman(matrix.ranks())
    tie_corrected, degrees = str(len(matrix.models) - 1), f"{test.df[0]} {test.df[1]}"
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
        f"Significant pairs: pairs of models with a Wilcoxon p of at most {SHORT} after "
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
        f"p ≤ {SHORT} after Holm. {footnotes.WILCOXON} The one-sided and uncorrected "
        "p-values are in the CSV.",
        "Differences are of errors relative to their sum, which has no unit."
        if uses_relative_errors(matrices[0])
        else "Differences are of the scores.",
    ]
    for matrix in matrices:
        n, n_pairs = len(matrix.datasets), math.comb(len(matrix.models), 2)
        which = "Subset" if matrix.scope.subset else "All"
        notes.append(f"{which}: {n} datasets, {n_pairs} pairs in the family.")
    return notes


def _subset_note(evidence: Evidence, matrices: list[RankingMatrix]) -> list[str]:
    if not any(m.scope.subset for m in matrices):
        return []
    return [footnotes.left_out_of_subset(evidence)]


# --- against one reference ------------------------------------------------------------------------


def reference_of(matrix: RankingMatrix, named: str | None) -> str:
    """The model that the others are tested against; empty if the named one is not ranked here."""
    if named is None:
        return matrix.order()[0][0]
    return named if named in matrix.models else ""


def _reference_rows(matrix: RankingMatrix, named: str | None) -> list[list[object]]:
    """One row per model: model_a is the reference, p_a_better the p-value for its being better."""
    reason = why_no_pairs(matrix)
    reference = "" if reason else reference_of(matrix, named)
    if not reference:
        return [row(matrix, test=TEST, note=reason or _absent(matrix, str(named)))]
    a = matrix.models.index(reference)
    pairs = [(a, b) for b in range(len(matrix.models)) if b != a]
    return pair_rows(matrix, pairs, TEST, AFTER_LOOKING if named is None else "")


def _absent(matrix: RankingMatrix, named: str) -> str:
    n = matrix.thin.get(named, 0)
    return f"n/a: {named} is complete on {n} of {matrix.n_scope} datasets, too few to be ranked"


def _reference_table(
    evidence: Evidence, matrices: list[RankingMatrix], frame: pd.DataFrame, named: str | None
) -> ReportTable:
    panels = []
    for matrix in matrices:
        lines = rows_of(matrix, frame, TEST)
        title = f"{matrix.scope.kind} ({len(matrix.datasets)})"
        if lines["model_b"].isna().any():
            text = escape.visible(str(lines["note"].iloc[0]))
            panels.append(Panel(((TableCell(text, span=len(HEADER)),),), title))
            continue
        reference = escape.label(str(lines["model_a"].iloc[0]))
        ordered = lines.sort_values(["p_holm", "p", "model_b"], kind="stable")
        rows = tuple(_reference_row(r) for r in ordered.itertuples(index=False))
        panels.append(Panel(rows, f"{title}, reference: {reference}"))
    scope = matrices[0].scope.name
    how = (
        "The reference is the best model by mean rank, chosen from these same results, which no "
        "correction accounts for; name one beforehand (--reference) to avoid that."
        if named is None
        else f"The reference, {escape.label(named)}, was named."
    )
    relative = any(uses_relative_errors(m) for m in matrices if m.datasets)
    notes = [
        *footnotes.setting(evidence),
        footnotes.CLAIMS["datasets"],
        f"{how} {footnotes.WILCOXON}",
        f"Bold: p ≤ {ALPHA:g} after Holm's correction over the panel's lines; +: the reference "
        "does better, −: the other model does, by the rank sums.",
        "Differences are of errors relative to their sum." if relative else "",
        "A large p does not show that two models are equal.",
    ]
    title = (
        f"Every model against one reference on {footnotes.TASK_TITLES[scope]}: Wilcoxon and Holm."
    )
    name = "tests-reference-" + scope.replace(" ", "-")
    return ReportTable(name, title, HEADER, tuple(panels), tuple(filter(None, notes)))


HEADER = ("model", "better", "worse", "equal", "p", "p Holm")


def _reference_row(r: object) -> tuple[TableCell, ...]:
    v = r._asdict()  # type: ignore[attr-defined]
    equal = v["n_datasets"] - v["a_better"] - v["b_better"]
    return (
        TableCell(escape.label(str(v["model_b"]))),
        TableCell(f"{v['b_better']:.0f}"),
        TableCell(f"{v['a_better']:.0f}"),
        TableCell(f"{equal:.0f}"),
        TableCell(p_text(v["p"])),
        _p_cell(v["p_holm"], v["w_plus"] - v["w_minus"]),
    )
