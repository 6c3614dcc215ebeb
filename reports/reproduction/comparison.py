"""Do our numbers agree with the published ones? A paper's table beside ours, cell by cell."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ...common.text import did_you_mean
from .. import published
from ..aggregation.cells import COMPLETE, PARTIAL, cells, studies
from ..evidence import Evidence
from ..metrics import METRICS
from ..output import escape, footnotes
from ..output.files import render, write_files
from ..output.tables import Panel, Section, fixed
from ..output.tables import ReportTable as Table
from ..output.tables import TableCell as Cell
from ..sections import seeds
from ..statistics.ranking import TIE_TOLERANCE, standard_error
from . import coverage, means, medians, orders

WITHIN = 2.0  # joint standard errors

# Methods of the papers by our models' names, where they differ.
MODELS = {
    "npt": {"mlp": "mlp-sklearn"},
    "hopular": {"mlp": "mlp-sklearn", "logistic-regression": "linear"},
    "cheatt": {f"{host}-cheatt-chebyshev": f"{host}-cheatt" for host in means.HOSTS},
}
# Datasets of the papers by our cards' names, where they differ.
DATASETS = {
    "cheatt": {
        "income": "adult-complete",
        "default": "credit-default",
        "phishing": "telco-churn",
        "alphabank": "bank-additional",
        "medicalcost": "medical-cost",
        "superconductivity": "superconductivity-4k",
    }
}
PAPERS = {"npt": "NPT", "hopular": "Hopular", "rtdl": "RTDL", "cheatt": "CheAtt"}
RANKED = (
    "Published: computed from the table's values, the one that is not legible ranked last, which "
    "gives the medians that the paper prints."
)


@dataclass(frozen=True)
class Reproduction:
    """One published table that a run can stand beside.

    shape: `cells` for a value a dataset and method, `ensembles` for the value of ensembles of
    evaluation seeds, `medians` for a median rank a method, `means` for means over datasets of the
    cells of the table `of`.
    replicates: the published error is over runs of one split; ours is over the evaluation seeds.
    missing: published values that could not be read, (dataset, method, published metric): why.
    ranked: what to say under a table of median ranks; without it there is none.
    unpublished: of this ensemble size, methods of the authors' repository join that it lacks.
    only: the end of the names of the methods wanted. named: the title, where it is not the table's.
    narrow: the suite holds datasets that the table has not; they are not run for it.
    stds: standard deviations are shown as the paper prints them (`cut` off after two digits, or
    with two `decimals`), and the orders of the methods stand below; under `cut` also the rule of
    `seeds`. level: what the published level of a factor adds to a method's name; such methods are
    rows of the suite that run for this table alone. said: one more note.
    """

    paper: str
    table: str
    metric: str  # ours
    unit: float  # what our value is multiplied by to be in the published unit
    configs: str = ""  # the paper's table that counts configurations
    others: Mapping[str, tuple[str, float]] = field(default_factory=dict)  # by published metric
    shape: str = "cells"
    replicates: bool = False
    missing: Mapping[tuple[str, str, str], str] = field(default_factory=dict)
    ranked: str = ""
    unpublished: str = ""
    only: str = ""
    named: str = ""
    narrow: bool = False
    stds: str = ""
    level: str = ""
    of: str = ""
    said: str = ""

    @property
    def title(self) -> str:
        return self.named or f"{PAPERS[self.paper]}, Table {self.table}"

    @property
    def label(self) -> str:
        """Our metrics with their units."""
        pairs = [(self.metric, self.unit), *self.others.values()]
        units = {1.0: "", 100.0: ", %"}
        return " and ".join(METRICS[m].label + units.get(unit, f" × {unit:g}") for m, unit in pairs)

    def measured(self, published_metric: str) -> tuple[str, float]:
        """(our metric, its unit) of a published one."""
        return self.others.get(published_metric, (self.metric, self.unit))


RTDL = Reproduction(
    "rtdl",
    "2",
    "accuracy",
    1.0,
    others={"rmse": ("rmse", 1.0)},
    replicates=True,
    narrow=True,
    stds="cut",
)
CHEATT = Reproduction(
    "cheatt",
    "4",
    "roc_auc",
    100.0,
    others={"r2": ("r2", 100.0)},
    replicates=True,
    stds="decimals",
    said="telco-churn is what the paper's counts say of its Phishing, which cannot be the set that "
    "it cites. bank-additional and superconductivity-4k stand in for its Alphabank and its "
    "Superconductivity: other rows, a fifth of them for the latter. The AUROC of several classes "
    "is the mean of one against the rest, which the paper does not say.",
)
CONTROL = "no published value: two free coefficients, a control that the paper lacks"

REPRODUCTIONS: dict[str, Reproduction] = {
    "npt-table-8": Reproduction("npt", "8", "accuracy", 100.0, "16"),
    "npt-table-9": Reproduction("npt", "9", "log_loss", 1.0, "16"),
    "npt-table-10": Reproduction("npt", "10", "roc_auc", 1.0, "16"),
    "npt-table-11": Reproduction("npt", "11", "rmse", 1.0, "16"),
    "npt-table-12": Reproduction("npt", "12", "mse", 1.0, "16"),
    "hopular-table-1": Reproduction("hopular", "1", "accuracy", 100.0, shape="medians"),
    "hopular-table-2": Reproduction(
        "hopular",
        "2",
        "accuracy",
        100.0,
        others={"mse-x1000": ("mse", 1000.0)},
        replicates=True,
        missing={
            ("sulfur", "npt", "mse-x1000"): "published: not legible; the printed median ranks hold "
            "only if it is the worst, above 1.23"
        },
        ranked=RANKED,
    ),
    "rtdl-table-2": replace(RTDL, unpublished="1"),
    "rtdl-table-3": replace(RTDL, table="3", shape="ensembles", unpublished="5"),
    "rtdl-table-6": replace(
        RTDL, only="-default", named="RTDL, default configurations (Table 6) in Table 2"
    ),
    "rtdl-table-19": replace(RTDL, table="19"),
    "cheatt-table-1": replace(CHEATT, table="1", shape="means", of="4"),
    "cheatt-table-2": replace(
        CHEATT,
        table="2",
        narrow=True,
        level="-k{}",
        missing={
            (dataset, f"{host}-cheatt-k1", metric): CONTROL
            for dataset, metric in (
                ("bank-additional", "auroc"),
                ("contraceptive", "auroc"),
                ("medical-cost", "r2"),
            )
            for host in means.HOSTS
        },
    ),
    "cheatt-table-3": replace(CHEATT, table="3", narrow=True, level="-{}"),
    "cheatt-table-4": CHEATT,
}


def reproduction(name: str) -> Reproduction:
    """The reproduction of that name; ValueError with a suggestion."""
    if name in REPRODUCTIONS:
        return REPRODUCTIONS[name]
    hint = did_you_mean(name, REPRODUCTIONS)
    raise ValueError(f"no published table {name!r}{hint}; known: {', '.join(REPRODUCTIONS)}")


def datasets_of(name: str) -> set[str]:
    """The datasets of a published table."""
    what = reproduction(name)
    return set(_load(what.paper, what.of or what.table)["dataset"])


def models_of(name: str) -> list[str]:
    """The models of a published table by our names, controls included."""
    what = reproduction(name)
    names = MODELS.get(what.paper, {})
    return list(dict.fromkeys(names.get(m, m) for m in _published(what)["method"]))


def _load(paper: str, table: str) -> pd.DataFrame:
    """A published table, its datasets by our names."""
    found = published.load(paper, table)
    return found.assign(dataset=found["dataset"].replace(DATASETS.get(paper, {})))


def compare(evidence: Evidence, name: str, *, models: Mapping[str, str] | None = None) -> Section:
    """Published beside ours, with the difference in joint standard errors.

    `models` maps the paper's methods to our models where their names differ (MODELS by default).
    A difference has no size in standard errors where either side rests on one split, or where our
    folds overlap; the frame's `note` says which. Published standard deviations are divided by
    sqrt(n). Raises ValueError for an unknown table.
    """
    what = reproduction(name)
    names = dict(MODELS.get(what.paper, {}) if models is None else models)
    if what.shape == "medians":
        return medians.section(evidence, name, what.title, published.load("hopular", "1"), names)
    frame = _frame(evidence, what, names)
    if what.shape == "means":
        printed = published.load(what.paper, what.table)
        return means.section(evidence, name, what.title, printed, frame, what.said)
    table = _table(evidence, name, what, frame)
    printed = _printed(frame)
    found = printed["ours"].notna()
    within = printed.loc[found, "within_two"]
    remarks = (
        f"{int(found.sum())} of {len(printed)} published cells have a value of ours; of "
        f"{int(within.notna().sum())} with standard errors on both sides, "
        f"{int((within == True).sum())} lie within two joint standard errors.",  # noqa: E712
    )
    tables = [table]
    if what.ranked:
        theirs = medians.of_table(published.load(what.paper, what.table))
        ranked = f"{name}-ranks"
        tables.append(medians.table(evidence, ranked, what.title, theirs, names, what.ranked)[0])
    if what.stds:
        order = orders.table(name, what.title, frame)
        tables += [order] if order else []
    if what.stds == "cut":
        rule = seeds.section(evidence, set(frame["dataset"])).tables
        for part in rule:  # the notes that stand above already are left out
            own = tuple(note for note in part.notes if note not in table.notes)
            tables.append(replace(part, name=f"{name}-{part.name}", notes=own))
    return Section(f"reproduce-{name}", f"{what.title} beside ours", tuple(tables), frame, remarks)


SPLITS = (
    "After each mean: its standard error over splits (published standard deviations are divided by "
    "√n; ours s/√n, ddof 1)."
)
REPLICATES = (
    "After each mean: its standard error over replicates, ours over evaluation seeds on one split "
    "(s/√n, ddof 1); it says nothing of another split."
)
EXPECTED = (
    f"The folds are not the paper's own, so differences up to {WITHIN:g} joint SE are expected."
)
JOINT = " Joint SE: the root of the sum of their squares."
STDS = {
    kind: f"After each mean: its standard deviation over runs of one split, {how}; it says nothing "
    "of another split. Joint SE: from s/√n, ddof 1 for ours, the published std/√n for theirs."
    for kind, how in (
        ("cut", "population and cut off after two digits as the paper prints it"),
        ("decimals", "ours population, the paper does not say of which kind"),
    )
}
OTHER_SPLIT = (
    " The split is not the paper's own, which is in none of these errors: more than "
    f"{WITHIN:g} joint SE is no failure."
)
UNPUBLISHED = "not in the published table: from the authors' repository"


def write_comparison(evidence: Evidence, name: str, out: str | Path) -> list[Path]:
    """Write reproduce-<name>.tex, .md and .csv to the folder `out`; return their paths."""
    section = compare(evidence, name)
    remarks = (*section.remarks, *coverage.said(evidence, reproduction(name).shape, section.frame))
    return write_files(render(replace(section, remarks=remarks)), out)


def _frame(evidence: Evidence, what: Reproduction, models: Mapping[str, str]) -> pd.DataFrame:
    """One row a published cell, in the paper's order."""
    theirs = _published(what)
    configs = _configs(what)
    table = studies(evidence)
    ours: dict[tuple[str, str, str], Any] = {}
    for metric in dict.fromkeys(what.measured(m)[0] for m in theirs["metric"]):
        mine = table[table["task"].isin(METRICS[metric].tasks)]
        block = cells(evidence, mine, metric) if f"test_{metric}" in mine else cells_of_none()
        if what.replicates and len(block):
            block = _over_seeds(evidence, what, block, metric)
        ours |= {(metric, r.dataset, r.model): r for r in block.itertuples(index=False)}
    trials = table.groupby(["dataset", "model"], sort=True)["n_recorded"].agg(["min", "max"])
    rows = []
    for cell in theirs.itertuples(index=False):
        model = models.get(cell.method, cell.method)
        metric, unit = what.measured(cell.metric)
        own = ours.get((metric, cell.dataset, model))
        row = {
            "paper": what.paper,
            "table": what.table,
            "dataset": cell.dataset,
            "method": cell.method,
            "model": model,
            "metric": metric,
            "published": cell.value,
            "published_se": _published_error(cell),
            "published_n": int(cell.n_repeats) if not math.isnan(cell.n_repeats) else None,
            "published_configs": configs.get((cell.dataset, cell.method)),
            "published_std": cell.spread if cell.spread_kind == "std" else None,
        }
        found = _ours(evidence, what, cell, own, row["published_se"], unit)
        why = what.missing.get((cell.dataset, cell.method, cell.metric), "")
        if cell.table != (what.of or what.table):
            why = UNPUBLISHED
        rows.append({**row, **found, "note": "; ".join(filter(None, (why, str(found["note"]))))})
        if own is not None:
            low, high = trials.loc[(cell.dataset, model)]
            rows[-1]["trials"] = str(low) if low == high else f"{low} to {high}"
    columns = """paper table dataset method model metric published published_se published_n
        published_configs ours ours_se n_folds n_planned trials difference joint_se
        difference_in_joint_se within_two note""".split()
    if what.stds:
        columns[7:7] = ["published_std"]
        columns[columns.index("n_folds") : columns.index("n_folds")] = ["ours_std", "n_runs"]
    return pd.DataFrame(rows, columns=columns)


