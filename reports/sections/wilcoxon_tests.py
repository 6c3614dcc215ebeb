"""Which differences between models hold across datasets? Friedman, and Wilcoxon for every pair.

One number a dataset enters: the mean over its folds. Within one metric the differences are of the
scores themselves (Demsar 2006); for errors in the target's units, and where several metrics meet,
of the errors relative to their sum, (a - b) / (a + b), which has no unit and orders the datasets
as the ratio a / b does.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from ..aggregation.cells import Pool
from ..evidence import Evidence
from ..output import escape, footnotes
from ..output.tables import Cell, Panel, Section, Table, p_text
from ..statistics.tests import critical_difference, fewest_pairs, friedman, holm, ranks, smallest_p
from ..statistics.wilcoxon import EXACT_UP_TO, wilcoxons
from .ranks import which, why_no_ranks

ALPHA = 0.05
MIN_MODELS_FRIEDMAN = 3
MIN_DATASETS_FRIEDMAN = 5  # fewer, and the F approximation says little
MIN_DATASETS_PAIR = fewest_pairs(ALPHA)

WILCOXON = (
    f"Two-sided, exact over all sign patterns (a normal approximation with more than "
    f"{EXACT_UP_TO} datasets); datasets without a difference are ranked and then left out (Pratt), "
    "ties share their rank."
)

_COLUMNS = """scope datasets test model_a model_b n_datasets n_models n_zero a_better b_better
    w_plus w_minus statistic df p p_a_better p_b_better p_holm n_pairs note""".split()


def section(evidence: Evidence, pools: list[Pool]) -> Section:
    """The file `tests`, from the pool of every scope."""
    frames = [_omnibus_frame(p) for p in pools] + [_pairs_frame(p) for p in pools]
    rows = [r for f in frames for r in f]
    frame = pd.DataFrame(rows, columns=_COLUMNS)
    tables = [_omnibus_table(evidence, pools, frame)]
    for name in dict.fromkeys(p.scope.name for p in pools):
        mine = [p for p in pools if p.scope.name == name and not why_no_pairs(p)]
        if mine:
            tables.append(_matrix_table(evidence, mine, frame))
    return Section("tests", "Tests across datasets", tuple(tables), frame)


def why_no_omnibus(mine: Pool) -> str:
    """Empty, or why Friedman's test says nothing on this pool."""
    if why_no_ranks(mine):
        return why_no_ranks(mine)
    if len(mine.models) < MIN_MODELS_FRIEDMAN:
        return f"n/a: needs at least {MIN_MODELS_FRIEDMAN} models, has {len(mine.models)}"
    if len(mine.datasets) < MIN_DATASETS_FRIEDMAN:
        return (
            f"n/a: needs at least {MIN_DATASETS_FRIEDMAN} complete datasets, "
            f"has {len(mine.datasets)}"
        )
    return ""


def why_no_pairs(mine: Pool) -> str:
    """Empty, or why no pair of models is tested on this pool."""
    if why_no_ranks(mine):
        return why_no_ranks(mine)
    n = len(mine.datasets)
    if n < MIN_DATASETS_PAIR:
        return (
            f"n/a: needs at least {MIN_DATASETS_PAIR} complete datasets to reach p = {ALPHA:g} "
            f"two-sided, has {n}"
        )
    return ""


def relative(mine: Pool) -> bool:
    """Whether differences of this pool are relative: errors in units, or several metrics."""
    return len(set(mine.scope.metrics)) > 1 or not mine.metric_of(0).bounded


def advantages(mine: Pool) -> np.ndarray:  # -> (n_datasets, n_models, n_models)
    """[i, a, b] > 0 where model a does better than model b on dataset i."""
    losses = mine.scores
    if not relative(mine):
        return losses[:, None, :] - losses[:, :, None]
    errors = mine.errors
    difference = errors[:, None, :] - errors[:, :, None]
    total = np.abs(errors[:, None, :]) + np.abs(errors[:, :, None])
    return np.where(total > 0, difference / np.where(total > 0, total, 1.0), 0.0)


