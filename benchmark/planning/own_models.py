"""Models that a request names: which are there, and whether those of the user can be made."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ...common.errors import Error
from ...common.tasks import REGRESSION
from ...common.text import one_line
from ...models import registry
from ...models.discovery import takes
from .space_overrides import PlanError

if TYPE_CHECKING:
    import numpy as np

    from ...datasets.protocols import Fold


class UnknownModel(Error, ValueError):
    """A model that is not registered, not installed and not importable."""

    id = "BENCH-E004"


def find_model(name: str) -> registry.ModelSpec:
    """The spec of a model. Raises UnknownModel with a suggestion."""
    if name.startswith("__main__:"):
        raise UnknownModel(f"workers cannot import {name!r}: put the class into a file of its own")
    try:
        return registry.spec(name)
    except (ValueError, ImportError, AttributeError) as error:
        raise UnknownModel(str(error)) from None


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
    accepted = inspect.signature(cls).parameters
    known = ", ".join(sorted(set(registry.defaults(model)))) or "none"
    for name in [*registry.spaces(model, task)[space]["params"], *fixed]:
        if not takes(accepted, name):
            raise PlanError(
                f"model {model!r}: its space {space!r} searches {name!r}, which its constructor "
                f"does not take; known: {known}"
            )
    if not starts_with_default:
        return
    for name, needed in accepted.items():
        given = ("task", "seed", "random_state", "threads", "n_jobs")
        named = needed.kind not in (needed.VAR_KEYWORD, needed.VAR_POSITIONAL)
        if named and needed.default is needed.empty and name not in (*given, *fixed):
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
