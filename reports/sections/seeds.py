"""Is a model worse than the best, over the seeds of one split? (Gorishniy et al. 2021, sec. 4.3)

Means and population standard deviations over the evaluation seeds, and over disjoint ensembles of
five seeds where the evidence has them. The top models of a dataset are the best by mean and all
that are not significantly worse than it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..aggregation.cells import COMPLETE, STUDY, studies
from ..evidence import Evidence
from ..metrics import METRICS
from ..output import escape, footnotes
from ..output.tables import Cell, Panel, Section, Table, decimals_for, fixed, p_text
from ..statistics.distributions import rankdata
from ..statistics.tests import TIE_TOLERANCE, snap

ALPHA = 0.01
SINGLE, ENSEMBLE = "single", "ensemble"
TOO_FEW = "n too small"

Array = np.ndarray


def rank_sum(worse: Array, better: Array) -> float:  # (n,), (m,) losses
    """One-sided p-value that the first losses are larger (Wilcoxon 1945, rank sum).

    Exact: the chance, over all ways to call n of the n + m values the first group, of a rank sum at
    least as large; near-equal values share their average rank. The groups are not paired, as a seed
    means nothing across models.

    DIFF(scipy.stats.mannwhitneyu, method='exact'): that table holds without ties alone.

    >>> rank_sum(np.array([4.0, 5.0, 6.0]), np.array([1.0, 2.0, 3.0]))
    0.05
    """
    both = np.concatenate([worse, better]).astype(np.float64)
    if not len(worse) or not len(better) or not np.isfinite(both).all():
        raise ValueError("a rank-sum test needs finite values on both sides")
    doubled = np.rint(2.0 * rankdata(snap(both, TIE_TOLERANCE))).astype(np.int64)
    n, top = len(worse), int(doubled.sum())
    ways = np.zeros((n + 1, top + 1))  # ways to choose k values whose doubled ranks sum to s
    ways[0, 0] = 1.0
    for rank in doubled:
        ways[1:, rank:] += ways[:-1, : top + 1 - rank].copy()
    found = int(doubled[:n].sum())
    return min(1.0, float(ways[n, found:].sum()) / math.comb(len(both), n))


def smallest_p(n: int, m: int) -> float:
    """The smallest p-value that `rank_sum` can reach: 1/20 for 3 against 3, 1/252 for 5."""
    return 1.0 / math.comb(n + m, n)


@dataclass(frozen=True)
class Verdict:
    """One model among those of a dataset. std: population. p: of being worse than the best by mean;
    None for the best itself. top: whether it is the best or not significantly worse; None where no
    p-value at this n could be significant."""

    n: int
    mean: float
    std: float
    p: float | None
    top: bool | None


def verdicts(
    scores: Mapping[str, Array], direction: str, alpha: float = ALPHA
) -> dict[str, Verdict]:
    """Every model beside the best mean; of equal means the first by name stands for the best.

    Values that do not vary are fine: against a constant, the other's values decide.
    """
    sign = -1.0 if direction == "max" else 1.0
    losses = {name: sign * np.asarray(v, dtype=np.float64) for name, v in sorted(scores.items())}
    if not losses:
        return {}
    means = snap(np.array([v.mean() for v in losses.values()]), TIE_TOLERANCE)
    best = list(losses)[int(means.argmin())]
    found = {}
    for name, mine in losses.items():
        values = sign * mine
        mean, std = float(values.mean()), population_std(values)
        if name == best:
            found[name] = Verdict(len(values), mean, std, None, True)
            continue
        p = rank_sum(mine, losses[best])
        reachable = smallest_p(len(mine), len(losses[best])) <= alpha
        found[name] = Verdict(len(values), mean, std, p, p > alpha if reachable else None)
    return found


def population_std(values: Array) -> float:
    """Standard deviation with ddof 0, exactly 0 where the values only differ by rounding."""
    same = len(np.unique(snap(values, TIE_TOLERANCE))) == 1
    return 0.0 if same else float(values.std())


def truncated(std: float) -> str:
    """A standard deviation as RTDL prints it: two significant digits, cut off and not rounded.

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
    """Whether a configuration was run again under two seeds or more."""
    runs = evidence.trials[evidence.trials["stage"] == "eval"]
    return bool(len(runs)) and int(runs.groupby(STUDY, sort=True).size().max()) > 1


