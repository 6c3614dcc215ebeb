"""Comparison of two runs: cells, models, coverage and failures, and what is a regression.

An error is 0 for a perfect score (1 - accuracy, RMSE). A change d is the logarithm of the new error
over the old one: about the relative change, positive for worse. Cells are compared on the folds for
which both runs have a score.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..aggregation.cells import COMPLETE, STUDY, headline_cells, studies
from ..evidence import Evidence
from ..metrics import METRICS
from ..output import footnotes
from ..statistics.tests import holm, relative_changes
from ..statistics.wilcoxon import fewest_pairs, wilcoxon_columns
from .verdicts import ALPHA, UNDECIDED, WORSE, as_log_ratio, change_of, verdicts

MIN_EFFECT = 0.01
MODEL_P = 0.05
LARGE = math.log(1e6)  # a change beyond it is printed as a factor
SLOT = [*STUDY, "stage", "index"]

Array = np.ndarray


# --- the rules ------------------------------------------------------------------------------------


def percent(d: float, decimals: int = 1) -> str:
    """A change as a share of the old error.

    >>> percent(math.log(1.5)), percent(-math.inf), percent(math.inf), percent(1000.0)
    ('+50.0 %', 'to 0', 'from 0', 'times 1e+434')
    """
    if not math.isfinite(d):
        return "from 0" if d > 0 else "to 0" if d < 0 else "n/a"
    if d > LARGE:
        return f"times 1e{d / math.log(10.0):+.0f}"
    return f"{100 * math.expm1(d):+.{decimals}f} %"


# --- the comparison -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Comparison:
    """What changed from run `a` to run `b` (their names).

    cells: one row per (dataset, model) with a score on a common fold. models: one row per model,
    tested over datasets. coverage: the cells whose state changed. failures: failed trials by model
    and cause. same_id: (trials with the same id in both runs, those of them with different scores).
    regressions: why the new run is worse.
    """

    a: str
    b: str
    min_effect: float
    cells: pd.DataFrame
    models: pd.DataFrame
    coverage: pd.DataFrame
    failures: pd.DataFrame
    same_id: tuple[int, int]
    regressions: tuple[str, ...]

    @property
    def n_equal(self) -> int:
        """Number of cells that are equal to the last bit on every fold."""
        return int(self.cells["equal"].sum())

    @property
    def identical(self) -> bool:
        """Every cell equal to the last bit, and no change of coverage or failures."""
        same = self.n_equal == len(self.cells) and not len(self.coverage) and not self.same_id[1]
        return bool(same and (self.failures["a"] == self.failures["b"]).all())


def compare_runs(
    base: Evidence,
    new: Evidence,
    *,
    min_effect: float = MIN_EFFECT,
    names: tuple[str, str] = ("A", "B"),
) -> Comparison:
    """Compare `new` with `base`.

    A regression is one of: a model's verdict is worse (`_judged`); a cell is no longer complete; a
    trial fails that did not fail before. Raises ValueError if the runs differ in metric or
    protocol.
    """
    _agree(base, new)
    tables = [studies(evidence) for evidence in (base, new)]
    cells = _cells(base, new, tables)
    models = _judged(_models(cells), _pairs(base, new, tables), min_effect)
    coverage = _coverage(_states(base, tables[0]), _states(new, tables[1]))
    broken = _newly_failed(base, new)
    regressions = [
        f"worse: {r.model}, mean change of the error {percent(r.mean_change)} over "
        f"{footnotes.count(r.n_datasets, 'dataset')} ({footnotes.count(r.n_pairs, 'pair')}), "
        f"one-sided p = {r.p_worse_holm:.2g} after Holm"
        for r in models[models["verdict"] == WORSE].itertuples(index=False)
    ]
    lost = coverage[coverage["kind"] == "lost"]
    regressions += [
        f"lost: {r.model} on {r.dataset} was complete and is {r.b}{f' ({r.cause})' * bool(r.cause)}"
        for r in lost.itertuples(index=False)
    ]
    if len(broken):
        kinds = broken["cause"].value_counts().sort_index()
        causes = ", ".join(f"{n} {cause}" for cause, n in kinds.items())
        regressions.append(f"failing now and not before: {causes}")
    return Comparison(
        *names,
        min_effect,
        cells,
        models,
        coverage,
        _failures(base, new),
        _same_id(base, new),
        tuple(regressions),
    )


def _agree(base: Evidence, other: Evidence) -> None:
    """Raise ValueError if the runs differ in the metric of a task or the protocol of a dataset."""
    for part, what in (("metric", "metric of the task"), ("protocol", "protocol of")):
        first, second = (getattr(one.facts, part) for one in (base, other))
        held = {*base.tasks, *base.datasets()} & {*other.tasks, *other.datasets()}
        for key in sorted(set(first) & set(second) & held):
            if first[key] != second[key]:
                raise ValueError(
                    f"the runs cannot be compared: {what} {key} is {first[key]!r} in one and "
                    f"{second[key]!r} in the other"
                )


def _scores(evidence: Evidence, table: pd.DataFrame) -> pd.DataFrame:
    """One row (dataset, fold, model, task, score) per study with a score of its headline metric;
    `table` is `studies(evidence)`."""
    parts = []
    for task in evidence.tasks:
        part = table[table["task"] == task]
        part = part.assign(score=part[f"test_{evidence.headline(task)}"])
        parts.append(part[[*STUDY, "task", "score"]])
    scores = pd.concat(parts, ignore_index=True)
    return scores[scores["score"].notna()]


def _cells(base: Evidence, new: Evidence, tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """One row per (dataset, model) with a score on a fold of both runs, `tables` being their
    studies."""
    later = _scores(new, tables[1])[[*STUDY, "score"]]
    both = _scores(base, tables[0]).merge(later, on=STUDY, suffixes=("_a", "_b"))
    rows: list[dict[str, object]] = []
    for (dataset, model), part in both.groupby(["dataset", "model"], sort=True):
        task = str(part["task"].iloc[0])
        metric = METRICS[base.headline(task)]
        a, b = part["score_a"].to_numpy(), part["score_b"].to_numpy()
        error_a, error_b = (metric.error(float(scores.mean())) for scores in (a, b))
        change = relative_changes(np.array([error_a]), np.array([error_b]))[0]
        rows.append(
            {
                **{"dataset": dataset, "task": task, "model": model, "metric": metric.name},
                **{"n_folds": len(part), "a": float(a.mean()), "b": float(b.mean())},
                "difference": float(b.mean() - a.mean()),
                "change": as_log_ratio(float(change)),
                "equal": bool((a == b).all()),
                **{"error_a": error_a, "error_b": error_b},
            }
        )
    names = "dataset task model metric n_folds a b difference change equal error_a error_b"
    return pd.DataFrame(rows, columns=names.split()).astype({"equal": bool})


def _models(cells: pd.DataFrame) -> pd.DataFrame:
    """One row per model: how many datasets, on how many it is better, the median change, and the p
    of Wilcoxon's one-sided test over datasets, for worse."""
    rows = []
    for model, part in cells.groupby("model", sort=True):
        d = relative_changes(part["error_a"].to_numpy(), part["error_b"].to_numpy())
        n = len(d)
        test = wilcoxon_columns(d[:, None])[0] if n >= fewest_pairs(MODEL_P) else None
        with np.errstate(invalid="ignore"):  # NaN between -inf and +inf
            middle = float(np.median(part["change"]))
        rows.append(
            {
                **{"model": model, "n_datasets": n, "n_equal": int(part["equal"].sum())},
                **{"n_better": int((d < 0).sum()), "n_worse": int((d > 0).sum())},
                "median_change": middle,
                "p_over_datasets": test and test.p_greater,
            }
        )
    columns = "model n_datasets n_equal n_better n_worse median_change p_over_datasets".split()
    return pd.DataFrame(rows, columns=columns)


