"""Tests across datasets of every model against one reference.

Nemenyi's test, which the critical-difference diagrams show, compares mean ranks, so its result for
two models depends on which other models are compared (Benavoli et al. 2016), and with many models
it finds few differences. Therefore every model is also tested against one reference, by Wilcoxon's
test on the differences of the two models, with Holm's correction.
"""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from ...common.text import did_you_mean
from ..aggregation.rank_tests import (
    pair_rows,
    row,
    rows_of,
    uses_relative_errors,
    why_no_pairs,
)
from ..aggregation.ranking_matrix import RankingMatrix
from ..evidence import Evidence, EvidenceError
from ..output import escape, footnotes
from ..output.tables import Panel, ReportTable, Section, TableCell, p_text
from ..statistics.tests import ALPHA

TEST = "wilcoxon-reference"
AFTER_LOOKING = "the best by mean rank, chosen after looking, which no correction undoes"


def added(
    tests: Section, evidence: Evidence, matrices: list[RankingMatrix], reference: str | None = None
) -> Section:
    """The section `tests` extended by the tests against the reference.

    `tests`: `wilcoxon_tests.section`; `reference`: a model of the results, by default the best by
    mean rank in each scope. Raises EvidenceError for a model that is not in the results.
    """
    if reference is not None and reference not in evidence.models:
        raise EvidenceError(
            f"the reference must be a model of the results, not {reference!r}"
            f"{did_you_mean(reference, evidence.models)}; "
            f"models: {', '.join(evidence.models)}"
        )
    frame = pd.DataFrame(
        [r for m in matrices for r in _rows(m, reference)], columns=tests.frame.columns
    )
    tables = [
        _table(evidence, [m for m in matrices if m.scope.name == name], frame, reference)
        for name in dict.fromkeys(m.scope.name for m in reversed(matrices))
    ]
    joined = pd.concat([tests.frame, frame], ignore_index=True)
    return replace(tests, tables=(*tests.tables, *tables), frame=joined)


def reference_of(matrix: RankingMatrix, named: str | None) -> str:
    """The model that the others are tested against; empty if the named one is not ranked here."""
    if named is None:
        return matrix.order()[0][0]
    return named if named in matrix.models else ""


def _rows(matrix: RankingMatrix, named: str | None) -> list[list[object]]:
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


def _table(
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
        rows = tuple(_row(r) for r in ordered.itertuples(index=False))
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


def _row(r: object) -> tuple[TableCell, ...]:
    v = r._asdict()  # type: ignore[attr-defined]
    sign = v["w_plus"] - v["w_minus"]
    mark = "+" if sign > 0 else "−" if sign < 0 else ""
    equal = v["n_datasets"] - v["a_better"] - v["b_better"]
    return (
        TableCell(escape.label(str(v["model_b"]))),
        TableCell(f"{v['b_better']:.0f}"),
        TableCell(f"{v['a_better']:.0f}"),
        TableCell(f"{equal:.0f}"),
        TableCell(p_text(v["p"])),
        TableCell(p_text(v["p_holm"]), bold=v["p_holm"] <= ALPHA, mark=mark),
    )
