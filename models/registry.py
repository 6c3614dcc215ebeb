"""The registry of models: their names, specs, default hyperparameters and search spaces.

Registered models stand in `registry_entries.py`. Models of other packages join by the entry-point
group `tabsweep.models`, any other class by its path `package.module:Class`.
"""

from __future__ import annotations

import inspect
from typing import Any

from ..common.tasks import TASKS
from ..common.text import did_you_mean
from .discovery import entry_points, external_spec, load_class, takes
from .in_context.entries import IN_CONTEXT
from .model_spec import FAMILIES, ModelSpec
from .own_class import parameters_of
from .registry_entries import MODELS
from .space_files import declared_spaces, small_fits

__all__ = [
    "FAMILIES",
    "MODELS",
    "ModelSpec",
    "default_config",
    "defaults",
    "entry_points",
    "load_class",
    "make_model",
    "names",
    "spaces",
    "spec",
    "small_fits",
    "unsupported",
]


def spec(name: str) -> ModelSpec:
    """The spec of a registered, installed (entry point) or external (`package.module:Class`) model.

    ValueError for an unknown name (with a suggestion) and for an external class that takes the name
    of a registered model or lacks what a model needs.
    """
    if name in MODELS:
        return MODELS[name]
    if name in IN_CONTEXT:
        return IN_CONTEXT[name]
    if ":" in name:
        return external_spec(name, None)
    installed = entry_points()
    if name in installed:
        return external_spec(installed[name], name)
    known = sorted({*MODELS, *IN_CONTEXT, *installed})
    raise ValueError(
        f"unknown model {name!r}{did_you_mean(name, known)}; known: {', '.join(known)}; "
        "a class of your own is package.module:Class or file.py:Class"
    )


def names() -> list[str]:
    """Names of all registered and installed models, sorted."""
    return sorted({*MODELS, *IN_CONTEXT, *entry_points()})


def make_model(
    name: str, *, task: str, seed: int = 0, threads: int | None = None, **config: Any
) -> Any:
    """An unfitted estimator of a model by name.

    Parameters
    ----------
    name : str
        A name of `tabsweep.models.registry.names()` (the command `bench models` prints them with a
        summary), or `package.module:Class` for a class of your own.
    task : {"binary", "multiclass", "regression"}
        What is predicted.
    seed : int, default 0
        Seed of everything random in the fit.
    threads : int or None, default None
        Threads of the fit; None for the number that the model declares.
    **config
        Hyperparameters by name; `tabsweep.models.registry.defaults(name)` lists them with their
        defaults, `help` of the estimator's class explains them.

    Returns
    -------
    Estimator
        It has the methods of scikit-learn: `fit(X, y)` with optional validation rows `X_val`,
        `y_val` for early stopping, `predict`, and for classification `predict_proba`. `X` is a
        DataFrame or an array; missing values and categories may stay as they are. A class from
        elsewhere gets those of task, seed (or `random_state`) and threads (or `n_jobs`) that it
        takes.

    Raises
    ------
    ValueError
        For an unknown name or task, with a suggestion.
    InvalidConfig
        For an unknown hyperparameter or a value that it does not accept (a ValueError).

    Examples
    --------
    >>> from tabsweep.models.registry import names
    >>> {"knn", "linear", "random-forest", "xgboost"} <= set(names())
    True
    >>> model = make_model("knn", task="binary", n_neighbors=1)
    >>> model.fit([[0.0], [1.0]], ["no", "yes"]).predict([[0.2]])
    array(['no'], dtype='<U3')
    """
    from .base import Estimator
    from .hyperparameters import InvalidConfig

    entry = spec(name)
    if task not in TASKS:
        raise ValueError(f"unknown task {task!r}{did_you_mean(task, TASKS)}; known: {TASKS}")
    cls: Any = load_class(entry.target)
    accepted = inspect.signature(cls).parameters
    known = [n for n, p in accepted.items() if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    own = {"task": task, "seed": seed, "threads": entry.threads if threads is None else threads}
    for ours, theirs in (("seed", "random_state"), ("threads", "n_jobs")):
        if ours not in accepted and theirs in accepted:
            own[theirs] = own.pop(ours)
    for key in config:
        if not takes(parameters_of(cls), key) or key in own:
            raise InvalidConfig(
                f"{name}: unknown hyperparameter {key!r}{did_you_mean(key, known)}; "
                f"known: {', '.join(sorted(set(known) - set(own)))}"
            )
    model = cls(**{k: v for k, v in own.items() if takes(accepted, k)}, **config)
    if isinstance(model, Estimator):
        model.check()
    return model


def defaults(name: str) -> dict[str, Any]:
    """The hyperparameters of a model with their default values.

    >>> defaults("knn")
    {'target_transform': 'none', 'n_neighbors': 5, 'weights': 'uniform', 'p': 2}
    """
    cls: Any = load_class(spec(name).target)
    return {
        n: list(p.default) if isinstance(p.default, tuple) else p.default
        for n, p in inspect.signature(cls).parameters.items()
        if n not in ("task", "seed", "threads", "device") and p.default is not p.empty
    }


def unsupported(
    spec: ModelSpec, task: str, n_rows: int, n_features: int, n_classes: int
) -> str | None:
    """Why a model does not run on `n_rows` training rows of a task, or None where it does."""
    if task not in spec.tasks:
        return f"{spec.name} has no {task} form"
    if spec.max_rows is not None and n_rows > spec.max_rows:
        return f"{spec.name} takes at most {spec.max_rows} training rows, here are {n_rows}"
    if spec.max_classes is not None and n_classes > spec.max_classes:
        return f"{spec.name} takes at most {spec.max_classes} classes, here are {n_classes}"
    return None


def spaces(name: str, task: str) -> dict[str, dict[str, Any]]:
    """The search spaces of a model for a task, as plain data.

    space name -> {"params": {...}, "note": str, "source": str, "search": {...}}, where a parameter
    is {"kind": "fixed" | "choice" | "uniform" | "log-uniform" | "int" | "optional" | "variants",
    ...} with the bounds or values of its kind, and "search" may give `strategy` and `n_configs`. A
    space file (or a class's `spaces()`) may keep `params` by kind of task, in sub-tables
    `classification`, `binary`, `multiclass` and `regression`, which add to the common ones; a space
    that does not exist for the task is left out. A model that declares none has one, `default`,
    without parameters: its default configuration is its only trial, and the note says so.

    >>> sorted(spaces("knn", "binary")["default"]["params"])
    ['n_neighbors', 'p', 'weights']
    """
    return declared_spaces(spec(name), task)


def default_config(name: str, task: str, space: str = "default") -> dict[str, Any]:
    """The default configuration as a point of a space: a default for each searched parameter that
    has one; the others, which a constructor takes by `**`, are left to it.

    Fixed parameters have their fixed value, of variants the first is taken. For `default` spaces
    the point lies inside the space; for others it may not.
    """
    values = defaults(name)
    out: dict[str, Any] = {}
    for key, param in spaces(name, task)[space]["params"].items():
        if param.get("kind") == "variants":
            out |= param["values"][0]
        elif param.get("kind") == "fixed":
            out[key] = param["value"]
        elif key in values:
            out[key] = values[key]
    return out
