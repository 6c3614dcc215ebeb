"""RTDL's Tables 2 and 3 with the authors' further results, and the average ranks of Table 2."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from ....reports.aggregation.ranking_rules import in_brackets
from ....reports.evidence import Evidence
from ....reports.output import escape, footnotes
from ....reports.output.tables import Panel, ReportTable, Section, TableCell
from ....reports.reproduction.comparison import compare_cells
from ....reports.reproduction.own_rows import is_own
from ....reports.reproduction.published_table import MARK, OWN, PublishedTable
from ..paper_file import Paper
from ..published_values import table_rows
from ..rank_tables import method_ranks

RANKING = "available"  # the average ranks of Table 2 follow from the authors' runs by it
RANKING_RULE = (
    "Ranked as in RTDL's Table 2: on each dataset among the models that have a score there, by "
    "unrounded means; the mean is over a model's own datasets, after it in brackets the standard "
    "deviation over them (ddof 1). Means over different datasets are not comparable: a model gains "
    "where it lacks a difficult dataset."
)
RANKED = "tabnet snn autoint grownet mlp dcn-v2 node resnet ft-transformer".split()
RANKING_NOTE = "The paper prints 1.8 (1.2) for FT-Transformer and 3.3 (1.8) for ResNet."
ADDITION = "not in the published table: from the authors' repository"
HEADER = ("method", "published", "datasets", "ours", "datasets")


def table_2(paper: Paper, table: PublishedTable) -> PublishedTable:
    """Networks and boosting, with average ranks of the networks."""
    return replace(_with_additions(paper, table, "1"), compare=section)


def table_3(paper: Paper, table: PublishedTable) -> PublishedTable:
    """Ensembles of five."""
    return _with_additions(paper, table, "5")


def _with_additions(paper: Paper, table: PublishedTable, size: str) -> PublishedTable:
    """The table with the tuned methods that it lacks, from the authors' repository: means of
    ensembles of that size."""
    rows, more = table.rows, table_rows(paper, "rtdl-repo-means")
    wanted = (more["configuration"] == "tuned") & (more["ensemble_size"] == size)
    more = more[wanted & ~more["method"].isin(set(rows["method"]))].assign(remark=ADDITION)
    both = pd.concat([rows, more[[c for c in rows if c in more]]], ignore_index=True)
    return replace(table, rows=both, extra=(ADDITION,))


def section(evidence: Evidence, published: PublishedTable) -> Section:
    """The comparison of cells, with average ranks after its first table."""
    found = compare_cells(evidence, published)
    first, *rest = found.tables
    return replace(found, tables=(first, table(evidence, published, found.frame), *rest))


def average_ranks(frame: pd.DataFrame, side: str) -> pd.DataFrame:
    """`method_ranks` of the methods of the table, from its values ("published") or
    from a run's means ("ours"). frame: a `comparison_frame`."""
    methods = ranked_methods(frame)
    rows = frame[frame[side].notna() & frame["method"].isin(methods)]
    return method_ranks(rows, side, RANKING, methods)


def ranked_methods(frame: pd.DataFrame) -> list[str]:
    """The networks that the paper ranks, and the models of a run that it lacks."""
    return [*RANKED, *dict.fromkeys(frame.loc[is_own(frame), "method"])]


def table(evidence: Evidence, published: PublishedTable, frame: pd.DataFrame) -> ReportTable:
    """The average ranks of both sides, in the form in which the paper prints them."""
    sides = [average_ranks(frame, side) for side in ("published", "ours")]
    ours = sides[1]["mean_rank"]
    lowest = [side["mean_rank"].min() for side in sides]
    rows = []
    mine = set(ranked_methods(frame)).difference(RANKED)
    for method in sorted({*RANKED, *mine}, key=lambda m: (-ours.get(m, -1.0), m)):
        cells = [TableCell(escape.label(method), mark=MARK if method in mine else "")]
        for found, low in zip(sides, lowest, strict=True):
            if method not in found.index:
                cells += [TableCell("n/a"), TableCell("0")]
                continue
            mean, std, n = found.loc[method, ["mean_rank", "std", "n_datasets"]]
            cells += [
                TableCell(in_brackets(mean, std), bold=bool(mean <= low + 1e-12)),
                TableCell(f"{n:.0f}"),
            ]
        rows.append(tuple(cells))
    notes = [
        *footnotes.fewer_seeds(evidence),
        RANKING_RULE,
        "Published: from the printed values, so that equal digits share a rank; ours: from the "
        "unrounded means.",
        RANKING_NOTE,
        *([f"{MARK} {OWN}."] if mine else []),
    ]
    title = f"{published.title}: average ranks, published beside ours, 1 is best."
    name = f"reproduce-{published.name}-ranks"
    return ReportTable(name, title, HEADER, (Panel(tuple(rows)),), tuple(notes))
