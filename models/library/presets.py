"""Presets of hyperparameters: "quick" for a CPU and small tables, "paper" for the published values.

The quick preset of a model is its space `quick`, where its file of spaces has one, and else the
table `[preset]` of that file. A model without either has one preset, its defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..model_spec import ModelSpec
from ..registry import default_config, spaces

PRESETS = ("quick", "paper")
BY_PRESET = "preset"  # the default of a hyperparameter whose value the preset decides


def quick_preset(spec: ModelSpec, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """{hyperparameter: value} of those that a model's quick preset changes.

    defaults: the hyperparameters of its class with their defaults.
    """
    task = spec.tasks[0]
    found = spec.preset
    if "quick" in spaces(spec.name, task):
        found = default_config(spec.name, task, "quick")
    return {k: v for k, v in found.items() if k in defaults and v != defaults[k]}
