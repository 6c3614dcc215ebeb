"""What happens inside one trial? Fit on the training part, predict the other two, count the cost.

This module and what it imports take part in every trial's fingerprint, so it holds the computation
and nothing else: scoring, reading and writing live elsewhere and may change without running
anything again.
"""

from __future__ import annotations

import importlib
import inspect
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from ..datasets.protocols import Fold
    from ..datasets.table import Table


@dataclass(frozen=True)
class Cell:
    """Predictions on "val" and "test" ((n, C) probabilities or (n,) values), costs, extra facts."""

    predictions: dict[str, np.ndarray]
    costs: dict[str, float]
    info: dict[str, Any]


class BadConfig(ValueError):
    """The model's constructor refused the configuration."""


def load_class(target: str) -> type:
    """The class behind "package.module:Class"."""
    module, _, name = target.partition(":")
    found = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found  # type: ignore[return-value]


def build(target: str, *, task: str, seed: int, threads: int, config: Mapping[str, Any]) -> Any:
    """An unfitted estimator. What it does not take of task, seed and threads it is not given; a
    class with scikit-learn's `random_state` or `n_jobs` gets the seed and the threads there."""
    cls = load_class(target)
    known = inspect.signature(cls).parameters
    anything = any(p.kind is p.VAR_KEYWORD for p in known.values())
    given: dict[str, Any] = {}
    for names, value in (
        (("task",), task),
        (("seed", "random_state"), seed),
        (("threads", "n_jobs"), threads),
    ):
        name = next((n for n in names if n in known), names[0] if anything else None)
        if name is not None:
            given[name] = value
    try:
        return cls(**{**given, **config})
    except (TypeError, ValueError) as error:
        raise BadConfig(f"{cls.__name__} refused its configuration: {error}") from error


def run_cell(
    *,
    target: str,
    task: str,
    config: Mapping[str, Any],
    seed: int,
    threads: int,
    table: Table,
    fold: Fold,
) -> Cell:
    """Fit one configuration on one fold. Raises BadConfig and whatever the model raises."""
    load_class(target)  # imports are not part of the fit's cost
    _reset_peak()
    cpu = _cpu_s()
    start = time.perf_counter()
    estimator = build(target, task=task, seed=seed, threads=threads, config=config)
    y = table.target
    extra = {}
    if "X_val" in inspect.signature(estimator.fit).parameters:
        extra = {"X_val": table.rows(fold.val), "y_val": y[fold.val]}
    estimator.fit(table.rows(fold.train), y[fold.train], **extra)
    fitted = time.perf_counter()
    predictions = {
        part: _predict(estimator, task, len(table.classes), table.rows(rows))
        for part, rows in (("val", fold.val), ("test", fold.test))
    }
    costs = {
        "fit_s": fitted - start,
        "predict_s": time.perf_counter() - fitted,
        "cpu_s": _cpu_s() - cpu,
        "peak_ram_mb": _peak_mb(),
    }
    info = {}
    for name in ("best_iteration_", "n_iter_"):
        value = getattr(estimator, name, None)
        if isinstance(value, int | np.integer):
            info[name.rstrip("_")] = int(value)
    return Cell(predictions, costs, info)


def _predict(estimator: Any, task: str, n_classes: int, X: Any) -> np.ndarray:
    """(n,) values, or (n, C) probabilities over all classes, those absent from training at 0."""
    if task == "regression":
        return np.asarray(estimator.predict(X), dtype=np.float64).reshape(len(X))
    found = np.asarray(estimator.predict_proba(X), dtype=np.float64)
    classes = np.asarray(estimator.classes_).astype(int)
    if found.shape != (len(X), len(classes)):
        raise ValueError(
            f"predict_proba gave shape {found.shape} for {len(X)} rows and {len(classes)} classes"
        )
    full = np.zeros((len(X), n_classes))
    full[:, classes] = found
    return full


def _cpu_s() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _reset_peak() -> None:
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError:
        pass  # the peak is then the process's, an upper bound


def _peak_mb() -> float:
    try:
        with open("/proc/self/status") as file:
            for line in file:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) / 1024
    except OSError:
        pass
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
