"""The printed table of published values beside ours, with its notes."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import pandas as pd

from ..evidence import Evidence
from ..metrics import METRICS
from ..output import escape, footnotes
from ..output.tables import Panel, ReportTable, TableCell, fixed
from ..sections import seeds
from .comparison_frame import WITHIN, printed_cells
from .published_table import MARK, OWN, PublishedTable

SPLITS = (
    "After each mean: its standard error over splits (published standard deviations are divided by "
    "√n; ours s/√n, ddof 1)."
)
REPLICATES = (
    "After each mean: its standard error over replicates, ours over evaluation seeds on one split "
    "(s/√n, ddof 1); it says nothing about another split."
)
EXPECTED = (
    f"The folds are not the paper's own, so differences up to {WITHIN:g} joint SE are expected."
)
JOINT = " Joint SE: the root of the sum of their squares."
ROUNDED = (
    "Within two: of any value that rounds to the published digits, so that ours with the same "
    "digits is never outside."
)
DEVIATIONS = {
    kind: f"After each mean: its standard deviation over runs of one split, {how}; it says nothing "
    "about another split. Joint SE: from s/√n, ddof 1 for ours, the published std/√n for theirs."
    for kind, how in (
        ("cut", "population (ddof 0), truncated to two digits, as in the paper"),
        ("decimals", "ours population, the paper does not say of which kind"),
    )
}
NOTHING = "n/a: no published cell of this table has a value of ours"
STAND_IN = "‡"  # marks a dataset with other rows than the paper's
OTHER_SPLIT = (
    " The split is not the paper's own, which is in none of these errors: more than "
    f"{WITHIN:g} joint SE is no failure."
)
FOREIGN = " Whether the rows are the paper's own is not known."


def comparison_table(evidence: Evidence, what: PublishedTable, frame: pd.DataFrame) -> ReportTable:
    """The printed table: a panel per dataset, and the notes. frame: a `comparison_frame`."""
    rows = frame[frame["ours"].notna()]
    header = ["dataset", "method", "published", "ours", "ours less theirs", "in joint SE"]
    header += ["within two", "configs theirs", "trials ours", "folds"]
    panels = [
        Panel(
            tuple(_row(r, part, what, evidence) for r in part.itertuples(index=False)),
            _metrics_of(part, what),
        )
        for _, part in rows.groupby("dataset", sort=True)
    ]
    if not panels:
        panels = [Panel(((TableCell(NOTHING, span=len(header)),),))]
    title = f"{what.title}: published test {what.label} beside ours."
    extra = {
        remark: sorted({r.method for r in rows.itertuples() if remark in r.note})
        for remark in what.extra
    }
    n_ours, n_printed = len(printed_cells(what, rows)), len(printed_cells(what, frame))
    notes = [
        *footnotes.setting(evidence),
        *footnotes.protocols(evidence, sorted(set(rows["dataset"]))),
        (
            DEVIATIONS[what.deviations]
            if what.deviations
            else (REPLICATES if what.replicates else SPLITS) + JOINT
        )
        + _other_rows(evidence, what),
        *what.notes,
        f"Covered: {n_ours} of {n_printed} published cells.",
        ROUNDED,
        *_unsized(rows[rows["published"].notna()]),
        *_absences(evidence, what, frame),
        "Configs theirs: configurations searched in the paper; trials ours: per fold"
        + (", evaluation seeds included." if what.deviations else "."),
        *_missing_notes(evidence, what),
        *(f"{escape.label(m)}, planned absence: {why}." for m, why in what.absent.items()),
        *stand_in_notes(what, set(rows["dataset"])),
        *(f"{footnotes.join(names)}: {remark}." for remark, names in extra.items() if names),
    ]
    name = f"reproduce-{what.name}"
    table = ReportTable(name, title, tuple(header), tuple(panels), tuple(notes), n_labels=2)
    return table.without_same("configs theirs", "trials ours", "folds")


def _metrics_of(part: pd.DataFrame, what: PublishedTable) -> str:
    """Title of a dataset's rows in a table of several metrics: the metrics of these rows."""
    if len(what.metrics) == 1:
        return ""
    here = dict.fromkeys(part["metric"])
    return " and ".join(
        f"{what.metric_label(name)} {footnotes.arrow(METRICS[name].direction)}" for name in here
    )


def _other_rows(evidence: Evidence, what: PublishedTable) -> str:
    """What is to be kept in mind about the rows that ours were scored on."""
    if evidence.facts.foreign:
        return FOREIGN
    return OTHER_SPLIT if what.replicates else f" {EXPECTED}"


