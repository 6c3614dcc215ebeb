"""Memory and step time of Hopular beside NPT (Schaefl et al. 2022, A.4 and A.5).

Tables A.7 and A.8: a training step on each medium-sized table, asked with one row or with all
training rows, for the smallest and the largest network of each grid. Figures A.5 and A.6: memory
against the number of rows and of attributes, one block, one row asked. In all cases Hopular's
memory holds every training row. Every measurement is a process of its own.
"""

from __future__ import annotations

import multiprocessing
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from ....datasets.catalog import load_dataset
from ....datasets.protocols import make_folds
from ....models.deep.trainer import Training, computing, seeded
from ....models.hopular.estimator import Hopular
from ....models.npt.estimator import NPT
from ..available import on_available
from ..experiment_files import new_figure, save_figure
from ..experiment_result import ExperimentResult, ExperimentTable, Setting
from ..published_values import printed_values

FOLDER = Path(__file__).parent

GIB = 2**30
MODES = ("single-sample", "full-batch")
SIZES = ("smallest-model", "largest-model")
DATASETS = ("sulfur", "colleges", "eye-movements", "gesture-phase", "blastchar", "shrutime")


@dataclass(frozen=True)
class Extent:
    """A size of the experiment. rows: of each table's training part, 0 for all. models: method ->
    configurations of its smallest and largest network. grid: (rows, attributes) of the figures."""

    rows: int
    repeats: int
    models: Mapping[str, Sequence[Mapping[str, Any]]]
    grid: Sequence[tuple[int, int]]
    datasets: Sequence[str] = DATASETS


def _pair(width: int, blocks: int, nets: int) -> dict[str, list[dict[str, int]]]:
    """Both methods, one size beside its double; two NPT layers are what one block of Hopular is."""
    return {
        "hopular": [{"width": width, "n_blocks": k * blocks, "n_nets": k * nets} for k in (1, 2)],
        "npt": [{"width": width, "n_layers": 2 * k * blocks, "n_heads": k * nets} for k in (1, 2)],
    }


EXTENTS = {
    "tiny": Extent(50, 1, _pair(4, 1, 1), [(n, d) for d in (3, 4) for n in (20, 30)], ("sulfur",)),
    "reduced": Extent(
        2000,
        2,
        _pair(16, 1, 1),
        [(n, d) for d in (10, 50, 200) for n in (100, 1000, 10_000)],
    ),
    "full": Extent(
        0,
        10,
        _pair(32, 4, 8),
        [(n, d) for d in (100, 200, 500, 1000, 2000, 4000) for n in (100, 1000, 10_000, 100_000)],
    ),
}
ONE_BLOCK = {"width": 8, "n_blocks": 1, "n_nets": 1}


@dataclass(frozen=True)
class Job:
    """What one process measures. data: a dataset's name, or (rows, attributes) of random numbers.
    rows: of the dataset that are used, 0 for all. mode: of MODES."""

    method: str
    config: Mapping[str, Any]
    data: str | tuple[int, int]
    rows: int
    repeats: int
    device: str
    threads: int
    mode: str
    mirror: str | None = None
    cache: str | None = None


Measured = tuple[float, float]
"""Peak memory in GiB, seconds of a training step."""

# -- in the process that measures -----------------------------------------------------------------


def rows_of(job: Job) -> tuple[pd.DataFrame, np.ndarray, str]:
    """(features, target, kind of task): training rows of a dataset's first fold, or random ones of
    so many attributes, the target included."""
    if not isinstance(job.data, str):
        n, d = job.data
        rng = np.random.default_rng(0)
        frame = pd.DataFrame(rng.standard_normal((n, d - 1), dtype=np.float32).astype(float))
        return frame, rng.standard_normal(n), "regression"
    data = load_dataset(job.data, mirror=job.mirror, cache=job.cache)
    rows = make_folds(data, "official")[0].train
    if 0 < job.rows < len(rows):
        rows = np.sort(np.random.default_rng(0).choice(rows, job.rows, replace=False))
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


def measure(job: Job) -> Measured:
    """Peak memory over what there was before the first step, and the median time of a step."""
    frame, y, task = rows_of(job)
    with computing(job.threads):
        _warm(job)
        before = 0.0 if job.device == "cuda" else _status_gib("VmRSS")
        if job.device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        training = training_of(job.method, job.config, frame, y, task, job.device)
        if job.mode == "single-sample":
            ask_one_row(training)
        times = [_seconds(training, job.device) for _ in range(job.repeats + 1)][1:]
    return max(0.0, _peak_gib(job.device) - before), statistics.median(times)