def cells_of_none() -> pd.DataFrame:
    """An empty frame, for evidence without the metric."""
    return pd.DataFrame(columns=["dataset", "model"])


def _with_missing(theirs: pd.DataFrame, what: Reproduction) -> pd.DataFrame:
    """The published rows, and at each dataset's end one without a value for what is missing."""
    for dataset, method, metric in what.missing:
        like = theirs[(theirs["dataset"] == dataset) & (theirs["metric"] == metric)].iloc[-1]
        row = {**like, "method": method, "value": np.nan, "spread": np.nan, "note": ""}
        at = int(str(like.name)) + 1
        theirs = pd.concat([theirs[:at], pd.DataFrame([row]), theirs[at:]], ignore_index=True)
    return theirs


def _published(what: Reproduction) -> pd.DataFrame:
    """The rows that are to stand beside ours, in the paper's order."""
    theirs = _load(what.paper, what.of or what.table)
    if what.level:
        levels = theirs["level"].map(what.level.format)
        theirs = theirs.assign(method=theirs["method"] + levels)
    theirs = _with_missing(theirs, what)
    if what.unpublished:
        more = published.load(what.paper, "repo_means")
        tuned = (more["configuration"] == "tuned") & (more["ensemble_size"] == what.unpublished)
        more = more[tuned & ~more["method"].isin(set(theirs["method"]))]
        theirs = pd.concat([theirs, more[[c for c in theirs if c in more]]], ignore_index=True)
    return theirs[[str(m).endswith(what.only) for m in theirs["method"]]]


