"""Parameters of a search space: Fixed, Choice, Float, Int, Maybe, and Variants of many at once.

A parameter is frozen, comparable and printable, and it turns into plain data and back.
Its axes tell a sampler which numbers to draw. `read` turns drawn numbers into a value, `write`
turns a value back into numbers, so that one description serves random search, Optuna and hyperopt
alike.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from ...common.text import suggest
from ..trial import canonical
from .json_values import plain

MAX_INT = 2**53  # whole numbers up to here are exact in JSON readers and in both TPEs (float64)


@dataclass(frozen=True)
class Axis:
    """One number that a sampler draws.

    kind: `index` (0..high, no order between them), `int` (low..high) or `float` ([low, high]).
    log: uniform in the logarithm instead of in the number itself.
    """

    label: str
    kind: Literal["index", "int", "float"]
    low: float
    high: float
    log: bool = False


Draw = Callable[[Axis], float]  # (axis) -> the number that a sampler draws for it


class Param:
    """Base of all kinds; compared by their plain data, so 1, 1.0 and True differ."""

    @property
    def size(self) -> int | None:
        """Number of different values, None where they are a continuum."""
        raise NotImplementedError

    def point(self, index: int) -> object:
        """Value number `index` of `size` in a fixed order."""
        raise NotImplementedError

    def position(self, value: Any) -> int:
        """The place of a value among the values that can be drawn, from 0; 0 also for a parameter
        without a finite list of values."""
        return 0

    def contains(self, value: object) -> bool:
        """Whether `value` can be drawn."""
        raise NotImplementedError

    def axes(self, name: str) -> tuple[Axis, ...]:
        """Every number that may have to be drawn for a parameter called `name`; none where it has
        one value only."""
        return () if self.size == 1 else (self._axis(name),)

    def read(self, name: str, draw: Draw) -> object:
        """The value for the numbers that were drawn for this parameter's axes."""
        return self.point(0) if self.size == 1 else self._value(draw(self._axis(name)))

    def write(self, name: str, value: object) -> dict[str, float]:
        """The numbers, by axis label, that `read` would turn into `value`."""
        return {} if self.size == 1 else {name: self._number(value)}

    def _axis(self, name: str) -> Axis:
        return Axis(name, "index", 0, (self.size or 1) - 1)

    def _value(self, drawn: float) -> object:
        return self.point(int(drawn))

    def _number(self, value: Any) -> float:
        return self.position(value)

    def to_data(self) -> dict[str, Any]:
        """Plain data, as in a space file."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Param):
            return NotImplemented
        return canonical(self.to_data()) == canonical(other.to_data())


@dataclass(frozen=True, eq=False)
class Fixed(Param):
    """One value, always."""

    value: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", plain(self.value))

    @property
    def size(self) -> int:
        """1."""
        return 1

    def point(self, index: int) -> object:
        """Value number `index` of `size` in a fixed order."""
        return copy.deepcopy(self.value)

    def contains(self, value: object) -> bool:
        """Whether `value` can be drawn."""
        return _same(self.value, value)

    def to_data(self) -> dict[str, Any]:
        """Plain data, as in a space file."""
        return {"kind": "fixed", "value": copy.deepcopy(self.value)}


@dataclass(frozen=True, eq=False)
class Choice(Param):
    """One of some values, each equally likely and in no order."""

    values: tuple[Any, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.values, list | tuple):
            raise ValueError(f"values must be a list, got {self.values!r}")
        values = tuple(plain(value) for value in self.values)
        if not values:
            raise ValueError("values must not be empty; leave the parameter out instead")
        seen = [canonical(value) for value in values]
        twice = [value for i, value in enumerate(values) if seen[i] in seen[:i]]
        if twice:
            raise ValueError(f"values must differ from each other, but {twice[0]!r} comes twice")
        object.__setattr__(self, "values", values)

    @cached_property
    def _index(self) -> dict[str, int]:
        return {canonical(value): i for i, value in enumerate(self.values)}

    @property
    def size(self) -> int:
        """Number of values."""
        return len(self.values)

    def point(self, index: int) -> object:
        """Value number `index` of `size` in a fixed order."""
        return copy.deepcopy(self.values[index])

    def position(self, value: Any) -> int:
        """The number of a value that can be drawn."""
        return self._index[canonical(plain(value))]

    def contains(self, value: object) -> bool:
        """Whether `value` can be drawn."""
        try:
            return canonical(plain(value)) in self._index
        except ValueError:
            return False

    def to_data(self) -> dict[str, Any]:
        """Plain data, as in a space file."""
        return {"kind": "choice", "values": copy.deepcopy(list(self.values))}


@dataclass(frozen=True, eq=False)
class Variants(Choice):
    """One of some settings of several hyperparameters, which are then keys of the configuration.

    Every value is a table of the same names. The parameter's own name is that of the list and
    is no key of any configuration.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        for value in self.values:
            if not isinstance(value, dict) or not all(name.isidentifier() for name in value):
                raise ValueError(f"a variant must be a table of hyperparameters, got {value!r}")
            if value.keys() != self.values[0].keys():
                raise ValueError(
                    f"variants must set the same hyperparameters, but one has {', '.join(value)}"
                    f" and another {', '.join(self.values[0])}"
                )

    @property
    def names(self) -> tuple[str, ...]:
        """The hyperparameters that a variant sets."""
        return tuple(sorted(self.values[0]))

    def to_data(self) -> dict[str, Any]:
        """Plain data, as in a space file."""
        return {**super().to_data(), "kind": "variants"}


