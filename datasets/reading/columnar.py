"""Columns of a Parquet, Arrow or Feather file, as the cells that a CSV of the same table has."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ...common.text import one_line
from ..errors import DataError
from .files import check_memory

BYTES_PER_CELL = 10  # as much as a cell of a CSV has, about


def read_columnar(path: Path, kind: str, name: str) -> tuple[pd.DataFrame, dict[str, str]]:
    """(cells, kinds that the file states) of a file of `kind` ('Parquet', 'Arrow', ...).

    Numbers stay numbers (float64, NaN where missing); everything else is text, "" where missing,
    and dates are ISO 8601. Dictionary columns and truth values are stated to be categories.
    Raises DataError for a damaged file and for columns of lists, records or bytes.
    """
    import pyarrow as pa

    try:
        table = _read(path, kind, name)
        kinds: dict[str, str] = {}
        columns: dict[str, Any] = {}
        for place, field in enumerate(table.schema):
            values, stated = _column(table.column(place), field, name)
            columns[str(place)] = values
            if stated:
                kinds[field.name] = stated
        frame = pd.DataFrame(columns, index=range(table.num_rows))
        frame.columns = pd.Index([str(text).strip() for text in table.schema.names], dtype=object)
    except (pa.ArrowException, OSError, UnicodeDecodeError, OverflowError) as error:
        if isinstance(error, OSError) and error.errno:
            raise
        raise DataError(f"{name}: damaged {kind} file: {one_line(error, 160)}") from None
    return frame, {key.strip(): value for key, value in kinds.items()}


def _read(path: Path, kind: str, name: str) -> Any:
    """The whole file as a pyarrow.Table, after a look at the size that it states."""
    import pyarrow as pa

    if kind == "Parquet":
        import pyarrow.parquet as pq

        with pq.ParquetFile(path) as file:
            facts = file.metadata
            check_memory(name, facts.num_rows * facts.num_columns * BYTES_PER_CELL)
            return file.read()
    if kind == "Feather 1":
        import pyarrow.feather as feather

        return feather.read_table(path, memory_map=False)
    with pa.OSFile(str(path), "rb") as source:
        opened = pa.ipc.open_file if kind == "Arrow" else pa.ipc.open_stream
        with opened(source) as reader:
            return reader.read_all()


def _column(column: Any, field: Any, name: str) -> tuple[np.ndarray, str]:
    """(cells, kind that the file states or "") of one column."""
    import pyarrow as pa
    import pyarrow.compute as pc

    stated, kind = "", column.type
    if pa.types.is_dictionary(kind):
        column, stated = column.cast(kind.value_type), "categorical"
        kind = column.type
    types = pa.types
    if types.is_duration(kind):
        per_second: Mapping[str, float] = {"s": 1, "ms": 1e3, "us": 1e6, "ns": 1e9}
        whole = column.cast(pa.int64()).to_numpy(zero_copy_only=False).astype(np.float64)
        return whole / per_second[kind.unit], stated
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        numbers = pc.cast(column, pa.float64(), safe=False)
        return np.array(numbers.to_numpy(zero_copy_only=False), dtype=np.float64), stated
    if types.is_null(kind):
        return np.full(len(column), np.nan), stated
    if types.is_boolean(kind):
        values = [None if v is None else str(v) for v in column.to_pylist()]
        return _texts(values), "categorical"
    if types.is_date(kind) or types.is_timestamp(kind) or types.is_time(kind):
        return _texts(column.cast(pa.string()).to_pylist()), stated
    if types.is_string(kind) or types.is_large_string(kind) or str(kind) == "string_view":
        return _texts(column.to_pylist()), stated
    raise DataError(
        f"{name}: column {one_line(field.name, 60)!r} holds {one_line(kind, 60)}; numbers, texts, "
        "truth values and dates are read: write it as columns of these, or leave it out"
    )


def _texts(values: list[Any]) -> np.ndarray:
    found = np.empty(len(values), dtype=object)
    found[:] = ["" if value is None else str(value).strip() for value in values]
    return found
