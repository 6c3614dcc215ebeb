"""The body of a trial: fit on the training rows, predict the other two parts, measure the cost.

This module and what it imports take part in every trial's fingerprint, so it holds the computation
and nothing else: scoring, reading and writing live elsewhere and may change without running
anything again.
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..models.sample_weights import fit_by_weights

if TYPE_CHECKING:
    from ..datasets.protocols import Fold
    from ..datasets.table import Table
    from ..sweeps.store.checkpoints import Checkpoints

SAVE_EVERY_S = 20.0  # between two checkpoints of a fit; the one at its last step is always kept
CURVE_POINTS = 100  # of a learning curve are kept in the ledger, beside its lowest


@dataclass(frozen=True)
class Cell:
    """Predictions on "val" and "test" ((n, C) probabilities or (n,) values), costs, extra facts.

    `predict` predicts with the fitted model: a DataFrame of rows in, an array of that form out.
    """

    predictions: dict[str, np.ndarray]
    costs: dict[str, float]
    info: dict[str, Any]
    predict: Callable[[Any], np.ndarray]


class BadConfig(ValueError):
    """The model's constructor refused the configuration."""


def load_class(target: str) -> type:
    """The class behind "package.module:Class"."""
    module, _, name = target.partition(":")
    found = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found  # type: ignore[return-value]


def build(
    target: str,
    *,
    task: str,
    seed: int,
    threads: int,
    config: Mapping[str, Any],
    device: str = "cpu",
) -> Any:
    """An unfitted estimator. Its constructor gets those of task, seed, threads and device that it
    has a parameter for; scikit-learn's `random_state` takes the seed, `n_jobs` the threads."""
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
    if "device" in known:
        given["device"] = device
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
    device: str = "cpu",
    fidelity: Mapping[str, int] | None = None,
    key: str = "",
    checkpoints: Checkpoints | None = None,
    time_limit_s: float | None = None,
) -> Cell:
    """Fit one configuration on one fold. Raises BadConfig and whatever the model raises.

    With a `fidelity` the fit goes to its step "stop", with a boundary every "every" steps
    (`fit_to`), from what `checkpoints` hold under `key`; what goes wrong with them costs time and
    is said in `info`, it never fails the cell. A model that is configured as transductive is given
    the features of the test rows where its fit takes them (`X_test`). `time_limit_s`: a fit in one
    piece of a model that is trained in steps ends after so many seconds, with the best steps so far
    (`limit_time`); `info` says whether it did ("out_of_time"), and nothing of other models.
    """
    load_class(target)  # imports are not part of the fit's cost
    _reset_peak()
    _reset_vram()
    cpu = _cpu_s()
    start = time.perf_counter()
    make = partial(
        build, target, task=task, seed=seed, threads=threads, config=config, device=device
    )
    train = partial(_train, table=table, fold=fold, sees_test=config.get("transductive") is True)
    info: dict[str, Any] = {}
    if fidelity is None:
        estimator = make()
        if time_limit_s is not None and hasattr(estimator, "limit_time") and estimator.resource:
            estimator.limit_time(time_limit_s)
        train(estimator.fit)
        if hasattr(estimator, "out_of_time_"):
            info["out_of_time"] = bool(estimator.out_of_time_)
    else:
        estimator, info = _fit_to(make, train, fidelity, _Keeper(key, checkpoints))
    fitted = time.perf_counter()
    predict = partial(_predict, estimator, task, len(table.classes))
    predictions = {"val": predict(table.rows(fold.val)), "test": predict(table.rows(fold.test))}
    ended = time.perf_counter()
    costs = {
        "fit_s": fitted - start,
        "predict_s": ended - fitted,
        "cpu_s": _cpu_s() - cpu,
        "peak_ram_mb": _peak_mb(),
    }
    vram = _peak_vram_mb()
    if vram:
        costs["peak_vram_mb"] = vram
    step_s = getattr(estimator, "step_s_", None)
    if step_s:  # of a training step, where a model counts it
        costs["step_s"] = float(step_s)
    for name in ("best_iteration_", "n_iter_"):
        value = getattr(estimator, name, None)
        if isinstance(value, int | np.integer):
            info[name.rstrip("_")] = int(value)
    if device != "cpu" and hasattr(estimator, "precision_"):
        info["precision"] = str(estimator.precision_)
    warned = getattr(estimator, "warnings_", None)
    if isinstance(warned, Mapping):  # {category: how many}; a class from elsewhere may differ
        counts = {str(k): int(n) for k, n in warned.items() if isinstance(n, int | np.integer)}
        if counts:
            info["warnings"] = counts
    curve = _curve(estimator)
    if curve:
        info["curve"] = curve
    return Cell(predictions, costs, info, predict)