def _over_seeds(
    evidence: Evidence, what: Reproduction, block: pd.DataFrame, metric: str
) -> pd.DataFrame:
    """The cells with the error and the population standard deviation (`std`) over the runs of their
    one fold: evaluation seeds, or ensembles of them, whose mean is the cell's then. Where there are
    several folds, or one run, there is none; without ensembles there is no cell of them."""
    runs = evidence.trials[evidence.trials["stage"] == "eval"]
    if what.shape == "ensembles":
        nothing = pd.DataFrame(columns=["dataset", "model", f"test_{metric}"])
        runs = nothing if evidence.ensembles is None else evidence.ensembles
        if f"test_{metric}" not in runs:
            runs = nothing
    scores = runs.groupby(["dataset", "model"], sort=True)[f"test_{metric}"]
    found = {key: np.asarray(v, dtype=float) for key, v in scores}
    rows = []
    for r in block.itertuples(index=False):
        values = found.get((r.dataset, r.model), np.empty(0))
        known = len(values) > 0 and bool(np.isfinite(values).all())
        if what.shape == "ensembles" and not (known and r.n_planned == 1):
            continue
        whole = r.n_planned == 1 and len(values) > 1 and known
        mean = float(values.mean()) if what.shape == "ensembles" else r.mean
        error = float(standard_error(values)) if whole else math.nan
        std = seeds.population_std(values) if whole else math.nan
        rows.append({**r._asdict(), "mean": mean, "spread": error, "std": std, "n": len(values)})
    return pd.DataFrame(rows, columns=[*block.columns, "std", "n"])


