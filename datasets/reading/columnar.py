"""Columns of a Parquet or Arrow file (Feather), as the cells that a CSV of the same table has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ...common.columns.numbers import EXACT
from ...common.columns.plain import packed, text_cells
from ...common.text import one_line
from ..errors import DataError
from .files import check_memory, release
from .names import clean_name

BYTES_PER_CELL = 10  # as much as a cell of a CSV has, about
ROWS = 1 << 16  # that are decoded at once
ROWS_OF_OTHERS = 256  # where there are lists, records or bytes: each may have megabytes


def read_columnar(
    path: Path, kind: str, name: str
) -> tuple[list[str], list[pd.Series], dict[str, str], dict[str, str]]:
    """(names, cells of each column, kinds that the file states, columns that cannot be read and
    why) of a file of `kind`, 'Parquet' or 'Arrow'.

    Numbers stay numbers (float64, NaN where missing); everything else is text, "" where missing
    (see `Cells`), and dates are ISO 8601. Dictionary columns, truth values and what pandas notes as
    categorical (Parquet keeps no dictionary of its whole numbers) are stated to be categories.
    Columns of lists, records or bytes cannot be read, and are empty. Raises DataError for a damaged
    file.
    """
    import pyarrow as pa

    try:
        table, schema = _read(path, kind, name)
        kinds: dict[str, str] = {}
        refused: dict[str, str] = {}
        columns: list[pd.Series] = []
        noted, n_rows, parts = _noted_categories(schema), table.num_rows, table.columns[::-1]
        del table
        for field in schema:
            try:
                cells, stated = _column(parts.pop(), field)  # whose memory the next column may have
            except Unreadable as error:
                cells, stated = text_cells([pa.repeat("", n_rows)]), ""
                refused[clean_name(field.name)] = f"{name}: {error}"
            columns.append(cells)
            if stated or field.name in noted:
                kinds[clean_name(field.name)] = "categorical"
        names = [clean_name(str(one)) for one in schema.names]
    except (pa.ArrowException, OSError, UnicodeDecodeError, OverflowError) as error:
        if isinstance(error, OSError) and error.errno:
            raise
        raise DataError(f"{name}: damaged {kind} file: {one_line(error, 160)}") from None
    release()
    return names, columns, kinds, refused


class Unreadable(ValueError):
    """A column of lists, records or bytes."""


def _read(path: Path, kind: str, name: str) -> tuple[Any, Any]:
    """(the whole file as a pyarrow.Table, the schema that it states). Texts of Parquet come as
    codes into the different ones.

    A small file may hold a large table (compressed, or one text for all rows). So the size that
    Parquet states is checked before reading, and the size of each batch while reading.
    """
    import pyarrow as pa

    if kind == "Parquet":
        import pyarrow.parquet as pq

        schema = pq.read_schema(path)
        texts = [field.name for field in schema if _is_text(field.type)]
        with pq.ParquetFile(path, read_dictionary=texts) as file:
            facts = file.metadata
            stated = sum(facts.row_group(i).total_byte_size for i in range(facts.num_row_groups))
            cells = facts.num_rows * facts.num_columns
            check_memory(name, max(cells * BYTES_PER_CELL, stated))
            types = [field.type for field in file.schema_arrow]
            sized = all(pa.types.is_primitive(t) or pa.types.is_dictionary(t) for t in types)
            batches = file.iter_batches(ROWS if sized else ROWS_OF_OTHERS)
            return _table(batches, file.schema_arrow, name), schema
    with open(path, "rb") as source, pa.ipc.open_file(source) as reader:
        batches = map(reader.get_batch, range(reader.num_record_batches))
        return _table(batches, reader.schema, name), reader.schema


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


def _column(column: Any, field: Any) -> tuple[pd.Series, str]:
    """(cells, kind that the file states or "") of one column."""
    import pyarrow as pa
    import pyarrow.compute as pc

    types, kind = pa.types, column.type
    stated = "categorical" if types.is_dictionary(field.type) else ""
    if types.is_dictionary(kind):
        kind = kind.value_type
        column = column if _is_text(kind) else column.cast(kind)
    if types.is_duration(kind):
        per_second: Mapping[str, float] = {"s": 1, "ms": 1e3, "us": 1e6, "ns": 1e9}
        whole = column.cast(pa.int64()).to_numpy(zero_copy_only=False).astype(np.float64)
        return pd.Series(whole / per_second[kind.unit]), stated
    if types.is_integer(kind) and _beyond_floats(pc.min_max(column).as_py()):
        return _texts(column.cast(pa.string())), stated
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        numbers = pc.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        return pd.Series(numbers), stated
    if types.is_null(kind):
        return pd.Series(np.full(len(column), np.nan)), stated
    if types.is_boolean(kind):
        return _texts(pc.if_else(column, "True", "False")), "categorical"
    if types.is_date(kind) or types.is_timestamp(kind) or types.is_time(kind):
        return _texts(column.cast(pa.string())), stated
    if _is_text(kind):
        return _texts(column), stated
    raise Unreadable(
        f"column {one_line(field.name, 60)!r} holds {one_line(kind, 60)}; numbers, texts, "
        "truth values and dates are read: write it as columns of these, or leave it out (--drop)"
    )


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or str(kind) == "string_view"


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


def _texts(column: Any) -> pd.Series:
    """A column as stripped texts, "" where missing; categories where few differ."""
    import pyarrow as pa
    import pyarrow.compute as pc

    chunks = []
    for chunk in column.chunks:
        plain = chunk.dictionary_decode() if pa.types.is_dictionary(chunk.type) else chunk
        texts = pc.fill_null(plain.cast(pa.large_string()), "")
        chunks.append(packed(pc.utf8_trim_whitespace(texts)))
    return text_cells(chunks)
