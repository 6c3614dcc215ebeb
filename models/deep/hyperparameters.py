"""Hyperparameters of network estimators: each is one field, with its default and its range.

A subclass is a dataclass with keyword-only fields, so that scikit-learn finds an explicit
`__init__`. The ranges become `rules`. The docstring gives the meaning of each hyperparameter; type,
default and range are filled in from the field, and inherited hyperparameters are added.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import Field, field
from typing import Any, ClassVar

from ..base import Number, OneOf, Rule

TITLE = "Parameters"
NO_DEFAULT = object()


def hyper(default: Any, rule: Rule) -> Any:
    """A field of a dataclass with this default, whose values `rule` must accept."""
    return field(default=default, metadata={"rule": rule})


class Hyperparameters:
    """Base that collects `rules` and completes the section Parameters of its subclasses.

    A subclass may give a field another default and keep the range: `lr: float = 1e-4`.
    """

    rules: ClassVar[Mapping[str, Rule]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        own = {name: f for name, f in vars(cls).items() if isinstance(f, Field)}
        ruled = {name: f.metadata["rule"] for name, f in own.items() if "rule" in f.metadata}
        cls.rules = {**cls.rules, **ruled}
        if vars(cls).get("__doc__"):
            cls.__doc__ = _completed(cls)


def heading(name: str, kind: str, default: Any, rule: Rule) -> str:
    """The first line of an entry of Parameters.

    >>> heading("width", "int", 8, Number(1, 64, whole=True))
    'width : int, default=8, in [1, 64]'
    >>> heading("mask", "str", "entmax", OneOf(("entmax", "sparsemax")))
    "mask : {'entmax', 'sparsemax'}, default='entmax'"
    """
    if isinstance(rule, OneOf) and kind != "bool":
        kind = "{" + ", ".join(repr(value) for value in rule.values) + "}"
    text = f"{name} : {kind.replace(' | ', ' or ')}"
    text += "" if default is NO_DEFAULT else f", default={default!r}"
    return f"{text}, {_range(rule)}" if isinstance(rule, Number) else text


def _range(rule: Number) -> str:
    if rule.high == float("inf"):
        return f"{'above' if rule.low_open else 'at least'} {rule.low:g}"
    begin, end = "(" if rule.low_open else "[", ")" if rule.high_open else "]"
    low, high = (f"{x:.0f}" if x == int(x) else f"{x:g}" for x in (rule.low, rule.high))
    return f"in {begin}{low}, {high}{end}"


def entries(doc: str) -> dict[str, list[str]]:
    """{name: lines} of the entries of Parameters in a docstring without indentation."""
    found: dict[str, list[str]] = {}
    for line in _split(doc)[1]:
        if line and not line.startswith(" "):
            found[line.split(" : ")[0]] = current = [line]
        elif line:
            current.append(line)
    return found


def _split(doc: str) -> tuple[list[str], list[str], list[str]]:
    """Lines before Parameters, of its entries, and from the next section on."""
    lines = doc.splitlines()
    titles = [
        i for i in range(len(lines) - 1) if lines[i] and lines[i + 1] == "-" * len(lines[i])
    ] + [len(lines)]
    at = next((i for i in titles[:-1] if lines[i] == TITLE), None)
    if at is None:
        return lines[: titles[0]], [], lines[titles[0] :]
    after = next(i for i in titles if i > at)
    return lines[:at], lines[at + 2 : after], lines[after:]


def _completed(cls: type[Hyperparameters]) -> str:
    doc = inspect.cleandoc(str(cls.__doc__))
    known = entries(doc)
    for base in cls.__mro__[1:]:
        if issubclass(base, Hyperparameters) and base.__doc__:
            known = known | {n: e for n, e in entries(base.__doc__).items() if n not in known}
    if not known:
        return doc
    lines: list[str] = []
    for name, (first, *rest) in known.items():
        ruled = name in cls.rules and _kind(cls, name)
        lines += [heading(name, *_field(cls, name)) if ruled else first, *rest]
    before, _, after = _split(doc)
    while before and not before[-1]:
        before.pop()
    return "\n".join(
        [*before, "", TITLE, "-" * len(TITLE), *lines, *([""] if after else []), *after]
    )


def _field(cls: type[Hyperparameters], name: str) -> tuple[str, Any, Rule]:
    """Type, default and range of a field, also while its class is being made."""
    default = getattr(cls, name, NO_DEFAULT)
    default = default.default if isinstance(default, Field) else default
    return _kind(cls, name), default, cls.rules[name]


def _kind(cls: type[Hyperparameters], name: str) -> str:
    """The annotation of a field, "" where it has none (a subclass with its own `__init__`)."""
    kinds = (vars(base).get("__annotations__", {}).get(name) for base in cls.__mro__)
    kind = next((kind for kind in kinds if kind), "")
    return kind.__name__ if isinstance(kind, type) else str(kind)
