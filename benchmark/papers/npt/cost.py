"""Time and memory of NPT beside the baselines' (Kossen et al. 2021, B.6).

Tables 6 and 7 set the whole tuning of each baseline against one training of NPT. Here some
configurations of each paper's grid are fitted, each method in a process of its own, whose peak of
memory is then its own; the whole is the measured time, times how much of it is left out.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ....datasets.catalog import card, load_dataset
from ....datasets.protocols import make_folds
from ....datasets.table import Table as Data
from ....models.deep.cells import Columns
from ....models.npt.network import NPTNetwork
from ....models.registry import names, spaces, spec
from ....sweeps.search.space import Space
from ...cell import run_cell
from ..available import on_available
from ..experiment_result import ExperimentResult, ExperimentTable, Setting, Size
from ..published_values import load, printed_values

FOLDER = Path(__file__).parent

PUBLISHED = {"protein": "table6", "higgs": "table7"}  # dataset: table
GRIDS = "table16"  # how many configurations the paper searched
OURS = {"mlp": "mlp-sklearn"}  # where our name is another one
SPACES = ("npt-{dataset}", "npt-medium", "npt")  # a method's grid: the first that it has
TASKS = {"protein": "regression", "higgs": "binary"}
PAPER_STEPS = {"protein": 400_000, "higgs": 500_000}
_PAPER = {"n_layers": 8, "n_heads": 8, "lr": 1e-3, "schedule_share": 0.7, "transductive": True}


@dataclass(frozen=True)
class Extent:
    """A size of the experiment. rows: of each dataset, 0 for all. configs: of each baseline's grid
    that are fitted, 0 for all. npt: configuration of NPT on each dataset. own_process: whether each
    method runs in a process of its own; without, its peak of memory is of all before it, too.
    cut: values of a method that take the place of the grid's, where only that it runs matters."""

    rows: int
    configs: int
    methods: tuple[str, ...]
    npt: Mapping[str, Mapping[str, Any]]
    own_process: bool = True
    cut: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


