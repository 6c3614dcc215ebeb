"""Search spaces as plain data, read from a model's TOML file or from a class outside tabsweep."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..common.errors import Error
from ..common.text import did_you_mean, one_line
from .discovery import load_class
from .model_spec import ModelSpec, model_file
from .registry_entries import MODELS

SECTIONS = {
    "binary": ("classification", "binary"),
    "multiclass": ("classification", "multiclass"),
    "regression": ("regression",),
}
SPACE_KEYS = (
    "note",
    "source",
    "search",
    "params",
    *sorted({s for v in SECTIONS.values() for s in v}),
)
TESTING = "testing"
NO_SPACES = ("preset", TESTING)  # tables of a space file
TESTING_KEYS = (
    "config",
    "random",
    "draws_nothing",
    "ignores_validation",
    "one_piece",
    "always_draws",
    "fit_to_draws_anew",
    "pieces_rtol",
    "fixed_off_default",
)


class BadSpace(Error, ValueError):
    """A declared search space that is none."""

    id = "BENCH-E025"


def tables(name: str) -> dict[str, Any]:
    """{space: its table} in the file of a registered model."""
    data = model_file(name).items()
    return {key: table for key, table in data if isinstance(table, dict) and key not in NO_SPACES}


def declared_spaces(spec: ModelSpec, task: str) -> dict[str, dict[str, Any]]:
    """The search spaces of a model for a task; `registry.spaces` describes the result."""
    data: Mapping[str, Any]
    if spec.name in MODELS:
        data = tables(spec.name)
    else:
        declare = getattr(load_class(spec.target), "spaces", None)
        note = "declares no space: its default configuration is its only trial"
        data = {"default": {"params": {}, "note": note}}
        if declare is not None:
            data = _declared(spec, declare)
    return {
        space: resolved
        for space, table in data.items()
        if (resolved := resolve(spec.name, space, table, task)) is not None
    }


def _declared(spec: ModelSpec, declare: Any) -> Mapping[str, Any]:
    """What a class from elsewhere declares as its spaces. Raises BadSpace."""
    law = (
        f"`spaces` of model {spec.name!r} ({spec.target}) must be a dictionary "
        '{"default": {"params": {...}}}, or a static or class method without arguments that '
        "returns one (docs/models.md)"
    )
    try:
        data = declare() if callable(declare) else declare
    except Exception as error:  # code of the user, which may raise anything
        raise BadSpace(f"{law}; it raised {type(error).__name__}: {one_line(error)}") from error
    if not isinstance(data, Mapping) or not data:
        how = "returned" if callable(declare) else "is"
        raise BadSpace(f"{law}; it {how} {one_line(repr(data), 80)}")
    return data


def resolve(model: str, space: str, table: Any, task: str) -> dict[str, Any] | None:
    """One space for one task: the common part and those of the task's sections, merged.

    None where the space does not exist for the task; BadSpace for an unknown key, and for what is
    no table.
    """
    if not isinstance(table, Mapping):
        raise BadSpace(
            f"space {space!r} of {model} must be a table, got {table!r}: a class declares "
            'spaces = {"default": {"params": {...}}} (docs/models.md)'
        )
    tables = {k: table[k] for k in ("params", "search", *SECTIONS[task]) if k in table}
    for key, value in tables.items():
        if not isinstance(value, Mapping):
            raise BadSpace(f"{key!r} in space {space!r} of {model} must be a table, got {value!r}")
    for key in table:
        if key not in SPACE_KEYS:
            raise BadSpace(
                f"unknown key {key!r} in space {space!r} of {model}"
                f"{did_you_mean(key, SPACE_KEYS)}; known: {', '.join(sorted(SPACE_KEYS))}"
            )
    parts = [table[s] for s in SECTIONS[task] if s in table]
    if not parts and "params" not in table:
        return None
    params: dict[str, Any] = dict(table.get("params", {}))
    notes, search = [table.get("note", "")], dict(table.get("search", {}))
    for part in parts:
        params |= part.get("params", {})
        notes.append(part.get("note", ""))
        search |= part.get("search", {})
    return {
        "params": params,
        "note": " ".join(n for n in notes if n),
        "source": table.get("source", ""),
        "search": search,
    }


def small_fits(name: str) -> dict[str, Any]:
    """The table `[testing]` of a registered model's space file: settings for tests of all models.

    Tests read it, and `bench nightly` for models that its suite does not name. All keys are
    optional:

    config: a configuration that fits 60 rows in well under a second and still learns them.
    random: added to `config`, makes random all that can be random in a fit.
    draws_nothing: added to `config`, where the defaults draw anew in each piece of a fit.
    ignores_validation: added to `config`, with it the validation rows change nothing.
    one_piece: configurations that cannot stop and continue.
    always_draws: whether every configuration draws anew in each piece.
    fit_to_draws_anew: whether `fit_to` draws differently from `fit`.
    pieces_rtol: relative difference allowed between a fit in pieces and a fit in one; 0 by default.
    fixed_off_default: parameters that the space `default` fixes to another value than the class's.

    ValueError for an unknown key.
    """
    table = dict(model_file(name).get(TESTING, {}))
    for key in table:
        if key not in TESTING_KEYS:
            raise ValueError(
                f"unknown key {key!r} in [{TESTING}] of {name}{did_you_mean(key, TESTING_KEYS)}"
            )
    return table