def _warm(job: Job) -> None:
    """A step on a tiny table, so that what libraries load once is not counted."""
    rng = np.random.default_rng(0)
    tiny = pd.DataFrame(rng.standard_normal((20, 2)))
    config = {"width": 4, **({"n_nets": 1} if job.method == "hopular" else {"n_heads": 1})}
    training_of(job.method, config, tiny, rng.standard_normal(20), "regression", job.device).run(1)


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


def attempt(job: Job) -> Measured | None:
    """`measure`, or None where the memory does not suffice."""
    try:
        return measure(job)
    except (MemoryError, torch.cuda.OutOfMemoryError):
        return None


def attempt_in_own_process(job: Job) -> Measured | None:
    """`attempt` in a process of its own, which begins with the libraries loaded; None also where
    the system ended it."""
    fresh = multiprocessing.get_context("forkserver")
    fresh.set_forkserver_preload([__name__, "sklearn.model_selection"])
    with ProcessPoolExecutor(1, mp_context=fresh) as pool:
        try:
            return pool.submit(attempt, job).result()
        except BrokenProcessPool:
            return None


# -- the experiment -------------------------------------------------------------------------------

Key = tuple[str, str, str, str]  # dataset, method, mode, size


def run(
    setting: Setting,
    extent: Extent | None = None,
    one: Callable[[Job], Measured | None] = attempt_in_own_process,
) -> ExperimentResult:
    """`bench experiment hopular-cost`."""
    extent = EXTENTS[setting.size] if extent is None else extent
    on, left_out = on_available(
        extent.datasets, lambda name: _on(setting, extent, name, one), at_least=0
    )  # the figures need no dataset
    found = {key: measured for part in on.values() for key, measured in part.items()}
    scaling: dict[tuple[int, int], float | None] = {}
    for n, d in extent.grid:
        setting.say(f"{n} rows, {d} attributes")
        got = one(_job(setting, extent, "hopular", ONE_BLOCK, (n, d), MODES[0]))
        scaling[n, d] = got[0] if got else None
    where = "of the GPU" if setting.device == "cuda" else "of the process, above what it held"
    note = f"{_sizes(extent)} Memory {where} before the first step."
    return ExperimentResult(
        tables=[_memory(extent, found, note), _times(extent, found, note), _ratios(extent, found),
                _scaling(extent, scaling)],
        figures=[_figure(setting, scaling)],
        remarks=[*_remarks(extent), *left_out],
        facts={"step_s": {" ".join(key): value[1] for key, value in found.items()}},
    )  # fmt: skip


def _on(
    setting: Setting, extent: Extent, dataset: str, one: Callable[[Job], Measured | None]
) -> dict[Key, Measured]:
    """All measurements on one dataset that fitted into memory."""
    found = {}
    for method, configs in extent.models.items():
        for size, config in zip(SIZES, configs, strict=True):
            setting.say(f"{dataset}: {method}, {size}")
            for mode in MODES:
                measured = one(_job(setting, extent, method, config, dataset, mode))
                if measured is not None:
                    found[dataset, method, mode, size] = measured
    return found


def _job(
    setting: Setting, extent: Extent, method: str, config: Mapping[str, Any],
    data: str | tuple[int, int], mode: str,
) -> Job:  # fmt: skip
    return Job(
        method, config, data, extent.rows, extent.repeats, setting.device, setting.threads, mode,
        setting.mirror, setting.cache,
    )  # fmt: skip


def _sizes(extent: Extent) -> str:
    (small, large), (npt_small, npt_large) = extent.models["hopular"], extent.models["npt"]
    rows = f"{extent.rows} training rows" if extent.rows else "all training rows"
    return (
        f"Ours: {rows}, e = {small['width']}; Hopular with {small['n_blocks']} blocks of "
        f"{small['n_nets']} nets to {large['n_blocks']} of {large['n_nets']}, NPT with "
        f"{npt_small['n_layers']} layers of {npt_small['n_heads']} heads to "
        f"{npt_large['n_layers']} of {npt_large['n_heads']}."
    )


