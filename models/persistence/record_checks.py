"""Checks of arrays of records in a model file, before NumPy reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .archive import ModelFileError


def check_fields(state: Any) -> None:
    """Raises ModelFileError where an array of records has a field outside of its rows.

    NumPy does not see it beyond 2^31: it adds an offset and a size in 32 bits.
    """
    waiting = [state]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            if {"formats", "offsets", "itemsize"} <= part.keys():
                _check_record(part)
            waiting.extend(part.values())
        elif isinstance(part, list):
            waiting.extend(item for item in part if isinstance(item, (dict, list)))


def _check_record(record: Mapping[str, Any]) -> None:
    row = int(record["itemsize"])
    for offset, field in zip(record["offsets"], record["formats"], strict=True):
        size = field["itemsize"] if isinstance(field, dict) else np.dtype(field).itemsize
        if not 0 <= int(offset) <= row - int(size):
            raise ModelFileError(f"a field at byte {offset} of rows of {row} bytes; refused")
