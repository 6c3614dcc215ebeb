"""Search spaces: the configurations that may be tried, as a value.

    Space(
        {"booster": Choice(("tree", "linear")), "max_depth": Int(3, 10)},
        when={"max_depth": {"booster": ["tree"]}},
    )

Exactly these configurations are searched. The order in which parameters are given does not matter:
they are sorted by name, a condition's parents before its children.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ...common.text import suggest
from .json_values import identity, plain
from .params import Axis, Choice, Draw, Fixed, Float, Int, Maybe, Param, Variants, parse_param

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Axis", "Choice", "Fixed", "Float", "Int", "Maybe", "Param", "Space", "Variants"]

Conditions = Mapping[str, Mapping[str, Sequence[Any]]]  # child -> {parent: values that allow it}

_REMARKS = {"note", "source", "search"}  # about the origin of a space, not part of it


@dataclass(frozen=True, eq=False, repr=False)
class Space:
    """Named parameters, some of which exist only where another one has a certain value.

    params: name -> parameter; names are Python identifiers (they are keyword arguments).
    when: child -> {parent: values}; the child exists where every parent exists and has one of
        the values. A parent has finitely many values.

    A parameter of kind `Variants` sets several hyperparameters under their own names.

    Configurations are dicts of plain Python, sorted by name, as JSON can hold them exactly.
    Raises ValueError for unknown parents, values that a parent does not have, and cycles.
    """

    params: Mapping[str, Param]
    when: Conditions = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, param in self.params.items():
            if not isinstance(name, str) or not name.isidentifier():
                raise ValueError(f"a parameter's name is an identifier, got {name!r}")
            if not isinstance(param, Param):
                raise ValueError(f"parameter {name!r}: not a parameter: {param!r}")
        keys = [key for name, param in self.params.items() for key in _keys(name, param)]
        twice = sorted({key for key in keys if keys.count(key) > 1})
        if twice:
            raise ValueError(f"{twice[0]!r} is set by two parameters; remove one of them")
        when = {
            child: {parent: plain(list(values)) for parent, values in sorted(parents.items())}
            for child, parents in sorted(self.when.items())
            if parents
        }
        for child, parents in when.items():
            if child not in self.params:
                raise ValueError(
                    f"when: unknown parameter {child!r}; {suggest(child, self.params)}"
                )
            for parent, values in parents.items():
                self._check_condition(child, parent, values)
        params = {name: self.params[name] for name in _ordered(list(self.params), when)}
        object.__setattr__(self, "params", MappingProxyType(params))
        object.__setattr__(self, "when", MappingProxyType(when))

    def _check_condition(self, child: str, parent: str, values: list[Any]) -> None:
        if parent not in self.params:
            known = suggest(parent, set(self.params) - {child})
            raise ValueError(f"parameter {child!r}: when names unknown {parent!r}; {known}")
        if isinstance(self.params[parent], Variants):
            raise ValueError(
                f"parameter {child!r}: when cannot name {parent!r}, a list of variants"
            )
        if self.params[parent].size is None or isinstance(self.params[parent], Float):
            raise ValueError(
                f"parameter {child!r}: when needs a parent with finitely many values,"
                f" but {parent!r} is {self.params[parent]!r}"
            )
        if not values:
            raise ValueError(f"parameter {child!r}: when names no value of {parent!r}")
        for value in values:
            if not self.params[parent].contains(value):
                raise ValueError(
                    f"parameter {child!r}: when names {parent!r} = {value!r},"
                    f" which is no value of {self.params[parent]!r}"
                )

    @classmethod
    def parse(cls, data: Mapping[str, Any]) -> Space:
        """A space from plain data: {"params": {name: {"kind": .., ..}}}, as in the space files.

        A parameter may have "when": {parent: [values]}. "note", "source" and "search" may stand
        beside "params" and are no part of the space. Raises ValueError for anything else.
        """
        if not isinstance(data, Mapping) or not isinstance(data.get("params"), Mapping):
            raise ValueError(f"a space is a table with a table of params, got {data!r}")
        for key in data:
            if key not in _REMARKS | {"params"}:
                known = suggest(key, _REMARKS | {"params"})
                raise ValueError(f"a space has no key {key!r}; {known}")
        params, when = {}, {}
        for name, entry in data["params"].items():
            try:
                if isinstance(entry, Mapping) and "when" in entry:
                    entry = dict(entry)
                    when[name] = _conditions(entry.pop("when"))
                params[name] = parse_param(entry)
            except ValueError as error:
                raise ValueError(f"parameter {name!r}: {error}") from None
        return cls(params, when)

    def to_data(self) -> dict[str, Any]:
        """Plain data; `Space.parse(space.to_data()) == space`."""
        params = {}
        for name in sorted(self.params):
            params[name] = self.params[name].to_data()
            if name in self.when:
                parents = self.when[name].items()
                params[name]["when"] = {parent: plain(values) for parent, values in parents}
        return {"params": params}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Space):
            return NotImplemented
        return identity(self.to_data()) == identity(other.to_data())

    def __hash__(self) -> int:
        return hash(identity(self.to_data()))

    def __repr__(self) -> str:
        when = {child: dict(parents) for child, parents in self.when.items()}
        return f"Space({dict(self.params)!r}" + (f", when={when!r})" if when else ")")

    def __reduce__(self) -> tuple[Any, ...]:  # a mapping proxy is not picklable
        return Space, (dict(self.params), {child: dict(p) for child, p in self.when.items()})

    def __contains__(self, config: object) -> bool:
        return self.contains(config)

    def contains(self, config: Any) -> bool:
        """Whether `config` has exactly the parameters that exist in it, each within its range."""
        if not isinstance(config, Mapping):
            return False
        seen: dict[str, Any] = {}
        for name, param in self.params.items():
            if self._exists(name, seen):
                keys = _keys(name, param)
                if not all(key in config for key in keys):
                    return False
                if not param.contains(_value(config, name, param)):
                    return False
                seen |= {key: config[key] for key in keys}
        return len(seen) == len(config)

    def sample(self, rng: np.random.Generator) -> dict[str, Any]:
        """A configuration drawn at random, each number independently of the others."""

        def draw(axis: Axis) -> float:
            if axis.kind == "float":
                return _between(rng.random(), axis.low, axis.high, axis.log)
            if axis.log:  # its probability is the length of [x - 0.5, x + 0.5] in the logarithm
                return round(_between(rng.random(), axis.low - 0.5, axis.high + 0.5, log=True))
            return int(rng.integers(int(axis.low), int(axis.high), endpoint=True))

        return self.decode(draw)

    # For samplers: a configuration as numbers, by axis label.

    @cached_property
    def axes(self) -> tuple[Axis, ...]:
        """Every number that may have to be drawn; those of absent parameters are left out."""
        return tuple(axis for name, param in self.params.items() for axis in param.axes(name))

    @cached_property
    def joint_axes(self) -> tuple[Axis, ...]:
        """The numbers that every configuration has: those under no condition and in no Maybe."""
        sure = [item for item in self.params.items() if item[0] not in self.when]
        parts = [
            param.axes(name)[: 1 if isinstance(param, Maybe) else None] for name, param in sure
        ]
        return tuple(axis for part in parts for axis in part)

    def decode(self, draw: Draw) -> dict[str, Any]:
        """The configuration whose numbers are `draw(axis)`, asked only for axes that exist."""
        config: dict[str, Any] = {}
        for name, param in self.params.items():
            if self._exists(name, config):
                _put(config, name, param, param.read(name, draw))
        return {name: config[name] for name in sorted(config)}

    def encode(self, config: Mapping[str, Any]) -> dict[str, float]:
        """The numbers of a configuration that the space contains, by axis label."""
        numbers: dict[str, float] = {}
        for name, param in self.params.items():
            if all(key in config for key in _keys(name, param)):
                numbers |= param.write(name, _value(config, name, param))
        return numbers

    # For grids: every configuration has a number.

    @cached_property
    def size(self) -> int | None:
        """Number of different configurations, None where a parameter is continuous."""
        if any(param.size is None for param in self.params.values()):
            return None
        return self._rest(0, {})

    def grid_point(self, index: int) -> dict[str, Any]:
        """Configuration `index` of `size`; the last name varies fastest."""
        size = self.size
        if size is None:
            endless = sorted(name for name, param in self.params.items() if param.size is None)
            raise ValueError(
                f"a grid needs finitely many values, but {', '.join(endless)} is continuous;"
                " use random or tpe"
            )
        if not 0 <= index < size:
            raise ValueError(f"the grid has points 0 to {size - 1}, got {index}")
        config: dict[str, Any] = {}
        for depth, (name, param) in enumerate(self.params.items(), start=1):
            if not self._exists(name, config):
                continue
            for first, n in self._stretches[name]:
                _put(config, name, param, param.point(first))
                rest = self._rest(depth, config)
                if index < n * rest:
                    position, index = divmod(index, rest)
                    _put(config, name, param, param.point(first + position))
                    break
                index -= n * rest
        return {name: config[name] for name in sorted(config)}

    @cached_property
    def _stretches(self) -> dict[str, list[tuple[int, int]]]:
        """{name: [(first, n)]}: the values of a parameter as stretches of n that follow each other
        and that no condition tells apart. A value that one names is a stretch of its own."""
        named: dict[str, set[int]] = {name: set() for name in self.params}
        for parents in self.when.values():
            for parent, values in parents.items():
                named[parent] |= {self.params[parent].position(value) for value in values}
        return {
            name: _between_cuts(param.size or 0, named[name]) for name, param in self.params.items()
        }

    @cached_property
    def _rests(self) -> dict[tuple[int, str], int]:
        return {}

    def _rest(self, depth: int, config: Mapping[str, Any]) -> int:
        """Number of ways to go on from parameter `depth`, given those before it."""
        names = list(self.params)
        if depth == len(names):
            return 1
        read = {parent for name in names[depth:] for parent in self.when.get(name, ())}
        key = depth, identity({name: config[name] for name in sorted(read & config.keys())})
        if key not in self._rests:
            name = names[depth]
            param = self.params[name]
            if not self._exists(name, config):
                ways = self._rest(depth + 1, config)
            else:
                ways = 0
                for first, n in self._stretches[name]:
                    ways += n * self._rest(depth + 1, {**config, name: param.point(first)})
            self._rests[key] = ways
        return self._rests[key]

    def _exists(self, name: str, config: Mapping[str, Any]) -> bool:
        return all(
            parent in config and any(identity(config[parent]) == identity(v) for v in values)
            for parent, values in self.when.get(name, {}).items()
        )


def _keys(name: str, param: Param) -> tuple[str, ...]:
    """The keys of a configuration that a parameter sets."""
    return param.names if isinstance(param, Variants) else (name,)


def _value(config: Mapping[str, Any], name: str, param: Param) -> Any:
    """What `param.read` gave for a configuration."""
    return {k: config[k] for k in param.names} if isinstance(param, Variants) else config[name]


def _put(config: dict[str, Any], name: str, param: Param, value: Any) -> None:
    config.update(value if isinstance(param, Variants) else {name: value})


def _conditions(data: Any) -> dict[str, list[Any]]:
    if not isinstance(data, Mapping) or not all(isinstance(v, list) for v in data.values()):
        raise ValueError(f"when is a table {{parent: [values]}}, got {data!r}")
    return dict(data)


def _ordered(names: list[str], when: Conditions) -> list[str]:
    """`names` sorted, but each after the parents of its condition."""
    left, placed = sorted(names), []
    while left:
        ready = next((n for n in left if not set(when.get(n, ())) & set(left)), None)
        if ready is None:
            raise ValueError(f"the conditions form a cycle: {', '.join(left)}")
        left.remove(ready)
        placed.append(ready)
    return placed


def _between_cuts(size: int, alone: set[int]) -> list[tuple[int, int]]:
    """range(size) as (first, n), where each number of `alone` stands by itself.

    >>> _between_cuts(9, {0, 4})
    [(0, 1), (1, 3), (4, 1), (5, 4)]
    """
    cuts = sorted({0, size, *alone, *(number + 1 for number in alone)})
    return [(first, end - first) for first, end in pairwise(cuts)]


def _between(share: float, low: float, high: float, log: bool) -> float:
    if log:
        return math.exp(_between(share, math.log(low), math.log(high), False))
    return low + share * (high - low)