METHODS = (
    "random-forest", "gradient-boosting", "xgboost", "catboost", "lightgbm", "mlp", "knn", "tabnet",
    "npt",
)  # fmt: skip
_SMALL = {
    "width": 16, "n_layers": 4, "n_heads": 2, "lr": 1e-2, "steps": 40, "eval_every": 20,
    "batch_size": 256, "transductive": True,
}  # fmt: skip
_TINY = {"width": 4, "n_layers": 2, "n_heads": 1, "steps": 2, "transductive": True}
EXTENTS: dict[Size, Extent] = {
    "tiny": Extent(
        80, 1, METHODS, {"protein": _TINY, "higgs": _TINY}, False, {"tabnet": {"epochs": 2}}
    ),
    "reduced": Extent(1000, 2, METHODS, {"protein": _SMALL, "higgs": {**_SMALL, "width": 8}}),
    "full": Extent(
        0,
        0,
        METHODS,
        {
            "protein": {
                **_PAPER, "width": 128, "batch_size": 2048, "p_target": 0.15, "steps": 400_000,
                "eval_every": 2000,
            },
            "higgs": {
                **_PAPER, "width": 64, "batch_size": 4096, "p_target": 1.0, "steps": 500_000,
                "eval_every": 50_000,
            },
        },
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Job:
    """One method on one dataset."""

    method: str
    dataset: str
    extent: Extent
    seed: int
    device: str
    threads: int
    mirror: str | None = None
    cache: str | None = None


@dataclass(frozen=True)
class Cost:
    """fits: configurations that were fitted, of `grid`. fit_s, predict_s, cpu_s (of both): seconds
    a configuration, on average. step_s: of a training step. whole_s: of the whole grid, for NPT of
    all the paper's steps. peak_ram_gb, peak_vram_gb: of the process and of the GPU. parameters: of
    a network."""

    n_rows: int
    fits: int
    grid: int
    fit_s: float
    predict_s: float
    cpu_s: float
    whole_s: float
    peak_ram_gb: float
    peak_vram_gb: float | None = None
    step_s: float | None = None
    parameters: int | None = None


def some_rows(data: Data, n: int, seed: int) -> Data:
    """n rows of a table drawn without replacement (0 or more than there are: all)."""
    if not 0 < n < data.n_rows:
        return data
    rows = np.sort(np.random.default_rng(seed).choice(data.n_rows, n, replace=False))
    return replace(data, frame=data.rows(rows), target=data.target[rows], masks=())


def generated(n: int, seed: int) -> Data:
    """A table of Higgs' shape, 28 numbers and two classes, where its 2.8 GB are not wanted."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 28))
    y = (x[:, :4].sum(axis=1) + x[:, 4] * x[:, 5] + rng.normal(size=n) > 0).astype(np.int64)
    frame = pd.DataFrame(x, columns=[f"x{j}" for j in range(28)])
    return Data("higgs (generated)", frame, y, "binary", ("background", "signal"), "")


def parameters(data: Data, config: Mapping[str, Any]) -> int:
    """Weights of an NPT on a table."""
    kinds = data.kinds
    sizes = [1 if k == "numeric" else len(data.frame[c].cat.categories) for c, k in kinds.items()]
    columns = Columns(
        (*sizes, max(1, data.n_classes)),
        (*(k == "categorical" for k in kinds.values()), data.n_classes > 0),
        (len(sizes),),
    )
    shape = {k: config[k] for k in ("width", "n_layers", "n_heads") if k in config}
    return sum(p.numel() for p in NPTNetwork(columns, **shape).parameters())


def configs_of(job: Job, task: str) -> tuple[list[dict[str, Any]], int]:
    """(configurations to fit, size of the paper's grid): a seeded choice of distinct ones."""
    if job.method == "npt":
        return [dict(job.extent.npt[job.dataset])], 1
    name = OURS.get(job.method, job.method)
    listed = spaces(name, task)
    declared = listed[_space(job.dataset, listed)]
    space = Space.parse(declared)
    size = space.size
    assert size is not None, f"the grid of {name} is finite"
    wanted = min(size, int(declared["search"].get("n_configs", size)))
    order = np.random.default_rng(job.seed).permutation(size)[: job.extent.configs or wanted]
    cut = job.extent.cut.get(job.method, {})
    return [{**space.grid_point(int(i)), **cut} for i in order], wanted


def has_grid(method: str, dataset: str) -> bool:
    """Whether the method is a model here and the paper's grid of it one of its spaces."""
    name, task = OURS.get(method, method), TASKS[dataset]
    if method == "npt":
        return True
    return name in names() and bool(_space(dataset, spaces(name, task)))


def _space(dataset: str, listed: Iterable[str]) -> str:
    """The space with the paper's grid for a dataset, of those that a method has; "" without one."""
    wanted = [name.format(dataset=dataset) for name in SPACES]
    return next((name for name in wanted if name in listed), "")


def cost_of(job: Job) -> Cost:
    """Fits the configurations of a job, one after the other."""
    extent = job.extent
    if job.dataset == "higgs" and extent.rows:
        data = generated(extent.rows, job.seed)
        protocol = "holdout"
    else:
        data = some_rows(
            load_dataset(job.dataset, mirror=job.mirror, cache=job.cache), extent.rows, job.seed
        )
        protocol = card(job.dataset).protocol
    fold = make_folds(data, protocol, seed=job.seed)[0]
    model = spec(OURS.get(job.method, job.method))
    configs, grid = configs_of(job, data.task)
    costs = [
        run_cell(
            target=model.target, task=data.task, config=config, seed=job.seed,
            threads=job.threads, table=data, fold=fold, device=job.device,
        ).costs
        for config in configs
    ]  # fmt: skip
    fit_s, predict_s, cpu_s = (
        float(np.mean([c[k] for c in costs])) for k in ("fit_s", "predict_s", "cpu_s")
    )
    vram = max(c.get("peak_vram_mb", 0.0) for c in costs)
    cost = Cost(
        n_rows=data.n_rows,
        fits=len(configs),
        grid=grid,
        fit_s=fit_s,
        predict_s=predict_s,
        cpu_s=cpu_s,
        whole_s=(fit_s + predict_s) * grid,
        peak_ram_gb=max(c["peak_ram_mb"] for c in costs) / 1024,
        peak_vram_gb=vram / 1024 if vram else None,
    )
    if job.method != "npt":
        return cost
    whole = fit_s * PAPER_STEPS[job.dataset] / configs[0]["steps"] + predict_s
    step_s = costs[0].get("step_s")
    return replace(cost, step_s=step_s, whole_s=whole, parameters=parameters(data, configs[0]))


def cost_in_own_process(job: Job) -> Cost:
    """`cost_of` in a fresh process, so that its peak of memory is its own."""
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=fresh) as pool:
        return pool.submit(cost_of, job).result()


def run(setting: Setting, extent: Extent | None = None) -> ExperimentResult:
    """`bench experiment npt-cost`."""
    extent = EXTENTS[setting.size] if extent is None else extent
    tables, left_out = on_available(extent.npt, lambda dataset: _measured(setting, extent, dataset))
    return ExperimentResult(list(tables.values()), remarks=left_out)


def _measured(setting: Setting, extent: Extent, dataset: str) -> ExperimentTable:
    """The table of a dataset: a row a method."""
    one = cost_in_own_process if extent.own_process else cost_of
    rows = []
    for method in extent.methods:
        cost = None
        if has_grid(method, dataset):
            setting.say(f"{dataset}: {method}")
            job = Job(
                method, dataset, extent, setting.seed, setting.device, setting.threads,
                setting.mirror, setting.cache,
            )  # fmt: skip
            cost = one(job)
        rows.append(_row(method, cost, setting.threads) + _published(dataset, method))
    return _table(dataset, rows, extent)


def _row(method: str, cost: Cost | None, threads: int) -> list[Any]:
    if cost is None:
        return [method, *[None] * 11]
    return [
        method, cost.n_rows, threads, f"{cost.fits} of {cost.grid}", cost.fit_s,
        None if cost.step_s is None else 1000.0 * cost.step_s, cost.predict_s, cost.cpu_s,
        cost.whole_s, cost.peak_ram_gb, cost.peak_vram_gb, cost.parameters,
    ]  # fmt: skip


def _published(dataset: str, method: str) -> list[Any]:
    """[configurations searched, CPUs, seconds, GB of main memory, GB of the GPU] as printed, None
    where nothing is."""
    searched = printed_values(FOLDER, GRIDS).get((dataset, method))
    table = load(FOLDER, PUBLISHED[dataset])
    rows = table[table["method"] == method].set_index("metric")["value"]
    metrics = ("n-cpus", "execution-time", "peak-main-memory", "peak-gpu-memory")
    return [searched, *(float(rows[m]) if m in rows else None for m in metrics)]


def _table(dataset: str, rows: list[list[Any]], extent: Extent) -> ExperimentTable:
    size = f"{extent.rows} rows" if extent.rows else "all rows"
    note = (
        "whole: of the grid without configurations that give the same model, projected from those "
        "fitted; the published grid counts them all. For NPT of the paper's number of steps at the "
        "size of this run. Peak memory: of a process with the libraries it loads. The published "
        "times are of whole tunings, and of one training of NPT; its machines were others."
    )
    if dataset == "higgs" and extent.rows:
        note += " The rows are generated in Higgs' shape."
    return ExperimentTable(
        f"npt-cost-{dataset}",
        f"Time and memory on {dataset}, {size}",
        ["method", "rows", "threads", "fitted", "fit s", "step ms", "predict s", "cpu s", "whole s",
         "peak GB", "peak GPU GB", "parameters", "published grid", "published CPUs",
         "published s", "published GB", "published GPU GB"],
        rows,
        note,
    )  # fmt: skip
