"""What a sweep must know of a model without importing it: `ModelSpec`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from ..common.tasks import TASKS
from .policy import Policy

FOLDER = Path(__file__).with_name("spaces")
SKLEARN = ("scikit-learn", "numpy", "pandas", "scipy")
FAMILIES = ("baseline", "classical", "gbdt", "feature network", "row attention", "external")


@cache
def model_file(name: str) -> dict[str, Any]:
    """What the file of a registered model says: `title`, `summary`, `paper`, a table a space, and
    `[preset]` and `[testing]`, which are no spaces."""
    return tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class ModelSpec:
    """What the planner must know of a model without importing it.

    target: `package.module:Class`. libraries: distributions whose versions a result depends on.
    threads: given to every fit. max_rows, max_classes: above them the model is unsupported.
    preprocessing: the policy of the default configuration. resource: the hyperparameter that counts
    the steps of a resumable fit (`fit_to`), "" where there is none.

    memory_bytes_per_cell, memory_bytes_per_pair, memory_bytes_per_column_pair: peak memory of a fit
    above that of the interpreter, per cell of the (one-hot) training table, per pair of its rows
    and per pair of its columns. gpu_mb, gpu_bytes_per_cell: GPU memory of a fit, in MB of any and
    in bytes per cell of the training table; `gpu_mb` is 0 for a model that never uses a GPU. All
    are first guesses, for the space `quick` where there is one and else for the defaults; a sweep
    corrects them by what its fits take (main memory upwards only; GPU memory that torch counts).

    gpu_device: `package.module:function` of a model whose library may lack GPUs: it returns (the
    `device` of a fit in a sweep with GPUs, why it is the CPU). "" for "cuda".

    checkpoint: whether the weights are a file of the user's (`in_context/checkpoint_file.py`).
    sample_weight: whether `fit` takes weights of rows. numbers_only: whether a class from elsewhere
    is given numbers without gaps (`own_class.py`). module: whether it is a torch module, which
    `own_module.py` trains. told: `summary` and `paper` of a model that
    has no file in `spaces/`.
    """

    name: str
    target: str
    tasks: tuple[str, ...] = TASKS
    family: str = "classical"
    libraries: tuple[str, ...] = SKLEARN
    threads: int = 1
    max_rows: int | None = None
    max_classes: int | None = None
    told: Mapping[str, Any] | None = field(default=None, hash=False)
    preprocessing: Policy = field(default_factory=Policy)
    memory_bytes_per_cell: float = 64.0
    memory_bytes_per_pair: float = 0.0
    memory_bytes_per_column_pair: float = 0.0
    resource: str = ""
    gpu_mb: float = 0.0
    gpu_bytes_per_cell: float = 0.0
    gpu_device: str = ""
    checkpoint: bool = False
    sample_weight: bool = False
    numbers_only: bool = False
    module: bool = False

    @property
    def summary(self) -> str:
        """What the model is, in a line."""
        return self._told.get("summary", "")

    @property
    def paper(self) -> str:
        """The model's source, "" where there is none."""
        return self._told.get("paper", "")

    @property
    def preset(self) -> Mapping[str, Any]:
        """What the preset "quick" of the library sets, for a model without a space `quick`."""
        return self._told.get("preset", {})

    @property
    def _told(self) -> Mapping[str, Any]:
        return model_file(self.name) if self.told is None else self.told

    @property
    def display_name(self) -> str:
        """The model's name in a paper: its `title`, or the name of its class."""
        return self._told.get("title") or self.target.rpartition(":")[2]

    def memory_mb(self, n_rows: int, n_features: int, n_classes: int = 0) -> float:
        """A rough estimate of a fit's peak memory in MB, over an idle interpreter's."""
        cells = self.memory_bytes_per_cell * n_rows * (n_features + max(n_classes, 1))
        pairs = self.memory_bytes_per_pair * n_rows**2
        pairs += self.memory_bytes_per_column_pair * n_features**2
        return 50.0 + (cells + pairs) / 2**20

    def gpu_memory_mb(self, n_rows: int, n_features: int) -> float:
        """A rough estimate of a fit's peak GPU memory in MB."""
        return self.gpu_mb + self.gpu_bytes_per_cell * n_rows * n_features / 2**20

    def on_gpu(self) -> tuple[str, str]:
        """(the `device` of a fit in a sweep with GPUs, why it is the CPU where the model uses GPUs
        but its library here cannot)."""
        if not self.gpu_mb:
            return "cpu", ""
        if not self.gpu_device:
            return "cuda", ""
        module, _, name = self.gpu_device.partition(":")
        answer: tuple[str, str] = getattr(import_module(module), name)()
        return answer
