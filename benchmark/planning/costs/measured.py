"""What trials cost: measured costs, and the nearest of them for a fit that was not measured.

The costs in `table.json` ship with the product; `benchmark/perf/costs/harvest.py` makes the
file from ledgers. Trials in the user's own ledgers join them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("table.json")

# The seconds of a fit grow about as the product of size ** exponent.
SHAPE = {"rows": 0.8, "features": 0.5, "classes": 0.4}
SETTINGS = {
    **dict.fromkeys(("epochs", "steps", "n_estimators", "n_trees", "max_rounds"), 0.8),
    **dict.fromkeys(("n_layers", "n_blocks", "n_nets", "n_cross_layers"), 0.7),
    # Quadratic in wide networks; in narrow ones what surrounds the products of matrices counts.
    **dict.fromkeys(("width", "width_middle", "hidden", "embedding"), 0.6),
    **dict.fromkeys(("batch_size",), -0.6),
    **dict.fromkeys(("learning_rate", "lr"), -0.2),
    **dict.fromkeys(("max_depth", "depth", "num_leaves", "max_leaf_nodes"), 0.4),
    **dict.fromkeys(("n_heads", "n_decoder_layers"), 0.4),
    **dict.fromkeys(("max_width", "max_iter", "pretrain_epochs"), 0.2),
    **dict.fromkeys(("k", "n_copies", "outer_bags", "n_steps", "n_hidden_layers"), 0.5),
    **dict.fromkeys(("patience", "early_stopping_rounds"), 0.2),
    "max_features": 0.8,
}
EXPONENTS = {**SETTINGS, **SHAPE}
# What 0 and None stand for: the model chooses by the data, or there is no limit.
AUTOMATIC = {"batch_size": 256.0, "max_depth": 20.0, "patience": 100.0, "max_width": 1024.0}

NEAREST = 3  # measured costs that an estimate is the mean of
SPREAD, SPREAD_AWAY = 0.4, 0.5  # of log seconds: where it was measured, and more a unit of distance


Settings = Mapping[str, float | str]


@dataclass(frozen=True)
class Work:
    """A fit to be made, or made: settings that decide its cost, training rows, features, classes (1
    for regression)."""

    settings: Settings
    rows: int
    features: int
    classes: int

    def logs(self) -> list[float]:
        """For each size the logarithm of its factor in the seconds, in the order of EXPONENTS."""
        shape = {"rows": self.rows, "features": self.features, "classes": self.classes}
        sizes = {**self.settings, **shape}
        if isinstance(how := sizes.get("max_features"), str):
            sizes["max_features"] = self._share(how)
        return [power * math.log(_size(name, sizes)) for name, power in EXPONENTS.items()]

    def _share(self, how: str) -> float:
        """The share of the features at which the splits of a forest look, by its name."""
        if how == "default":
            how = "all" if self.classes == 1 else "sqrt"
        number = {"sqrt": math.sqrt, "log2": math.log2}.get(how, float)(self.features)
        return max(1.0, number) / self.features


def _size(name: str, sizes: Mapping[str, Any]) -> float:
    value = sizes.get(name)
    if not isinstance(value, int | float) or not value > 0:
        value = AUTOMATIC.get(name, 1.0)
    return float(value)


def settings_of(config: Mapping[str, Any], defaults: Settings) -> dict[str, float | str]:
    """The settings of a configuration that decide its cost, with the model's defaults for those
    that it does not set; automatic ones are 0, and a share of features may be a word.

    >>> settings_of({"epochs": 60, "dropout": 0.1}, {"epochs": 100, "batch_size": None})
    {'epochs': 60.0, 'batch_size': 0.0}
    """
    values, found = {**defaults, **config}, dict[str, float | str]()
    for name in SETTINGS:
        value = values.get(name, "")
        if isinstance(value, int | float | None):
            found[name] = round(float(value or 0), 6)
        elif name == "max_features" and value:
            found[name] = value
    return found


@dataclass(frozen=True)
class Cost:
    """A measured cost: mean seconds of `fits` fits (CPU seconds, on a GPU those of the clock)."""

    work: Work
    fits: int
    seconds: float


@dataclass
class CostTable:
    """The shipped costs. machine: {"cpu", ...} of the machine that they were measured
    on; defaults: each model's settings where a configuration is silent."""

    machine: dict[str, Any]
    defaults: dict[str, Settings] = field(default_factory=dict)
    costs: dict[str, list[Cost]] = field(default_factory=dict)


@cache
def shipped() -> CostTable:
    """The table that ships with the product."""
    data = json.loads(FILE.read_text(encoding="utf-8"))
    table = CostTable(data["machine"])
    for model, entry in data["models"].items():
        table.defaults[model] = entry["defaults"]
        table.costs[model] = [
            Cost(Work(settings, rows, features, classes), fits, seconds)
            for rows, features, classes, fits, seconds, settings in entry["costs"]
        ]
    return table


class Lookup:
    """Seconds of a model's fit: those of the nearest measured ones, scaled by their sizes."""

    def __init__(self, costs: Sequence[Cost]) -> None:
        import numpy as np

        self._logs = np.array([cost.work.logs() for cost in costs])
        self._seconds = np.log([max(cost.seconds, 1e-3) for cost in costs])

    def __call__(self, work: Work) -> tuple[float, float]:
        """(expected seconds, standard deviation of their logarithm) of a fit."""
        import numpy as np

        factors = np.array(work.logs()) - self._logs
        apart = np.abs(factors).sum(axis=1)
        near = apart.argsort()[:NEAREST]
        told = factors[near].sum(axis=1) + self._seconds[near]
        mean = np.average(told, weights=1 / (0.1 + apart[near]) ** 2)
        return math.exp(mean), SPREAD + SPREAD_AWAY * float(apart[near[0]])