def _configs(what: Reproduction) -> dict[tuple[str, str], int]:
    if not what.configs:
        return {}
    counts = published.load(what.paper, what.configs)
    keys = zip(counts["dataset"], counts["method"], strict=True)
    return {k: int(v) for k, v in zip(keys, counts["value"], strict=True) if not math.isnan(v)}


def _published_error(cell: Any) -> float | None:
    """Standard error of a published cell, or None."""
    spread, kind, n = cell.spread, cell.spread_kind, cell.n_repeats
    if math.isnan(spread) or kind not in ("sem", "std"):
        return None
    if kind == "sem":
        return float(spread)
    return float(spread) / math.sqrt(n) if n and not math.isnan(n) else None


def _ours(
    evidence: Evidence,
    what: Reproduction,
    cell: Any,
    own: Any,
    error: float | None,
    unit: float,
) -> dict[str, object]:
    if own is None:
        return {"note": "not in this run"}
    state, n = own.state, own.n_folds
    counts = {"n_folds": n, "n_planned": own.n_planned}
    if state not in (COMPLETE, PARTIAL):
        return {**counts, "note": f"ours: {state} {own.cause}".strip()}
    ours = unit * own.mean
    spread = unit * own.spread
    overlaps = own.dataset in evidence.overlapping and not what.replicates
    ours_error = None if math.isnan(spread) or overlaps else spread
    difference = ours - cell.value
    found = {**counts, "ours": ours, "ours_se": ours_error, "difference": difference}
    if what.stds:
        found |= {"ours_std": None if math.isnan(own.std) else unit * own.std, "n_runs": own.n}
    notes = [f"ours: {n} of {own.n_planned} folds"] if state == PARTIAL else []
    if error is None:
        notes.append("n/a: no published standard error")
    if ours_error is None:
        why = "has no replicates" if what.replicates else f"rests on {n} fold"
        notes.append("n/a: our folds overlap" if overlaps else f"n/a: ours {why}")
    if error is not None and ours_error is not None:
        joint = math.hypot(error, ours_error)
        if joint > TIE_TOLERANCE * abs(ours):  # seeds that change nothing leave rounding
            size = difference / joint
            found.update(joint_se=joint, difference_in_joint_se=size)
            found["within_two"] = bool(abs(size) <= WITHIN)
        else:
            notes.append("n/a: both standard errors are 0")
    return {**found, "note": "; ".join(notes)}