@dataclass(frozen=True, eq=False)
class Float(Param):
    """A real number: uniform on [low, high] or in the logarithm, then moved by `shift`.

    With a shift the values lie in [low + shift, high + shift].
    """

    low: float
    high: float
    log: bool = False
    shift: float = 0.0

    def __post_init__(self) -> None:
        for field in ("low", "high", "shift"):
            object.__setattr__(self, field, float(_number(field, getattr(self, field))))
        _check_bounds(self.low, self.high, self.log)

    @property
    def size(self) -> int | None:
        """1 where low equals high, else None: a continuum."""
        return 1 if self.low == self.high else None

    def point(self, index: int) -> float:
        """Value number `index` of `size` in a fixed order."""
        return self._value(self.low)

    def contains(self, value: object) -> bool:
        """Whether `value` can be drawn."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        return self.low + self.shift <= value <= self.high + self.shift

    def to_data(self) -> dict[str, Any]:
        """Plain data, as in a space file."""
        data = {"kind": "log-uniform" if self.log else "uniform", "low": self.low}
        data["high"] = self.high
        return data | ({"shift": self.shift} if self.shift else {})

    def _axis(self, name: str) -> Axis:
        return Axis(name, "float", self.low, self.high, self.log)

    def _value(self, drawn: float) -> float:
        # Rounding, in an exponential or in the sum, must not step over a bound.
        return _clip(drawn, self.low, self.high) + self.shift

    def _number(self, value: Any) -> float:
        return _clip(value - self.shift, self.low, self.high)


@dataclass(frozen=True, eq=False)
class Int(Param):
    """A whole number low, low + step, .., high, both ends included; `log` only with step 1."""

    low: int
    high: int
    log: bool = False
    step: int = 1

    def __post_init__(self) -> None:
        for field in ("low", "high", "step"):
            value = plain(getattr(self, field))
            if type(value) is not int or abs(value) > MAX_INT:
                raise ValueError(f"{field} must be a whole number within +-2**53, got {value!r}")
            object.__setattr__(self, field, value)
        _check_bounds(self.low, self.high, self.log)
        if self.step < 1:
            raise ValueError(f"step must be at least 1, got {self.step}")
        if self.log and self.step != 1:
            raise ValueError(
                f"a logarithmic int must have step 1, got {self.step}; remove log or step"
            )
        if (self.high - self.low) % self.step:
            top = self.low + (self.high - self.low) // self.step * self.step
            raise ValueError(
                f"high must be low plus a whole number of steps, got low={self.low},"
                f" step={self.step}, high={self.high}; write high={top}"
            )

    @property
    def size(self) -> int:
        """Number of whole numbers."""
        return (self.high - self.low) // self.step + 1

    def point(self, index: int) -> int:
        """Value number `index` of `size` in a fixed order."""
        return self.low + index * self.step

    def position(self, value: Any) -> int:
        """The number of a value that can be drawn."""
        return (value - self.low) // self.step

    def contains(self, value: object) -> bool:
        """Whether `value` can be drawn."""
        if isinstance(value, bool) or not isinstance(value, int):
            return False
        return self.low <= value <= self.high and (value - self.low) % self.step == 0

    def to_data(self) -> dict[str, Any]:
        """Plain data, as in a space file."""
        data: dict[str, Any] = {"kind": "int", "low": self.low, "high": self.high}
        if self.log:
            data["log"] = True
        return data | ({"step": self.step} if self.step != 1 else {})

    def _axis(self, name: str) -> Axis:
        if self.log:
            return Axis(name, "int", self.low, self.high, log=True)
        return Axis(name, "int", 0, self.size - 1)

    def _value(self, drawn: float) -> int:
        if self.log:
            return min(max(int(drawn), self.low), self.high)
        return self.point(min(max(int(drawn), 0), self.size - 1))

    def _number(self, value: Any) -> float:
        return value if self.log else self.position(value)


@dataclass(frozen=True, eq=False)
class Maybe(Param):
    """`value` half of the time, drawn from `of` the other half (RTDL's `optional`)."""

    value: Any
    of: Param

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", plain(self.value))
        if not isinstance(self.of, Param) or isinstance(self.of, Maybe | Variants):
            raise ValueError(f"of must be a Fixed, Choice, Float or Int, got {self.of!r}")

    @cached_property
    def _gap(self) -> int | None:
        """The place of `value` among the values of `of`, so that a grid counts it once; None if
        `of` does not have it."""
        if self.of.size is None or not self.of.contains(self.value):
            return None
        place = self.of.position(self.value)
        return place if _same(self.of.point(place), self.value) else None

    @property
    def size(self) -> int | None:
        """Number of different values, None where `of` is a continuum."""
        if self.of.size is None:
            return None
        return 1 + self.of.size - (self._gap is not None)

    def point(self, index: int) -> object:
        """Value number `index` of `size` in a fixed order."""
        if index == 0:
            return copy.deepcopy(self.value)
        return self.of.point(index - 1 + (self._gap is not None and index - 1 >= self._gap))

    def contains(self, value: object) -> bool:
        """Whether `value` can be drawn."""
        return _same(self.value, value) or self.of.contains(value)

    def axes(self, name: str) -> tuple[Axis, ...]:
        """A switch between `value` and `of`, and the axes of `of`."""
        return (self._switch(name), *self.of.axes(name))

    def read(self, name: str, draw: Draw) -> object:
        """The value for the drawn numbers."""
        if int(draw(self._switch(name))) == 0:
            return copy.deepcopy(self.value)
        return self.of.read(name, draw)

    def write(self, name: str, value: object) -> dict[str, float]:
        """The numbers that `read` turns into `value`."""
        switch = self._switch(name).label
        if _same(self.value, value):
            return {switch: 0}
        return {switch: 1, **self.of.write(name, value)}

    def to_data(self) -> dict[str, Any]:
        """Plain data, as in a space file."""
        return {
            "kind": "optional",
            "value": copy.deepcopy(self.value),
            "of": self.of.to_data(),
        }

    def _switch(self, name: str) -> Axis:
        # The name of no parameter: those are identifiers.
        return Axis(f"{name}?", "index", 0, 1)


# kind in plain data -> (constructor, required keys, optional keys)
KINDS: dict[str, tuple[Callable[..., Param], set[str], set[str]]] = {
    "fixed": (Fixed, {"value"}, set()),
    "choice": (Choice, {"values"}, set()),
    "variants": (Variants, {"values"}, set()),
    "uniform": (Float, {"low", "high"}, {"shift"}),
    "log-uniform": (lambda **data: Float(log=True, **data), {"low", "high"}, {"shift"}),
    "int": (Int, {"low", "high"}, {"log", "step"}),
    "optional": (lambda value, of: Maybe(value, parse_param(of)), {"value", "of"}, set()),
}


def parse_param(data: object) -> Param:
    """A parameter from plain data, {"kind": .., ..}; ValueError for anything not understood."""
    if not isinstance(data, Mapping):
        raise ValueError(f"a parameter must be a table with a kind, got {data!r}")
    kind = data.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        what = "kind is missing" if kind is None else f"unknown kind {kind!r}"
        raise ValueError(f"{what}; {suggest(kind, KINDS)}")
    build, required, optional = KINDS[kind]
    for key in data:
        if key not in required | optional | {"kind"}:
            raise ValueError(
                f"unknown key {key!r} of kind {kind!r};"
                f" {suggest(key, required | optional | {'kind'})}"
            )
    missing = sorted(required - set(data))
    if missing:
        raise ValueError(f"kind {kind!r} needs {', '.join(missing)}, got {dict(data)!r}")
    return build(**{key: value for key, value in data.items() if key != "kind"})


def _same(own: object, value: object) -> bool:
    try:
        return canonical(own) == canonical(plain(value))
    except ValueError:
        return False


def _number(field: str, value: object) -> float:
    number = plain(value)
    if type(number) not in (int, float):
        raise ValueError(f"{field} must be a number, got {number!r}")
    return number


def _clip(value: float, low: float, high: float) -> float:
    return float(min(max(value, low), high))


def _check_bounds(low: float, high: float, log: bool) -> None:
    if type(log) is not bool:
        raise ValueError(f"log must be true or false, got {log!r}")
    if low > high:
        raise ValueError(f"low must not exceed high, got low={low}, high={high}; swap them")
    if log and low <= 0:
        raise ValueError(f"low of a logarithmic range must exceed 0, got {low}")
