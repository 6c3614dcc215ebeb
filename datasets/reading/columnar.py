"""Columns of a Parquet or Arrow file (Feather), as the cells that a CSV of the same table has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ...common.columns.numbers import EXACT
from ...common.text import one_line
from ..errors import DataError
from .files import check_memory
from .names import clean_name

BYTES_PER_CELL = 10  # as much as a cell of a CSV has, about
ROWS_OF_NUMBERS = 1 << 16  # that are decoded at once
ROWS_WITH_TEXTS = 256  # few, as a text of megabytes may stand in each


def read_columnar(
    path: Path, kind: str, name: str
) -> tuple[pd.DataFrame, dict[str, str], dict[str, str]]:
    """(cells, kinds that the file states, columns that cannot be read and why) of a file of `kind`,
    'Parquet' or 'Arrow'.

    Numbers stay numbers (float64, NaN where missing); everything else is text, "" where missing,
    and dates are ISO 8601. Dictionary columns, truth values and what pandas notes as categorical
    (Parquet keeps no dictionary of its whole numbers) are stated to be categories.
    Columns of lists, records or bytes cannot be read, and are empty. Raises DataError for a damaged
    file.
    """
    import pyarrow as pa

    try:
        table = _read(path, kind, name)
        kinds: dict[str, str] = {}
        refused: dict[str, str] = {}
        columns: dict[str, Any] = {}
        noted = _noted_categories(table.schema)
        for place, field in enumerate(table.schema):
            try:
                values, stated = _column(table.column(place), field)
            except Unreadable as error:
                values, stated = _texts([None] * table.num_rows), ""
                refused[clean_name(field.name)] = f"{name}: {error}"
            columns[str(place)] = values
            if stated or field.name in noted:
                kinds[field.name] = "categorical"
        frame = pd.DataFrame(columns, index=range(table.num_rows))
        frame.columns = pd.Index([clean_name(str(n)) for n in table.schema.names], dtype=object)
    except (pa.ArrowException, OSError, UnicodeDecodeError, OverflowError) as error:
        if isinstance(error, OSError) and error.errno:
            raise
        raise DataError(f"{name}: damaged {kind} file: {one_line(error, 160)}") from None
    return frame, {clean_name(key): value for key, value in kinds.items()}, refused


class Unreadable(ValueError):
    """A column of lists, records or bytes."""


def _read(path: Path, kind: str, name: str) -> Any:
    """The whole file as a pyarrow.Table.

    A small file may hold a large table (compressed, or one text for all rows). So the size that
    Parquet states is checked before reading, and the size of each batch while reading.
    """
    import pyarrow as pa

    if kind == "Parquet":
        import pyarrow.parquet as pq

        with pq.ParquetFile(path) as file:
            facts = file.metadata
            stated = sum(facts.row_group(i).total_byte_size for i in range(facts.num_row_groups))
            cells = facts.num_rows * facts.num_columns
            check_memory(name, max(cells * BYTES_PER_CELL, stated))
            sized = all(pa.types.is_primitive(field.type) for field in file.schema_arrow)
            batches = file.iter_batches(ROWS_OF_NUMBERS if sized else ROWS_WITH_TEXTS)
            return _table(batches, file.schema_arrow, name)
    with open(path, "rb") as source, pa.ipc.open_file(source) as reader:
        batches = map(reader.get_batch, range(reader.num_record_batches))
        return _table(batches, reader.schema, name)


def _table(batches: Iterator[Any], schema: Any, name: str) -> Any:
    """A pyarrow.Table of record batches.

    Raises ArrowInvalid for damaged offsets, indices or texts, which could crash the process when
    read, and DataError as soon as the batches need more memory than is free. A text counts as often
    as it occurs."""
    import pyarrow as pa

    kept, size = [], 0
    for batch in batches:
        batch.validate(full=True)
        size += sum(_bytes_as_cells(column) for column in batch.columns)
        check_memory(name, size)
        kept.append(batch)
    return pa.Table.from_batches(kept, schema)


def _bytes_as_cells(column: Any) -> int:
    """The bytes of an array as cells of their own, at least BYTES_PER_CELL each."""
    import pyarrow as pa
    import pyarrow.compute as pc

    size = max(column.nbytes, len(column) * BYTES_PER_CELL)
    values = column.dictionary if pa.types.is_dictionary(column.type) else column
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        lengths = pc.fill_null(pc.binary_length(values), 0)
    else:
        return size
    if values is not column:
        lengths = lengths.take(column.indices)
    return max(size, pc.sum(lengths.cast(pa.int64())).as_py() or 0)


def _column(column: Any, field: Any) -> tuple[np.ndarray, str]:
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
    if types.is_integer(kind) and _beyond_floats(pc.min_max(column).as_py()):
        return _texts(column.cast(pa.string()).to_pylist()), stated
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
    raise Unreadable(
        f"column {one_line(field.name, 60)!r} holds {one_line(kind, 60)}; numbers, texts, "
        "truth values and dates are read: write it as columns of these, or leave it out (--drop)"
    )


def _noted_categories(schema: Any) -> set[str]:
    """Fields that were categorical in pandas, by the note that pandas leaves in the schema. Empty
    if the note is absent or malformed."""
    try:
        entries = (schema.pandas_metadata or {})["columns"]
        noted = {one["field_name"] for one in entries if one["pandas_type"] == "categorical"}
    except (ValueError, LookupError, TypeError, AttributeError):
        return set()
    return {name for name in schema.names if name in noted}


def _beyond_floats(range_: Mapping[str, int | None]) -> bool:
    """Whether float64 does not tell apart all whole numbers of {min, max}."""
    return any(abs(bound or 0) > EXACT for bound in range_.values())


def _texts(values: list[Any]) -> np.ndarray:
    found = np.empty(len(values), dtype=object)
    found[:] = ["" if value is None else str(value).strip() for value in values]
    return found
