"""A published table as it is printed, and seconds and memory of a run beside the published ones."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from ...reports.aggregation.cells import counting
from ...reports.evidence import Evidence
from ...reports.output import escape, footnotes
from ...reports.output.tables import Panel, ReportTable, Section, TableCell, decimals_for, fixed
from ...reports.reproduction.comparison_table import NOTHING
from ...reports.reproduction.published_table import MARK, OWN, PublishedTable
from .paper_file import Cost
from .rank_tables import figures_section, figures_table

DIGITS = 3  # significant ones of ours and of values that have none of their own
HEADER = ("method", "what", "unit", "published", "ours", "ours / theirs")
WHAT = {  # of a dataset and model, the mean over its folds
    "search_s": "wall seconds of fits and predictions of all tuning trials, one after another",
    "fit_s": "mean wall seconds of the fits whose scores count",
    "peak_ram_mb": "the largest memory of a process",
    "peak_vram_mb": "the largest memory of a trial's tensors on the GPU",
    "step_s": "seconds of a training step in the median trial",
}


def measured(evidence: Evidence) -> pd.DataFrame:
    """The costs of WHAT by (dataset, model): times are means over the folds, memory the maximum."""
    trials = evidence.trials.assign(counts=counting(evidence))
    trials["search_s"] = trials["fit_s"].add(trials["predict_s"], fill_value=0.0)
    by, folds = ["dataset", "model"], trials.groupby(["dataset", "model"])["fold"].nunique()
    tuned = trials[~evidence.having("stage", "eval")]
    return pd.DataFrame(
        {
            "search_s": tuned.groupby(by)["search_s"].sum(min_count=1) / folds,
            "fit_s": trials[trials["counts"]].groupby(by)["fit_s"].mean(),
            **{name: trials.groupby(by)[name].max() for name in ("peak_ram_mb", "peak_vram_mb")},
            "step_s": trials.groupby(by)["step_s"].median(),
        }
    )


def section(costs: Mapping[str, Cost], evidence: Evidence, published: PublishedTable) -> Section:
    """Published costs beside ours, a panel per dataset. costs: by their published names."""
    ours = measured(evidence)

    def of(dataset: str, model: str, method: str, cost: Cost) -> float:
        name = "fit_s" if method in cost.selected else cost.ours
        here = (dataset, model) in ours.index
        value = float(ours.loc[(dataset, model), name]) if here else math.nan
        return value / of(dataset, cost.over, "", Cost(ours=cost.ours)) if cost.over else value

    rows = []
    for r in published.rows.itertuples(index=False):
        cost, model = costs.get(r.metric), published.model_of(r.method)
        value = cost.unit * of(r.dataset, model, r.method, cost) if cost else math.nan
        rows.append(
            {
                "dataset": r.dataset,
                "method": r.method,
                "metric": r.metric,
                "unit": _unit(published, r),
                "published": r.value,
                "ours": value,
                "ratio": value / r.value if r.value else math.nan,
                "decimals": int(r.decimals),
                "note": r.remark,
            }
        )
    frame = pd.DataFrame(rows)
    here = frame[frame.groupby("dataset")["ours"].transform("count") > 0]
    panels = [
        Panel(tuple(_row(r) for r in part.to_dict("records")), escape.label(str(dataset)))
        for dataset, part in here.groupby("dataset", sort=False)
    ]
    used = dict.fromkeys(cost.ours for cost in costs.values())
    alone = {m for cost in costs.values() for m in cost.selected}
    if alone:
        used |= {"fit_s": None}
    only = f" (of {footnotes.join(sorted(alone))} alone)" if alone else ""
    notes = [
        *(f"Ours, {name}{only * (name == 'fit_s')}: {WHAT[name]}." for name in used),
        "Other hardware, and the budget of this run: the ratio within a side says more than that "
        "between the sides.",
        *([f"{MARK} {OWN}."] if (here["note"] == OWN).any() else []),
        *published.notes,
    ]
    title = f"{published.title}: published seconds and memory beside ours."
    table = figures_table(evidence, published.name, title, HEADER, panels, notes, n_labels=3)
    n = int((frame["ours"].notna() & frame["published"].notna()).sum())
    remark = f"{n} of {frame['published'].notna().sum()} published values have one of ours."
    return figures_section(published, table, frame.drop(columns="decimals"), remark)


def _unit(published: PublishedTable, row: Any) -> str:
    """The unit that the note of a published value names; that of its metric for a row without."""
    notes = published.rows.loc[published.rows["metric"] == row.metric, "note"]
    named = (str(note).partition("unit=")[2].partition(";")[0] for note in (row.note, *notes))
    return next(filter(None, named), "")


def _row(r: Mapping[str, Any]) -> tuple[TableCell, ...]:
    return (
        TableCell(escape.label(r["method"]), mark=MARK if r["note"] == OWN else ""),
        TableCell(r["metric"].replace("-", " ")),
        TableCell(escape.label(r["unit"])),
        TableCell("–" if math.isnan(r["published"]) else fixed(r["published"], r["decimals"])),
        *(_number(r[name]) for name in ("ours", "ratio")),
    )


def _number(value: float) -> TableCell:
    if math.isnan(value):
        return TableCell("–")
    return TableCell(fixed(value, decimals_for([value], DIGITS)))


def as_printed(published: pd.DataFrame, name: str, title: str, notes: tuple[str, ...]) -> Section:
    """The rows of a published file as a table, without ours."""
    keys = [c for c in ("dataset", "method", "level", "metric") if c in published]
    shown = published.drop(columns=["decimals", "paper", "table", "direction"], errors="ignore")
    if "value" in shown:
        shown = shown[[*keys, *(c for c in ("value", "spread") if shown[c].notna().any()), "note"]]
    shown = shown[[c for c in shown if shown[c].astype(str).str.strip().ne("").any()]]
    digits = published["decimals"] if "decimals" in published else [0] * len(published)

    def text(column: str, value: Any, decimals: int) -> str:
        if isinstance(value, str):
            return escape.label(value) if column in keys else escape.one_line(value)
        return "–" if math.isnan(value) else fixed(value, decimals)

    rows = tuple(
        tuple(TableCell(text(c, row[c], n)) for c in shown)
        for row, n in zip(shown.to_dict("records"), digits, strict=True)
    )
    panel = Panel(rows or ((TableCell(NOTHING, span=max(1, shown.shape[1])),),))
    table = ReportTable(name, f"{title}, as published.", tuple(shown), (panel,), notes, len(keys))
    return Section(name, f"{title}, as published", (table,), shown)
