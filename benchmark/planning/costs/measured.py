"""What trials cost: measured costs, and a regression from them to configurations not measured.

The costs in `table.json` ship with the product; `benchmark/perf/costs/harvest.py` makes the
file from ledgers. Trials in the user's own ledgers join them as further points.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("table.json")

# Cost of a fit ~ product of value ** exponent: the exponent expected before anything is measured,
# and how far from it measurements may take it (standard deviation).
SHAPE = {"rows": (0.8, 0.3), "features": (0.5, 0.3), "classes": (0.4, 0.4)}
SETTINGS = {
    **dict.fromkeys(("epochs", "steps", "n_estimators", "n_trees", "max_rounds"), (0.8, 0.3)),
    **dict.fromkeys(("n_layers", "n_blocks", "n_nets", "n_cross_layers"), (0.7, 0.3)),
    # Quadratic in wide networks; in narrow ones what surrounds the products of matrices counts.
    **dict.fromkeys(("width", "width_middle", "hidden", "embedding"), (0.6, 0.4)),
    **dict.fromkeys(("batch_size",), (-0.6, 0.3)),
    **dict.fromkeys(("learning_rate", "lr"), (-0.2, 0.2)),
    **dict.fromkeys(("max_depth", "depth", "num_leaves", "max_leaf_nodes"), (0.4, 0.3)),
    **dict.fromkeys(("n_heads", "n_decoder_layers"), (0.4, 0.3)),
    **dict.fromkeys(("max_width", "max_iter", "pretrain_epochs"), (0.2, 0.2)),
    **dict.fromkeys(("k", "n_copies", "outer_bags", "n_steps", "n_hidden_layers"), (0.5, 0.3)),
    **dict.fromkeys(("patience", "early_stopping_rounds"), (0.2, 0.2)),
}
AXES = {**SETTINGS, **SHAPE}
# What 0 and None stand for: the model chooses by the data, or there is no limit.
AUTOMATIC = {"batch_size": 256.0, "max_depth": 12.0, "patience": 100.0, "max_width": 1024.0}

LEVEL_SD = 5.0  # of a model's cost at size one, before anything is measured
ELSEWHERE_SD = 0.5  # of all costs of a model between another machine, scaled by its speed, and here
SMOOTH_SD, SMOOTH_LENGTH = 0.4, 1.5  # what exponents do not explain, and over which distance
NOISE_SD = 0.3  # of one fit among its like
MOST = 150  # points a model that the regression takes


@dataclass(frozen=True)
class Work:
    """A fit to be made, or made: settings that decide its cost, training rows, features, classes (1
    for regression)."""

    settings: Mapping[str, float]
    rows: int
    features: int
    classes: int

    def logs(self) -> list[float]:
        """The logarithms of its sizes, in the order of AXES."""
        sizes = {**self.settings, **self.shape}
        return [math.log(_size(name, sizes.get(name))) for name in AXES]

    @property
    def shape(self) -> dict[str, float]:
        """Rows, features and classes."""
        return {"rows": self.rows, "features": self.features, "classes": self.classes}


def _size(name: str, value: Any) -> float:
    if not isinstance(value, int | float) or not value > 0:
        value = AUTOMATIC.get(name, 1.0)
    return float(value)


def settings_of(config: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, float]:
    """The settings of a configuration that decide its cost, with the model's defaults for those
    that it does not set; automatic ones are 0.

    >>> settings_of({"epochs": 60, "dropout": 0.1}, {"epochs": 100, "batch_size": None})
    {'epochs': 60.0, 'batch_size': 0.0}
    """
    found = {**defaults, **config}
    return {
        name: round(float(found[name] or 0), 6)
        for name in SETTINGS
        if name in found and isinstance(found[name], int | float | None)
    }


@dataclass(frozen=True)
class Cost:
    """A measured cost: mean seconds of `fits` fits (CPU seconds, on a GPU those of the clock), peak
    memory of the process in MB, and whether it was measured on this machine."""

    work: Work
    fits: int
    seconds: float
    mb: float
    here: bool = False


@dataclass
class CostTable:
    """The shipped costs. machine: {"cpu", "probe_s", ...} of the machine that they were measured
    on; defaults: each model's settings where a configuration is silent."""

    machine: dict[str, Any]
    defaults: dict[str, dict[str, float]] = field(default_factory=dict)
    costs: dict[str, list[Cost]] = field(default_factory=dict)


