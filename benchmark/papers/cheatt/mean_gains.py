"""CheAtt's special tables: Table 1, mean gains over the host models, and Table 2 with controls."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pandas as pd

from ....reports.evidence import Evidence
from ....reports.output import footnotes
from ....reports.output.tables import Panel, Section, TableCell, fixed
from ....reports.reproduction import own_rows
from ....reports.reproduction.comparison_frame import comparison_frame
from ....reports.reproduction.comparison_table import stand_in_notes
from ....reports.reproduction.published_table import PublishedTable
from ..paper_file import Paper
from ..published_values import table_rows
from ..rank_tables import figures_section, figures_table

HOSTS = ("tabtransformer", "saint", "met")
SUFFIX = "-cheatt"  # of a host with polynomial attention
CONTROL = "no published value: two free coefficients, a control that the paper lacks"
CONTROLLED = ("bank-additional", "contraceptive", "medical-cost")
HEADER = "host,,datasets,base,with CheAtt,difference,median difference,improvement %".split(",")


def table_1(paper: Paper, table: PublishedTable) -> PublishedTable:
    """Means over datasets, of the cells of Table 4."""
    cells = table_rows(paper, "cheatt-table-4")
    return replace(table, rows=cells, compare=partial(section, printed=table.rows))


def table_2(paper: Paper, table: PublishedTable) -> PublishedTable:
    """The printed orders, and after those of a dataset every host with order 1, a control."""
    rows = []
    for dataset, part in table.rows.groupby("dataset", sort=False):
        rows.append(part)
        if dataset in CONTROLLED:
            empty = {"value": float("nan"), "spread": float("nan"), "decimals": 0, "note": ""}
            rows += [
                part.iloc[-1:].assign(method=f"{host}{SUFFIX}-k1", remark=CONTROL, **empty)
                for host in HOSTS
            ]
    return replace(table, rows=pd.concat(rows, ignore_index=True), extra=(CONTROL,))


def gains(frame: pd.DataFrame, printed: pd.DataFrame) -> pd.DataFrame:
    """A row per (host, source): number of datasets, mean without and with CheAtt, mean and median
    of their differences, and the mean in per cent of the base. Sources: `printed` (the paper's
    means), `published` (computed from its cells on the datasets of this run) and `ours`. frame: a
    `comparison_frame`. printed: the rows of Table 1.
    """
    mean, improved = (
        printed[printed["metric"] == metric].set_index("method")["value"]
        for metric in ("mean-score", "relative-improvement")
    )
    rows: list[tuple[object, ...]] = []
    for host in HOSTS:
        extended = host + SUFFIX
        whole = _pairs(frame, host, extended, "published")
        ours = _pairs(frame, host, extended, "ours")
        if not len(ours):
            continue
        base, more = float(mean[host]), float(mean[extended])
        middle = float((whole["more"] - whole["base"]).median())
        percent = improved[extended]
        rows.append((host, "printed", len(whole), base, more, more - base, middle, percent))
        for source, pairs in (("published", whole.loc[ours.index]), ("ours", ours)):
            gain = pairs["more"] - pairs["base"]
            base = pairs["base"].mean()
            means = base, pairs["more"].mean(), gain.mean(), gain.median(), 100 * gain.mean() / base
            rows.append((host, source, len(pairs), *map(float, means)))
    columns = ["host", "source", "n_datasets", "base", "cheatt", "difference"]
    return pd.DataFrame(rows, columns=[*columns, "median_difference", "improvement_percent"])


def _pairs(frame: pd.DataFrame, host: str, extended: str, side: str) -> pd.DataFrame:
    """Datasets with values of both: columns base and more."""
    wide = frame.pivot(index="dataset", columns="method", values=side)
    both = wide.reindex(columns=[host, extended]).dropna().astype(float)
    return both.set_axis(["base", "more"], axis=1)


def section(evidence: Evidence, published: PublishedTable, printed: pd.DataFrame) -> Section:
    """The published means beside ours."""
    frame = comparison_frame(evidence, published)
    found = gains(frame, printed)
    panels = [
        Panel(tuple(_cells(r) for _, r in part.iterrows()))
        for _, part in found.groupby("host", sort=False)
    ]
    there = sorted(set(frame.loc[frame["ours"].notna(), "dataset"]))
    notes = [
        *footnotes.protocols(evidence, there),
        *published.notes,
        *stand_in_notes(published, there),
    ]
    what = "mean over datasets of AUROC and R2 in percent, published beside ours"
    heading = f"{published.title}: {what}."
    table = figures_table(evidence, published.name, heading, HEADER, panels, notes, n_labels=2)
    remark = f"{found['host'].nunique()} of {len(HOSTS)} published hosts have means of ours."
    more = own_rows.placed(published, frame)
    return figures_section(published, table, found, remark, more)


def _cells(row: pd.Series) -> tuple[TableCell, ...]:
    numbers = [row[key] for key in ("base", "cheatt", "difference", "median_difference")]
    percent = TableCell(fixed(row["improvement_percent"], 2))
    sources = {"printed": "published", "published": "published, these", "ours": "ours"}
    return (
        TableCell(row["host"]),
        TableCell(sources[row["source"]]),
        TableCell(str(row["n_datasets"])),
        *(TableCell(fixed(x, 1)) for x in numbers),
        percent,
    )
