"""Friedman says that models differ: which ones? Nemenyi's groups, and all against one reference.

Nemenyi's test compares mean ranks, so whether two models lie apart depends on who else competes
(Benavoli et al. 2016), and with many models it separates few. So every model is tested against one
named reference as well, by Wilcoxon's test on their own differences, with Holm's correction.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from ...common.text import did_you_mean
from ..aggregation.cells import Pool
from ..evidence import Evidence, EvidenceError
from ..output import escape, footnotes
from ..output.tables import Cell, Panel, Section, Table, p_text
from ..statistics.tests import critical_difference, groups, ranks
from .wilcoxon_tests import (
    ALPHA,
    WILCOXON,
    line,
    lines_of,
    of_pool,
    pair_lines,
    relative,
    why_no_omnibus,
    why_no_pairs,
)

TEST = "wilcoxon-reference"
AFTER_LOOKING = "the best by mean rank, chosen after looking, which no correction undoes"
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def added(
    tests: Section, evidence: Evidence, pools: list[Pool], reference: str | None = None
) -> Section:
    """The section `tests` with Nemenyi's groups and the tests against the reference.

    `reference`: a model of the results; default: in each scope its best by mean rank. Raises
    EvidenceError for a model that is not there.
    """
    if reference is not None and reference not in evidence.models:
        raise EvidenceError(
            f"the reference must be a model of the results, not {reference!r}"
            f"{did_you_mean(reference, evidence.models)}; "
            f"models: {', '.join(evidence.models)}"
        )
    frame = pd.DataFrame(
        [row for p in pools for row in _rows(p, reference)], columns=tests.frame.columns
    )
    tables = []
    for name in dict.fromkeys(p.scope.name for p in reversed(pools)):
        mine = [p for p in pools if p.scope.name == name]
        if not all(map(why_no_omnibus, mine)):
            tables.append(_nemenyi_table([p for p in mine if not why_no_omnibus(p)]))
        tables.append(_table(evidence, mine, frame, reference))
    joined = pd.concat([tests.frame, frame], ignore_index=True)
    return replace(tests, tables=(*tests.tables, *tables), frame=joined)


def order(mine: Pool) -> tuple[list[str], list[float]]:
    """(models by mean rank and name, their mean ranks)"""
    mean = ranks(mine.scores, "min").mean(axis=0).tolist()
    pairs = sorted(zip(mean, mine.models, strict=True))
    return [model for _, model in pairs], [rank for rank, _ in pairs]


def nemenyi_groups(mine: Pool, alpha: float = ALPHA) -> list[tuple[int, int]]:
    """(first, last) in `order` of the runs of models that Nemenyi's test does not tell apart."""
    difference = critical_difference(len(mine.models), len(mine.datasets), alpha)
    return groups(order(mine)[1], difference)


def _nemenyi_table(pools: list[Pool]) -> Table:
    """Models by mean rank, those that no test tells apart under a common letter."""
    panels, notes = [], []
    for p in pools:
        models, mean = order(p)
        found = nemenyi_groups(p)
        rows = [
            (
                Cell(escape.label(model)),
                Cell(f"{rank:.2f}"),
                Cell(" ".join(_letter(g) for g, (a, b) in enumerate(found) if a <= i <= b) or "–"),
            )
            for i, (model, rank) in enumerate(zip(models, mean, strict=True))
        ]
        title = p.scope.kind
        panels.append(Panel(tuple(rows), f"{title} ({len(p.datasets)})"))
        difference = critical_difference(len(p.models), len(p.datasets), ALPHA)
        notes.append(f"{title}: critical difference {difference:.2f} of {len(models)} ranks.")
    scope = pools[0].scope.name
    title = (
        f"Nemenyi's test on {footnotes.TASK_TITLES[scope]}: models that share a letter are not "
        "told apart at .05."
    )
    notes.append(
        "Which models it tells apart depends on who else competes. No shared letter means a "
        "difference; a shared one does not mean that there is none. The same as a diagram: "
        f"{figure_name(scope, False)}."
    )
    header = ("model", "mean rank ↓", "groups")
    name = "tests-nemenyi-" + scope.replace(" ", "-")
    return Table(name, title, header, tuple(panels), tuple(notes))