def frame(evidence: Evidence) -> pd.DataFrame:
    """One row a (dataset, fold, kind, model, metric): Verdict's fields. kind: single models, or
    ensembles of five seeds. Studies without all of their seeds are left out."""
    whole = studies(evidence)
    whole = whole[(whole["state"] == COMPLETE) & (whole["n_seeds"] > 1)]
    keys = pd.MultiIndex.from_frame(whole[STUDY])
    runs = evidence.trials[evidence.trials["stage"] == "eval"]
    parts = {SINGLE: runs}
    if evidence.ensembles is not None:
        parts[ENSEMBLE] = evidence.ensembles
    rows = []
    for kind, table in parts.items():
        table = table[pd.MultiIndex.from_frame(table[STUDY]).isin(keys)]
        for task in evidence.tasks:
            for name in evidence.test_metrics(task):
                rows += _verdict_rows(table[table["task"] == task], task, kind, name)
    columns = "dataset task fold kind model metric direction headline n mean std p_worse top"
    found = pd.DataFrame(rows, columns=columns.split())
    heads = {task: evidence.headline(task) for task in evidence.tasks}
    found["headline"] = [heads[t] == m for t, m in zip(found["task"], found["metric"], strict=True)]
    order = ["dataset", "fold", "headline", "metric", "kind", "model"]
    up = [True, True, False, True, False, True]
    return found.sort_values(order, ascending=up, kind="stable").reset_index(drop=True)


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


def section(evidence: Evidence, datasets: Collection[str] | None = None) -> Section:
    """The file `seeds`: a table a task, single models and ensembles beside each other; of some
    datasets or of all."""
    found = frame(evidence)
    if datasets is not None:
        found = found[found["dataset"].isin(datasets)]
    tables = [
        _table(evidence, task, found[(found["task"] == task) & found["headline"]])
        for task in evidence.tasks
        if (found["task"] == task).any()
    ]
    return Section("seeds", "Seeds of one split", tuple(tables), found)


HEADER = ("model", "single", "std", "n", "p", "ensemble", "std", "n", "p")
RULE = (
    f"Bold: the best mean, and every mean that is not significantly worse than it: one-sided exact "
    f"rank-sum test of the runs (Wilcoxon 1945), p > {ALPHA:g}. The paper says Wilcoxon and no "
    "more; seeds are not paired across models. No correction for many comparisons, and the best "
    "was chosen after looking."
)
STD = "std: population (ddof 0), cut off after two digits as the paper's."
ENSEMBLES = (
    "Ensembles: disjoint fives of the seeds in order; averaged probabilities or predictions."
)


def _table(evidence: Evidence, task: str, found: pd.DataFrame) -> Table:
    name = evidence.headline(task)
    panels = []
    for (dataset, fold), part in found.groupby(["dataset", "fold"], sort=True):
        more = found[found["dataset"] == dataset]["fold"].nunique() > 1
        title = escape.label(str(dataset)) + (f", fold {fold}" if more else "")
        panels.append(Panel(tuple(_rows(part, name)), title))
    title = (
        f"Test {footnotes.metric_title(name)} on {footnotes.TASK_TITLES[task]}: mean over the "
        "evaluation seeds of one split."
    )
    notes = [
        *footnotes.setting(evidence),
        footnotes.CLAIMS["seeds"],
        *footnotes.protocols(evidence, sorted(set(found["dataset"]))),
        RULE,
        STD,
        *([ENSEMBLES] if (found["kind"] == ENSEMBLE).any() else []),
        *too_few(found),
    ]
    return Table(f"seeds-{task}", title, HEADER, tuple(panels), tuple(notes))


def _rows(part: pd.DataFrame, metric: str) -> list[tuple[Cell, ...]]:
    scale = 100.0 if metric in footnotes.PERCENT else 1.0
    decimals = 2 if scale != 1.0 else max(3, decimals_for(part["mean"].tolist()))
    kinds = {
        kind: {r.model: r for r in mine.itertuples(index=False)}
        for kind, mine in part.groupby("kind")
    }
    rows = []
    for model in sorted(set(part["model"])):
        cells = [Cell(escape.label(str(model)))]
        for kind in (SINGLE, ENSEMBLE):
            r = kinds.get(kind, {}).get(model)
            cells += _four(r, scale, decimals) if r is not None else [Cell("–")] * 4
        rows.append(tuple(cells))
    return rows


def _four(r: object, scale: float, decimals: int) -> list[Cell]:
    v = r._asdict()  # type: ignore[attr-defined]
    std = truncated(scale * v["std"]) if v["n"] > 1 else "–"
    p = (
        "best"
        if _nothing(v["p_worse"])
        else TOO_FEW
        if _nothing(v["top"])
        else p_text(v["p_worse"])
    )
    mean = Cell(fixed(scale * v["mean"], decimals), bold=bool(v["top"] == 1))
    return [mean, Cell(std), Cell(str(v["n"])), Cell(p)]


def _nothing(value: object) -> bool:
    return value is None or value != value


def too_few(found: pd.DataFrame) -> list[str]:
    """What cannot be significant at its n, said once for each kind and n."""
    said = {}
    for r in found[[_nothing(v) for v in found["top"]]].itertuples(index=False):
        what = footnotes.plural(int(r.n), "ensemble" if r.kind == ENSEMBLE else "seed")
        p = smallest_p(int(r.n), int(r.n))
        said[r.kind, r.n] = (
            f"{TOO_FEW}: with {what} a model nothing can be significant at {ALPHA:g}; the "
            f"smallest possible p is {p:.2g}. That is no tie."
        )
    return list(said.values())
