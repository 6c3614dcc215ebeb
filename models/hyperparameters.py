"""Hyperparameters of estimators: each is one field, with its default and its rule.

An estimator is a dataclass with keyword-only fields, so that scikit-learn finds an explicit
`__init__`. A rule says which values are accepted. The docstring gives the meaning of each
hyperparameter; type, default and range are filled in from the field, and inherited hyperparameters
are added.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field
from typing import Any, ClassVar

import numpy as np


class InvalidConfig(ValueError):
    """A hyperparameter is unknown, or its value is outside what the model accepts."""


@dataclass(frozen=True)
class Number:
    """Accepts numbers in [low, high] (open at a bound that is excluded), or one of `words`."""

    low: float = -math.inf
    high: float = math.inf
    whole: bool = False
    low_open: bool = False
    high_open: bool = False
    words: tuple[str | None, ...] = ()

    def accepts(self, value: object) -> bool:
        """Whether `value` is such a number or word; booleans are no numbers."""
        if value is None or isinstance(value, str):
            return value in self.words
        if isinstance(value, bool) or not isinstance(value, int | float | np.number):
            return False
        if self.whole and not isinstance(value, int | np.integer):
            return False
        above = value > self.low if self.low_open else value >= self.low
        below = value < self.high if self.high_open else value <= self.high
        return bool(above and below and math.isfinite(value))

    def __str__(self) -> str:
        kind = "a whole number" if self.whole else "a number"
        text = f"{kind} in {'(' if self.low_open else '['}{self.low:g}, {self.high:g}"
        text += ")" if self.high_open else "]"
        return " or ".join([text, *(repr(word) for word in self.words)])


@dataclass(frozen=True)
class OneOf:
    """Accepts exactly these values."""

    values: tuple[Any, ...]

    def accepts(self, value: object) -> bool:
        """Whether `value` equals one of the values, in type too."""
        return any(type(value) is type(v) and value == v for v in self.values)

    def __str__(self) -> str:
        return "one of " + ", ".join(repr(v) for v in self.values)


@dataclass(frozen=True)
class ListOf:
    """Accepts a list or tuple of at least one value, each accepted by `item`."""

    item: Number

    def accepts(self, value: object) -> bool:
        """Whether `value` is such a list."""
        return (
            isinstance(value, list | tuple)
            and len(value) > 0
            and all(self.item.accepts(v) for v in value)
        )

    def __str__(self) -> str:
        return f"a list of {self.item}"


Rule = Number | OneOf | ListOf

COUNT = Number(1, 100_000, whole=True)
ROUNDS = Number(1, 100_000, whole=True)
RATE = Number(0.0, 10.0, low_open=True)
SHARE = Number(0.0, 1.0, low_open=True)
PENALTY = Number(0.0)
PATIENCE = Number(0, 100_000, whole=True)
ENCODING = OneOf(("native", "ordinal", "one-hot"))
SWITCH = OneOf((True, False))
CLASSES = OneOf(("binary", "multiclass"))  # tasks of a model without a regression form


def check_config(model: str, rules: Mapping[str, Rule], config: Mapping[str, Any]) -> None:
    """Raises `InvalidConfig` for the first value that its rule does not accept."""
    for name, rule in rules.items():
        if name in config and not rule.accepts(config[name]):
            raise InvalidConfig(f"{model}: {name} must be {rule}, got {config[name]!r}")


TITLE = "Parameters"
NO_DEFAULT = object()


def hyper(default: Any, rule: Rule) -> Any:
    """A field of a dataclass with this default, whose values `rule` must accept."""
    return field(default=default, metadata={"rule": rule})


def required(rule: Rule) -> Any:
    """A field without a default, whose values `rule` must accept."""
    return field(metadata={"rule": rule})


class Hyperparameters:
    """Base that collects `rules` and completes the section Parameters of its subclasses.

    A subclass may give a field another default and keep the range: `lr: float = 1e-4`. With
    `example`, the arguments of a quick fit, it gets a section Examples with such a fit.
    """

    example: ClassVar[str]
    rules: ClassVar[Mapping[str, Rule]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        own = {name: f for name, f in vars(cls).items() if isinstance(f, Field)}
        ruled = {name: f.metadata["rule"] for name, f in own.items() if "rule" in f.metadata}
        rules: dict[str, Rule] = {}
        for base in reversed(cls.__mro__):
            rules |= vars(base).get("rules", {})
        cls.rules = rules | ruled
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
    if isinstance(rule, ListOf):
        return f"{text}, each {_range(rule.item)}"
    return f"{text}, {_range(rule)}" if isinstance(rule, Number) else text


def _range(rule: Number) -> str:
    if rule.high == float("inf"):
        text = f"{'above' if rule.low_open else 'at least'} {rule.low:g}"
    else:
        begin, end = "(" if rule.low_open else "[", ")" if rule.high_open else "]"
        low, high = (f"{x:.0f}" if x == int(x) else f"{x:g}" for x in (rule.low, rule.high))
        text = f"in {begin}{low}, {high}{end}"
    words = [repr(word) for word in rule.words if word is not None]
    return " or ".join([text, *words])


def entries(doc: str) -> dict[str, list[str]]:
    """{name: lines} of the entries of Parameters in a docstring without indentation."""
    by_name: dict[str, list[str]] = {}
    for line in _split(doc)[1]:
        if line and not line.startswith(" "):
            by_name[line.split(" : ")[0]] = current = [line]
        elif line:
            current.append(line)
    return by_name


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
    if "example" in vars(cls):
        after = [*after, *([""] if after else []), *_example(cls)]
    return "\n".join(
        [*before, "", TITLE, "-" * len(TITLE), *lines, *([""] if after else []), *after]
    )


def _example(cls: type[Hyperparameters]) -> list[str]:
    """Lines that fit an estimator of this class."""
    arguments = ", ".join(filter(None, ['task="binary"', cls.example]))
    return [
        "Examples",
        "--------",
        f">>> from {cls.__module__} import {cls.__name__}",
        '>>> X, y = [[0.0], [1.0], [2.0], [3.0]] * 5, ["no", "no", "yes", "yes"] * 5',
        f">>> model = {cls.__name__}({arguments}).fit(X, y)",
        ">>> model.predict([[0.0], [3.0]]).shape",
        "(2,)",
    ]


def _field(cls: type[Hyperparameters], name: str) -> tuple[str, Any, Rule]:
    """Type, default and range of a field, also while its class is being made."""
    default = getattr(cls, name, NO_DEFAULT)
    default = default.default if isinstance(default, Field) else default
    default = NO_DEFAULT if default is MISSING else default
    return _kind(cls, name), default, cls.rules[name]


def _kind(cls: type[Hyperparameters], name: str) -> str:
    """The annotation of a field, "" where it has none (a subclass with its own `__init__`)."""
    kinds = (vars(base).get("__annotations__", {}).get(name) for base in cls.__mro__)
    kind = next((kind for kind in kinds if kind), "")
    return kind.__name__ if isinstance(kind, type) else str(kind)
