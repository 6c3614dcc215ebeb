"""A small table of mixed columns, and network sizes that learn it quickly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from tabsweep.models.registry import make_model

TINY: dict[str, dict[str, Any]] = {
    "autoint": {"epochs": 25, "width": 8, "n_layers": 2, "lr": 0.02},
    "dcn-v2": {"epochs": 40, "width": 32, "lr": 0.01},
    "ft-transformer": {"epochs": 25, "width": 8, "n_layers": 2, "n_heads": 2, "lr": 0.02},
    "grownet": {
        "epochs": 12, "epochs_per_stage": 2, "correct_epochs": 2, "hidden": 16, "embedding": 8,
        "lr": 0.05,
    },
    "hopular": {
        "steps": 40, "width": 8, "n_blocks": 1, "n_nets": 2,
        "lr": 0.05, "average": 0.3, "gamma": 0.3, "eval_every": 10,
    },
    "met": {
        "epochs": 25, "pretrain_epochs": 1, "embedding": 7, "n_heads": 2, "n_layers": 1,
        "n_decoder_layers": 1, "hidden": 16, "lr": 0.01, "adversarial_from": 0,
    },
    "met-cheatt": {
        "epochs": 25, "pretrain_epochs": 1, "embedding": 7, "n_heads": 1, "n_layers": 1,
        "n_decoder_layers": 1, "hidden": 16, "lr": 0.01, "adversarial_from": 0, "order": 3,
    },
    "mlp": {"epochs": 40, "width_first": 32, "width_middle": 32, "width_last": 32, "lr": 0.01},
    "node": {
        "epochs": 25, "n_layers": 2, "n_trees": 16, "depth": 3, "embedding": 4, "lr": 0.05,
    },
    "npt": {
        "steps": 30, "width": 8, "n_layers": 2, "n_heads": 1,
        "lr": 0.03, "tradeoff": 0.5, "eval_every": 10,
    },
    "resnet": {"epochs": 40, "width": 32, "n_layers": 2, "lr": 0.01},
    "saint": {
        "epochs": 25, "pretrain_epochs": 1, "width": 4, "n_heads": 1, "hidden": 16, "lr": 0.01,
    },
    "saint-cheatt": {
        "epochs": 25, "pretrain_epochs": 1, "width": 4, "n_heads": 1, "hidden": 16, "lr": 0.01,
        "order": 3,
    },
    "snn": {"epochs": 40, "width_first": 32, "width_middle": 32, "width_last": 32, "lr": 0.01},
    "tabnet": {"epochs": 30, "n_steps": 2, "width": 8, "embedding": 4, "lr": 0.03, "momentum": 0.3},
    "tabtransformer": {
        "epochs": 25, "pretrain_epochs": 1, "width": 8, "n_layers": 2, "n_heads": 2, "d_head": 4,
        "hidden": 16, "lr": 0.02,
    },
    "tabtransformer-cheatt": {
        "epochs": 25, "pretrain_epochs": 1, "width": 8, "n_layers": 1, "n_heads": 2, "d_head": 4,
        "hidden": 16, "lr": 0.02, "order": 3,
    },
    "vime": {"epochs": 40, "pretrain_epochs": 1, "width": 32, "hidden": 32, "lr": 0.01},
}  # fmt: skip
"""Configurations of networks small enough for a matrix of all models, and large enough to learn."""


def table(task: str, n: int = 60, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """Numbers, gaps, categories, a constant and an all-missing column; a target that they tell."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "a": rng.normal(size=n),
            "b": rng.normal(100, 25, n),
            "constant": 3.0,
            "empty": np.nan,
            "colour": pd.Categorical(rng.choice(["red", "green", "blue"], n)),
        }
    )
    signal = frame["a"] + 0.02 * (frame["b"] - 100) + 1.5 * (frame["colour"] == "red")
    frame.loc[::8, "b"] = np.nan
    frame.loc[::13, "colour"] = None
    signal = signal.to_numpy(dtype=float)
    if task == "regression":
        return frame, 50.0 + 10.0 * signal
    if task == "binary":
        return frame, np.where(signal > 0.5, "yes", "no")
    return frame, np.array(["low", "mid", "top"])[np.digitize(signal, [-0.2, 1.0])]


def small_task(model: str, task: str, **config: Any) -> Any:
    """What a fit of the TINY network on `table` trains, before its first step."""
    frame, y = table(task)
    network = make_model(model, task=task, **{**TINY[model], **config})
    from tabsweep.models.deep.trainer import seeded  # with torch, which not every test wants

    with seeded(0):
        made = network._task(network._prepare(frame, y), None)
    made.module.train()
    return made


def answers(fitted, frame) -> np.ndarray:
    """Predictions (regression) or probabilities of a fitted model."""
    regression = fitted.task == "regression"
    return fitted.predict(frame) if regression else fitted.predict_proba(frame)
