"""Results over the evaluation seeds of one split (Gorishniy et al. 2021, sec. 4.3).

Means and population standard deviations over the evaluation seeds, and over disjoint ensembles of
five seeds where the evidence has them. The top models of a dataset are the best one by mean and all
that are not significantly worse.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ...common.tasks import TASKS
from ...common.text import first_few
from ..aggregation.cells import COMPLETE, STUDY, studies
from ..evidence import Evidence
from ..metrics import METRICS
from ..output import escape, footnotes
from ..output.tables import Panel, ReportTable, Section, TableCell, decimals_for, fixed, p_text
from ..statistics.ranking import snap
from ..statistics.wilcoxon import EXACT_UP_TO, rank_sum, smallest_rank_sum_p

ALPHA = 0.01  # significance level across seeds
NAME = "seeds"  # of the section
SINGLE, ENSEMBLE = "single", "ensemble"
TOO_FEW = "n too small"

Array = np.ndarray


@dataclass(frozen=True)
class Verdict:
    """One model among those of a dataset.

    n: runs. std: population standard deviation. p: one-sided p-value for being worse than the best
    by mean; None for the best itself. top: whether it is the best or not significantly worse; None
    if no p-value can be significant with so few runs.
    """

    n: int
    mean: float
    std: float
    p: float | None
    top: bool | None


def verdicts(scores: Mapping[str, Array], direction: str) -> dict[str, Verdict]:
    """The verdict on every model, {model: Verdict}; of equal best means the first by name is best.

    `scores` maps each model to its runs' scores; constant scores are allowed.
    """
    sign = -1.0 if direction == "max" else 1.0
    losses = {name: sign * np.asarray(v, dtype=np.float64) for name, v in sorted(scores.items())}
    if not losses:
        return {}
    means = snap(np.array([v.mean() for v in losses.values()]))
    best = list(losses)[int(means.argmin())]
    judged = {}
    for name, mine in losses.items():
        values = sign * mine
        mean, std = float(values.mean()), population_std(values)
        if name == best:
            judged[name] = Verdict(len(values), mean, std, None, True)
            continue
        p = rank_sum(mine, losses[best])
        reachable = smallest_rank_sum_p(len(mine), len(losses[best])) <= ALPHA
        judged[name] = Verdict(len(values), mean, std, p, p > ALPHA if reachable else None)
    return judged


def population_std(values: Array) -> float:
    """Standard deviation with ddof 0, exactly 0 where the values only differ by rounding."""
    same = len(np.unique(snap(values))) == 1
    return 0.0 if same else float(values.std())


def truncated(std: float) -> str:
    """A standard deviation as RTDL prints it: two significant digits, truncated.

    >>> truncated(0.003812), truncated(0.0199), truncated(0.0), truncated(2.56)
    ('3.8e-3', '1.9e-2', '0.0', '2.5')
    """
    if not std:
        return "0.0"
    power = math.floor(math.log10(std))
    digits = math.floor(std / 10.0**power * 10.0 + 1e-9) / 10.0
    return f"{digits:.1f}" if power == 0 else f"{digits:.1f}e{power}"


# --- the report's part ----------------------------------------------------------------------------


def has_seeds(evidence: Evidence) -> bool:
    """Whether some study has evaluation runs under two seeds or more, or ensembles of seeds."""
    runs = evidence.trials.loc[evidence.having("stage", "eval"), STUDY]
    return evidence.ensembles is not None or bool(runs.duplicated().any())


def frame(evidence: Evidence) -> pd.DataFrame:
    """One row per (dataset, fold, kind, model, metric) with the fields of Verdict.

    kind: SINGLE models, or ENSEMBLE of seeds. Studies that lack a seed are left out.
    """
    planned = studies(evidence)
    broken = planned["state"] != COMPLETE
    runs = evidence.trials[evidence.having("stage", "eval")]
    parts = {evidence.facts.kind or SINGLE: runs}
    if evidence.ensembles is not None:
        parts[ENSEMBLE] = evidence.ensembles
    rows = []
    for kind, table in parts.items():
        left_out = broken if table is evidence.ensembles else broken | (planned["n_seeds"] < 2)
        keys = pd.MultiIndex.from_frame(planned.loc[left_out, STUDY])
        table = table[~pd.MultiIndex.from_frame(table[STUDY]).isin(keys)]
        for task in [t for t in TASKS if (table["task"] == t).any()]:
            for name in evidence.test_metrics(task):
                rows += _verdict_rows(table[table["task"] == task], task, kind, name)
    columns = "dataset task fold kind model metric direction headline n mean std p_worse top"
    judged = pd.DataFrame(rows, columns=columns.split())
    heads = {task: evidence.headline(task) for task in set(judged["task"])}
    judged["headline"] = [
        heads[t] == m for t, m in zip(judged["task"], judged["metric"], strict=True)
    ]
    order = ["dataset", "fold", "headline", "metric", "kind", "model"]
    up = [True, True, False, True, False, True]
    return judged.sort_values(order, ascending=up, kind="stable").reset_index(drop=True)


def _verdict_rows(table: pd.DataFrame, task: str, kind: str, name: str) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    column, direction = f"test_{name}", METRICS[name].direction
    if column not in table:
        return rows
    for (dataset, fold), part in table.groupby(["dataset", "fold"], sort=True):
        grouped = {str(m): v.to_numpy(dtype=float) for m, v in part.groupby("model")[column]}
        known = {m: v for m, v in grouped.items() if np.isfinite(v).all()}
        for model, v in verdicts(known, direction).items():
            shared = {"dataset": dataset, "task": task, "fold": fold, "kind": kind, "model": model}
            facts = {"n": v.n, "mean": v.mean, "std": v.std, "p_worse": v.p, "top": v.top}
            rows.append({**shared, "metric": name, "direction": direction, **facts})
    return rows


def section(evidence: Evidence, printed: Mapping[str, int] | None = None) -> Section:
    """The file `seeds`: one table per task, single models and ensembles side by side.

    printed: {dataset: decimals}; then the tables have these datasets alone, and their means so many
    decimals and the metric's own unit, no percent.
    """
    judged = frame(evidence)
    if printed is not None:
        judged = judged[judged["dataset"].isin(printed)]
    tables = [
        _table(evidence, task, judged[(judged["task"] == task) & judged["headline"]], printed)
        for task in TASKS
        if (judged["task"] == task).any()
    ]
    about = "within one split, across seeds: the chosen configurations, and ensembles of them"
    return Section(NAME, "Seeds of one split", tuple(tables), judged, about=about)


HEADER = ("model", "single", "std", "n", "p", "ensemble", "std", "n", "p")
RULE = (
    f"Bold: the best mean, and every mean that is not significantly worse than it: one-sided "
    f"rank-sum test of the runs (Wilcoxon 1945), exact for up to {EXACT_UP_TO} runs of both, p > "
    f"{ALPHA:g}. The paper names only "
    "Wilcoxon's test; seeds are not paired across models. No correction for many comparisons, and "
    "the best was chosen from these same results."
)
STD = "std: population (ddof 0), truncated to two digits, as in the paper."
ENSEMBLES = (
    "Ensembles: disjoint fives of the seeds in order; averaged probabilities or predictions."
)


def _table(
    evidence: Evidence, task: str, judged: pd.DataFrame, printed: Mapping[str, int] | None
) -> ReportTable:
    name = evidence.headline(task)
    panels = []
    for (dataset, fold), part in judged.groupby(["dataset", "fold"], sort=True):
        more = judged[judged["dataset"] == dataset]["fold"].nunique() > 1
        title = escape.label(str(dataset)) + (f", fold {fold}" if more else "")
        scale = METRICS[name].factor if printed is None else 1.0
        decimals = 2 if scale != 1.0 else max(3, decimals_for(part["mean"].tolist()))
        if printed is not None:
            decimals = printed[str(dataset)]
        panels.append(Panel(tuple(_rows(evidence, part, scale, decimals)), title))
    metric = footnotes.metric_title(name)
    if printed is not None:
        metric = f"{METRICS[name].label} {footnotes.arrow(METRICS[name].direction)}"
    title = (
        f"Test {metric} on {footnotes.TASK_TITLES[task]}: mean over the "
        "evaluation seeds of one split."
    )
    notes = [
        *footnotes.setting(evidence),
        footnotes.CLAIMS["seeds"],
        *_with_one_run(evidence, task, judged),
        *footnotes.protocols(evidence, sorted(set(judged["dataset"]))),
        RULE,
        STD,
        *([_ensembles(evidence)] if (judged["kind"] == ENSEMBLE).any() else []),
        *too_few(judged),
    ]
    return ReportTable(f"seeds-{task}", title, HEADER, tuple(panels), tuple(notes))


def _with_one_run(evidence: Evidence, task: str, judged: pd.DataFrame) -> list[str]:
    """A note on the models that are not compared because their score is of a single run."""
    known = studies(evidence)
    known = known[(known["task"] == task) & (known["state"] == COMPLETE) & (known["n_seeds"] < 2)]
    shown = set(zip(judged["dataset"], judged["model"], strict=True))
    datasets: dict[str, list[str]] = {}
    for row in known[["dataset", "model"]].drop_duplicates().itertuples(index=False):
        if row.dataset in set(judged["dataset"]) and (row.dataset, row.model) not in shown:
            datasets.setdefault(str(row.model), []).append(str(row.dataset))
    if not datasets:
        return []
    named = [f"{escape.label(model)} on {footnotes.join(on, 4)}" for model, on in datasets.items()]
    return [f"Not here and in no comparison, with one run: {first_few(named, 8, '; ')}."]


def _ensembles(evidence: Evidence) -> str:
    """How the ensembles were made, if somebody else made them."""
    if evidence.facts.kind == ENSEMBLE:
        return "Ensembles: every run of this evidence is one."
    return evidence.facts.ensembles or ENSEMBLES


def _rows(
    evidence: Evidence, part: pd.DataFrame, scale: float, decimals: int
) -> list[tuple[TableCell, ...]]:
    kinds = {
        kind: {r.model: r for r in mine.itertuples(index=False)}
        for kind, mine in part.groupby("kind")
    }
    rows = []
    for model in sorted(set(part["model"])):
        few = footnotes.few_mark(evidence, part["dataset"].iloc[0], model)
        cells = [TableCell(escape.label(str(model)), mark=few)]
        for kind in (SINGLE, ENSEMBLE):
            r = kinds.get(kind, {}).get(model)
            cells += _four(r, scale, decimals) if r is not None else [TableCell("–")] * 4
        rows.append(tuple(cells))
    return rows


def _four(r: object, scale: float, decimals: int) -> list[TableCell]:
    v = r._asdict()  # type: ignore[attr-defined]
    std = truncated(scale * v["std"]) if v["n"] > 1 else "–"
    p = "best"
    if not pd.isna(v["p_worse"]):
        p = TOO_FEW if pd.isna(v["top"]) else p_text(v["p_worse"], ALPHA)
    mean = TableCell(fixed(scale * v["mean"], decimals), bold=bool(v["top"] == 1))
    return [mean, TableCell(std), TableCell(str(v["n"])), TableCell(p)]


def too_few(judged: pd.DataFrame) -> list[str]:
    """A note for each (kind, runs, runs of the best) at which nothing can be significant."""
    said = {}
    for _, part in judged.groupby(["dataset", "fold", "kind", "metric"], sort=True):
        best = part.loc[part["p_worse"].isna(), "n"].tolist()
        for r in part[part["top"].isna()].itertuples(index=False):
            what = footnotes.count(int(r.n), "ensemble" if r.kind == ENSEMBLE else "seed")
            beside = " a model" if best[0] == r.n else f" beside {best[0]} of the best model"
            p = smallest_rank_sum_p(int(r.n), int(best[0]))
            said[r.kind, r.n, best[0]] = (
                f"{TOO_FEW}: with {what}{beside} nothing can be significant at {ALPHA:g}; the "
                f"smallest possible p is {p:.2g}. This does not show that the models are equal."
            )
    return list(said.values())
