"""Search spaces: the configurations that may be tried, as a value.

    Space({"booster": Choice(("tree", "linear")), "max_depth": Int(3, 10)})

Exactly these configurations are searched. The order in which parameters are given does not matter:
they are sorted by name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ...common.text import suggest
from .params import Axis, Choice, Draw, Fixed, Float, Int, Maybe, Param, Variants, parse_param

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Axis", "Choice", "Fixed", "Float", "Int", "Maybe", "Param", "Space", "Variants"]

_REMARKS = {"note", "source", "search"}  # about the origin of a space, not part of it


@dataclass(frozen=True)
class Space:
    """Named parameters.

    params: name -> parameter; names are Python identifiers (they are keyword arguments).

    A parameter of kind `Variants` sets several hyperparameters under their own names.

    Configurations are dicts of plain Python, sorted by name, as JSON can hold them exactly.
    """

    params: Mapping[str, Param]

    def __post_init__(self) -> None:
        for name in self.params:
            if not isinstance(name, str) or not name.isidentifier():
                raise ValueError(f"a parameter's name is an identifier, got {name!r}")
        keys = [key for name, param in self.params.items() for key in _keys(name, param)]
        twice = sorted({key for key in keys if keys.count(key) > 1})
        if twice:
            raise ValueError(f"{twice[0]!r} is set by two parameters; remove one of them")
        params = {name: self.params[name] for name in sorted(self.params)}
        object.__setattr__(self, "params", params)

    @classmethod
    def parse(cls, data: Mapping[str, Any]) -> Space:
        """A space from plain data: {"params": {name: {"kind": .., ..}}}, as in the space files.

        "note", "source" and "search" may stand beside "params" and are no part of the space. Raises
        ValueError for anything else.
        """
        if not isinstance(data, Mapping) or not isinstance(data.get("params"), Mapping):
            raise ValueError(f"a space is a table with a table of params, got {data!r}")
        for key in data:
            if key not in _REMARKS | {"params"}:
                known = suggest(key, _REMARKS | {"params"})
                raise ValueError(f"a space has no key {key!r}; {known}")
        params = {}
        for name, entry in data["params"].items():
            try:
                params[name] = parse_param(entry)
            except ValueError as error:
                raise ValueError(f"parameter {name!r}: {error}") from None
        return cls(params)

    def to_data(self) -> dict[str, Any]:
        """Plain data; `Space.parse(space.to_data()) == space`."""
        return {"params": {name: param.to_data() for name, param in self.params.items()}}

    def __contains__(self, config: object) -> bool:
        """Whether `config` has exactly the parameters of the space, each within its range."""
        if not isinstance(config, Mapping):
            return False
        keys = [key for name, param in self.params.items() for key in _keys(name, param)]
        return config.keys() == set(keys) and all(
            param.contains(_value(config, name, param)) for name, param in self.params.items()
        )

    def sample(self, rng: np.random.Generator) -> dict[str, Any]:
        """A configuration drawn at random, each number independently of the others."""
        return self.decode(lambda axis: drawn(axis, rng))

    # For samplers: a configuration as numbers, by axis label.

    @cached_property
    def axes(self) -> tuple[Axis, ...]:
        """Every number that may have to be drawn; those of absent parameters are left out."""
        return tuple(axis for name, param in self.params.items() for axis in param.axes(name))

    @cached_property
    def joint_axes(self) -> tuple[Axis, ...]:
        """The numbers that every configuration has: those behind no switch of a Maybe."""
        parts = [
            param.axes(name)[: 1 if isinstance(param, Maybe) else None]
            for name, param in self.params.items()
        ]
        return tuple(axis for part in parts for axis in part)

    def decode(self, draw: Draw) -> dict[str, Any]:
        """The configuration whose numbers are `draw(axis)`, asked only for axes that exist."""
        config: dict[str, Any] = {}
        for name, param in self.params.items():
            _put(config, name, param, param.read(name, draw))
        return {name: config[name] for name in sorted(config)}

    def encode(self, config: Mapping[str, Any]) -> dict[str, float]:
        """The numbers of a configuration that the space contains, by axis label."""
        numbers: dict[str, float] = {}
        for name, param in self.params.items():
            numbers |= param.write(name, _value(config, name, param))
        return numbers

    # For grids: every configuration has a number.

    @cached_property
    def size(self) -> int | None:
        """Number of different configurations, None where a parameter is continuous."""
        sizes = [param.size for param in self.params.values()]
        return None if None in sizes else math.prod(size or 0 for size in sizes)

    def grid_point(self, index: int) -> dict[str, Any]:
        """Configuration `index` of `size`; the last name varies fastest."""
        if self.size is None:
            endless = sorted(name for name, param in self.params.items() if param.size is None)
            raise ValueError(
                f"a grid needs finitely many values, but {', '.join(endless)} is continuous;"
                " use random or tpe"
            )
        config: dict[str, Any] = {}
        for name, param in reversed(list(self.params.items())):
            index, position = divmod(index, param.size or 1)
            _put(config, name, param, param.point(position))
        return {name: config[name] for name in sorted(config)}


def drawn(axis: Axis, rng: np.random.Generator) -> float:
    """A number of an axis, drawn at random."""
    if axis.kind == "float":
        return _between(rng.random(), axis.low, axis.high, axis.log)
    if axis.log:  # its probability is the length of [x - 0.5, x + 0.5] in the logarithm
        return round(_between(rng.random(), axis.low - 0.5, axis.high + 0.5, log=True))
    return int(rng.integers(int(axis.low), int(axis.high), endpoint=True))


def _keys(name: str, param: Param) -> tuple[str, ...]:
    """The keys of a configuration that a parameter sets."""
    return param.names if isinstance(param, Variants) else (name,)


def _value(config: Mapping[str, Any], name: str, param: Param) -> Any:
    """What `param.read` gave for a configuration."""
    return {k: config[k] for k in param.names} if isinstance(param, Variants) else config[name]


def _put(config: dict[str, Any], name: str, param: Param, value: Any) -> None:
    config.update(value if isinstance(param, Variants) else {name: value})


def _between(share: float, low: float, high: float, log: bool) -> float:
    if log:
        return math.exp(_between(share, math.log(low), math.log(high), False))
    return low + share * (high - low)
