"""Presets of hyperparameters: "quick" for a CPU and small tables, "paper" for the published values.

The quick preset of a model is its space `quick`, where its space file has one, and else what
stands here. Models without either have one preset, their defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..model_spec import ModelSpec
from ..registry import default_config, spaces

PRESETS = ("quick", "paper")
BY_PRESET = "preset"  # the default of a hyperparameter whose value the preset decides

_SHORT: dict[str, Any] = {"epochs": 100, "patience": 16, "stop_on": "loss", "batch_size": 128}
_PRETRAINED: dict[str, Any] = {**_SHORT, "epochs": 60, "pretrain_epochs": 10}
_TOKENS: dict[str, Any] = {"width": 32, "n_layers": 2, "lr": 3e-3}
_PERCEPTRON: dict[str, Any] = {"width_first": 128, "width_middle": 128, "width_last": 128}

QUICK: dict[str, dict[str, Any]] = {
    "autoint": {**_SHORT, **_TOKENS},
    "dcn-v2": {**_SHORT, "lr": 3e-3, "width": 128},
    "grownet": {"epochs": 20, "hidden": 32, "lr": 5e-3},
    "met": {**_PRETRAINED, "lr": 3e-3},
    "met-cheatt": {**_PRETRAINED, "lr": 3e-3},
    "mlp": {**_SHORT, **_PERCEPTRON, "lr": 3e-3},
    "node": {**_SHORT, "n_trees": 256, "depth": 5, "lr": 1e-2},
    "saint": {**_PRETRAINED, "hidden": 64, "lr": 3e-3},
    "saint-cheatt": {**_PRETRAINED, "hidden": 64, "lr": 3e-3},
    "snn": {**_SHORT, **_PERCEPTRON, "lr": 3e-3},
    "tabnet": {**_SHORT, "lr": 2e-2},
    "tabtransformer": {**_PRETRAINED, "lr": 3e-3},
    "vime": {**_PRETRAINED, "lr": 3e-3},
}
"""Quick presets of models whose space file has no space `quick`."""

STEPS = {"epochs": 100, "steps": 200}
"""The most epochs or steps of a network that is named nowhere."""


def quick_preset(spec: ModelSpec, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """What the quick preset of a model sets, for those of its hyperparameters that it changes.

    defaults: the hyperparameters of its class with their defaults.
    """
    task = spec.tasks[0]
    found: dict[str, Any] = {}
    if "quick" in spaces(spec.name, task):
        found = default_config(spec.name, task, "quick")
    elif spec.name in QUICK:
        found = QUICK[spec.name]
    elif spec.resource in STEPS and spec.resource in defaults:
        most = STEPS[spec.resource]
        found = {spec.resource: min(int(defaults[spec.resource]), most)}
    return {k: v for k, v in found.items() if k in defaults and v != defaults[k]}
