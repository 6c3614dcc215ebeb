"""Training time of FT-Transformer over ResNet (Gorishniy et al. 2021, D.1, Table 4).

Whole trainings of both networks, tuned, to the end of their patience, averaged over the evaluation
seeds: what the paper measures. Beside it steps of both at one size on generated tables with the
shapes of the paper's datasets, for which no dataset is needed.
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
from .tuned import Small, left_out_remarks, paper_suite, run_tuned, small_suite

FOLDER = Path(__file__).parent

MODELS = ("resnet", "ft-transformer")
CLASSES = {"helena": 100, "jannis": 4, "aloi": 1000, "covtype": 7}


@dataclass(frozen=True)
class Extent:
    """A size of the experiment.

    tuned: datasets of whole trainings; small: their sweep, None for the budget `paper` of the suite
    `rtdl`. datasets: shapes whose steps are timed; steps: their number, of batches of at most
    `batch` rows. wide: settings of FT-Transformer beside its own where there are over a thousand
    features.
    """

    tuned: tuple[str, ...]
    small: Small | None
    datasets: tuple[str, ...]
    steps: int
    batch: int
    settings: Mapping[str, Mapping[str, Any]]
    wide: Mapping[str, Any]


LINFORMER = {"linformer": "headwise", "linformer_ratio": 0.064}
EVERY = tuple(load(FOLDER, "table1")["dataset"])
SMALL = {"epochs": 30, "patience": 4}
LITTLE = {"n_layers": 1, "width": 4}
EXTENTS = {
    "tiny": Extent(
        ("california-housing",),
        Small(
            1, 2,
            {
                "resnet": {"epochs": 1, "batch_size": 2048, **LITTLE},
                "ft-transformer": {"epochs": 1, "batch_size": 2048, **LITTLE, "n_heads": 1},
            },
            dict.fromkeys(MODELS, {"lr": [1e-3, 3e-3]}),
        ),
        tuple(name for name in EVERY if name != "epsilon"), 1, 2,
        {"resnet": LITTLE, "ft-transformer": {**LITTLE, "n_heads": 1}},
        LINFORMER,
    ),
    "reduced": Extent(
        ("california-housing",),
        Small(
            2, 2,
            {
                "resnet": {**SMALL, "n_layers": 2, "width": 64, "hidden_factor": 2.0},
                "ft-transformer": {
                    **SMALL, "n_layers": 2, "width": 32, "n_heads": 4, "attention_dropout": 0.0,
                    "ffn_dropout": 0.0,
                },
            },
            dict.fromkeys(MODELS, {"lr": [1e-3, 3e-3]}),
        ),
        tuple(name for name in EVERY if name != "epsilon"), 4, 64,
        {
            "resnet": {"n_layers": 3, "width": 64, "hidden_factor": 2.0},
            "ft-transformer": {"n_layers": 3, "width": 64, "n_heads": 2},
        },
        LINFORMER,
    ),
    "full": Extent(
        EVERY, None, EVERY, 100, 1024,
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


def published_seconds() -> dict[tuple[str, str], float]:
    """{(dataset, model): seconds} of Table 4."""
    rows = load(FOLDER, "table4")
    rows = rows[rows["metric"] == "training-time"]
    return {(r.dataset, r.method): float(r.value) for r in rows.itertuples(index=False)}


def trainings(setting: Setting, extent: Extent) -> tuple[ExperimentTable, dict[str, str]]:
    """(whole trainings of the tuned networks, {dataset left out: why})."""
    small = extent.small
    suite = paper_suite({}) if small is None else small_suite("rtdl-time", extent.tuned, small)
    results, left_out = run_tuned(setting, suite, extent.tuned, MODELS)
    printed, rows = published_seconds(), []
    for dataset in extent.tuned:
        if dataset in left_out:
            continue
        found = [results.get((dataset, model)) for model in MODELS]
        ours = [None if tuned is None else float(np.mean(tuned.fit_s)) for tuned in found]
        scores = [None if tuned is None else float(np.mean(tuned.scores)) for tuned in found]
        whole = [printed[dataset, model] for model in MODELS]
        overhead = ours[1] / ours[0] if ours[0] and ours[1] else None
        seeds = min(0 if tuned is None else len(tuned.fit_s) for tuned in found)
        rows.append([dataset, seeds, *ours, overhead, *scores, *whole, whole[1] / whole[0]])
    note = (
        "s: of a whole fit of the tuned configuration with its preprocessing, mean over the seeds; "
        "score: their mean test RMSE or accuracy. "
    )
    if small is None:
        note += (
            "Tuned as the budget `paper` of the suite `rtdl` says; trials copied from a run of "
            "that suite keep their seconds."
        )
    else:
        note += (
            f"Here the better of {small.trials} learning rates of one small network each, at most "
            "30 epochs, on a CPU; published: the paper's tuned networks on a V100, 15 seeds."
        )
    if setting.threads > 1:
        note += (
            f" {setting.threads} fits ran side by side, which slows each of them; on a GPU they "
            "may have shared it."
        )
    columns = [
        "dataset", "seeds", "ResNet s", "FT-T s", "overhead", "ResNet score", "FT-T score",
        "published ResNet s", "published FT-T s", "published overhead",
    ]  # fmt: skip
    title = "Training time of tuned FT-Transformers over tuned ResNets"
    return ExperimentTable("rtdl-time", title, columns, rows, note), left_out


def steps(setting: Setting, extent: Extent, one: Callable[..., float] = step_s) -> ExperimentTable:
    """Steps of networks of one size on generated tables."""
    known, printed, rows = shapes(), published_seconds(), []
    for dataset in extent.datasets:
        setting.say(f"steps on the shape of {dataset}")
        ours = {model: one(model, known[dataset], extent, setting) for model in MODELS}
        shape = known[dataset]
        rows.append(
            [
                dataset, shape.n_numeric + shape.n_categorical, min(shape.batch, extent.batch),
                *(1000.0 * ours[model] for model in MODELS),
                ours["ft-transformer"] / ours["resnet"],
                printed[dataset, "ft-transformer"] / printed[dataset, "resnet"],
            ]
        )  # fmt: skip
    ours_are = "; ".join(
        f"{model}: " + (", ".join(f"{k} = {v}" for k, v in given.items()) or "its defaults")
        for model, given in extent.settings.items()
    )
    note = (
        f"ms: of a training step, over {extent.steps} steps on generated rows. {ours_are}. "
        "Published: of whole trainings of the tuned networks, which differ in sizes and numbers of "
        "epochs."
    )
    columns = [
        "dataset", "features", "batch", "ResNet ms", "FT-T ms", "overhead", "published overhead",
    ]  # fmt: skip
    title = "Training steps of FT-Transformer over ResNet, at one size"
    return ExperimentTable("rtdl-time-steps", title, columns, rows, note)


def run(
    setting: Setting, extent: Extent | None = None, one: Callable[..., float] = step_s
) -> ExperimentResult:
    """`bench experiment rtdl-time`."""
    extent = EXTENTS[setting.size] if extent is None else extent
    whole, left_out = trainings(setting, extent)
    tables = [whole, steps(setting, extent, one)]
    return ExperimentResult(tables, remarks=left_out_remarks(left_out))
