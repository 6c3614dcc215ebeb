"""The order of the methods on each dataset, published beside ours."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ..aggregation.ranking_rules import ranked
from ..metrics import METRICS
from ..output import escape
from ..output.tables import Panel, ReportTable, TableCell, fixed
from .own_rows import is_own
from .published_table import MARK, OWN

HEADER = ("method", "rank, published", "rank, ours", "gap to best, published", "ours")
FEWEST = 3  # methods on a dataset, for an order to mean something


def orders(frame: pd.DataFrame) -> pd.DataFrame:
    """A row per (dataset, method) with a value on both sides, and per model that the paper lacks,
    in our order: rank and distance to the best among those methods, published and ours (`rho`: the
    correlation of the ranks that have both). frame: a `comparison_frame`."""
    known = frame["published"].notna() | is_own(frame)
    both = frame[known & frame["ours"].notna()]
    rows = []
    for _, part in both.groupby("dataset", sort=True):
        if part["published"].notna().sum() < FEWEST:
            continue
        metric = METRICS[str(part["metric"].iloc[0])]
        found = part[["dataset", "method"]].reset_index(drop=True).assign(own=is_own(part).values)
        for side in ("published", "ours"):
            losses = metric.sign * part[side].to_numpy(dtype=float)
            found[f"rank_{side}"] = ranked(losses[None], "available")[0]
            found[f"gap_{side}"] = losses - np.nanmin(losses)
        theirs = found.loc[~found["own"], ["rank_published", "rank_ours"]].rank()
        found["rho"] = theirs["rank_published"].corr(theirs["rank_ours"])  # of ranks: Spearman's
        rows.append(found.sort_values(["rank_ours", "method"], kind="stable"))
    columns = "dataset method own rank_published gap_published rank_ours gap_ours rho".split()
    return pd.concat(rows, ignore_index=True)[columns] if rows else pd.DataFrame(columns=columns)


def table(name: str, title: str, frame: pd.DataFrame) -> ReportTable | None:
    """Both orders, a panel per dataset; None where no dataset has three methods in common."""
    found = orders(frame)
    if not len(found):
        return None
    panels = []
    for dataset, part in found.groupby("dataset", sort=True):
        decimals = 4 if part[["gap_published", "gap_ours"]].max().max() < 0.1 else 3
        rho = part["rho"].iloc[0]
        shown = "n/a" if np.isnan(rho) else f"{rho:.2f}".replace("-", "−")
        panels.append(
            Panel(
                tuple(
                    (
                        TableCell(escape.label(r.method), mark=MARK if r.own else ""),
                        TableCell("–" if r.own else f"{r.rank_published:g}"),
                        TableCell(f"{r.rank_ours:g}"),
                        TableCell("–" if r.own else fixed(r.gap_published, decimals)),
                        TableCell(fixed(r.gap_ours, decimals)),
                    )
                    for r in part.itertuples(index=False)
                ),
                f"{escape.label(str(dataset))}: Spearman's correlation of the orders {shown}",
            )
        )
    notes = (
        "Among the methods that both have, by mean; 1 is best, equal values share their average "
        "rank. Gaps in the metric's own unit. Ranks of means that differ by less than their "
        "standard deviations are an accident of the seeds.",
        *([f"{MARK} {OWN}."] if found["own"].any() else []),
    )
    return ReportTable(
        f"{name}-order", f"{title}: the order of the methods", HEADER, tuple(panels), notes
    )
