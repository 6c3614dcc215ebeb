"""Models from outside of the registry: installed entry points and classes named by path."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cache, partial
from importlib import import_module, metadata
from typing import Any

from ..common.tasks import REGRESSION, TASKS
from ..common.text import did_you_mean, one_line
from .model_spec import SKLEARN, ModelSpec
from .own_class import ASKED, parameters_of, ready
from .policy import Policy
from .registry_entries import MODELS

GROUP = "tabsweep.models"
MODULE = "torch.nn.modules.module.Module"


def load_class(target: str) -> type[Any]:
    """The class behind `package.module:Class`, of a torch module that of its estimator; ValueError
    says what is missing."""
    cls = _imported(target)
    if not is_module(cls):
        return ready(cls)  # type: ignore[no-any-return]
    from .own_module import estimator_of

    return estimator_of(cls)


def is_module(cls: type[Any]) -> bool:
    """Whether a class is a `torch.nn.Module`; torch is not imported for the answer."""
    return any(f"{base.__module__}.{base.__name__}" == MODULE for base in cls.__mro__)


def runnable(target: str) -> str:
    """What a trial makes of a model's target: the target, or the place of a module's estimator."""
    cls = load_class(target)
    of_module = is_module(_imported(target))
    return f"{target}.{cls.__qualname__.rpartition('.')[2]}" if of_module else target


def _imported(target: str) -> type[Any]:
    module_name, _, class_name = target.partition(":")
    if not class_name or not all(part.isidentifier() for part in module_name.split(".")):
        raise ValueError(f"a model outside the registry is package.module:Class, got {target!r}")
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        raise ValueError(
            f"cannot import {module_name!r} for model {target!r}: {error}; "
            "is it a file here, installed, or on PYTHONPATH?"
        ) from error
    except Exception as error:  # code of the user, which may raise anything
        raise ValueError(
            f"cannot import {module_name!r} for model {target!r}: "
            f"{type(error).__name__}: {one_line(error)}"
        ) from error
    cls = getattr(module, class_name, None)
    if not inspect.isclass(cls):
        there = {n: v for n, v in vars(module).items() if inspect.isclass(v)}
        own = [n for n, v in there.items() if v.__module__ == module_name]
        raise ValueError(
            f"{module_name!r} has no class {class_name!r}{did_you_mean(class_name, there)}; "
            f"its classes: {', '.join(own[:10]) or 'none'}"
        )
    return cls


def entry_points() -> dict[str, str]:
    """Installed models of other packages: name -> `package.module:Class`."""
    installed: dict[str, str] = {}
    for point in sorted(metadata.entry_points(group=GROUP), key=lambda p: (p.name, p.value)):
        if point.name in MODELS or installed.get(point.name, point.value) != point.value:
            other = MODELS[point.name].target if point.name in MODELS else installed[point.name]
            raise ValueError(
                f"the installed model {point.name!r} ({point.value}) has the name of {other}; "
                f"one of the two must be renamed or uninstalled"
            )
        installed[point.name] = point.value
    return installed


def external_spec(target: str, name: str | None) -> ModelSpec:
    """The spec of a class from elsewhere, by what it declares (`tasks`, `libraries`, ...).

    name: that of its entry point, or None. ValueError where the class lacks what a model needs or
    takes the name of a registered model.
    """
    cls: Any = load_class(target)
    missing = [m for m in ("fit", "predict") if not callable(getattr(cls, m, None))]
    if missing:
        raise ValueError(f"model {target!r} has no method {' and no '.join(missing)}")
    own = name or _checked_name(getattr(cls, "name", None), target) or target
    if name is None and own in MODELS:
        raise ValueError(
            f"model {target!r} calls itself {own!r}, which is the name of {MODELS[own].target}; "
            "give the class another `name`"
        )
    owners = _distributions(target.partition(":")[0].partition(".")[0])
    declared = partial(_declared, cls, target)
    return ModelSpec(
        own,
        target,
        tasks=_checked_tasks(getattr(cls, "tasks", None) or _tagged(cls), target),
        family=declared("family", "external"),
        libraries=tuple(declared("libraries", (*owners, *SKLEARN))),
        threads=declared("needs_threads", 1),
        max_rows=declared("max_rows", None),
        told={"summary": (inspect.getdoc(cls) or "").partition("\n")[0]},
        preprocessing=declared("policy", Policy()),
        resource=_resource(cls, target),
        gpu_mb=float(declared("gpu_mb", 0.0)),
        numbers_only=declared(ASKED, False),
        module=is_module(_imported(target)),
        sample_weight="sample_weight" in inspect.signature(cls.fit).parameters,
    )


_WHOLE = ("a whole number above 0", lambda x: type(x) is int and x > 0)
DECLARED: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "family": ("a text", lambda x: isinstance(x, str)),
    "libraries": (
        "a tuple of names of distributions",
        lambda x: isinstance(x, list | tuple) and all(isinstance(one, str) for one in x),
    ),
    "needs_threads": _WHOLE,
    "max_rows": _WHOLE,
    "policy": ("a Policy", lambda x: isinstance(x, Policy)),
    "gpu_mb": ("a number, at least 0", lambda x: type(x) in (int, float) and x >= 0),
    ASKED: ("True or False", lambda x: type(x) is bool),
}


def _declared(cls: Any, target: str, name: str, without: Any) -> Any:
    """What a class declares under a name, `without` where it declares nothing; ValueError for what
    cannot be meant."""
    value = getattr(cls, name, without)
    what, fits = DECLARED[name]
    if value is not without and not fits(value):
        raise ValueError(
            f"model {target!r}: its `{name}` must be {what}, not {one_line(repr(value), 80)} "
            "(docs/models.md)"
        )
    return value


def _checked_name(name: Any, target: str) -> str | None:
    """The `name` that a class declares; ValueError for one that is no text, has control characters
    or is a path to another folder. Other odd names are escaped where they are written."""
    if name is None:
        return None
    if not isinstance(name, str):
        raise ValueError(f"model {target!r}: its `name` must be a text, not {name!r}")
    way = ".." in name.replace("\\", "/").split("/") or name.startswith(("/", "~"))
    if way or any(ord(c) < 32 or ord(c) == 127 for c in name):
        raise ValueError(
            f"model {target!r} calls itself {name[:80]!r}: a name has no control characters and "
            "is no path"
        )
    return name


def _checked_tasks(tasks: Any, target: str) -> tuple[str, ...]:
    """The `tasks` that a class declares; ValueError for what is no list of known tasks."""
    named = tuple(tasks) if isinstance(tasks, list | tuple | set | frozenset) else ()
    if not named or not all(task in TASKS for task in named):
        raise ValueError(
            f"model {target!r}: its `tasks` must be a tuple of {', '.join(map(repr, TASKS))}, "
            f"not {tasks!r}"
        )
    return tuple(task for task in TASKS if task in named)


def _tagged(cls: Any) -> tuple[str, ...]:
    """The tasks of a class that declares none, by scikit-learn's tags: of a classifier or of a
    regressor; all where they say neither. Tags belong to an instance; the class's bases stand for
    one that cannot be made without arguments."""
    from sklearn.base import ClassifierMixin, RegressorMixin
    from sklearn.utils import get_tags

    kind, multiclass = getattr(cls, "_estimator_type", None), True
    try:
        tags = get_tags(cls())
        kind = tags.estimator_type
        multiclass = tags.classifier_tags is None or tags.classifier_tags.multi_class
    except Exception:  # no tags, or code of the user, which may raise anything
        bases = {ClassifierMixin: "classifier", RegressorMixin: "regressor"}
        kind = next((said for base, said in bases.items() if issubclass(cls, base)), kind)
    if kind == "regressor":
        return (REGRESSION,)
    if kind == "classifier":
        return tuple(t for t in TASKS if t != REGRESSION and (multiclass or t == "binary"))
    return TASKS


def _resource(cls: Any, target: str) -> str:
    """The `resource` that a class declares. ValueError without its argument or `fit_to`."""
    name = str(getattr(cls, "resource", ""))
    if name and not callable(getattr(cls, "fit_to", None)):
        raise ValueError(f"model {target!r} declares resource = {name!r} but has no method fit_to")
    if name and not takes(parameters_of(cls), name):
        raise ValueError(f"model {target!r} declares resource = {name!r}, which it does not take")
    return name


@cache
def _distributions(package: str) -> tuple[str, ...]:
    """The installed distributions that a top-level package belongs to (slow to find)."""
    return tuple(sorted(set(metadata.packages_distributions().get(package, []))))


def takes(parameters: Mapping[str, inspect.Parameter], name: str) -> bool:
    """Whether a signature accepts the argument `name`."""
    return name in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())