def _printed(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of the paper, without controls of ours."""
    return frame[~frame["note"].str.contains(CONTROL, regex=False)]


def _table(evidence: Evidence, name: str, what: Reproduction, frame: pd.DataFrame) -> Table:
    rows = frame[frame["ours"].notna()]
    header = ["dataset", "method", "published", "ours", "ours less theirs", "in joint SE"]
    header += ["within two", "configs theirs", "trials ours", "folds"]
    panels = [
        Panel(tuple(_row(r, part, stds=what.stds) for r in part.itertuples(index=False)))
        for _, part in rows.groupby("dataset", sort=True)
    ]
    if not panels:
        reason = "n/a: no published cell of this table has a value of ours"
        panels = [Panel(((Cell(reason, span=len(header)),),))]
    title = f"{what.title}: published test {what.label} beside ours."
    absent = sorted(set(frame["dataset"]) - set(rows["dataset"]))
    methods = sorted(set(frame["method"]) - set(rows["method"]))
    unprinted = sorted({r.method for r in rows.itertuples() if UNPUBLISHED in r.note})
    notes = [
        *footnotes.setting(evidence),
        *footnotes.protocols(evidence, sorted(set(rows["dataset"]))),
        (STDS[what.stds] if what.stds else (REPLICATES if what.replicates else SPLITS) + JOINT)
        + (OTHER_SPLIT if what.stds else f" {EXPECTED}"),
        *([what.said] if what.said else []),
        f"Covered: {len(_printed(rows))} of {len(_printed(frame))} published cells.",
        *([f"Datasets not in this run: {footnotes.join(absent)}."] if absent else []),
        *([f"Methods not in this run: {footnotes.join(methods)}."] if methods else []),
        "Configs theirs: configurations searched in the paper; trials ours: per fold"
        + (", evaluation seeds included." if what.stds else "."),
        *(
            f"{escape.label(d)}, {escape.label(m)}: {why}."
            for (d, m, _), why in what.missing.items()
            if why != CONTROL
        ),
        *([f"k1: {CONTROL}."] if CONTROL in what.missing.values() else []),
        *([f"{footnotes.join(unprinted)}: {UNPUBLISHED}."] if unprinted else []),
    ]
    return Table(f"reproduce-{name}", title, tuple(header), tuple(panels), tuple(notes), n_labels=2)


def _row(r: Any, part: pd.DataFrame, *, stds: str) -> tuple[Cell, ...]:
    d = r._asdict()
    printed = [
        p for p, n in zip(part["published"], part["note"], strict=True) if UNPUBLISHED not in n
    ]
    decimals = _printed_decimals(printed)
    size = d["difference_in_joint_se"]
    known = size is not None and not math.isnan(size)
    within = ("yes" if d["within_two"] else "no") if known else "n/a"
    configs = d["published_configs"]
    theirs, ours = (_maybe(d[f"{side}_se"], decimals) for side in ("published", "ours"))
    if stds:
        both = (d[f"{side}_std"] for side in ("published", "ours"))
        theirs, ours = (_truncated(s) if stds == "cut" else _maybe(s, 2) for s in both)
    return (
        Cell(escape.label(d["dataset"])),
        Cell(escape.label(d["method"])),
        Cell(_maybe(d["published"], decimals) or "n/a", theirs),
        Cell(fixed(d["ours"], decimals), ours),
        Cell(_maybe(d["difference"], decimals) or "n/a"),
        Cell(fixed(size, 1) if known else "n/a"),
        Cell(within, bold=within == "no"),
        Cell("n/a" if configs is None or math.isnan(configs) else f"{configs:.0f}"),
        Cell(str(d["trials"])),
        Cell(f"{d['n_folds']:.0f}/{d['n_planned']:.0f}"),
    )


def _printed_decimals(values: list[float]) -> int:
    """Decimals that the paper printed: the most that any of the values needs, at least one."""
    return max([1, *(len(repr(v).partition(".")[2]) for v in values if abs(v) < 1e6)])


def _maybe(value: float | None, decimals: int) -> str:
    return "" if value is None or math.isnan(value) else fixed(value, decimals)


def _truncated(std: float | None) -> str:
    return "" if std is None or math.isnan(std) else seeds.truncated(std)
