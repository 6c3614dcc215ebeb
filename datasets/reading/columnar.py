"""Columns of a Parquet, Arrow or Feather file, as the cells that a CSV of the same table has."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ...common.columns.numbers import EXACT
from ...common.text import one_line
from ..errors import DataError
from .files import check_memory

BYTES_PER_CELL = 10  # as much as a cell of a CSV has, about
ROWS_OF_NUMBERS = 1 << 16  # that are decoded at once
ROWS_WITH_TEXTS = 256  # few, as a text of megabytes may stand in each
MAGIC_BYTES = 8  # "ARROW1" and two zeros, before the stream of messages in a file
HEADER, DICTIONARY_DATA, BUFFERS, COMPRESSION = 2, 1, 2, 3  # members in Arrow's Message.fbs


def read_columnar(path: Path, kind: str, name: str) -> tuple[pd.DataFrame, dict[str, str]]:
    """(cells, kinds that the file states) of a file of `kind` ('Parquet', 'Arrow', ...).

    Numbers stay numbers (float64, NaN where missing); everything else is text, "" where missing,
    and dates are ISO 8601. Dictionary columns, truth values and what pandas notes as categorical
    (Parquet keeps no dictionary of its whole numbers) are stated to be categories.
    Raises DataError for a damaged file and for columns of lists, records or bytes.
    """
    import pyarrow as pa

    try:
        table = _read(path, kind, name)
        kinds: dict[str, str] = {}
        columns: dict[str, Any] = {}
        noted = _noted_categories(table.schema)
        for place, field in enumerate(table.schema):
            values, stated = _column(table.column(place), field, name)
            columns[str(place)] = values
            if stated or field.name in noted:
                kinds[field.name] = "categorical"
        frame = pd.DataFrame(columns, index=range(table.num_rows))
        frame.columns = pd.Index([str(text).strip() for text in table.schema.names], dtype=object)
    except (pa.ArrowException, OSError, UnicodeDecodeError, OverflowError, struct.error) as error:
        if isinstance(error, OSError) and error.errno:
            raise
        raise DataError(f"{name}: damaged {kind} file: {one_line(error, 160)}") from None
    return frame, {key.strip(): value for key, value in kinds.items()}


def _read(path: Path, kind: str, name: str) -> Any:
    """The whole file as a pyarrow.Table.

    A few bytes of a file may hold much (compressed, one text for all rows), so what it states of
    its size is looked at before it is read, and what was read as it comes.
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
    if kind == "Feather 1":
        import pyarrow.feather as feather

        table = feather.read_table(path, memory_map=False)
        return _table(iter(table.to_batches()), table.schema, name)
    with pa.OSFile(str(path), "rb") as source:
        if kind != "Arrow":
            _check_messages(path, 0, math.inf, name)
            with pa.ipc.open_stream(source) as reader:
                return _table(iter(reader), reader.schema, name)
        with pa.ipc.open_file(source) as reader:
            n = reader.num_record_batches
            _check_messages(path, MAGIC_BYTES, n, name)
            return _table((reader.get_batch(i) for i in range(n)), reader.schema, name)


def _check_messages(path: Path, start: int, n_batches: float, name: str) -> None:
    """DataError where the Arrow messages from byte `start` on, to the last of `n_batches` record
    batches, state that they need more memory than is free. Nothing is decompressed."""
    import pyarrow as pa

    size = 0
    with pa.OSFile(str(path), "rb") as source:
        source.seek(start)
        messages = iter(pa.ipc.MessageReader.open_stream(source))
        while n_batches and (message := next(messages, None)) is not None:
            n_batches -= message.type == "record batch"
            size += unpacked_bytes(message)
            check_memory(name, size)


def _table(batches: Iterator[Any], schema: Any, name: str) -> Any:
    """A pyarrow.Table of record batches. ArrowInvalid for one whose offsets, indices or texts are
    damaged, as reading them could end the process; DataError as soon as they need more memory than
    is free, each text counted as often as it occurs."""
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
    if str(values.type) in ("string_view", "binary_view"):  # views of one text may be many
        start = column.offset if values is column else values.offset
        words = np.frombuffer(values.buffers()[1], dtype=np.int32)  # the length begins 16 bytes
        lengths = pa.array(words[4 * start : 4 * (start + len(values)) : 4])
        lengths = pc.if_else(values.is_valid(), lengths, 0)
    elif pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        lengths = pc.fill_null(pc.binary_length(values), 0)
    else:
        return size
    if values is not column:
        lengths = lengths.take(column.indices)
    return max(size, pc.sum(lengths.cast(pa.int64())).as_py() or 0)


def unpacked_bytes(message: Any) -> int:
    """The bytes that the buffers of an Arrow message have once they are decompressed.

    A compressed buffer begins with this number (int64, -1 for one that is stored as it is); where
    the buffers lie is in the message's head, a flatbuffer (Arrow columnar format, Message.fbs).
    """
    if message.type not in ("record batch", "dictionary") or message.body is None:
        return 0
    head, body = message.metadata, message.body

    def number(form: str, at: int) -> int:
        return int(struct.unpack_from(form, head, at)[0])

    def member(table: int, place: int) -> int:  # where it lies, 0 where it is absent
        slots = table - number("<i", table)
        slot = 4 + 2 * place
        offset = number("<H", slots + slot) if slot < number("<H", slots) else 0
        return table + offset if offset else 0

    def follow(at: int) -> int:
        return at + number("<I", at)

    batch = follow(member(follow(0), HEADER))
    if message.type == "dictionary":
        batch = follow(member(batch, DICTIONARY_DATA))
    if not member(batch, COMPRESSION) or not member(batch, BUFFERS):
        return int(body.size)
    buffers, size = follow(member(batch, BUFFERS)), 0
    for i in range(number("<I", buffers)):
        start = number("<q", buffers + 4 + 16 * i)
        length = number("<q", buffers + 4 + 16 * i + 8)
        if 8 <= length and 0 <= start <= body.size - 8:
            stated = struct.unpack_from("<q", body, start)[0]
            size += length if stated < 0 else stated
    return size


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
    raise DataError(
        f"{name}: column {one_line(field.name, 60)!r} holds {one_line(kind, 60)}; numbers, texts, "
        "truth values and dates are read: write it as columns of these, or leave it out"
    )


def _noted_categories(schema: Any) -> set[str]:
    """Fields that pandas, which wrote the file, had as categories by its note in the schema; none
    where the note is absent or not as pandas writes it."""
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
