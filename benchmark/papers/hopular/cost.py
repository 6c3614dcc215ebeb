"""Memory and step time of Hopular beside NPT (Schaefl et al. 2022, A.4 and A.5).

Tables A.7 and A.8: a training step on each medium-sized table, asked with one row or with all
training rows, for the smallest and the largest network of each grid. Figures A.5 and A.6: memory
against the number of rows and of attributes, one block, one row asked. In all cases Hopular's
memory holds every training row. Every measurement is a process of its own.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from ....datasets.protocols import make_folds
from ....models.deep.trainer import Training, computing, seeded
from ....models.hopular.estimator import Hopular
from ....models.npt.estimator import NPT
from ..available import on_available
from ..experiment_files import new_figure, save_figure
from ..experiment_result import ExperimentResult, ExperimentTable, Setting
from ..own_process import in_own_process
from ..published_values import printed_values

FOLDER = Path(__file__).parent

GIB = 2**30
MODES = ("single-sample", "full-batch")
NETWORKS = ("smallest-model", "largest-model")
DATASETS = ("sulfur", "colleges", "eye-movements", "gesture-phase", "blastchar", "shrutime")


def pairs(width: int, blocks: int, nets: int) -> dict[str, list[dict[str, int]]]:
    """Configurations of the smallest and the largest network of each method, one size beside its
    double; two NPT layers are what one block of Hopular is."""
    return {
        "hopular": [{"width": width, "n_blocks": k * blocks, "n_nets": k * nets} for k in (1, 2)],
        "npt": [{"width": width, "n_layers": 2 * k * blocks, "n_heads": k * nets} for k in (1, 2)],
    }


SIZES: dict[str, dict[str, Any]] = {
    "tiny": {
        "rows": 50,
        "repeats": 1,
        "models": pairs(4, 1, 1),
        "grid": [(n, d) for d in (3, 4) for n in (20, 30)],
        "datasets": ("sulfur",),
    },
    "reduced": {
        "rows": 2000,
        "repeats": 2,
        "models": pairs(16, 1, 1),
        "grid": [(n, d) for d in (10, 50, 200) for n in (100, 1000, 10_000)],
        "datasets": DATASETS,
    },
    "full": {
        "rows": 0,
        "repeats": 10,
        "models": pairs(32, 4, 8),
        "grid": [
            (n, d) for d in (100, 200, 500, 1000, 2000, 4000) for n in (100, 1000, 10_000, 100_000)
        ],
        "datasets": DATASETS,
    },
}
ONE_BLOCK = {"width": 8, "n_blocks": 1, "n_nets": 1}

Rows = tuple[pd.DataFrame, np.ndarray, str]  # features, target, kind of task

# -- in the process that measures -----------------------------------------------------------------


def random_rows(n: int, d: int) -> Rows:
    """n rows of random numbers with d attributes, the target included."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((n, d - 1), dtype=np.float32).astype(float))
    return frame, rng.standard_normal(n), "regression"


def rows_of(setting: Setting, dataset: str | tuple[int, int], n: int) -> Rows:
    """n training rows of a dataset's first fold, 0 for all; or of (rows, attributes) random
    numbers."""
    if not isinstance(dataset, str):
        return random_rows(*dataset)
    data = setting.load(dataset)
    rows = make_folds(data, "official")[0].train
    if 0 < n < len(rows):
        rows = np.sort(np.random.default_rng(0).choice(rows, n, replace=False))
    return data.rows(rows), data.target[rows], data.task


def training_of(
    method: str, config: Mapping[str, Any], frame: pd.DataFrame, y: np.ndarray, task: str,
    device: str,
) -> Training:  # fmt: skip
    """The method on a table, before its first step; no validation rows, the default losses."""
    model: Any = (Hopular if method == "hopular" else NPT)(
        task=task, steps=10**6, eval_every=10**6, device=device, **config
    )
    if method == "npt":
        with model._others(None, None):
            rows = model._prepare(frame, y)
    else:
        rows = model._prepare(frame, y)
    with seeded(0):
        made = model._task(rows, None)
    return Training(made, model._recipe(), seed=0, device=device)


