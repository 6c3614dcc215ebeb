"""The mean gain of an extension over its host models, published beside ours."""

from __future__ import annotations

import pandas as pd

from ..evidence import Evidence
from ..output import footnotes
from ..output.tables import Panel, ReportTable, Section, TableCell, fixed
from .comparison_table import stand_in_notes
from .median_ranks import NOTHING
from .published_table import Extension, PublishedTable


def gains(frame: pd.DataFrame, extension: Extension) -> pd.DataFrame:
    """A row per (host, source): number of datasets, mean without and with the extension, mean and
    median of their differences. Sources: `printed` (the paper's means), `published` (computed from
    its cells on the datasets of this run) and `ours`. frame: a `comparison_frame`.
    """
    printed = extension.printed
    mean = printed[printed["metric"] == "mean-score"].set_index("method")["value"]
    rows: list[tuple[object, ...]] = []
    for host in extension.hosts:
        extended = host + extension.suffix
        whole = _pairs(frame, host, extended, "published")
        ours = _pairs(frame, host, extended, "ours")
        if not len(ours):
            continue
        base, more = float(mean[host]), float(mean[extended])
        middle = float((whole["more"] - whole["base"]).median())
        rows.append((host, "printed", len(whole), base, more, more - base, middle))
        for source, pairs in (("published", whole.loc[ours.index]), ("ours", ours)):
            gain = pairs["more"] - pairs["base"]
            means = pairs["base"].mean(), pairs["more"].mean(), gain.mean(), gain.median()
            rows.append((host, source, len(pairs), *map(float, means)))
    columns = ["host", "source", "n_datasets", "base", extension.label.lower()]
    return pd.DataFrame(rows, columns=[*columns, "difference", "median_difference"])


def _pairs(frame: pd.DataFrame, host: str, extended: str, side: str) -> pd.DataFrame:
    """Datasets with values of both: columns base and more."""
    wide = frame.pivot(index="dataset", columns="method", values=side)
    both = wide.reindex(columns=[host, extended]).dropna().astype(float)
    return both.set_axis(["base", "more"], axis=1)


def section(evidence: Evidence, published: PublishedTable, frame: pd.DataFrame) -> Section:
    """The published means beside ours. frame: the `comparison_frame` of the cells behind them."""
    extension = published.extension
    assert extension is not None, "a table of means has an extension"
    found = gains(frame, extension)
    label = extension.label
    header = ("host", "", "datasets", "base", f"with {label}", "difference", "median difference")
    panels = [
        Panel(tuple(_cells(r, label.lower()) for _, r in part.iterrows()))
        for _, part in found.groupby("host", sort=False)
    ] or [Panel(((TableCell(NOTHING, span=len(header)),),))]
    there = sorted(set(frame.loc[frame["ours"].notna(), "dataset"]))
    notes = [
        *footnotes.setting(evidence),
        *footnotes.protocols(evidence, there),
        *published.notes,
        *stand_in_notes(published, there),
    ]
    name, title = f"reproduce-{published.name}", published.title
    heading = f"{title}: mean over datasets of {extension.measures}, published beside ours."
    made = ReportTable(name, heading, header, tuple(panels), tuple(notes), n_labels=2)
    return Section(name, f"{title} beside ours", (made,), found)


def _cells(row: pd.Series, extended: str) -> tuple[TableCell, ...]:
    numbers = [row[key] for key in ("base", extended, "difference", "median_difference")]
    sources = {"printed": "published", "published": "published, these", "ours": "ours"}
    return (
        TableCell(row["host"]),
        TableCell(sources[row["source"]]),
        TableCell(str(row["n_datasets"])),
        *(TableCell(fixed(x, 1)) for x in numbers),
    )
