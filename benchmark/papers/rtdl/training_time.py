"""Training time of FT-Transformer over ResNet (Gorishniy et al. 2021, D.1, Table 4).

Whole trainings of both networks, tuned, to the end of their patience, averaged over the evaluation
seeds: what the paper measures. Beside it steps of both at one size on generated tables with the
shapes of the paper's datasets, for which no dataset is needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ....models.registry import make_model
from ..experiment_result import ExperimentResult, ExperimentTable, Setting
from ..published_values import load
from .tuned import Results, Small, left_out_remarks, run_tuned

FOLDER = Path(__file__).parent

MODELS = ("resnet", "ft-transformer")
CLASSES = {"helena": 100, "jannis": 4, "aloi": 1000, "covtype": 7}


LINFORMER = {"linformer": "headwise", "linformer_ratio": 0.064}  # over a thousand features
EVERY = tuple(load(FOLDER, "table1")["dataset"])
NARROW = tuple(name for name in EVERY if name != "epsilon")
SMALL = {"epochs": 30, "patience": 4}
LITTLE = {"n_layers": 1, "width": 4}
ONE_EPOCH = {**LITTLE, "epochs": 1, "batch_size": 2048}
RATES = (1e-3, 3e-3)
SIZES: dict[str, dict[str, Any]] = {
    "tiny": {
        "tuned": ("california-housing",),
        "small": Small(
            1, 2, {"resnet": ONE_EPOCH, "ft-transformer": {**ONE_EPOCH, "n_heads": 1}}, RATES
        ),
        "shapes": NARROW,
        "n_steps": 1,
        "batch": 2,
        "settings": {"resnet": LITTLE, "ft-transformer": {**LITTLE, "n_heads": 1}},
    },
    "reduced": {
        "tuned": ("california-housing",),
        "small": Small(
            2, 2,
            {
                "resnet": {**SMALL, "n_layers": 2, "width": 64, "hidden_factor": 2.0},
                "ft-transformer": {
                    **SMALL, "n_layers": 2, "width": 32, "n_heads": 4, "attention_dropout": 0.0,
                    "ffn_dropout": 0.0,
                },
            },
            RATES,
        ),
        "shapes": NARROW,
        "n_steps": 4,
        "batch": 64,
        "settings": {
            "resnet": {"n_layers": 3, "width": 64, "hidden_factor": 2.0},
            "ft-transformer": {"n_layers": 3, "width": 64, "n_heads": 2},
        },
    },
    "full": {
        "tuned": EVERY,
        "small": None,
        "shapes": EVERY,
        "n_steps": 100,
        "batch": 1024,
        "settings": {
            "resnet": {"n_layers": 4, "width": 256, "hidden_factor": 2.0},
            "ft-transformer": {"n_layers": 3, "width": 192, "n_heads": 8},
        },
    },
}  # fmt: skip


@dataclass(frozen=True)
class Shape:
    """The size of a table of the paper. batch: rows of a training step there."""

    task: str
    n_numeric: int
    n_categorical: int
    n_classes: int
    batch: int


def published_shapes() -> dict[str, Shape]:
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


def step_s(
    setting: Setting, model: str, shape: Shape, n_steps: int, batch: int, given: Mapping[str, Any]
) -> float:
    """Seconds of a training step, over n_steps steps on generated rows."""
    batch = min(shape.batch, batch)
    x, y = table(shape, max(batch * n_steps, shape.n_classes), setting.seed)
    if model == "ft-transformer" and shape.n_numeric > 1000:
        given = {**given, **LINFORMER}
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


def trainings(
    results: Results, datasets: Sequence[str], small: Small | None, threads: int
) -> ExperimentTable:
    """Whole trainings of the tuned networks."""
    printed, rows = published_seconds(), []
    for dataset in datasets:
        found = [results.get((dataset, model)) for model in MODELS]
        seconds = [None if tuned is None else float(np.mean(tuned.fit_s)) for tuned in found]
        scores = [None if tuned is None else float(np.mean(tuned.scores)) for tuned in found]
        whole = [printed[dataset, model] for model in MODELS]
        rows.append(
            {
                "dataset": dataset,
                "seeds": min(0 if tuned is None else len(tuned.fit_s) for tuned in found),
                "ResNet s": seconds[0],
                "FT-T s": seconds[1],
                "overhead": seconds[1] / seconds[0] if seconds[0] and seconds[1] else None,
                "ResNet score": scores[0],
                "FT-T score": scores[1],
                "published ResNet s": whole[0],
                "published FT-T s": whole[1],
                "published overhead": whole[1] / whole[0],
            }
        )
    how = (
        "Tuned as the budget `paper` of the suite `rtdl` says; trials copied from a run of that "
        "suite keep their seconds."
    )
    if small is not None:
        how = (
            f"Here the better of {small.trials} learning rates of one small network each, at most "
            "30 epochs, on a CPU; published: the paper's tuned networks on a V100, 15 seeds."
        )
    if threads > 1:
        how += (
            f" {threads} fits ran side by side, which slows each of them; on a GPU they may have "
            "shared it."
        )
    note = (
        "s: of a whole fit of the tuned configuration with its preprocessing, mean over the seeds; "
        f"score: their mean test RMSE or accuracy. {how}"
    )
    title = "Training time of tuned FT-Transformers over tuned ResNets"
    return ExperimentTable("rtdl-time", title, rows, note)


def run(
    setting: Setting,
    *,
    tuned: Sequence[str],
    small: Small | None,
    shapes: Sequence[str],
    n_steps: int,
    batch: int,
    settings: Mapping[str, Mapping[str, Any]],
) -> ExperimentResult:
    """`bench experiment rtdl-time`.

    tuned: datasets of whole trainings. small: their sweep, as in `run_tuned`. shapes: datasets on
    tables of whose shapes steps are timed, n_steps of at most `batch` rows. settings: of each
    model in these steps.
    """
    results, left_out = run_tuned(setting, tuned, MODELS, small)
    there = [dataset for dataset in tuned if dataset not in left_out]
    whole = trainings(results, there, small, setting.threads)
    known, printed, rows = published_shapes(), published_seconds(), []
    for dataset in shapes:
        setting.say(f"steps on the shape of {dataset}")
        shape = known[dataset]
        resnet, transformer = (
            step_s(setting, model, shape, n_steps, batch, settings[model]) for model in MODELS
        )
        rows.append(
            {
                "dataset": dataset,
                "features": shape.n_numeric + shape.n_categorical,
                "batch": min(shape.batch, batch),
                "ResNet ms": 1000.0 * resnet,
                "FT-T ms": 1000.0 * transformer,
                "overhead": transformer / resnet,
                "published overhead": printed[dataset, MODELS[1]] / printed[dataset, MODELS[0]],
            }
        )
    ours_are = "; ".join(
        f"{model}: {', '.join(f'{key} = {value}' for key, value in given.items())}"
        for model, given in settings.items()
    )
    steps = ExperimentTable(
        "rtdl-time-steps",
        "Training steps of FT-Transformer over ResNet, at one size",
        rows,
        f"ms: of a training step, over {n_steps} steps on generated rows. {ours_are}. "
        "Published: of whole trainings of the tuned networks, which differ in sizes and numbers of "
        "epochs.",
    )
    return ExperimentResult([whole, steps], remarks=left_out_remarks(left_out))
