"""Training time of FT-Transformer over ResNet (Gorishniy et al. 2021, D.1, Table 4).

Steps of both on generated tables with the shapes of the paper's datasets. The paper compares whole
trainings of the tuned networks: other sizes, other numbers of epochs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ....models.registry import make_model
from ..experiment_result import ExperimentResult, ExperimentTable, Setting
from ..published_values import load

FOLDER = Path(__file__).parent

MODELS = ("resnet", "ft-transformer")
CLASSES = {"helena": 100, "jannis": 4, "aloi": 1000, "covtype": 7}


@dataclass(frozen=True)
class Extent:
    """A size of the experiment. steps: timed, of batches of at most `batch` rows. wide: settings of
    FT-Transformer beside its own where there are over a thousand features."""

    datasets: tuple[str, ...]
    steps: int
    batch: int
    settings: Mapping[str, Mapping[str, Any]]
    wide: Mapping[str, Any]


LINFORMER = {"linformer": "headwise", "linformer_ratio": 0.064}
EVERY = tuple(load(FOLDER, "table1")["dataset"])
EXTENTS = {
    "tiny": Extent(
        tuple(name for name in EVERY if name != "epsilon"), 1, 2,
        {
            "resnet": {"n_layers": 1, "width": 4},
            "ft-transformer": {"n_layers": 1, "width": 4, "n_heads": 1},
        },
        LINFORMER,
    ),
    "reduced": Extent(
        tuple(name for name in EVERY if name != "epsilon"), 4, 64,
        {
            "resnet": {"n_layers": 3, "width": 64, "hidden_factor": 2.0},
            "ft-transformer": {"n_layers": 3, "width": 64, "n_heads": 2},
        },
        LINFORMER,
    ),
    "full": Extent(
        EVERY, 100, 1024,
        {
            "resnet": {"n_layers": 4, "width": 256, "hidden_factor": 2.0},
            "ft-transformer": {"n_layers": 3, "width": 192, "n_heads": 8},
        },
        LINFORMER,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Shape:
    """The size of a table of the paper. batch: rows of a training step there."""

    task: str
    n_numeric: int
    n_categorical: int
    n_classes: int
    batch: int


def shapes() -> dict[str, Shape]:
    """{dataset: its shape} of Table 1."""
    rows = load(FOLDER, "table1").set_index("dataset")
    return {
        str(name): Shape(
            str(r["task"]),
            int(r["n_numerical"]),
            int(r["n_categorical"]),
            CLASSES.get(str(name), 2) if r["task"] != "regression" else 0,
            int(r["batch_size"]),
        )
        for name, r in rows.iterrows()
    }


def table(shape: Shape, n: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """n rows of N(0, 1) numbers and of categories with ten levels, and targets."""
    rng = np.random.default_rng(seed)
    columns: dict[str, Any] = {f"x{i}": rng.normal(size=n) for i in range(shape.n_numeric)}
    for i in range(shape.n_categorical):
        columns[f"c{i}"] = pd.Categorical(rng.integers(10, size=n).astype(str))
    y = np.arange(n) % shape.n_classes if shape.n_classes else rng.normal(size=n)
    return pd.DataFrame(columns), y


def step_s(model: str, shape: Shape, extent: Extent, setting: Setting) -> float:
    """Seconds of a training step."""
    batch = min(shape.batch, extent.batch)
    x, y = table(shape, max(batch * extent.steps, shape.n_classes), setting.seed)
    given = dict(extent.settings[model])
    if model == "ft-transformer" and shape.n_numeric > 1000:
        given |= extent.wide
    fitted: Any = make_model(
        model, task=shape.task, seed=setting.seed, threads=setting.threads, device=setting.device,
        epochs=1, patience=0, batch_size=batch, numeric="standard", **given,
    ).fit(x, y)  # fmt: skip
    return float(fitted.step_s_)


def run(
    setting: Setting, extent: Extent | None = None, one: Callable[..., float] = step_s
) -> ExperimentResult:
    """`bench experiment rtdl-time`."""
    extent = EXTENTS[setting.size] if extent is None else extent
    known, rows = shapes(), []
    published = load(FOLDER, "table4")
    printed = {(r.dataset, r.method, r.metric): r.value for r in published.itertuples(index=False)}
    for dataset in extent.datasets:
        setting.say(dataset)
        ours = {model: one(model, known[dataset], extent, setting) for model in MODELS}
        whole = [printed[dataset, model, "training-time"] for model in MODELS]
        shape = known[dataset]
        rows.append(
            [
                dataset, shape.n_numeric + shape.n_categorical, min(shape.batch, extent.batch),
                *(1000.0 * ours[model] for model in MODELS),
                ours["ft-transformer"] / ours["resnet"], *whole, whole[1] / whole[0],
            ]
        )  # fmt: skip
    note = (
        f"ms: of a training step, over {extent.steps} steps on generated rows; {extent.settings}. "
        "Published: seconds of whole trainings of the tuned networks, which differ in sizes and "
        "numbers of epochs."
    )
    columns = [
        "dataset", "features", "batch", "ResNet ms", "FT-T ms", "overhead", "published ResNet s",
        "published FT-T s", "published overhead",
    ]  # fmt: skip
    title = "Training time of FT-Transformer over ResNet"
    return ExperimentResult([ExperimentTable("rtdl-time", title, columns, rows, note)])
