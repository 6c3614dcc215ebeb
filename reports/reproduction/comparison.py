"""A paper's table beside a run: published values, ours, and their difference."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ..aggregation.ranking_rules import ranking_rule
from ..evidence import Evidence
from ..output.files import render, write_files
from ..output.tables import Section
from ..sections import seeds
from . import (
    available_ranks,
    average_ranks,
    coverage,
    mean_gains,
    median_ranks,
    method_order,
)
from .comparison_frame import comparison_frame, printed_cells
from .comparison_table import comparison_table
from .published_table import PublishedTable


def compare(evidence: Evidence, published: PublishedTable) -> Section:
    """Published beside ours, with the difference in joint standard errors.

    A difference has no size in standard errors where either side rests on one split, or where our
    folds overlap; the frame's `note` says which. Published standard deviations are divided by
    sqrt(n).
    """
    if published.shape == "medians":
        return median_ranks.section(evidence, published)
    frame = comparison_frame(evidence, published)
    if published.shape == "means":
        return mean_gains.section(evidence, published, frame)
    if published.shape == "average-ranks":
        return average_ranks.section(evidence, published, frame)
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
    if published.ranking and ranking_rule(published.ranking).available:
        tables.append(available_ranks.table(evidence, published, frame))
    elif published.ranking:
        tables.append(median_ranks.table_of_values(evidence, published))
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


def write_comparison(evidence: Evidence, published: PublishedTable, out: str | Path) -> list[Path]:
    """Write reproduce-<name>.tex, .md and .csv to the folder `out`; return their paths."""
    section = compare(evidence, published)
    remarks = (*section.remarks, *coverage.sentences(evidence, published, section.frame))
    return write_files(render(replace(section, remarks=remarks)), out)
