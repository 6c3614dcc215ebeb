"""A paper's table beside a run: published values, ours, and their difference."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ..evidence import Evidence
from ..output.files import render, write_files
from ..output.tables import Section
from ..sections import seeds
from . import coverage, method_order
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
    remarks = (
        f"{int(found.sum())} of {len(printed)} published cells have a value of ours; of "
        f"{int(within.notna().sum())} with standard errors on both sides, "
        f"{int((within == True).sum())} lie within two joint standard errors.",  # noqa: E712
    )
    name, title = published.name, published.title
    tables = [table]
    if published.deviations:
        order = method_order.table(name, title, frame)
        tables += [order] if order else []
    if published.deviations == "cut":
        cells = printed_cells(published, frame)
        decimals = cells.groupby("dataset")["published_decimals"].max().to_dict()
        rule = seeds.section(evidence, decimals).tables
        for part in rule:  # the notes that stand above already are left out
            own = tuple(note for note in part.notes if note not in table.notes)
            tables.append(replace(part, name=f"{name}-{part.name}", notes=own))
    return Section(f"reproduce-{name}", f"{title} beside ours", tuple(tables), frame, remarks)


def whole_comparison(evidence: Evidence, published: PublishedTable) -> Section:
    """`compare`, with the budgets of both sides at its head."""
    section = compare(evidence, published)
    more = coverage.sentences(evidence, published, section.frame)
    return replace(section, remarks=(*section.remarks, *more))


def is_empty(section: Section) -> bool:
    """Whether nothing of a comparison's table has a value of ours."""
    return section.tables[0].panels[0].rows[0][0].text == NOTHING


def write_comparison(section: Section, out: str | Path) -> list[Path]:
    """Write reproduce-<name>.tex, .md and .csv to the folder `out`; return their paths."""
    return write_files(render(section), out)
