"""Hyperparameters of estimators: each is one field, with its default, its rule and its meaning.

An estimator becomes a dataclass with keyword-only fields, so that scikit-learn finds an explicit
`__init__`. A rule says which values are accepted. The section Parameters of the docstring is made
from the fields, those of the base classes included.
"""

from __future__ import annotations

import inspect
import math
import re
import textwrap
from collections.abc import Mapping
from dataclasses import Field, dataclass, field
from itertools import pairwise
from typing import Any, ClassVar, dataclass_transform

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


@dataclass(frozen=True)
class Checksum:
    """Accepts the SHA-256 of a file, and "" for none."""

    def accepts(self, value: object) -> bool:
        """Whether `value` is such a text."""
        return isinstance(value, str) and re.fullmatch(r"([0-9a-f]{64})?", value) is not None

    def __str__(self) -> str:
        return "the sha256 of a file (64 hex digits) or ''"


Rule = Number | OneOf | ListOf | Checksum

COUNT = Number(1, 100_000, whole=True)
LAYERS = Number(1, 1000, whole=True)
DEPTH = Number(0, 1000, whole=True)  # 0 for no limit, or none
WIDTH = Number(1, 65_536, whole=True)
SOME_WIDTH = Number(0, 65_536, whole=True)  # 0 for one that follows from the others
ROWS = Number(0, 1_000_000, whole=True)
PROBABILITY = Number(0.0, 1.0)
DROPOUT = Number(0.0, 1.0, high_open=True)
POSITIVE = Number(0.0, low_open=True)
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


def hyper(default: Any, rule: Rule, meaning: str = "") -> Any:
    """A field of a dataclass with this default, whose values `rule` must accept. `meaning` explains
    it; "" keeps what a base class says."""
    return field(default=default, metadata={"rule": rule, "meaning": meaning})


def required(rule: Rule, meaning: str = "") -> Any:
    """A field without a default, whose values `rule` must accept."""
    return field(metadata={"rule": rule, "meaning": meaning})


@dataclass_transform(kw_only_default=True, eq_default=False)
class Hyperparameters:
    """Base that makes its subclasses dataclasses, with `rules` and `meanings` of their fields.

    A subclass may give a field another default and keep the rest: `lr: float = 1e-4`. With
    `example`, the arguments of a quick fit, it gets a section Examples with such a fit.
    """

    example: ClassVar[str]
    rules: ClassVar[Mapping[str, Rule]] = {}
    meanings: ClassVar[Mapping[str, str]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        rules: dict[str, Rule] = {}
        meanings: dict[str, str] = {}
        for base in reversed(cls.__mro__[1:]):
            rules |= vars(base).get("rules", {})
            meanings = _first(vars(base).get("meanings", {}), meanings)
        own = {n: f.metadata for n, f in vars(cls).items() if isinstance(f, Field)}
        cls.rules = rules | {n: facts["rule"] for n, facts in own.items() if "rule" in facts}
        told = {n: facts.get("meaning") or meanings.get(n, "") for n, facts in own.items()}
        cls.meanings = _first(told, meanings)
        if inspect.get_annotations(cls):
            dataclass(kw_only=True, eq=False, repr=False)(cls)
        if vars(cls).get("__doc__"):
            cls.__doc__ = _completed(cls)


def _first(entries: Mapping[str, str], rest: Mapping[str, str]) -> dict[str, str]:
    """All entries, those of `entries` first."""
    return {**entries, **{name: text for name, text in rest.items() if name not in entries}}


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
    lines = doc.splitlines()
    start = lines.index(TITLE) + 2 if TITLE in lines else len(lines)
    for line in lines[start : next((i for i in _titles(lines) if i > start), None)]:
        if line and not line.startswith(" "):
            by_name[line.split(" : ")[0]] = current = [line]
        elif line:
            current.append(line)
    return by_name


def _titles(lines: list[str]) -> list[int]:
    """The numbers of the lines that are titles of sections."""
    return [i for i, (a, b) in enumerate(pairwise(lines)) if a and b == "-" * len(a)]


def _completed(cls: type[Hyperparameters]) -> str:
    """The class's docstring with the sections Parameters and Examples; one that has Parameters
    already keeps it."""
    doc = inspect.cleandoc(str(cls.__doc__))
    parts = [doc]
    if cls.meanings and not entries(doc):
        lines = doc.splitlines()
        at = next(iter(_titles(lines)), len(lines))
        listed = [f"{TITLE}\n{'-' * len(TITLE)}"]
        for name, meaning in cls.meanings.items():
            listed.append(heading(name, *_field(cls, name)))
            listed.append(
                textwrap.indent(textwrap.fill(meaning, 92, break_on_hyphens=False), "    ")
            )
        parts = ["\n".join(lines[:at]).strip(), "\n".join(listed), "\n".join(lines[at:])]
    if "example" in vars(cls):
        parts.append("\n".join(_example(cls)))
    return "\n\n".join(filter(None, parts))


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
    """Type, default and range of a field."""
    return _kind(cls, name), getattr(cls, name, NO_DEFAULT), cls.rules[name]


def _kind(cls: type[Hyperparameters], name: str) -> str:
    """The annotation of a field, "" where it has none (a subclass with its own `__init__`)."""
    kinds = (vars(base).get("__annotations__", {}).get(name) for base in cls.__mro__)
    kind = next((kind for kind in kinds if kind), "")
    return kind.__name__ if isinstance(kind, type) else str(kind)
