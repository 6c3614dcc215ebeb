"""A paper's table beside a run: published values, ours, and their difference."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pandas as pd

from ..evidence import STUDY, Evidence
from ..output.files import render, write_files
from ..output.footnotes import count
from ..output.tables import Section, fixed
from ..sections import seeds
from . import method_order, own_rows
from .comparison_frame import comparison_frame, printed_cells
from .comparison_table import NOTHING, comparison_table
from .published_table import PublishedTable


def compare(evidence: Evidence, published: PublishedTable) -> Section:
    """Published beside ours: as the table's paper has it made, else cell by cell."""
    return (published.compare or compare_cells)(evidence, published)


def compare_cells(evidence: Evidence, published: PublishedTable) -> Section:
    """Published cells beside ours, with the difference in joint standard errors.

    A difference has no size in standard errors where either side rests on one split, or where our
    folds overlap; the frame's `note` says which. Published standard deviations are divided by
    sqrt(n).
    """
    frame = comparison_frame(evidence, published)
    table = comparison_table(evidence, published, frame)
    printed = printed_cells(published, frame)
    found = printed["ours"].notna()
    within = printed.loc[found, "within_two"]
    sized = (
        f"; of {int(within.notna().sum())} with standard errors on both sides, "
        f"{int((within == True).sum())} lie within two joint standard errors"  # noqa: E712
        if within.notna().any()
        else ""
    )
    remarks = (
        f"{int(found.sum())} of {len(printed)} published cells have a value of ours{sized}.",
    )
    name, title = published.name, published.title
    tables = [table, *own_rows.placed(published, frame)]
    if published.deviations:
        order = method_order.table(name, title, frame)
        tables += [order] if order else []
    if published.deviations == "cut":
        decimals = printed.groupby("dataset")["published_decimals"].max().to_dict()
        rule = seeds.section(evidence, decimals).tables
        for part in rule:  # the notes that stand above already are left out
            own = tuple(note for note in part.notes if note not in table.notes)
            tables.append(replace(part, name=f"{name}-{part.name}", notes=own))
    return Section(f"reproduce-{name}", f"{title} beside ours", tuple(tables), frame, remarks)


def whole_comparison(
    evidence: Evidence, published: PublishedTable, asked: Iterable[str] = ()
) -> Section:
    """`compare`, with the budgets of both sides at its head. asked: models that are rows of the
    table though the paper lacks them; those from outside the package are, too."""
    published = own_rows.with_own(published, own_rows.own_models(evidence, published, asked))
    section = compare(evidence, published)
    return replace(
        section, remarks=(*section.remarks, *_budgets(evidence, published, section.frame))
    )


def _budgets(evidence: Evidence, published: PublishedTable, frame: pd.DataFrame) -> list[str]:
    """Sentences on the number of ensembles, and on the budgets of both sides. frame: the
    comparison's."""
    budget = evidence.facts.budget
    lines = []
    if published.shape == "ensembles" and evidence.ensembles is not None:
        n = evidence.ensembles.groupby(STUDY).size()
        lines.append(
            f"Ours: {_span(n, seeds.ENSEMBLE)} of seeds per cell; their spread is over these."
        )
    used = [f"Budget used: {budget}." if budget else "Budget used: not recorded."]
    tuned = evidence.trials[evidence.having("stage", "tune")]
    theirs = pd.Series(dtype=float)
    if "published_configs" in frame:
        here = frame[frame["ours"].notna()]
        tuned = tuned[tuned["model"].isin(here["model"])]
        theirs = here["published_configs"].dropna()
    if len(tuned):
        seconds = tuned["cpu_s"].sum()
        spent = f"{fixed(seconds / 3600.0, 2)} CPU-hours"
        if seconds < 360.0:  # 0.1 hours
            spent = f"{fixed(seconds, 0)} s of CPU time"
        cost = f", {spent}" if seconds > 0 else ""
        counts = tuned.groupby(STUDY).size()
        used.append(f"Ours: {_span(counts, 'configuration')} tried per study{cost}.")
    if len(theirs):
        used.append(f"Published: {_span(theirs, 'configuration')} per cell.")
    return [*lines, " ".join(used)]


def _span(counts: pd.Series, word: str) -> str:
    low, high = int(counts.min()), int(counts.max())
    return count(low, word) if low == high else f"{low} to {high} {word}s"


def is_empty(section: Section) -> bool:
    """Whether nothing of a comparison has a value of ours."""
    placed = any(table.name.endswith(own_rows.PLACED) for table in section.tables)
    return section.tables[0].panels[0].rows[0][0].text == NOTHING and not placed


def write_comparison(section: Section, out: str | Path) -> list[Path]:
    """Write reproduce-<name>.tex, .md and .csv to the folder `out`; return their paths."""
    return write_files(render(section), out)