def _letter(number: int) -> str:
    """a to z, then a1, b1, ..."""
    rounds, place = divmod(number, len(LETTERS))
    return LETTERS[place] + (str(rounds) if rounds else "")


def figure_name(scope: str, subset: bool) -> str:
    """Name of a scope's critical-difference diagram, without its ending."""
    return f"figures/critical-difference-{scope.replace(' ', '-')}" + "-subset" * subset


# --- against one reference ------------------------------------------------------------------------


def reference_of(mine: Pool, named: str | None) -> str:
    """The model that the others are tested against; empty where the named one has no rank here."""
    if named is None:
        return order(mine)[0][0]
    return named if named in mine.models else ""


def _rows(mine: Pool, named: str | None) -> list[list[object]]:
    """One line a model: model_a is the reference, and p_a_better that it does better."""
    reason = why_no_pairs(mine)
    reference = "" if reason else reference_of(mine, named)
    if not reference:
        return [line(of_pool(mine), test=TEST, note=reason or _absent(mine, str(named)))]
    a = mine.models.index(reference)
    pairs = [(a, b) for b in range(len(mine.models)) if b != a]
    return pair_lines(mine, pairs, TEST, AFTER_LOOKING if named is None else "")


def _absent(mine: Pool, named: str) -> str:
    n = mine.thin.get(named, 0)
    return f"n/a: {named} is complete on {n} of {mine.n_scope} datasets, too few to be ranked"


def _table(evidence: Evidence, pools: list[Pool], frame: pd.DataFrame, named: str | None) -> Table:
    panels = []
    for p in pools:
        lines = lines_of(p, frame, TEST)
        title = f"{p.scope.kind} ({len(p.datasets)})"
        if lines["model_b"].isna().any():
            text = escape.visible(str(lines["note"].iloc[0]))
            panels.append(Panel(((Cell(text, span=len(HEADER)),),), title))
            continue
        reference = escape.label(str(lines["model_a"].iloc[0]))
        ordered = lines.sort_values(["p_holm", "p", "model_b"], kind="stable")
        rows = tuple(_row(r) for r in ordered.itertuples(index=False))
        panels.append(Panel(rows, f"{title}, reference: {reference}"))
    scope = pools[0].scope.name
    how = (
        f"The reference is {AFTER_LOOKING}: name one to avoid that."
        if named is None
        else f"The reference, {escape.label(named)}, was named."
    )
    relative_ = [p for p in pools if p.datasets and relative(p)]
    notes = [
        *footnotes.setting(evidence),
        footnotes.CLAIMS["datasets"],
        f"{how} {WILCOXON}",
        f"Bold: p ≤ {ALPHA:g} after Holm's correction over the panel's lines; +: the reference "
        "does better, −: the other model does, by the rank sums.",
        "Differences are of errors relative to their sum." if relative_ else "",
        "A large p does not show that two models are equal.",
    ]
    title = (
        f"Every model against one reference on {footnotes.TASK_TITLES[scope]}: Wilcoxon and Holm."
    )
    name = "tests-reference-" + scope.replace(" ", "-")
    return Table(name, title, HEADER, tuple(panels), tuple(filter(None, notes)))


HEADER = ("model", "better", "worse", "equal", "p", "p Holm")


def _row(r: object) -> tuple[Cell, ...]:
    v = r._asdict()  # type: ignore[attr-defined]
    sign = np.sign(v["w_plus"] - v["w_minus"])
    mark = {1.0: "+", -1.0: "−"}.get(float(sign), "")
    equal = v["n_datasets"] - v["a_better"] - v["b_better"]
    return (
        Cell(escape.label(str(v["model_b"]))),
        Cell(f"{v['b_better']:.0f}"),
        Cell(f"{v['a_better']:.0f}"),
        Cell(f"{equal:.0f}"),
        Cell(p_text(v["p"])),
        Cell(p_text(v["p_holm"]), bold=v["p_holm"] <= ALPHA, mark=mark),
    )
