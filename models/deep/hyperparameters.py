"""Hyperparameters of network estimators: each is one field, with its default and its range.

A subclass is a dataclass with keyword-only fields, so that scikit-learn finds an explicit
`__init__`. The ranges become `rules`, and the docstring's Parameters take in the inherited ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import Field, field
from typing import Any, ClassVar

from ..base import Rule

RULED = "-" * len("Parameters")


def hyper(default: Any, rule: Rule) -> Any:
    """A field of a dataclass with this default, whose values `rule` must accept."""
    return field(default=default, metadata={"rule": rule})


class Hyperparameters:
    """Base that collects `rules` and completes the Parameters of the docstring of its subclasses.

    A subclass may give a field another default and keep the range: `lr: float = 1e-4`.
    """

    rules: ClassVar[Mapping[str, Rule]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        own = {name: f for name, f in vars(cls).items() if isinstance(f, Field)}
        ruled = {name: f.metadata["rule"] for name, f in own.items() if "rule" in f.metadata}
        cls.rules = {**cls.rules, **ruled}
        inherited = next((base.__doc__ for base in cls.__mro__[1:] if _has_parameters(base)), None)
        if "__doc__" in vars(cls) and _has_parameters(cls) and inherited:
            cls.__doc__ = with_inherited(str(cls.__doc__), inherited)


def _has_parameters(cls: type) -> bool:
    return RULED in (cls.__doc__ or "")


def entries(doc: str) -> dict[str, str]:
    """{name: entry} of the numpydoc section Parameters, each entry with its lines."""
    found: dict[str, str] = {}
    name = ""
    for line in _section(doc)[1]:
        if line.strip() and not line.startswith(" " * 8):
            name = line.split(":")[0].strip()
            found[name] = line
        elif name:
            found[name] += f"\n{line}"
    return {name: text.rstrip() for name, text in found.items()}


def with_inherited(doc: str, inherited: str) -> str:
    """`doc` with the entries of `inherited` that it lacks behind its own Parameters."""
    own = entries(doc)
    before, _, after = _section(doc)
    missing = [text for name, text in entries(inherited).items() if name not in own]
    return "\n".join([*before, *own.values(), *missing, "", *after])


def _section(doc: str) -> tuple[list[str], list[str], list[str]]:
    """Lines before the entries of Parameters, those of the entries, and those of later sections."""
    lines = doc.splitlines()
    start = next(i for i, line in enumerate(lines) if line.strip() == RULED) + 1
    stop = next(_later(lines, start), len(lines))
    return lines[:start], lines[start:stop], lines[stop:]


def _later(lines: list[str], start: int) -> Iterator[int]:
    """Numbers of the lines that are titles of sections behind `start`."""
    for i in range(start, len(lines) - 1):
        title, rule = lines[i].strip(), lines[i + 1].strip()
        if title and rule == "-" * len(title):
            yield i