def _omnibus_frame(mine: Pool) -> list[list[object]]:
    base = of_pool(mine)
    reason = why_no_omnibus(mine)
    if reason:
        return [line(base, test="friedman", note=reason)]
    test = friedman(ranks(mine.scores, "min"))
    lines = [
        line(base, test="friedman-chi2-tie-corrected", statistic=test.chi2_ties, p=test.p_ties),
        line(base, test="friedman-chi2", statistic=test.chi2),
        line(base, test="iman-davenport-f", statistic=_finite(test.f), p=test.p),
        line(
            base,
            test="nemenyi-critical-difference-.05",
            statistic=critical_difference(test.n_models, test.n_datasets, ALPHA),
        ),
    ]
    lines[0][_COLUMNS.index("df")] = str(test.n_models - 1)
    lines[2][_COLUMNS.index("df")] = f"{test.df[0]} {test.df[1]}"
    if math.isinf(test.f):
        lines[2][_COLUMNS.index("note")] = "infinite: every dataset ranks the models alike"
    return lines


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def of_pool(mine: Pool) -> dict[str, object]:
    """What the frame's lines of a pool have in common."""
    return {
        "scope": mine.scope.name,
        "datasets": which(mine.scope),
        "n_datasets": len(mine.datasets),
        "n_models": len(mine.models),
    }


def line(base: dict[str, object], **values: object) -> list[object]:
    """A row of the frame, None where there is no value."""
    return [{**base, **values}.get(name) for name in _COLUMNS]


def pair_lines(
    mine: Pool, pairs: Sequence[tuple[int, int]], test: str, note: str | None = None
) -> list[list[object]]:
    """Wilcoxon's test of each pair (a, b) of models by number, Holm's correction over all pairs."""
    rank = ranks(mine.scores, "min")
    first, second = np.array(pairs).T
    tests = wilcoxons(advantages(mine)[:, first, second])
    adjusted = holm([t.p for t in tests])
    return [
        line(
            of_pool(mine),
            test=test,
            model_a=mine.models[a],
            model_b=mine.models[b],
            n_zero=t.n_zero,
            a_better=int((rank[:, a] < rank[:, b]).sum()),
            b_better=int((rank[:, a] > rank[:, b]).sum()),
            w_plus=t.w_plus,
            w_minus=t.w_minus,
            statistic=t.t,
            p=t.p,
            p_a_better=t.p_greater,
            p_b_better=t.p_less,
            p_holm=p_holm,
            n_pairs=len(pairs),
            note=note,
        )
        for (a, b), t, p_holm in zip(pairs, tests, adjusted, strict=True)
    ]


def _pairs_frame(mine: Pool) -> list[list[object]]:
    """One line a pair of models, a before b by name."""
    reason = why_no_pairs(mine)
    if reason:
        return [line(of_pool(mine), test="wilcoxon", note=reason)]
    return pair_lines(mine, list(itertools.combinations(range(len(mine.models)), 2)), "wilcoxon")


def _omnibus_table(evidence: Evidence, pools: list[Pool], frame: pd.DataFrame) -> Table:
    header = ["datasets", "N", "models", "χ² tie-corrected", "p", "F", "df", "p of F", "CD"]
    header += ["pairs apart"]
    panels = []
    for subset in sorted({p.scope.subset for p in pools}):
        mine = [p for p in pools if p.scope.subset == subset]
        rows = [_omnibus_row(p, frame) for p in mine]
        panels.append(Panel(tuple(rows), mine[0].scope.kind))
    title = "Do the models differ across datasets? Friedman's test on their ranks."
    notes = [
        *footnotes.setting(evidence),
        footnotes.CLAIMS["datasets"],
        "Each dataset counts once, with the mean over its folds. " + footnotes.TIES,
        "N: datasets with a complete score of every ranked model. χ²: Friedman with tie "
        "correction; F: Iman and Davenport's, from the plain χ². CD: difference of two mean ranks "
        "from which Nemenyi's test calls them different at .05.",
        f"Pairs apart: pairs of models with a Wilcoxon p of at most {_short(ALPHA)} after Holm's "
        "correction over all pairs of the line.",
        *_untested(pools),
        "A large p does not show that models are equal: it shows no difference with N datasets.",
        *_subset_note(evidence, pools),
    ]
    return Table("tests-friedman", title, tuple(header), tuple(panels), tuple(notes))


def _untested(pools: list[Pool]) -> list[str]:
    """Why some lines test no pairs, one note a reason."""
    said: dict[str, list[str]] = {}
    for p in pools:
        if why_no_pairs(p):
            said.setdefault(why_no_pairs(p), []).append(p.scope.title)
    return [f"Pairs in {'; '.join(names)}: {reason}." for reason, names in said.items()]


def _short(p: float) -> str:
    return f"{p:g}".lstrip("0")


