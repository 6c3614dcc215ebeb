"""Values of configurations: plain Python that JSON stores exactly, to the last digit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def plain(value: Any) -> Any:
    """`value` as JSON-able Python: scalars of numpy become Python's, tuples become lists.

    Raises ValueError for what has no exact JSON form (NaN, infinity, arrays, objects).
    """
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        if not math.isfinite(value):
            raise ValueError(f"numbers of a configuration must be finite, got {value!r}")
        return value
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        if not all(type(key) is str for key in value):
            raise ValueError(f"keys of a configuration must be text, got {list(value)!r}")
        return {key: plain(item) for key, item in value.items()}
    if getattr(value, "shape", None) == ():  # a numpy scalar, recognised without importing numpy
        return plain(value.item())
    raise ValueError(
        f"a configuration may hold None, bool, int, float, str, lists and dicts of these;"
        f" got {type(value).__name__}: {value!r}"
    )