def ask_one_row(training: Training) -> None:
    """Make all further steps predict one row: Hopular with all rows in its memory, NPT with no
    other row."""
    task: Any = training.task
    if hasattr(task, "rows") and isinstance(task.rows, torch.Tensor):
        task.rows = task.rows[:1]
        return
    task.cells, task.parts = task.cells[:1], task.parts[:1]
    task.batches = type(task.batches)(np.zeros(1, dtype=np.int64), 1, 0)


def measure(
    setting: Setting,
    method: str,
    config: Mapping[str, Any],
    dataset: str | tuple[int, int],
    n: int,
    mode: str,
    repeats: int,
) -> dict[str, float]:
    """Peak memory in GiB over what there was before the first step, and the median time of a step
    in ms. dataset, n: as in `rows_of`. mode: of MODES."""
    rows, device = rows_of(setting, dataset, n), setting.device
    with computing(setting.threads):
        _warm(method, device)
        before = 0.0 if device == "cuda" else _status_gib("VmRSS")
        if device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        training = training_of(method, config, *rows, device)
        if mode == MODES[0]:
            ask_one_row(training)
        times = [_seconds(training, device) for _ in range(repeats + 1)][1:]
    return {
        "GiB": max(0.0, _peak_gib(device) - before),
        "ms": 1000 * statistics.median(times),
    }


def _warm(method: str, device: str) -> None:
    """A step on a tiny table, so that what libraries load once is not counted."""
    config = {"width": 4, **({"n_nets": 1} if method == "hopular" else {"n_heads": 1})}
    training_of(method, config, *random_rows(20, 3), device).run(1)


def _seconds(training: Training, device: str) -> float:
    began = time.perf_counter()
    training.run(training.step + 1)
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - began


def _peak_gib(device: str) -> float:
    return torch.cuda.max_memory_allocated() / GIB if device == "cuda" else _status_gib("VmHWM")


def _status_gib(key: str) -> float:
    with Path("/proc/self/status").open() as file:
        return next(int(line.split()[1]) * 1024 / GIB for line in file if line.startswith(key))


# -- the experiment -------------------------------------------------------------------------------

Measured = Mapping[tuple[str, str, str, str], Mapping[str, float]]
"""What was measured by dataset, method, mode and network."""


def run(
    setting: Setting,
    *,
    rows: int,
    repeats: int,
    models: Mapping[str, Sequence[Mapping[str, Any]]],
    grid: Sequence[tuple[int, int]],
    datasets: Sequence[str],
) -> ExperimentResult:
    """`bench experiment hopular-cost`. rows: of each table's training part, 0 for all. models: as
    of `pairs`. grid: (rows, attributes) of the figures."""

    def on_dataset(dataset: str) -> dict[tuple[str, str, str, str], dict[str, float]]:
        found = {}
        for method, configs in models.items():
            for network, config in zip(NETWORKS, configs, strict=True):
                setting.say(f"{dataset}: {method}, {network}")
                for mode in MODES:
                    given = (method, config, dataset, rows, mode, repeats)
                    one = in_own_process(measure, setting, *given)
                    if one is not None:
                        found[dataset, method, mode, network] = one
        return found

    # the figures need no dataset
    parts, left_out = on_available(datasets, on_dataset, at_least=0)
    found = {key: measured for part in parts.values() for key, measured in part.items()}
    scaling: dict[tuple[int, int], float | None] = {}
    for n, d in grid:
        setting.say(f"{n} rows, {d} attributes")
        one = in_own_process(measure, setting, "hopular", ONE_BLOCK, (n, d), 0, MODES[0], repeats)
        scaling[n, d] = one["GiB"] if one else None
    memory = ExperimentTable(
        "hopular-cost-scaling",
        "Hopular, Figures A.5 and A.6: peak memory, GiB, one block and one net, e = 8, one row "
        "asked",
        [{"rows n": n, "attributes d": d, "GiB": value} for (n, d), value in scaling.items()],
        "The paper's figures hold no numbers to set beside these.",
    )
    where = "of the GPU" if setting.device == "cuda" else "of the process, above what it held"
    note = f"{_sizes(rows, models)} Memory {where} before the first step."
    ratios = (
        "A reduced size: the ratios between methods and the shape of the curves may be compared "
        "with the paper, the sizes may not."
    )
    return ExperimentResult(
        tables=[*tables_of(found, datasets, note), memory],
        figures=[_figure(setting, scaling)],
        remarks=[*([ratios] if rows else []), *left_out],
        facts={"step_ms": {" ".join(key): value["ms"] for key, value in found.items()}},
    )