def _omnibus_row(mine: Pool, frame: pd.DataFrame) -> tuple[Cell, ...]:
    head = [Cell(mine.scope.name), Cell(str(len(mine.datasets))), Cell(str(len(mine.models)))]
    reason, no_pairs = why_no_omnibus(mine), why_no_pairs(mine)
    if reason and no_pairs:
        return (*head, Cell(no_pairs if why_no_ranks(mine) else reason, span=7))
    if reason:
        return (*head, Cell(reason, span=6), _pairs_cell(mine, frame))
    test = friedman(ranks(mine.scores, "min"))
    difference = critical_difference(test.n_models, test.n_datasets, ALPHA)
    return (
        *head,
        Cell(f"{test.chi2_ties:.2f}"),
        Cell(p_text(test.p_ties)),
        Cell(f"{test.f:.2f}" if math.isfinite(test.f) else "all alike"),
        Cell(f"{test.df[0]}, {test.df[1]}"),
        Cell(p_text(test.p), bold=test.p <= ALPHA),
        Cell(f"{difference:.2f}"),
        Cell("n/a") if no_pairs else _pairs_cell(mine, frame),
    )


def _pairs_cell(mine: Pool, frame: pd.DataFrame) -> Cell:
    lines = lines_of(mine, frame)
    return Cell(f"{int((lines['p_holm'] <= ALPHA).sum())} of {len(lines)}")


def lines_of(mine: Pool, frame: pd.DataFrame, test: str = "wilcoxon") -> pd.DataFrame:
    """The frame's lines of a pool and a test."""
    same = (frame["scope"] == mine.scope.name) & (frame["datasets"] == which(mine.scope))
    return frame[same & (frame["test"] == test)]


def _matrix_table(evidence: Evidence, pools: list[Pool], frame: pd.DataFrame) -> Table:
    """Holm's p-values of all pairs: all datasets above the diagonal, the subset below it."""
    models = sorted({m for p in pools for m in p.models})
    number = {m: i + 1 for i, m in enumerate(models)}
    grid = [[Cell("·") if a == b else Cell("n/a") for b in models] for a in models]
    for p in pools:
        for line in lines_of(p, frame).itertuples(index=False):
            a, b = number[line.model_a] - 1, number[line.model_b] - 1
            first = (b, a) if p.scope.subset else (a, b)
            sign = line.w_plus - line.w_minus  # > 0: model a is better
            grid[first[0]][first[1]] = _p_cell(line.p_holm, -sign if p.scope.subset else sign)
    has_subset = any(p.scope.subset for p in pools)
    if not has_subset:
        grid = [[c if j >= i else Cell() for j, c in enumerate(row)] for i, row in enumerate(grid)]
    rows = [
        (Cell(f"({number[m]}) {escape.label(m)}"), *row)
        for m, row in zip(models, grid, strict=True)
    ]
    header = ("model", *(f"({number[m]})" for m in models))
    scope = pools[0].scope.name
    below = ", the independent, learnable subset below it" if has_subset else ""
    title = (
        f"Wilcoxon's signed-rank test between every two models on {footnotes.TASK_TITLES[scope]}: "
        f"p-values after Holm's correction, all datasets above the diagonal{below}."
    )
    name = "tests-wilcoxon-" + scope.replace(" ", "-")
    notes = [*_matrix_notes(pools), *_subset_note(evidence, pools)]
    return Table(name, title, header, (Panel(tuple(rows)),), tuple(notes))


def _p_cell(p: float, sign: float) -> Cell:
    mark = "+" if sign > 0 else "−" if sign < 0 else ""
    return Cell(p_text(p), bold=p <= ALPHA, mark=mark)


def _matrix_notes(pools: list[Pool]) -> list[str]:
    notes = [
        "+: the model of the row does better, −: the model of the column, by the rank sums; bold: "
        f"p ≤ {_short(ALPHA)} after Holm. {WILCOXON} The one-sided and uncorrected p-values stand "
        "in the CSV.",
        "Differences are of errors relative to their sum, which has no unit."
        if relative(pools[0])
        else "Differences are of the scores.",
    ]
    for p in pools:
        n, m = len(p.datasets), math.comb(len(p.models), 2)
        text = f"{'Subset' if p.scope.subset else 'All'}: {n} datasets, {m} pairs in the family"
        if smallest_p(n) * m > ALPHA:
            text += (
                f"; with so few datasets no single pair can fall below {p_text(smallest_p(n))}, "
                f"which Holm's first step takes to {p_text(min(1.0, smallest_p(n) * m))}"
            )
        notes.append(text + ".")
    return notes


def _subset_note(evidence: Evidence, pools: list[Pool]) -> list[str]:
    if not any(p.scope.subset for p in pools):
        return []
    return [footnotes.left_out_of_subset(evidence)]