def _memory(extent: Extent, found: Mapping[Key, Measured], note: str) -> ExperimentTable:
    theirs = printed_values(FOLDER, "tableA.7")
    rows: list[list[Any]] = []
    for dataset in extent.datasets:
        for method in extent.models:
            for mode in MODES:
                ours = [found.get((dataset, method, mode, size), (None,))[0] for size in SIZES]
                printed = [theirs[dataset, method, f"{mode}/{size}"] for size in SIZES]
                rows.append([dataset, method, mode, *ours, *map(_or_more, printed)])
    columns = ["dataset", "method", "asked", "ours, smallest", "ours, largest"]
    return ExperimentTable(
        "hopular-table-a7",
        "Hopular, Table A.7: peak memory of a training step, GiB",
        [*columns, "published, smallest", "published, largest"],
        rows,
        note
        + " A dash: it did not fit, or the dataset cannot be had. The published figures are of an "
        "A100 with 80 GB and seem to count what the driver and the library take.",
    )


def _or_more(value: float) -> float | str:
    return "> 80" if np.isnan(value) else value


def _times(extent: Extent, found: Mapping[Key, Measured], note: str) -> ExperimentTable:
    theirs = printed_values(FOLDER, "tableA.8")
    rows: list[list[Any]] = []
    for dataset in extent.datasets:
        for method in extent.models:
            for mode in MODES:
                ours = [found.get((dataset, method, mode, size)) for size in SIZES]
                took = [None if value is None else 1000 * value[1] for value in ours]
                rows.append([dataset, method, mode, *took, theirs[dataset, method, mode]])
    return ExperimentTable(
        "hopular-table-a8",
        "Hopular, Table A.8: time of a training step, ms",
        ["dataset", "method", "asked", "ours, smallest", "ours, largest", "published"],
        rows,
        note + " Medians. The paper does not say which of its models it timed.",
    )


def _ratios(extent: Extent, found: Mapping[Key, Measured]) -> ExperimentTable:
    """Ratios of NPT and Hopular when all rows are predicted at once, as in the paper's claim."""
    memory, times = printed_values(FOLDER, "tableA.7"), printed_values(FOLDER, "tableA.8")
    rows: list[list[Any]] = []
    for dataset in extent.datasets:
        pair = [found.get((dataset, m, MODES[1], SIZES[0])) for m in ("hopular", "npt")]
        a, b = pair
        ours = [None, None] if a is None or b is None else [b[0] / a[0], a[1] / b[1]]
        key = f"{MODES[1]}/{SIZES[0]}"
        theirs = [
            memory[dataset, "npt", key] / memory[dataset, "hopular", key],
            times[dataset, "hopular", MODES[1]] / times[dataset, "npt", MODES[1]],
        ]
        rows.append([dataset, ours[0], theirs[0], ours[1], theirs[1]])
    return ExperimentTable(
        "hopular-cost-ratios",
        "All rows asked, smallest networks: memory of NPT in that of Hopular, and step time of "
        "Hopular in that of NPT",
        ["dataset", "memory, ours", "memory, published", "time, ours", "time, published"],
        rows,
        "Full-batch NPT here recomputes attention in blocks, so its memory does not grow with the "
        "square of the rows as that of the authors' NPT does.",
    )


def _scaling(extent: Extent, scaling: Mapping[tuple[int, int], float | None]) -> ExperimentTable:
    return ExperimentTable(
        "hopular-cost-scaling",
        "Hopular, Figures A.5 and A.6: peak memory, GiB, one block and one net, e = 8, one row "
        "asked",
        ["rows n", "attributes d", "GiB"],
        [[n, d, value] for (n, d), value in scaling.items()],
        "The paper's figures hold no numbers to set beside these.",
    )


def _figure(setting: Setting, scaling: Mapping[tuple[int, int], float | None]) -> Path:
    """Memory against n for every d, and against d for every n."""
    figure, axes = new_figure(2)
    for axis, own, other, name, label in (
        (axes[0][0], 0, 1, "d", "training rows n"),
        (axes[0][1], 1, 0, "n", "attributes d"),
    ):
        for fixed in sorted({key[other] for key in scaling}):
            points = sorted((k[own], v) for k, v in scaling.items() if k[other] == fixed and v)
            axis.plot(
                [x for x, _ in points],
                [y for _, y in points],
                marker="o",
                label=f"{name} = {fixed}",
            )
        axis.set(xscale="log", yscale="log", xlabel=label, ylabel="peak memory, GiB")
        axis.legend(fontsize=7)
    return save_figure(figure, setting.out / "hopular-cost-scaling.png")


def _remarks(extent: Extent) -> list[str]:
    if not extent.rows:
        return []
    return [
        "A reduced size: the ratios between methods and the shape of the curves may be compared "
        "with the paper, the sizes may not."
    ]