def _curve(estimator: Any) -> dict[str, Any]:
    """{"by": what its steps count, "points": [[step, validation loss], ...]} of an estimator that
    has `curve_` (n, 2), else {}."""
    points = getattr(estimator, "curve_", None)
    if not (isinstance(points, np.ndarray) and points.ndim == 2 and points.shape[1] == 2):
        return {}
    points = points[np.isfinite(points).all(axis=1)]
    if not len(points):
        return {}
    spread = np.linspace(0, len(points) - 1, min(len(points), CURVE_POINTS)).round().astype(int)
    kept = np.unique([*spread, points[:, 1].argmin()])
    by = getattr(estimator, "resource", None)
    return {"by": str(by or "steps"), "points": [[int(s), float(v)] for s, v in points[kept]]}


def _train(
    fit: Callable[..., Any], *, table: Table, fold: Fold, sees_test: bool, **more: Any
) -> None:
    """`fit` on the training part, with the validation part where it takes one, and by the weights
    of rows where the table has them."""
    y = table.target
    takes = inspect.signature(fit).parameters
    if "X_val" in takes:
        more |= {"X_val": table.rows(fold.val), "y_val": y[fold.val]}
    if sees_test and "X_test" in takes:
        more["X_test"] = table.rows(fold.test)
    X, labels = table.rows(fold.train), y[fold.train]
    if table.weights is None:
        fit(X, labels, **more)
        return
    weights, val_weights = table.weights[fold.train], table.weights[fold.val]
    fit_by_weights(fit, X, labels, weights=weights, val_weights=val_weights, **more)


class _Keeper:
    """A fit's own place among the checkpoints, which never raises: what went wrong is noted."""

    def __init__(self, key: str, checkpoints: Checkpoints | None) -> None:
        self.key, self.checkpoints = key, checkpoints
        self.trouble: dict[str, None] = {}
        self.written = time.monotonic()

    def note(self, what: str, error: Exception) -> None:
        line = (str(error).strip().splitlines() or [""])[0]
        self.trouble[f"{what}: {type(error).__name__}: {line}"[:300]] = None

    def get(self, stop: int) -> tuple[int, bytes] | None:
        """What is kept, unless it lies beyond `stop`."""
        try:
            found = self.checkpoints.get(self.key) if self.checkpoints is not None else None
        except Exception as error:  # a store may be anywhere and fail in any way
            self.note("no checkpoint could be read", error)
            return None
        return found if found is not None and found[0] <= stop else None

    def save(self, step: int, state: bytes, *, stop: int) -> None:
        """Keeps a boundary's state if the last one is old, and that of `stop` always."""
        old = time.monotonic() - self.written >= SAVE_EVERY_S
        if self.checkpoints is None or not (old or step == stop):
            return
        try:
            self.checkpoints.put(self.key, step, state)
        except Exception as error:
            self.note("no checkpoint could be written", error)
        self.written = time.monotonic()


def _fit_to(
    make: Callable[[], Any],
    train: Callable[..., None],
    fidelity: Mapping[str, int],
    keeper: _Keeper,
) -> tuple[Any, dict[str, Any]]:
    """An estimator fitted to the fidelity's "stop", and {"steps", "resumed_from"} of its fit."""
    stop, every = int(fidelity["stop"]), int(fidelity["every"])
    steps = {"stop": stop, "every": every, "save": partial(keeper.save, stop=stop)}
    start = keeper.get(stop)
    estimator = make()
    try:
        train(estimator.fit_to, start=start, **steps)
    except ValueError as error:  # a model's word for a state that is not its own
        if start is None:
            raise
        keeper.note("the checkpoint is of no use", error)
        start, estimator = None, make()
        train(estimator.fit_to, start=None, **steps)
    begun = getattr(estimator, "resumed_from_", start[0] if start else 0)
    info = {"steps": stop, "resumed_from": int(begun)}
    return estimator, info | ({"checkpoints": "; ".join(keeper.trouble)} if keeper.trouble else {})


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
    children = os.times()
    return time.process_time() + children.children_user + children.children_system


def _cuda() -> Any:
    """torch.cuda where this process already uses it; nothing is imported for those who do not."""
    torch = sys.modules.get("torch")
    return torch.cuda if torch is not None and torch.cuda.is_initialized() else None


def _reset_vram() -> None:
    cuda = _cuda()
    if cuda is not None:
        cuda.reset_peak_memory_stats()


def _peak_vram_mb() -> float:
    """Peak of the tensors on this process's GPU since `_reset_vram`, in MB; 0 without one."""
    cuda = _cuda()
    return cuda.max_memory_allocated() / 2**20 if cuda is not None else 0.0


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