def _pairs(
    base: Evidence, new: Evidence, tables: Sequence[pd.DataFrame]
) -> dict[str, dict[str, tuple[Array, Array]]]:
    """{model: {dataset: (errors of `base`, errors of `new`)}}, paired by fold. The error of a fold
    is the mean over the evaluation seeds that both runs have. With a single fold, seeds are paired.

    Seeds of one fold share rows and configuration, so beside other folds they are no independent
    replicates. Seeds that change nothing make one pair.
    """
    rows = []
    for evidence, table in zip((base, new), tables, strict=True):
        trials = evidence.trials
        done = evidence.having("stage", "eval") & evidence.having("status", "done")
        seeds = [(t, f"test_{evidence.headline(t)}") for t in evidence.tasks]
        parts = [
            trials.loc[done & evidence.having("task", t), [*STUDY, "task", "seed", column]].rename(
                columns={column: "score"}
            )
            for t, column in seeds
            if column in trials
        ]
        folds = _scores(evidence, table).assign(seed=-1)
        rows.append(pd.concat([*parts, folds], ignore_index=True))
    both = (
        rows[0]
        .merge(rows[1].drop(columns="task"), on=[*STUDY, "seed"], suffixes=("_a", "_b"))
        .dropna(subset=["score_a", "score_b"])
    )
    seeded = both.loc[both["seed"] >= 0, STUDY].drop_duplicates()
    keys = pd.MultiIndex.from_frame(both[STUDY])
    both = both[(both["seed"] >= 0) | ~keys.isin(pd.MultiIndex.from_frame(seeded))]
    pairs: dict[str, dict[str, tuple[Array, Array]]] = {}
    for (model, dataset), part in both.groupby(["model", "dataset"], sort=True):
        metric = METRICS[base.headline(str(part["task"].iloc[0]))]
        if part["fold"].nunique() > 1:
            part = part.groupby("fold", sort=True)[["score_a", "score_b"]].mean()
        elif part["score_a"].nunique() == part["score_b"].nunique() == 1:
            part = part.iloc[:1]
        a, b = (
            np.array([metric.error(v) for v in part[name]], dtype=float)
            for name in ("score_a", "score_b")
        )
        pairs.setdefault(str(model), {})[str(dataset)] = a, b
    return pairs