def read_table(file: Path = FILE) -> CostTable:
    """The costs in a file like `table.json`."""
    data = json.loads(file.read_text(encoding="utf-8"))
    table = CostTable(data["machine"])
    for model, entry in data["models"].items():
        table.defaults[model] = entry["defaults"]
        table.costs[model] = [
            Cost(Work(settings, rows, features, classes), fits, seconds, mb)
            for rows, features, classes, fits, seconds, mb, settings in entry["costs"]
        ]
    return table


@cache
def shipped() -> CostTable:
    """The table that ships with the product."""
    return read_table()


class Regression:
    """Seconds of a model's fits: log-linear in their sizes, with what measured fits say of the
    exponents and of their surroundings (a Gaussian process with a linear prior mean).

    costs: measured on this machine or, scaled by its speed, elsewhere; at least one.
    """

    def __init__(self, costs: Sequence[Cost]) -> None:
        import numpy as np

        # The user's own come first; of the others the best known.
        kept = sorted(costs, key=lambda cost: (not cost.here, -cost.fits))[:MOST]
        self._prior = np.array([exponent for exponent, _ in AXES.values()])
        self._spread = np.array([sd for _, sd in AXES.values()]) ** 2
        self._x = np.array([cost.work.logs() for cost in kept])
        y = np.log([max(cost.seconds, 1e-3) for cost in kept]) - self._x @ self._prior
        elsewhere = np.array([0.0 if cost.here else 1.0 for cost in kept])
        cov = self._covariance(self._x) + ELSEWHERE_SD**2 * np.outer(elsewhere, elsewhere)
        cov += np.diag([NOISE_SD**2 / cost.fits + 0.1**2 for cost in kept])
        self._inverse = np.linalg.inv(cov)
        self._weights = self._inverse @ y
        self._here = bool((elsewhere == 0).any())

    def _covariance(self, x: Any) -> Any:
        import numpy as np

        linear = (x * self._spread) @ self._x.T
        apart = ((x[:, None, :] - self._x[None, :, :]) ** 2).sum(axis=2)
        return LEVEL_SD**2 + linear + SMOOTH_SD**2 * np.exp(-apart / (2 * SMOOTH_LENGTH**2))

    def __call__(self, works: Sequence[Work]) -> tuple[Any, Any]:
        """(expected seconds, standard deviation of their logarithm) of fits, as arrays."""
        import numpy as np

        x = np.array([work.logs() for work in works])
        near = self._covariance(x)
        own = LEVEL_SD**2 + (x**2) @ self._spread + SMOOTH_SD**2
        variance = own - ((near @ self._inverse) * near).sum(axis=1)
        seconds = np.exp(x @ self._prior + near @ self._weights)
        return seconds, np.sqrt(np.maximum(variance, 0.0))


def place(cost: Cost) -> tuple[Any, ...]:
    """What costs of almost the same settings and shape have in common."""
    return (cost.here, *(round(2 * value) for value in cost.work.logs()))


def condensed(costs: Iterable[Cost]) -> list[Cost]:
    """Costs with almost the same settings and shape as one, the mean of their fits."""
    groups: dict[tuple[Any, ...], list[Cost]] = {}
    for cost in costs:
        groups.setdefault(place(cost), []).append(cost)
    return [mean_cost(group) for group in groups.values()]


def mean_cost(group: Sequence[Cost]) -> Cost:
    """One cost for several: settings and shape in their middle, mean seconds, the most memory."""
    fits = sum(cost.fits for cost in group)

    def mean(sizes: Sequence[float]) -> float:
        total = sum(cost.fits * math.log(size) for cost, size in zip(group, sizes, strict=True))
        return math.exp(total / fits)

    names = group[0].work.settings
    work = Work(
        {n: mean([_size(n, cost.work.settings.get(n)) for cost in group]) for n in names},
        *(round(mean([cost.work.shape[name] for cost in group])) for name in SHAPE),
    )
    seconds = sum(cost.fits * cost.seconds for cost in group) / fits
    return Cost(work, fits, seconds, max(cost.mb for cost in group), group[0].here)
