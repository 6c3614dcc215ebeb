"""Errors and ranks by the number of training rows, where several sizes of each dataset were drawn.

A score at a size is the mean over the draws of it. Datasets are what is averaged, ranked and
resampled: draws of one dataset are no observations of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..evidence import Evidence
from ..statistics.crossing import Crossing, crossing, resampled
from ..statistics.ranking import ranks
from .ranking_matrix import MIN_COVERAGE
from .sides import errors_by_fold, gains, side

NETWORKS, BOOSTING = ("feature network", "row attention"), ("gbdt",)
CELL = ["dataset", "size"]


@dataclass(frozen=True)
class Ranked:
    """The models at one size, best first: mean ranks over `n` datasets, 95 % ends, times best."""

    size: int
    n: int
    models: list[str]
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    best: np.ndarray


@dataclass(frozen=True)
class Sides:
    """The best network against the best boosting model, of `k` models each: mean gain at each size
    with 95 % ends, over `n` datasets, and where it becomes positive."""

    k: int
    n: int
    sizes: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    where: Crossing


def has_sizes(evidence: Evidence) -> bool:
    """Whether several training sizes of a dataset were drawn."""
    return any(len(set(of.values())) > 1 for of in evidence.facts.sizes.values())


def sized(evidence: Evidence) -> pd.DataFrame:
    """`errors_by_fold` with `size`, of the datasets with several sizes."""
    folds = errors_by_fold(evidence)
    known = {
        (dataset, int(fold)): size
        for dataset, of in evidence.facts.sizes.items()
        for fold, size in of.items()
    }
    size = [known.get(place) for place in zip(folds["dataset"], folds["fold"], strict=True)]
    folds = folds.assign(size=size).dropna(subset=["size"])
    return folds.assign(size=folds["size"].astype(int))


def errors_at(folds: pd.DataFrame) -> pd.DataFrame:
    """{(dataset, size): a column a model} mean test errors over the draws; NaN where a draw lacks a
    score. folds: `sized`."""
    n = folds.groupby(CELL)["fold"].nunique()
    found = folds.groupby([*CELL, "model"])["test"].agg(["mean", "count"])
    wanted = found.index.droplevel("model").map(n)
    return found["mean"].where(found["count"] == wanted).unstack("model")


def ranked(errors: pd.DataFrame) -> list[Ranked]:
    """Ranks at each size of the models with a score on MIN_COVERAGE of its datasets, over the
    datasets on which all of them have one. errors: `errors_at`."""
    found = []
    for size, here in errors.groupby("size"):
        whole = here.loc[:, here.notna().mean() >= MIN_COVERAGE].dropna()
        if whole.shape[1] < 2 or not len(whole):
            continue
        rank = ranks(whole.to_numpy())
        order = np.lexsort((whole.columns, rank.mean(axis=0)))
        low, high = resampled(rank)
        best = (rank == rank.min(axis=1, keepdims=True)).sum(axis=0)
        names = [str(whole.columns[i]) for i in order]
        mean = rank.mean(axis=0)[order]
        found.append(
            Ranked(int(size), len(whole), names, mean, low[order], high[order], best[order])
        )
    return found


def of_families(evidence: Evidence, names: Sequence[str]) -> list[str]:
    """The models of these families, sorted."""
    families: Mapping[str, Sequence[str]] = evidence.facts.families
    return [m for m in evidence.models if m in families and families[m][0] in names]


def networks_and_boosting(evidence: Evidence, folds: pd.DataFrame) -> Sides | None:
    """Networks against boosting, of as many models each as the smaller side has; None without both.
    Over the datasets with a score of both at every size. folds: `sized`."""
    ours, theirs = (of_families(evidence, names) for names in (NETWORKS, BOOSTING))
    k = min(len(ours), len(theirs))
    if not k:
        return None
    both = pd.DataFrame({"ours": side(folds, ours, k), "theirs": side(folds, theirs, k)}).dropna()
    both["gain"] = gains(both["ours"].to_numpy(), both["theirs"].to_numpy())
    size = folds.drop_duplicates(["dataset", "fold"]).set_index(["dataset", "fold"])["size"]
    at = both["gain"].groupby([both.index.get_level_values("dataset"), size.reindex(both.index)])
    table = at.mean().unstack().dropna()
    if not len(table) or table.shape[1] < 2:
        return None
    values, sizes = table.to_numpy(), table.columns.to_numpy(dtype=float)
    low, high = resampled(values)
    return Sides(k, len(table), sizes, values.mean(axis=0), low, high, crossing(sizes, values))


@dataclass(frozen=True)
class Line:
    """A model's or a family's normalised error against training rows, with 95 % ends."""

    name: str
    family: str
    sizes: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray


def normalised(errors: pd.DataFrame, baseline: Sequence[str]) -> pd.DataFrame:
    """Errors of each dataset between 0, the lowest that any model reached at any size, and 1, that
    of the first of `baseline` (a constant) at the smallest size, without one the largest there;
    larger ones are 1. errors: `errors_at`."""
    scaled = []
    for _, of in errors.groupby("dataset", sort=False):
        first = of.iloc[0]
        known = [first[model] for model in baseline if not np.isnan(first.get(model, np.nan))]
        low, high = float(np.nanmin(of)), float(known[0] if known else np.nanmax(first))
        scaled.append(((of - low) / max(high - low, 1e-12)).clip(0.0, 1.0))
    return pd.concat(scaled)


def lines(errors: pd.DataFrame, families: Mapping[str, str]) -> list[Line]:
    """A line for each family (the mean of its models) and each model, over the datasets on which
    every size has it. families: {model: family}. errors: `errors_at`."""
    scaled = normalised(errors, [m for m, family in families.items() if family == "baseline"])
    groups: dict[str, list[str]] = {}
    for model in map(str, scaled):
        groups.setdefault(families.get(model, "external"), []).append(model)
    columns = {f"all of {name}": scaled[of].mean(axis=1) for name, of in groups.items()}
    columns |= {str(model): scaled[model] for model in scaled}
    of_line = {f"all of {name}": name for name in groups}
    made = []
    for name, column in columns.items():
        table = column.unstack("size").dropna(axis=1, how="all").dropna()
        if not len(table):
            continue
        low, high = resampled(table.to_numpy())
        family = of_line.get(name) or families.get(name, "external")
        sizes = table.columns.to_numpy(dtype=float)
        made.append(Line(name, family, sizes, table.mean().to_numpy(), low, high))
    return made


@dataclass(frozen=True)
class More:
    """What more rows gave on one dataset: test errors of validation's choice at each size, means
    over its draws, and the standard deviation over draws (pooled; NaN without a second draw)."""

    sizes: list[int]
    errors: list[float]
    deviation: float

    @property
    def saved(self) -> float:
        """The share of the error that the last step to more rows took away."""
        before, after = self.errors[-2:]
        return (before - after) / before if before > 0 else 0.0

    @property
    def helps(self) -> bool | None:
        """Whether the last step changed more than two draws of one size differ by chance; None
        where no size was drawn twice."""
        if np.isnan(self.deviation):
            return None
        return self.errors[-2] - self.errors[-1] > 2 * np.sqrt(2) * self.deviation

    @property
    def doubled(self) -> float:
        """The error expected at twice the rows, if it goes on falling as in the last step, by the
        same factor for the same factor of rows."""
        (m, n), (before, after) = self.sizes[-2:], self.errors[-2:]
        return after * (after / before) ** (np.log(2) / np.log(n / m)) if before > 0 else after


def more_rows(folds: pd.DataFrame, dataset: str) -> More | None:
    """What more rows gave on a dataset; None with fewer than two sizes. folds: `sized`."""
    mine = folds[folds["dataset"] == dataset].dropna(subset=["val"])
    best = mine.sort_values(["val", "model"], kind="stable").drop_duplicates("fold")
    by_size = best.groupby("size")["test"]
    if len(by_size) < 2:
        return None
    spread = by_size.agg(["var", "count"]).query("count > 1")
    freedom = (spread["count"] - 1).sum()
    pooled = (spread["var"] * (spread["count"] - 1)).sum() / freedom if freedom else np.nan
    means = by_size.mean()
    return More(means.index.tolist(), means.tolist(), float(np.sqrt(pooled)))
