"""A published table as plain values: the printed numbers, and how they compare with a run's."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pandas as pd

from ..evidence import Evidence
from ..metrics import METRICS
from ..output.tables import Section

Shape = Literal["cells", "ensembles", "costs", "times", "medians", "means", "average-ranks"]
OWN = "not in the paper's table"  # the remark of the row of a model that the paper lacks
MARK = "*"  # after the name of such a model


def published_error(spread: float, kind: str, n_repeats: float) -> float | None:
    """Standard error of a published value, or None where it does not follow: kind is std, sem, none
    or unstated.

    >>> published_error(0.5, "std", 4.0)
    0.25
    """
    if math.isnan(spread) or kind not in ("sem", "std"):
        return None
    if kind == "sem":
        return float(spread)
    return float(spread) / math.sqrt(n_repeats) if n_repeats > 0 else None


@dataclass(frozen=True)
class Measure:
    """Our metric for a published one. unit: what our value is multiplied by to be in the published
    unit (100 for a fraction that the paper prints in percent)."""

    metric: str
    unit: float = 1.0


@dataclass(frozen=True)
class PublishedTable:
    """One published table that a run can stand beside.

    name, title: of the comparison. paper, table: stand in every row of its frame.
    rows: the published values in the paper's order, with the columns dataset, method, metric,
    direction, value, decimals (of the printed value), spread, spread_kind (std, sem, none,
    unstated), n_repeats, and `remark`, which says why a row has no value or comes from another
    source. Datasets have our names.
    measures: published metric -> ours. models: published method -> our model, where the names
    differ.
    shape: `cells` for a value per dataset and method, `ensembles` for the value of ensembles of
    evaluation seeds, `costs` for seconds and memory, `times` for scores after a time of the search.
    The others are of figures over datasets, which `compare` makes: `medians` and `average-ranks` of
    ranks, `means` of values.
    replicates: the published error is over runs of one split; ours is over the evaluation seeds.
    configurations: (dataset, method) -> how many configurations the paper searched.
    deviations: 'cut' or 'decimals' where standard deviations are shown as the paper prints them,
    cut off after two digits or with two decimals, and the orders of the methods stand below; under
    'cut' also the significance rule of `sections.seeds`. '' for standard errors alone.
    compare: makes the comparison with a run, where it is not the one of cells.
    extra: the remarks of rows that the printed table does not have: controls of ours, values from
    another source, models of a run; they count as no published cell.
    absent: published method -> why it is planned to have no model of ours.
    stand_ins: dataset by our name -> how its rows differ from the paper's; they are marked.
    notes: notes of the paper's own.
    """

    name: str
    title: str
    paper: str
    table: str
    rows: pd.DataFrame
    measures: Mapping[str, Measure]
    models: Mapping[str, str] = field(default_factory=dict)
    shape: Shape = "cells"
    replicates: bool = False
    configurations: Mapping[tuple[str, str], int] = field(default_factory=dict)
    deviations: Literal["", "cut", "decimals"] = ""
    compare: Callable[[Evidence, Any], Section] | None = None
    extra: tuple[str, ...] = ()
    absent: Mapping[str, str] = field(default_factory=dict)
    stand_ins: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def is_extra(self, note: str) -> bool:
        """Whether a row with this note is none of the printed table."""
        return any(remark in note for remark in self.extra)

    @property
    def cell_columns(self) -> list[str]:
        """The columns of `rows` that tell a method's values apart."""
        return ["dataset", "metric", *(["level"] if self.shape == "times" else [])]

    @property
    def printed(self) -> pd.DataFrame:
        """The rows of the printed table alone."""
        return self.rows[~self.rows["remark"].map(self.is_extra).astype(bool)]

    @property
    def label(self) -> str:
        """Our metrics with their units, such as "accuracy, % and MSE × 1000"."""
        return " and ".join(self.metric_label(metric) for metric in self.metrics)

    @property
    def values(self) -> str:
        """What the printed values are, such as "median ranks by accuracy"."""
        if self.shape in ("medians", "average-ranks"):
            kind = "median" if self.shape == "medians" else "average"
            labels = " and ".join(METRICS[metric].label for metric in self.metrics)
            return f"{kind} ranks by {labels}"
        if self.shape == "costs":
            return "seconds and memory"
        if self.shape == "times":
            return f"{self.label} after a time of the search"
        if self.shape == "means":
            return f"means of {self.label}"
        return f"{self.label} of ensembles" if self.shape == "ensembles" else self.label

    @property
    def metrics(self) -> list[str]:
        """Our metrics, in the table's order."""
        return list(dict.fromkeys(m.metric for m in self.measures.values()))

    def metric_label(self, metric: str) -> str:
        """A metric of ours with its unit, such as "accuracy, %"."""
        unit = self.unit_of(metric)
        return METRICS[metric].label + {1.0: "", 100.0: ", %"}.get(unit, f" × {unit:g}")

    def unit_of(self, metric: str) -> float:
        """What a value of our metric is multiplied by to be in the published unit."""
        return next(m.unit for m in self.measures.values() if m.metric == metric)

    def model_of(self, method: str) -> str:
        """Our model's name of a published method."""
        return self.models.get(method, method)

    def model_names(self) -> list[str]:
        """Our names of all methods of the table, extra rows included, in its order; without those
        that are planned to be absent."""
        here = [method for method in self.rows["method"] if method not in self.absent]
        return list(dict.fromkeys(map(self.model_of, here)))

    def dataset_names(self) -> list[str]:
        """The datasets of the table by our names, in its order."""
        return list(dict.fromkeys(self.rows["dataset"]))