def _unsized(rows: pd.DataFrame) -> list[str]:
    """Why differences have no size in standard errors: a note a reason, with its datasets."""
    found: dict[str, set[str]] = {}
    for row in rows.itertuples(index=False):
        for reason in str(row.note).split("; "):
            if reason.startswith("n/a: "):
                found.setdefault(reason, set()).add(str(row.dataset))
    return [f"{reason} ({footnotes.join(sorted(names))})." for reason, names in found.items()]


def _absences(evidence: Evidence, what: PublishedTable, frame: pd.DataFrame) -> list[str]:
    """Sentences that name datasets and methods without a value of ours: absent from the run, run
    without ensembles, or without a score."""
    rows = frame[frame["ours"].notna()]
    lacking = "ensembles" if what.shape == "ensembles" else "a score of this table"
    notes = []
    for column, key, known in (
        ("dataset", "dataset", evidence.datasets()),
        ("method", "model", evidence.models),
    ):
        planned = frame["method"].isin(list(what.absent))  # named with their reasons below
        rest = frame[~frame[column].isin(set(rows[column])) & ~planned]
        here = rest[key].isin(known)
        title = f"{column.capitalize()}s"
        for these, text in ((rest[~here], "not in this run"), (rest[here], f"without {lacking}")):
            if len(these):
                names = footnotes.join(sorted(set(these[column])))
                notes.append(f"{title} {text}: {names}.")
    return notes


def stand_in_notes(what: PublishedTable, datasets: Collection[str]) -> list[str]:
    """Which of the datasets have other rows than the paper's, one note per dataset."""
    return [
        f"{STAND_IN} {escape.label(name)} stands in for the paper's set: {why}."
        for name, why in what.stand_ins.items()
        if name in datasets
    ]


def _missing_notes(evidence: Evidence, what: PublishedTable) -> list[str]:
    """Why published values are missing, one note per value of a dataset that ours has."""
    known, here = ("", *what.extra), set(evidence.datasets())
    return [
        f"{escape.label(r.dataset)}, {escape.label(r.method)}: {r.remark}."
        for r in what.rows.itertuples(index=False)
        if r.remark not in known and r.dataset in here
    ]


def _row(
    r: Any, part: pd.DataFrame, what: PublishedTable, evidence: Evidence
) -> tuple[TableCell, ...]:
    d = r._asdict()
    decimals = _decimals(d, part, what)
    size = d["difference_in_joint_se"]
    known = size is not None and not math.isnan(size)
    within = ("yes" if d["within_two"] else "no") if known else "n/a"
    configs = d["published_configs"]
    theirs, ours = (shown_spread(d, side, decimals, what) for side in ("published", "ours"))
    few = footnotes.few_mark(evidence, d["dataset"], d["model"])
    return (
        TableCell(
            escape.label(d["dataset"]), mark=STAND_IN if d["dataset"] in what.stand_ins else ""
        ),
        TableCell(escape.label(d["method"]), mark=MARK if OWN in d["note"] else ""),
        TableCell(_maybe(d["published"], decimals) or "n/a", theirs),
        TableCell(fixed(d["ours"], decimals), ours, mark=few),
        TableCell(_maybe(d["difference"], decimals) or "n/a"),
        TableCell(fixed(size, 1) if known else "n/a"),
        TableCell(within, bold=within == "no"),
        TableCell("n/a" if configs is None or math.isnan(configs) else f"{configs:.0f}"),
        TableCell(str(d["trials"])),
        TableCell(f"{d['n_folds']:.0f}/{d['n_planned']:.0f}"),
    )


def shown_spread(row: dict[str, Any], side: str, decimals: int, what: PublishedTable) -> str:
    """What stands after a mean of a side ("published" or "ours"): its deviation where the paper
    prints one, else its standard error."""
    if not what.deviations:
        return _maybe(row[f"{side}_se"], decimals)
    std = row[f"{side}_std"]
    return _truncated(std) if what.deviations == "cut" else _maybe(std, 2)


def _decimals(row: dict[str, Any], part: pd.DataFrame, what: PublishedTable) -> int:
    """Decimals of a row: those of its printed value. A row that this table prints no value for has
    the most of its dataset."""
    if not math.isnan(row["published"]) and not what.is_extra(row["note"]):
        return max(1, row["published_decimals"])
    both = zip(part["published_decimals"], part["note"], strict=True)
    return max([1, *(n for n, note in both if not what.is_extra(note))])


def _maybe(value: float | None, decimals: int) -> str:
    return "" if value is None or math.isnan(value) else fixed(value, decimals)


def _truncated(std: float | None) -> str:
    return "" if std is None or math.isnan(std) else seeds.truncated(std)