def _judged(
    models: pd.DataFrame, pairs: dict[str, dict[str, tuple[Array, Array]]], min_effect: float
) -> pd.DataFrame:
    """The table with each model's mean change, its bound and its verdict (`verdicts`).

    Where no dataset has two pairs, a model is worse if Wilcoxon's one-sided test over datasets
    says so (p < .01 after Holm, and a median change above `min_effect`).
    """
    changes = [change_of(pairs[model]) for model in models["model"]]
    alone = np.array([math.isnan(c.p) for c in changes], dtype=bool)
    verdict = np.array(verdicts(changes, min_effect=min_effect), dtype=object)
    p = pd.Series([c.p if not c.equal else math.nan for c in changes], dtype=float)
    p = p.where(~alone, models["p_over_datasets"].astype(float))
    adjusted = pd.Series(holm(p.tolist()), index=p.index, dtype=float)
    by_datasets = (adjusted < ALPHA) & (models["median_change"] > min_effect) & alone
    by_chance = ~(adjusted < ALPHA).to_numpy(dtype=bool)  # among the models tested either way
    verdict[by_chance & (verdict == WORSE)] = UNDECIDED
    verdict[by_datasets.to_numpy(dtype=bool) & (verdict == UNDECIDED)] = WORSE
    return models.assign(
        n_pairs=[c.n for c in changes],
        mean_change=[as_log_ratio(c.mean) for c in changes],
        upper=[as_log_ratio(c.upper) for c in changes],
        p_worse=p,
        p_worse_holm=adjusted,
        verdict=verdict,
        regression=verdict == WORSE,
    )


def _states(evidence: Evidence, table: pd.DataFrame) -> pd.DataFrame:
    """One row (dataset, model, state, cause) per planned cell."""
    return headline_cells(evidence, table)[["dataset", "model", "state", "cause"]]


def _coverage(before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    """The cells whose state changed: dataset, model, kind, a, b, cause (in the new run), and lacks:
    'model' or 'dataset' if the other run plans no cell of it at all."""
    both = before.merge(after, on=["dataset", "model"], how="outer", suffixes=("_a", "_b"))
    a, b = both["state_a"].fillna("not planned"), both["state_b"].fillna("not planned")
    kind = np.where(both["state_b"].isna(), "left out", np.where(both["state_a"].isna(), "new", ""))
    kind = np.where((kind == "") & (a == COMPLETE) & (b != COMPLETE), "lost", kind)
    kind = np.where((kind == "") & (a != COMPLETE) & (b == COMPLETE), "gained", kind)
    kind = np.where((kind == "") & (a != b), "other", kind)
    frame = both[["dataset", "model"]].assign(kind=kind, a=a, b=b, cause=both["cause_b"].fillna(""))
    frame["lacks"] = ""
    for name in ("dataset", "model"):
        alone = ~(both[name].isin(before[name]) & both[name].isin(after[name]))
        frame.loc[alone, "lacks"] = name
    frame = frame[frame["kind"] != ""]
    return frame.sort_values(["kind", "dataset", "model"], kind="stable").reset_index(drop=True)


def _failures(base: Evidence, new: Evidence) -> pd.DataFrame:
    """One row (model, cause, a, b): the number of failed trials in each run."""
    counts = []
    for name, evidence in (("a", base), ("b", new)):
        bad = evidence.trials[evidence.trials["status"] == "failed"]
        counts.append(bad.groupby(["model", "cause"], sort=True).size().rename(name))
    return pd.concat(counts, axis=1).fillna(0).astype(int).sort_index().reset_index()


def _newly_failed(base: Evidence, new: Evidence) -> pd.DataFrame:
    """The failed trials of the new run whose slot did not fail in the base run."""
    slots = base.trials[SLOT].assign(before=base.trials["status"])
    both = new.trials.merge(slots, on=SLOT)
    return both[(both["status"] == "failed") & (both["before"] != "failed")]


def _same_id(base: Evidence, new: Evidence) -> tuple[int, int]:
    """(trials with the same id that both runs computed, how many of them have other scores)."""
    own = []
    for evidence in (base, new):
        t = evidence.trials
        own.append(t[(t["id"] != "") & (t["origin"] == "") & (t["status"] == "done")])
    metrics = [c for c in own[0] if str(c).startswith("test_") and c in own[1]]
    once = [t.drop_duplicates("id")[["id", *metrics]] for t in own]
    both = once[0].merge(once[1], on="id", suffixes=("_a", "_b"))
    other = np.zeros(len(both), dtype=bool)
    for name in metrics:
        a, b = both[f"{name}_a"], both[f"{name}_b"]
        other |= ~((a == b) | (a.isna() & b.isna()))
    return len(both), int(other.sum())
