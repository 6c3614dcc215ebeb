"""NPT's Table 13: mean ranks of its eight variants on small data (Kossen et al. 2021, C.1.2).

The variants are the eight trials of NPT's search on a small dataset, known by their configurations.
On each fold they are ranked by the test rows' negative log-likelihood from 0, so that a dataset's
mean ranks sum to 28.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pandas as pd

from ....models import registry
from ....reports.evidence import Evidence
from ....reports.output import escape
from ....reports.output.tables import Panel, Section, TableCell
from ....reports.reproduction.published_table import PublishedTable
from ....reports.statistics.ranking import ranks
from ....sweeps.study_state import TUNE
from ..paper_file import Paper
from ..rank_tables import figures_section, figures_table, with_error

VARIANTS = (  # the published names, in the order of the space `npt`
    "base", "layers-16", "heads-16", "layers-16-heads-16", "p-target-0.1", "p-target-0.5",
    "p-feature-0.2", "cosine-cyclic",
)  # fmt: skip
SPACES = ("npt", "npt-long", "npt-variants-quick")  # which differ in their steps
HEADER = ("variant", "published", "ours", "folds")
NOTE = (
    "Mean rank over the folds by the test rows' negative log-likelihood, with its standard error; "
    "0 is best. Of a regression the squared error ranks alike. Counted are folds on which all "
    "eight variants, with the steps of the paper's scripts or of the budget variants-reduced, have "
    "a score."
)


def table_13(paper: Paper, table: PublishedTable) -> PublishedTable:
    """Every variant is a method, and a trial of the model NPT."""
    models = dict.fromkeys(VARIANTS, "npt")
    rows = table.rows.assign(method=table.rows["level"])
    return replace(table, rows=rows, models=models, compare=section)


def variant_ranks(evidence: Evidence, published: PublishedTable) -> pd.DataFrame:
    """A row per (dataset, variant), the best first: published and our mean rank, each with its
    standard error (NaN for one fold), and the number of folds."""
    trials = evidence.trials
    trials = trials[(trials["model"] == "npt") & (trials["stage"] == TUNE)]
    trials = trials.assign(variant=trials["config"].map(_variant_of)).dropna(subset="variant")
    found = [pd.DataFrame(columns=["dataset", "method", "published", "ours", "n_folds"])]
    for dataset, printed in published.rows.groupby("dataset", sort=False):
        mine = trials[trials["dataset"] == dataset]
        metric = "test_rmse" if (mine["task"] == "regression").all() else "test_log_loss"
        if not len(mine) or metric not in mine:
            continue
        mine = mine.drop_duplicates(["fold", "variant"])
        losses = mine.pivot(index="fold", columns="variant", values=metric)
        losses = losses.reindex(columns=list(VARIANTS)).dropna()
        if not len(losses):
            continue
        rank = pd.DataFrame(ranks(losses.to_numpy(dtype=float)) - 1.0, columns=VARIANTS)
        rows = printed.set_index("method")[["dataset", "value", "spread"]]
        rows = rows.rename(columns={"value": "published", "spread": "published_se"})
        rows = rows.assign(ours=rank.mean(), ours_se=rank.sem(), n_folds=len(rank))
        found.append(rows.rename_axis("method").reset_index().sort_values("ours", kind="stable"))
    return pd.concat(found[1:] or found, ignore_index=True)


def _variant_of(config: str) -> str | None:
    """The variant that has these settings (JSON); None where no variant of SPACES has them."""
    settings = json.loads(config or "{}")
    for space in SPACES:
        known = registry.spaces("npt", "regression")[space]["params"]["variant"]["values"]
        for name, own in zip(VARIANTS, known, strict=True):
            if own.items() <= settings.items():
                return name
    return None


def section(evidence: Evidence, published: PublishedTable) -> Section:
    """The printed mean ranks beside ours, a panel per dataset."""
    found = variant_ranks(evidence, published)
    panels = [
        Panel(tuple(_row(r) for _, r in part.iterrows()), escape.label(str(dataset)))
        for dataset, part in found.groupby("dataset", sort=False)
    ]
    heading = f"{published.title}: mean ranks of NPT's variants, published beside ours."
    notes = (NOTE, *published.notes)
    table = figures_table(evidence, published.name, heading, HEADER, panels, notes)
    remark = f"{len(found)} of {len(published.rows)} published mean ranks have one of ours."
    return figures_section(published, table, found, remark)


def _row(r: pd.Series) -> tuple[TableCell, ...]:
    sides = (with_error(r[side], r[f"{side}_se"]) for side in ("published", "ours"))
    return (TableCell(escape.label(r["method"])), *sides, TableCell(str(r["n_folds"])))
