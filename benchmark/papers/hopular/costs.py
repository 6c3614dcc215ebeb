"""Memory and time of a training step of Hopular and NPT (Schaefl et al. 2022, sec. A.5).

Tables A.7 and A.8: the medium-sized datasets, one row or all rows as the input of a step, the
smallest and the largest model. Figures A.5 and A.6: Hopular on random tables, by rows and
attributes. Memory is the peak of all tensors, those of the optimiser among them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch.profiler import ProfilerActivity, profile

from ....models.registry import make_model
from ..available import on_available
from ..experiment_files import new_figure, save_figure
from ..experiment_result import ExperimentResult, ExperimentTable, Setting
from ..published_values import load

FOLDER = Path(__file__).parent
GIB = 2**30
NEVER = 10**5  # steps: no training here comes to its end
EVERY = ("sulfur", "colleges", "eye-movements", "gesture-phase", "blastchar", "shrutime")
MODES = ("single-sample", "full-batch")
MODELS: dict[str, dict[str, dict[str, Any]]] = {  # Tables A.5 and A.6
    "hopular": {
        "smallest-model": {"n_blocks": 4, "n_nets": 8, "width": 32},
        "largest-model": {"n_blocks": 8, "n_nets": 16, "width": 32},
    },
    "npt": {
        "smallest-model": {"n_layers": 8, "n_heads": 8, "width": 32},
        "largest-model": {"n_layers": 16, "n_heads": 16, "width": 32},
    },
}
REFERENCE = {"n_blocks": 1, "n_nets": 1, "width": 8}  # of Figures A.5 and A.6
SIZES: dict[str, dict[str, Any]] = {
    "tiny": {"datasets": ("sulfur",), "rows": 32, "n": (16, 32), "d": (4, 8), "repeats": 1},
    "reduced": {
        **{"datasets": EVERY, "rows": 256, "repeats": 2},
        **{"n": (100, 300, 1000, 3000), "d": (10, 30, 60, 100)},
    },
    "full": {
        **{"datasets": EVERY, "rows": 0, "repeats": 20},
        **{"n": (100, 1000, 10_000, 100_000), "d": (100, 500, 1000, 2000, 4000)},
    },
}


def peak_bytes(step: Callable[[], Any], kept: Sequence[torch.Tensor], device: str) -> int:
    """The most memory of tensors at once in a step, those of `kept` among them."""
    if device != "cpu":
        torch.cuda.reset_peak_memory_stats()
        step()
        return torch.cuda.max_memory_allocated()
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # its notes go to the terminal
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as found:
        step()
    assert found.profiler is not None and found.profiler.kineto_results is not None
    events = found.profiler.kineto_results.events()
    changes = sorted((e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]")
    alive = {x.untyped_storage().data_ptr(): x.untyped_storage().nbytes() for x in kept}
    return sum(alive.values()) + max(0, *accumulate(n for _, n in changes))


def measure(
    setting: Setting, name: str, config: dict[str, Any], X: Any, y: np.ndarray, task: str,
    mode: str, repeats: int,
) -> dict[str, float]:  # fmt: skip
    """GiB and milliseconds of a training step on these rows; the first step does not count as
    time. Out of memory on a GPU both are NaN."""
    batch = {"batch_size": 1} if name == "npt" and mode == MODES[0] else {}
    model = make_model(
        name, task=task, seed=setting.seed, threads=setting.threads, device=setting.device,
        **config, **batch, steps=NEVER, eval_every=NEVER,
    )  # fmt: skip
    with getattr(model, "_others", nullcontext)():  # NPT may see other rows, too
        training = model._training(model._prepare(X, y), None)
    if name == "hopular" and mode == MODES[0]:
        training.task.rows = training.task.rows[:1]  # the whole table stays its memory

    def step() -> float:
        began = time.perf_counter()
        training.run(training.step + 1)
        if setting.device != "cpu":
            torch.cuda.synchronize()
        return 1000.0 * (time.perf_counter() - began)

    try:
        step()  # the optimiser has its state after it
        state = (x for of in training.optimiser.state.values() for x in of.values())
        kept = [x for x in (*training.params, *state) if isinstance(x, torch.Tensor)]
        peak = peak_bytes(step, kept, setting.device)
        times = [step() for _ in range(max(1, repeats))]
    except torch.cuda.OutOfMemoryError:
        return {"gib": np.nan, "ms": np.nan}
    return {"gib": peak / GIB, "ms": float(np.median(times))}


def run(
    setting: Setting,
    *,
    datasets: Sequence[str],
    rows: int,
    n: Sequence[int],
    d: Sequence[int],
    repeats: int,
) -> ExperimentResult:
    """`bench experiment hopular-costs`.

    rows: training rows of each dataset at most, 0 for all. n, d: rows and attributes of the random
    tables. repeats: timed steps.
    """

    def on(dataset: str) -> list[dict[str, Any]]:
        data = setting.load(dataset)
        train = setting.folds(data)[0].train
        train = train[: rows or len(train)]
        X, y, found = data.rows(train), data.target[train], []
        for name, sizes in MODELS.items():
            for mode in MODES:
                setting.say(f"{name} on {dataset}, {mode}")
                for size, config in sizes.items():
                    ours = measure(setting, name, config, X, y, data.task, mode, repeats)
                    found.append({"method": name, "mode": mode, "size": size, **ours})
        return found

    found, left_out = on_available(datasets, on)
    steps = pd.DataFrame([{"dataset": k, **row} for k, rows in found.items() for row in rows])
    grid = []
    for n_rows in n:
        for n_columns in d:
            setting.say(f"hopular on {n_rows} rows of {n_columns} attributes")
            rng = np.random.default_rng([setting.seed, n_rows, n_columns])
            X = pd.DataFrame(rng.normal(size=(n_rows, n_columns))).add_prefix("x")
            ours = measure(
                setting, "hopular", REFERENCE, X, rng.normal(size=n_rows), "regression", MODES[0], 0
            )
            if not np.isnan(ours["gib"]):
                grid.append({"rows": n_rows, "attributes": n_columns, "GiB": ours["gib"]})
    said = "" if not rows else f" Ours: {rows} training rows a dataset, the paper's all."
    where = torch.cuda.get_device_name() if setting.device != "cpu" else "a CPU"
    note = f"Ours on {where}; published on an A100 with 80 GiB.{said}"
    tables = [
        _memory(steps, note),
        _times(steps, note),
        *(_figure_table(grid, number) for number in ("a5", "a6")),
    ]
    figures = [_by_both(grid, setting.out), _by_each(grid, setting.out)]
    return ExperimentResult(tables, figures, left_out)


def _memory(steps: pd.DataFrame, note: str) -> ExperimentTable:
    """Table A.7: GiB of the smallest and the largest model."""
    printed = load(FOLDER, "tableA.7").dropna(subset="value")
    values = printed.set_index(["dataset", "method", "level"])["value"].to_dict()
    shown = []
    for (dataset, method, mode), part in steps.groupby(["dataset", "method", "mode"], sort=False):
        row = {"dataset": dataset, "method": method, "input": mode}
        for size, gib in zip(part["size"], part["gib"], strict=True):
            word = size.removesuffix("-model")
            row[f"ours, {word}, GiB"] = None if np.isnan(gib) else gib
            row[f"published, {word}, GiB"] = values.get((dataset, method, f"{mode}/{size}"))
        shown.append(row)
    title = "Memory of a training step, published (Table A.7) beside ours"
    return ExperimentTable("hopular-table-a7", title, shown, note + " A dash: out of memory.")


def _times(steps: pd.DataFrame, note: str) -> ExperimentTable:
    """Table A.8: milliseconds of a step; the paper does not say of which model."""
    printed = load(FOLDER, "tableA.8").set_index(["dataset", "method", "level"])["value"].to_dict()
    small = steps[steps["size"] == "smallest-model"]
    shown = [
        {
            **{"dataset": r.dataset, "method": r.method, "input": r.mode},
            "ours, ms": None if np.isnan(r.ms) else r.ms,
            "published, ms": printed.get((r.dataset, r.method, r.mode)),
        }
        for r in small.itertuples(index=False)
    ]
    title = "Time of a training step, published (Table A.8) beside ours"
    said = " Ours: the smallest model; of which one theirs is, the paper does not say."
    return ExperimentTable("hopular-table-a8", title, shown, note + said)


def _figure_table(grid: Sequence[dict[str, Any]], number: str) -> ExperimentTable:
    title = f"GiB of a step of one block on random tables (Figure {number.upper()})"
    note = "One net a module, 8 numbers an attribute, one row as the input: the paper's reference."
    return ExperimentTable(f"hopular-figure-{number}", title, grid, note)


def _by_both(grid: Sequence[dict[str, Any]], out: Path) -> Path:
    """Figure A.5: memory by rows and attributes."""
    frame = pd.DataFrame(grid).pivot(index="rows", columns="attributes", values="GiB")
    figure, axes = new_figure()
    image = axes[0, 0].imshow(frame.to_numpy(), origin="lower", aspect="auto", cmap="viridis")
    axes[0, 0].set_xticks(range(frame.shape[1]), frame.columns)
    axes[0, 0].set_yticks(range(frame.shape[0]), frame.index)
    axes[0, 0].set(xlabel="attributes", ylabel="rows in the memory")
    figure.colorbar(image, label="GiB")
    return save_figure(figure, out / "hopular-figure-a5.png")


def _by_each(grid: Sequence[dict[str, Any]], out: Path) -> Path:
    """Figure A.6: memory by attributes for each number of rows, and the other way round."""
    frame = pd.DataFrame(grid)
    figure, axes = new_figure(n_rows=2)
    for ax, along, each in ((axes[0, 0], "attributes", "rows"), (axes[1, 0], "rows", "attributes")):
        for value, part in frame.groupby(each):
            ax.plot(part[along], part["GiB"], marker="o", label=f"{value:,}")
        ax.set(xlabel=along, ylabel="GiB")
        ax.legend(title=each)
    axes[1, 0].set_xscale("log")
    return save_figure(figure, out / "hopular-figure-a6.png")
