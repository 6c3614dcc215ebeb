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
    """The models at one size, best first: mean ranks over `n` datasets, 95 % ends, times best.

    draws: of how many of the draws `of` of this size the errors are means. errors: (dataset: a
    column a model), also of models that are not ranked."""

    size: int
    draws: int
    of: int
    errors: pd.DataFrame
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


def ranked(folds: pd.DataFrame) -> list[Ranked]:
    """The models at each size. Where models lack some draws of a size, they are ranked with all
    others on the draws that all have, after those that have every draw. folds: `sized`."""
    found = []
    names = sorted(folds["model"].unique())
    for size, here in folds.groupby("size"):
        n_draws = int(here.groupby("dataset")["fold"].nunique().max())
        known: list[int] = []
        for mine in (here, _shared(here)):
            errors = errors_at(mine).droplevel("size").reindex(columns=names)
            models = errors.columns[errors.notna().mean() >= MIN_COVERAGE]
            if len(models) > max([1, *known]):
                draws = int(mine.groupby("dataset")["fold"].nunique().max())
                found += _ranked(int(size), (draws, n_draws), errors, list(models))
            known.append(len(models))
    return found


def _shared(folds: pd.DataFrame) -> pd.DataFrame:
    """The folds of one size on which every model with a score on MIN_COVERAGE of the datasets has
    one."""
    scored = folds.dropna(subset="test")
    share = scored.groupby("model")["dataset"].nunique() / folds["dataset"].nunique()
    every = share.index[share >= MIN_COVERAGE]
    of_them = scored["model"].where(scored["model"].isin(every))
    return scored[
        of_them.groupby([scored["dataset"], scored["fold"]]).transform("nunique") == len(every)
    ]


def _ranked(
    size: int, draws: tuple[int, int], errors: pd.DataFrame, models: list[str]
) -> list[Ranked]:
    """The ranks over the datasets on which all these models have a score; none without one."""
    whole = errors[models].dropna()
    if not len(whole):
        return []
    rank = ranks(whole.to_numpy())
    order = np.lexsort((whole.columns, rank.mean(axis=0)))
    low, high = resampled(rank)
    best = (rank == rank.min(axis=1, keepdims=True)).sum(axis=0)
    names, mean = [str(models[i]) for i in order], rank.mean(axis=0)
    ends = mean[order], low[order], high[order], best[order]
    return [Ranked(size, *draws, errors, len(whole), names, *ends)]


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