def _sizes(rows: int, models: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    (small, large), (npt_small, npt_large) = models["hopular"], models["npt"]
    used = f"{rows} training rows" if rows else "all training rows"
    return (
        f"Ours: {used}, e = {small['width']}; Hopular with {small['n_blocks']} blocks of "
        f"{small['n_nets']} nets to {large['n_blocks']} of {large['n_nets']}, NPT with "
        f"{npt_small['n_layers']} layers of {npt_small['n_heads']} heads to "
        f"{npt_large['n_layers']} of {npt_large['n_heads']}."
    )


def tables_of(found: Measured, datasets: Sequence[str], note: str) -> list[ExperimentTable]:
    """Tables A.7 and A.8."""
    printed_memory, printed_ms = (printed_values(FOLDER, name) for name in ("tableA.7", "tableA.8"))
    memory, times = [], []
    for dataset, method, mode in product(datasets, ("hopular", "npt"), MODES):
        row = {"dataset": dataset, "method": method, "asked": mode}
        networks = {network.partition("-")[0]: network for network in NETWORKS}
        ours = {size: found.get((*row.values(), network), {}) for size, network in networks.items()}
        theirs = {s: printed_memory[dataset, method, f"{mode}/{n}"] for s, n in networks.items()}
        memory.append(
            row
            | {f"ours, {size}": one.get("GiB") for size, one in ours.items()}
            | {f"published, {s}": "> 80" if np.isnan(v) else v for s, v in theirs.items()}
        )
        times.append(
            row
            | {f"ours, {size}": one.get("ms") for size, one in ours.items()}
            | {"published": printed_ms[dataset, method, mode]}
        )
    return [
        ExperimentTable(
            "hopular-table-a7",
            "Hopular, Table A.7: peak memory of a training step, GiB",
            memory,
            f"{note} A dash: it did not fit, or the dataset cannot be had. The published figures "
            "are of an A100 with 80 GB and seem to count what the driver and the library take.",
        ),
        ExperimentTable(
            "hopular-table-a8",
            "Hopular, Table A.8: time of a training step, ms",
            times,
            f"{note} Medians. The paper does not say which of its models it timed.",
        ),
    ]


def _figure(setting: Setting, scaling: Mapping[tuple[int, int], float | None]) -> Path:
    """Memory against n for every d, and against d for every n."""
    figure, axes = new_figure(2)
    table = pd.Series(scaling, dtype=float).unstack()  # n by d
    for axis, lines, name, label in (
        (axes[0][0], table, "d", "training rows n"),
        (axes[0][1], table.T, "n", "attributes d"),
    ):
        lines = lines.rename(columns=f"{name} = {{}}".format)
        lines.plot(ax=axis, loglog=True, marker="o", xlabel=label, ylabel="peak memory, GiB")
        axis.legend(fontsize=7)
    return save_figure(figure, setting.out / "hopular-cost-scaling.png")
