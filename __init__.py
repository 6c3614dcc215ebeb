"""Distributed hyperparameter sweeps and comparison tables for tabular machine learning.

The main interface is the command `bench`; these functions are for notebooks and scripts:

- `load_dataset(name)`: a table in memory; `bench data list` lists the names
- `splits(name)`: its folds, row numbers for training, validation and test
- `make_model(name, task=...)`: an unfitted scikit-learn estimator; `bench models` lists the names
- `load_results(run)`: the results of a run, a DataFrame with one row a trial

>>> import tabsweep
>>> table = tabsweep.load_dataset("iris")
>>> fold = tabsweep.splits("iris")[0]
>>> model = tabsweep.make_model("knn", task=table.task, n_neighbors=7)
>>> model = model.fit(table.rows(fold.train), table.target[fold.train])
>>> model.predict(table.rows(fold.test)).shape
(15,)

Each function is imported when it is first used, so that `import tabsweep` is fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

__all__ = ["load_dataset", "load_results", "make_model", "splits"]

_HOMES = {  # name -> the module that defines it
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


def __dir__() -> list[str]:
    """The public names too, so that completion and `help(tabsweep)` show them."""
    return sorted({*globals(), *__all__})
