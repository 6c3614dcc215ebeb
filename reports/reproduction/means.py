"""What does an extension add to its hosts on average? Means over datasets, published beside ours.

Kim et al. 2024 (CheAtt), Table 1: the mean over ten datasets of AUROC and R2 in percent, of three
models without and with polynomial attention.
"""

from __future__ import annotations

import pandas as pd

from ..evidence import Evidence
from ..output import footnotes
from ..output.tables import Panel, Section, fixed
from ..output.tables import ReportTable as Table
from ..output.tables import TableCell as Cell
from .medians import NOTHING

HOSTS = ("tabtransformer", "saint", "met")
SUFFIX = "-cheatt"
HEADER = ("host", "", "datasets", "base", "with CheAtt", "difference", "median difference")
AMONG = (
    "Means of AUROC and R2, both in percent, which are unlike: one dataset of a failed fit decides "
    "them, so the median of the differences stands beside. The second line of a host is computed "
    "from the paper's Table 4 for the datasets of this run, the third is ours on them."
)


def of_frame(frame: pd.DataFrame, printed: pd.DataFrame) -> pd.DataFrame:
    """A row a (host, source): datasets, mean without and with the extension, mean and median of
    their differences. `frame`: published and ours, a row a (dataset, method); `printed`: Table 1.
    """
    rows: list[tuple[object, ...]] = []
    for host in HOSTS:
        mean = printed[printed["metric"] == "mean-score"].set_index("method")["value"]
        whole = _pairs(frame, host, "published")
        ours = _pairs(frame, host, "ours")
        if not len(ours):
            continue
        base, more = float(mean[host]), float(mean[host + SUFFIX])
        middle = float((whole["more"] - whole["base"]).median())
        rows.append((host, "printed", len(whole), base, more, more - base, middle))
        for source, pairs in (("published", whole.loc[ours.index]), ("ours", ours)):
            gain = pairs["more"] - pairs["base"]
            means = pairs["base"].mean(), pairs["more"].mean(), gain.mean(), gain.median()
            rows.append((host, source, len(pairs), *map(float, means)))
    columns = "host source n_datasets base cheatt difference median_difference".split()
    return pd.DataFrame(rows, columns=columns)


def _pairs(frame: pd.DataFrame, host: str, side: str) -> pd.DataFrame:
    """Datasets with values of both: columns base and more."""
    wide = frame.pivot(index="dataset", columns="method", values=side)
    both = wide[[host, host + SUFFIX]].dropna().astype(float)
    return both.set_axis(["base", "more"], axis=1)


def section(
    evidence: Evidence, name: str, title: str, printed: pd.DataFrame, frame: pd.DataFrame, said: str
) -> Section:
    """Table 1 beside ours, from the cells of Table 4 (`frame`, as `compare` makes it)."""
    found = of_frame(frame, printed)
    panels = [
        Panel(tuple(_cells(r) for r in part.itertuples(index=False)))
        for _, part in found.groupby("host", sort=False)
    ] or [Panel(((Cell(NOTHING, span=len(HEADER)),),))]
    there = sorted(set(frame.loc[frame["ours"].notna(), "dataset"]))
    notes = [*footnotes.setting(evidence), *footnotes.protocols(evidence, there), AMONG, said]
    heading = f"{title}: mean over datasets of AUROC and R2 in percent, published beside ours."
    made = Table(f"reproduce-{name}", heading, HEADER, tuple(panels), tuple(notes), n_labels=2)
    return Section(f"reproduce-{name}", f"{title} beside ours", (made,), found)


def _cells(r: object) -> tuple[Cell, ...]:
    v = r._asdict()  # type: ignore[attr-defined]
    numbers = [v[key] for key in ("base", "cheatt", "difference", "median_difference")]
    said = {"printed": "published", "published": "published, these", "ours": "ours"}
    return (
        Cell(v["host"]),
        Cell(said[v["source"]]),
        Cell(str(v["n_datasets"])),
        *(Cell(fixed(x, 1)) for x in numbers),
    )
