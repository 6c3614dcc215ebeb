"""Time and memory of NPT beside the baselines' (Kossen et al. 2021, B.6).

Tables 6 and 7 set the whole tuning of each baseline against one training of NPT. Here some
configurations of each paper's grid are fitted, each method in a process of its own, whose peak of
memory is then its own; the whole is the measured time, times how much of it is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ....datasets.protocols import make_folds
from ....datasets.table import Table as Data
from ....models.deep.cells import Columns
from ....models.npt.network import NPTNetwork
from ....models.registry import names, spaces, spec
from ....sweeps.search.space import Space
from ...cell import run_cell
from ..available import on_available
from ..experiment_result import ExperimentResult, ExperimentTable, Setting
from ..own_process import in_own_process
from ..published_values import load, printed_values
from .fitted_inputs import paper_configs, some_rows

FOLDER = Path(__file__).parent

PUBLISHED = {"protein": "table6", "higgs": "table7"}  # dataset: table
GRIDS = "table16"  # how many configurations the paper searched
OURS = {"mlp": "mlp-sklearn"}  # where our name is another one
SPACES = ("npt-{dataset}", "npt-medium", "npt")  # a method's grid: the first that it has
TASKS = {"protein": "regression", "higgs": "binary"}
METHODS = (
    "random-forest", "gradient-boosting", "xgboost", "catboost", "lightgbm", "mlp", "knn", "tabnet",
    "npt",
)  # fmt: skip
_SMALL = {
    "width": 16, "n_layers": 4, "n_heads": 2, "lr": 1e-2, "steps": 40, "eval_every": 20,
    "batch_size": 256, "transductive": True,
}  # fmt: skip
_TINY = {"width": 4, "n_layers": 2, "n_heads": 1, "steps": 2, "transductive": True}
SIZES: dict[str, dict[str, Any]] = {
    "tiny": {
        "rows": 80,
        "configs": 1,
        "npt": {"protein": _TINY, "higgs": _TINY},
        "cut": {"tabnet": {"epochs": 2}},
    },
    "reduced": {
        "rows": 1000,
        "configs": 2,
        "npt": {"protein": _SMALL, "higgs": {**_SMALL, "width": 8}},
        "cut": {},
    },
    "full": {"rows": 0, "configs": 0, "npt": {}, "cut": {}},
}


def generated(n: int, seed: int) -> Data:
    """A table of Higgs' shape, 28 numbers and two classes, where its 2.8 GB are not wanted."""
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


def grid_of(method: str, dataset: str, n: int, seed: int) -> tuple[list[dict[str, Any]], int]:
    """(n different configurations of the paper's grid of a baseline, drawn with the seed, size of
    that grid); all for n = 0. Nothing where the method is no model here or has no such grid."""
    name, task = OURS.get(method, method), TASKS[dataset]
    listed = spaces(name, task) if name in names() else {}
    chosen = _space(dataset, listed)
    if not chosen:
        return [], 0
    space = Space.parse(listed[chosen])
    size = space.size
    assert size is not None, f"the grid of {name} is finite"
    wanted = min(size, int(listed[chosen]["search"].get("n_configs", size)))
    order = np.random.default_rng(seed).permutation(size)[: n or wanted]
    return [space.grid_point(int(i)) for i in order], wanted


def _space(dataset: str, listed: Iterable[str]) -> str:
    """The space with the paper's grid for a dataset, of those that a method has; "" without one."""
    wanted = [name.format(dataset=dataset) for name in SPACES]
    return next((name for name in wanted if name in listed), "")


