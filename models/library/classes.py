"""The library's classes, one or two for each registered model: `KNNClassifier`, `KNNRegressor`, ...

A class is made when it is first asked for, from the model's spec, its hyperparameters and its
docstring; so a new model has its classes with its registry entry. They live in the package's root
(`tabsweep.KNNClassifier`), which finds them here; so they pickle by name.
"""

from __future__ import annotations

import inspect
from dataclasses import replace
from functools import cache
from typing import Any

from ...common.text import did_you_mean
from .. import registry
from .documentation import docstring
from .estimator import (
    COMMON,
    LibraryClassifier,
    LibraryEstimator,
    LibraryRegressor,
    Weighted,
    check_names,
)
from .names import KINDS, class_names
from .presets import BY_PRESET, quick_preset

PACKAGE = "tabsweep"
OWN = ("task", "seed", "threads", "random_state", "n_jobs")  # given by the wrapper


def estimator_class(name: str) -> type[LibraryEstimator]:
    """The class of that name; AttributeError, with the nearest name, where there is none."""
    known = class_names()
    if name not in known:
        raise AttributeError(
            f"module {PACKAGE!r} has no attribute {name!r}{did_you_mean(name, list(known))}"
        )
    return class_of(*known[name])


@cache
def class_of(model: str, kind: str) -> type[LibraryEstimator]:
    """The class of a model by its name in the registry; kind: "Classifier" or "Regressor".

    A class of your own ("module:Class") has one too. It cannot be pickled, because the package has
    no attribute of its name. ValueError for an unknown model, and for one with a hyperparameter
    whose name the library uses itself.
    """
    spec = replace(registry.spec(model), name=model)  # by which the registry finds it again
    target: Any = registry.load_class(spec.target)
    name = f"{target.__name__}{kind}"
    defaults = {
        n: tuple(p.default) if isinstance(p.default, list) else p.default
        for n, p in inspect.signature(target).parameters.items()
        if n not in OWN and p.default is not p.empty
    }
    clash = sorted(set(defaults) & set(COMMON))
    if clash:
        raise ValueError(
            f"model {model!r} has hyperparameters called {', '.join(clash)}, as parameters of "
            "every estimator are; rename them"
        )
    quick = quick_preset(spec, defaults)
    shown = {n: BY_PRESET if n in quick else value for n, value in defaults.items()}
    base = LibraryClassifier if kind == KINDS[0] else LibraryRegressor
    cls = type(
        name,
        (Weighted, base) if spec.sample_weight else (base,),
        {
            "__module__": PACKAGE,
            "__qualname__": name,
            "__init__": _init_of(shown),
            "__doc__": docstring(spec, target, kind, defaults, quick),
            "spec": spec,
            "hyperparameters": shown,
            "quick": quick,
            "paper": defaults,
        },
    )
    return cls


def _init_of(hyperparameters: dict[str, Any]) -> Any:
    """`__init__` with the hyperparameters and the parameters of every estimator, all by keyword."""
    every = {**hyperparameters, **COMMON}

    def __init__(self: LibraryEstimator, **given: Any) -> None:
        check_names(type(self), given)
        for name, value in (every | given).items():
            setattr(self, name, value)

    parameters = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    parameters += [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=value)
        for name, value in every.items()
    ]
    __init__.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return __init__
