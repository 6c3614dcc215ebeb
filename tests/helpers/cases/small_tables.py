"""A small table of mixed columns, and the small configurations in which models learn it.

A model's small configuration stands in its space file (`[testing]`), so there is no list here.
"""

from __future__ import annotations

import os
from contextlib import nullcontext
from typing import Any

import numpy as np
import pandas as pd
from tabsweep.models import contract
from tabsweep.models.registry import MODELS, load_class, make_model, small_fits

TINY: dict[str, dict[str, Any]] = {name: small_fits(name).get("config", {}) for name in MODELS}
"""For each registered model a configuration that is quick to fit and still learns `table`."""

_ONLY = os.environ.get("TABSWEEP_TEST_MODELS", "")
NAMES = [name for name in MODELS if not _ONLY or name in _ONLY.split(",")]
"""The registered models; with TABSWEEP_TEST_MODELS=mine,yours those two alone."""

ALL = [(name, task) for name in NAMES for task in MODELS[name].tasks]
"""Every registered model on every task that it has."""


def is_network(name: str) -> bool:
    """Whether a registered model is a network of torch."""
    from tabsweep.models.deep.estimator import (
        DeepEstimator,
    )  # with torch, which not every test wants

    return issubclass(load_class(MODELS[name].target), DeepEstimator)


LABELS = {"binary": ["no", "yes"], "multiclass": ["low", "mid", "top"]}


def table(task: str, n: int = 60, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """Numbers, gaps, categories, a constant and an all-missing column; a learnable target: values,
    or labels that are text."""
    frame, y = contract.table(task, n, seed)
    return frame, y if task == "regression" else np.array(LABELS[task])[y]


def small_task(model: str, task: str, **config: Any) -> Any:
    """The untrained task (network and losses) of a small network on `table`."""
    frame, y = table(task)
    network = make_model(model, task=task, **{**TINY[model], **config})
    from tabsweep.models.deep.trainer import seeded  # with torch, which not every test wants

    others = getattr(network, "_others", nullcontext)
    with seeded(0), others():  # no rows beside the training rows
        made = network._task(network._prepare(frame, y), None)
    made.module.train()
    return made


def answers(fitted: Any, frame: Any) -> np.ndarray:
    """What a fitted model predicts: probabilities, or values."""
    regression = fitted.task == "regression"
    return fitted.predict(frame) if regression else fitted.predict_proba(frame)