def cost_of(
    setting: Setting, method: str, dataset: str, rows: int, configs: Sequence[Mapping[str, Any]],
    grid: int,
) -> dict[str, Any]:  # fmt: skip
    """What the configurations cost, fitted one after the other: columns of the table.

    Seconds are of a configuration, on average; those of the whole are of the whole grid, of NPT of
    all the paper's steps.
    """
    if dataset == "higgs" and rows:
        data = generated(rows, setting.seed)
        fold = make_folds(data, "holdout", seed=setting.seed)[0]
    else:
        data = setting.load(dataset)
        fold = some_rows(setting.folds(data)[0], rows, setting.seed)
    costs = [
        run_cell(
            target=spec(OURS.get(method, method)).target, task=data.task, config=config,
            seed=setting.seed, threads=setting.threads, table=data, fold=fold,
            device=setting.device,
        ).costs
        for config in configs
    ]  # fmt: skip
    fit_s, predict_s, cpu_s = (
        float(np.mean([c[k] for c in costs])) for k in ("fit_s", "predict_s", "cpu_s")
    )
    network = method == "npt"
    whole_s = (fit_s + predict_s) * grid
    if network:
        steps = paper_configs(dataset)[0]["steps"]
        whole_s = fit_s * steps / configs[0]["steps"] + predict_s
    vram_mb = max(c.get("peak_vram_mb", 0.0) for c in costs)
    return {
        "rows": sum(map(len, (fold.train, fold.val, fold.test))),
        "threads": setting.threads,
        "fitted": f"{len(configs)} of {grid}",
        "fit s": fit_s,
        "step ms": 1000.0 * costs[0]["step_s"] if network else None,
        "predict s": predict_s,
        "cpu s": cpu_s,
        "whole s": whole_s,
        "peak GB": max(c["peak_ram_mb"] for c in costs) / 1024,
        "peak GPU GB": vram_mb / 1024 if vram_mb else None,
        "parameters": parameters(data, configs[0]) if network else None,
    }


def run(
    setting: Setting,
    *,
    rows: int,
    configs: int,
    npt: Mapping[str, Mapping[str, Any]],
    cut: Mapping[str, Mapping[str, Any]],
    methods: Sequence[str] = METHODS,
) -> ExperimentResult:
    """`bench experiment npt-cost`.

    rows: of each dataset, 0 for all. configs: of each baseline's grid that are fitted, 0 for all.
    npt: configuration of NPT on each dataset, where it is not the paper's. cut: values of a method
    that take the place of the grid's, where only that it runs matters.
    """

    def measured(dataset: str) -> ExperimentTable:
        lines = []
        for method in methods:
            if method == "npt":
                chosen, grid = [dict(npt.get(dataset) or paper_configs(dataset)[0])], 1
            else:
                chosen, grid = grid_of(method, dataset, configs, setting.seed)
                chosen = [{**config, **cut.get(method, {})} for config in chosen]
            cost: dict[str, Any] | None = None
            if chosen:
                setting.say(f"{dataset}: {method}")
                cost = in_own_process(cost_of, setting, method, dataset, rows, chosen, grid)
            lines.append({"method": method, **(cost or {}), **published(dataset, method)})
        return _table(dataset, rows, lines)

    tables, left_out = on_available(PUBLISHED, measured)
    return ExperimentResult(list(tables.values()), remarks=left_out)


def published(dataset: str, method: str) -> dict[str, Any]:
    """What is printed of a method on a dataset, None where nothing is."""
    table = load(FOLDER, PUBLISHED[dataset])
    values = table[table["method"] == method].set_index("metric")["value"].to_dict()
    return {
        "published grid": printed_values(FOLDER, GRIDS).get((dataset, method)),
        "published CPUs": values.get("n-cpus"),
        "published s": values.get("execution-time"),
        "published GB": values.get("peak-main-memory"),
        "published GPU GB": values.get("peak-gpu-memory"),
    }


def _table(dataset: str, rows: int, lines: list[dict[str, Any]]) -> ExperimentTable:
    note = (
        "whole: of the grid without configurations that give the same model, projected from those "
        "fitted; the published grid counts them all. For NPT of the paper's number of steps at the "
        "size of this run. Peak memory: of a process with the libraries it loads. The published "
        "times are of whole tunings, and of one training of NPT; its machines were others."
    )
    if dataset == "higgs" and rows:
        note += " The rows are generated in Higgs' shape."
    size = f"{rows} rows" if rows else "all rows"
    title = f"Time and memory on {dataset}, {size}"
    return ExperimentTable(f"npt-cost-{dataset}", title, lines, note)
