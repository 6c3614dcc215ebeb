"""Distributed hyperparameter sweeps and comparison tables for tabular machine learning.

The main interface is the command `bench`; these functions are for notebooks and scripts:

- `load_dataset(name)`: a table in memory; `bench data list` lists the names
- `splits(name)`: its folds, row numbers for training, validation and test
- `make_model(name, task=...)`: an unfitted scikit-learn estimator; `bench models` lists the names
- `KNNClassifier`, `FTTransformerRegressor`, ...: every model as an estimator of scikit-learn that
  takes any table (docs/library.md); `estimators()` lists them
- `sweep(frame, target=...)`: models tuned against each other on a DataFrame
- `leaderboard(run)`: the models of a run, the best first
- `load_model(file)`: a model that `bench fit` saved, which predicts from a DataFrame
- `load_results(run)`: the results of a run, a DataFrame with one row a trial
- `Error`: the base of the errors that tabsweep raises, with the ids of docs/errors.md

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

__version__ = "0.3.0"

_HOMES = {  # name -> the module that defines it
    "ColumnNotice": "tabsweep.models.library.columns",
    "Error": "tabsweep.common.errors",
    "estimators": "tabsweep.models.library.names",
    "leaderboard": "tabsweep.benchmark.library.leaderboard",
    "load_dataset": "tabsweep.datasets.catalog",
    "load_model": "tabsweep.models.persistence.model_file",
    "load_results": "tabsweep.benchmark.results.evidence_builder",
    "make_model": "tabsweep.models.registry",
    "splits": "tabsweep.datasets.catalog",
    "sweep": "tabsweep.benchmark.library.sweeping",
}
_KINDS = ("Classifier", "Regressor")  # how the names of the models' classes end
_CLASSES = "tabsweep.models.library.classes"  # the module that makes them

if TYPE_CHECKING:
    from .benchmark.library.leaderboard import leaderboard as leaderboard
    from .benchmark.library.sweeping import sweep as sweep
    from .benchmark.results.evidence_builder import load_results as load_results
    from .common.errors import Error as Error
    from .datasets.catalog import load_dataset as load_dataset
    from .datasets.catalog import splits as splits
    from .models.library.class_types import *  # noqa: F403
    from .models.library.columns import ColumnNotice as ColumnNotice
    from .models.library.names import estimators as estimators
    from .models.persistence.model_file import load_model as load_model
    from .models.registry import make_model as make_model


def __getattr__(name: str) -> Any:
    """What is public, imported when it is first asked for; the models' classes are made then."""
    from importlib import import_module

    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name == "__all__":
        return sorted([*_HOMES, *_class_names()])
    if name.endswith(_KINDS) and not name.startswith("_"):
        return import_module(_CLASSES).estimator_class(name)
    raise AttributeError(f"module 'tabsweep' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names too, so that completion and `help(tabsweep)` show them."""
    return sorted({*globals(), *_HOMES, *_class_names()})


def _class_names() -> list[str]:
    """The names of the models' classes, which the registry decides."""
    from importlib import import_module

    return list(import_module("tabsweep.models.library.names").class_names())
