"""Models that a request names: which are there, and whether those of the user can be made."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...common.errors import Error
from ...common.tasks import REGRESSION
from ...common.text import did_you_mean, one_line
from ...models import registry
from ...models.discovery import takes
from ...models.own_class import parameters_of
from .space_overrides import PlanError

if TYPE_CHECKING:
    import numpy as np

    from ...datasets.protocols import Fold


GIVEN = ("task", "seed", "random_state", "threads", "n_jobs", "device")  # by every trial


class UnknownModel(Error, ValueError):
    """A model that is not registered, not installed and not importable."""

    id = "BENCH-E004"


def find_model(name: str) -> registry.ModelSpec:
    """The spec of a model. Raises UnknownModel with a suggestion."""
    if name.startswith("__main__:"):
        raise UnknownModel(f"workers cannot import {name!r}: put the class into a file of its own")
    if name.endswith(".py"):
        raise UnknownModel(_no_class_of(name))
    if trouble := _other_module(name.partition(":")[0]):
        raise UnknownModel(trouble)
    try:
        return registry.spec(name)
    except (ValueError, ImportError, AttributeError) as error:
        raise UnknownModel(f"{error}{_nearest_file(name)}") from None


def _nearest_file(target: str) -> str:
    """The file of the working directory that a misspelt `module:Class` may mean, or ""."""
    module, colon, _ = target.partition(":")
    if not colon or Path(f"{module}.py").is_file():
        return ""
    return did_you_mean(f"{module}.py", (path.name for path in Path().glob("*.py")))


def _no_class_of(file: str) -> str:
    """What to write in place of a file without a class."""
    try:
        parsed = ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError) as error:
        return f"{file}: {one_line(error)}; a class of your own is file.py:Class"
    names = [f"{file}:{one.name}" for one in parsed.body if isinstance(one, ast.ClassDef)]
    return f"{file!r} is a file: name one of its classes: {', '.join(names) or 'it has none'}"


def _other_module(module: str) -> str:
    """Why Python imports another module than the file of that name in the working directory; ""
    where it imports this file, and where the file does not exist."""
    if not all(part.isidentifier() for part in module.split(".")):
        return ""
    file = Path(*module.split(".")).with_suffix(".py")
    if not file.is_file():
        return ""
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names:
        taken = "a module of Python"
    else:
        try:
            found = find_spec(module) or find_spec(top)
        except Exception:  # code of the user; the import itself says what it raises
            return ""
        taken = (found.origin if found else None) or ""
    if not taken or Path(taken).resolve() == file.resolve():
        return ""
    return f"{file} cannot be imported, for its name is that of {taken}: rename it"


def without_weights(spec: registry.ModelSpec) -> str:
    """Why a model does not run where rows have weights; "" for one whose fit takes them."""
    return "" if spec.sample_weight else f"{spec.name} takes no weights of rows"


def nothing_counts(weights: np.ndarray | None, fold: Fold) -> str:
    """Why no model can run on a fold with row weights (N,), or "" if models can. Training,
    validation and test part each need a weight above 0."""
    if weights is None:
        return ""
    parts = {"training": fold.train, "validation": fold.val, "test": fold.test}
    empty = [part for part, rows in parts.items() if len(rows) and not weights[rows].any()]
    return f"all {' and '.join(empty)} rows of fold {fold.index} have weight 0" if empty else ""


def weight_notes(specs: Mapping[str, registry.ModelSpec], weighted: Iterable[str]) -> list[str]:
    """A sentence on the datasets whose rows have weights, with the models that take none.

    Raises PlanError where no model of the sweep takes weights.
    """
    names = ", ".join(sorted(weighted))
    if not names:
        return []
    absent = [name for name, spec in specs.items() if without_weights(spec)]
    if len(absent) == len(specs):
        takers = ", ".join(name for name, spec in registry.MODELS.items() if spec.sample_weight)
        raise PlanError(
            f"rows of {names} have weights, and none of the models takes them "
            f"({', '.join(absent)}). Those that do: {takers}; or leave the weight column "
            "out (--drop)"
        )
    left = f"; models that take none do not run: {', '.join(absent)}" if absent else ""
    return [f"Rows of {names} count by their weights, in fits and in all scores{left}."]


def check_constructor(
    model: str,
    task: str,
    space: str,
    fixed: Mapping[str, Any],
    *,
    starts_with_default: bool,
) -> None:
    """Make an estimator of a model from outside the registry, with the default configuration of
    its space (`fixed`: what the suite pins).

    Raises PlanError for a space that searches what the constructor does not take or has no default
    for, for a constructor that fails, and for a classifier without probabilities.
    """
    if model in registry.MODELS:
        return
    cls: Any = registry.load_class(registry.spec(model).target)
    accepted = parameters_of(cls)
    known = ", ".join(sorted(set(registry.defaults(model)))) or "none"
    for name in [*registry.spaces(model, task)[space]["params"], *fixed]:
        if name in GIVEN:
            raise PlanError(
                f"model {model!r}: its space {space!r} searches {name!r}, which each trial sets"
            )
        if not takes(accepted, name):
            raise PlanError(
                f"model {model!r}: its space {space!r} searches {name!r}, which its constructor "
                f"does not take; known: {known}"
            )
    if not starts_with_default:
        return
    for name, needed in accepted.items():
        named = needed.kind not in (needed.VAR_KEYWORD, needed.VAR_POSITIONAL)
        if named and needed.default is needed.empty and name not in (*GIVEN, *fixed):
            raise PlanError(
                f"model {model!r}: its constructor needs {name!r}; give it a default, which is the "
                "first configuration of a study"
            )
    try:
        config = {**registry.default_config(model, task, space), **fixed}
        made = registry.make_model(model, task=task, **config)
    except Exception as error:  # code of the user, which may raise anything
        raise PlanError(
            f"model {model!r} cannot be made: {type(error).__name__}: {one_line(error)}"
        ) from error
    if task != REGRESSION and not hasattr(made, "predict_proba"):
        raise PlanError(
            f"model {model!r} has no predict_proba, which {task} data need; a class for regression "
            f"alone says so: tasks = ({REGRESSION!r},)"
        )
