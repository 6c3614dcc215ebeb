"""Tables that were read from files, kept as Arrow files that are mapped and not read again.

A kept table is what `table_from_file` gave, to the bit. Deleting it costs time and nothing else.
Its file has two streams of Arrow, one of target, weights and the like and one of the features, then
a tail with their lengths and checksums, because Arrow does not notice damaged numbers.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import pandas as pd

from ..common.columns.encoder import text_column
from ..common.files import replacing
from .errors import DataError
from .table import Table, kind_of

if TYPE_CHECKING:
    import pyarrow as pa

ROWS = ("target", "groups", "times", "weights")  # what a row has beside its features
PLAIN = ("name", "task", "classes", "sha256", "warnings", "styles", "left_out", "costs")
TAIL = struct.Struct("<QQII")  # bytes of the two streams, and the CRC-32 of each
CHUNK = 2**20  # bytes that are read at once for a checksum


def keep(table: Table, path: Path, **more: Any) -> None:
    """Write a table without stored splits to `path`, with `more` plain data that says what it was
    read by. OSError where there is no room."""
    import pyarrow as pa

    rows = {name: getattr(table, name) for name in ROWS if getattr(table, name) is not None}
    plain = {name: getattr(table, name) for name in PLAIN}
    told = {**more, "table": plain, "rows": list(rows), "columns": list(table.frame.columns)}
    parts = (
        [pa.array(values) for values in rows.values()],
        [_to_arrow(column) for _, column in table.frame.items()],
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        with pa.OSFile(str(temporary), "wb") as sink:
            ends = [_write(sink, arrays, {"told": json.dumps(told)}) for arrays in parts]
        sizes = ends[0], ends[1] - ends[0]
        with open(temporary, "r+b") as file:
            checksums = [_crc32(file, size) for size in sizes]
            file.write(TAIL.pack(*sizes, *checksums))


def _write(sink: pa.NativeFile, arrays: list[pa.Array], metadata: dict[str, str]) -> int:
    """Write arrays of one length as a stream; returns where it ends."""
    import pyarrow as pa

    fields = [(str(at), array.type) for at, array in enumerate(arrays)]
    schema = pa.schema(fields, metadata=metadata)
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pa.record_batch(arrays, schema=schema))
    return sink.tell()


def _crc32(file: BinaryIO, size: int) -> int:
    """The CRC-32 of the next `size` bytes of a file, which is read and not mapped."""
    checksum = 0
    for start in range(0, size, CHUNK):
        checksum = zlib.crc32(file.read(min(CHUNK, size - start)), checksum)
    return checksum


def kept(path: Path, *, features: bool = True, **more: Any) -> Table | None:
    """The table in `path`, where it was read by `more`; None where there is none. Raises
    DataError for a file that is none, or of other bytes than were written.
    features: whether it has its columns; else no byte of them is read."""
    import pyarrow as pa

    try:
        sizes = _checked(path, features=features)
    except OSError:
        return None
    with pa.memory_map(str(path)) as source:
        whole = source.read_buffer()
    batches = [pa.ipc.open_stream(whole[: sizes[0]]).read_next_batch()]
    told = json.loads(batches[0].schema.metadata[b"told"])
    if any(told[name] != value for name, value in more.items()):
        return None
    rows = {name: batches[0].column(at).to_numpy() for at, name in enumerate(told["rows"])}
    frame = pd.DataFrame(index=range(batches[0].num_rows))
    if features:
        batch = pa.ipc.open_stream(whole[sizes[0] : sum(sizes)]).read_next_batch()
        arrays = zip(told["columns"], batch.columns, strict=True)
        columns = {name: _from_arrow(array) for name, array in arrays}
        frame = pd.DataFrame(columns, copy=len(columns) > len(frame))  # a long one stays mapped
    plain = told["table"] | {"costs": tuple(map(tuple, told["table"]["costs"]))}
    plain |= {name: tuple(plain[name]) for name in ("classes", "warnings", "left_out")}
    return Table(frame=frame, **rows, **plain)


def _checked(path: Path, *, features: bool) -> tuple[int, int]:
    """Bytes of the two streams in a file, of which the first, or both, have the checksums that were
    written with them. Raises DataError, and OSError where the file cannot be read."""
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - TAIL.size))
        tail = file.read()
        first, second, *checksums = TAIL.unpack(tail) if len(tail) == TAIL.size else (0, 0, 0, 0)
        whole = 0 < first and first + second + TAIL.size == size
        file.seek(0)
        parts = zip((first, second) if features else (first,), checksums, strict=False)
        if not whole or any(_crc32(file, n) != checksum for n, checksum in parts):
            raise DataError(f"{path} is damaged")
    return first, second


def _to_arrow(column: pd.Series) -> pa.Array:
    import pyarrow as pa

    kind = kind_of(column.dtype)
    if kind == "numeric":
        return pa.array(column.to_numpy())
    if kind == "categorical":
        codes = column.cat.codes.to_numpy()
        levels = pa.array(column.cat.categories.tolist(), pa.large_string())
        return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), levels)
    if kind == "date":
        return pa.array(column, pa.timestamp("us"), from_pandas=True)
    return pa.array(column.astype(object), pa.large_string(), from_pandas=True)


def _from_arrow(array: pa.Array) -> pd.Series | np.ndarray:
    import pyarrow as pa

    if pa.types.is_dictionary(array.type):
        levels = pd.Index(array.dictionary.to_pylist(), dtype=object)
        codes = array.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        return pd.Series(pd.Categorical.from_codes(codes, dtype=pd.CategoricalDtype(levels)))
    if pa.types.is_large_string(array.type):
        return text_column(array.to_pylist())
    return array.to_numpy(zero_copy_only=False)
