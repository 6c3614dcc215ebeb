"""tabsweep: distributed hyperparameter sweeps and comparison tables for tabular machine learning.

The public face is the command `bench`; the few names below are for notebooks and scripts. They are
imported on first use, so that `import tabsweep` costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

__all__ = ["load_dataset", "load_results", "make_model", "splits"]

_HOMES = {
    "load_dataset": "tabsweep.datasets.catalog",
    "splits": "tabsweep.datasets.catalog",
    "make_model": "tabsweep.models.registry",
    "load_results": "tabsweep.benchmark.results.evidence_builder",
}

if TYPE_CHECKING:
    from .benchmark.results.evidence_builder import load_results
    from .datasets.catalog import load_dataset, splits
    from .models.registry import make_model


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'tabsweep' has no attribute {name!r}")
