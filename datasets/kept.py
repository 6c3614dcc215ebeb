"""Tables that were read from files, kept as Arrow files that are mapped and not read again.

A kept table is what `table_from_file` gave, to the bit. Who deletes it loses time and nothing else.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ..common.columns.encoder import text_column
from ..common.files import replacing
from .table import Table, kind_of

if TYPE_CHECKING:
    import pyarrow as pa

ROWS = ("target", "groups", "times", "weights")  # what a row has beside its features
PLAIN = ("name", "task", "classes", "sha256", "warnings", "styles", "left_out", "costs")


def keep(table: Table, path: Path, **more: Any) -> None:
    """Write a table without stored splits to `path`, with `more` plain data that says what it was
    read by. OSError where there is no room."""
    import pyarrow as pa

    rows = {name: getattr(table, name) for name in ROWS if getattr(table, name) is not None}
    arrays = [pa.array(values) for values in rows.values()]
    arrays += [_to_arrow(column) for _, column in table.frame.items()]
    plain = {name: getattr(table, name) for name in PLAIN}
    told = {**more, "table": plain, "rows": list(rows), "columns": list(table.frame.columns)}
    schema = pa.schema(
        [(str(at), array.type) for at, array in enumerate(arrays)],
        metadata={"told": json.dumps(told)},
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    with (
        replacing(path) as temporary,
        pa.OSFile(str(temporary), "wb") as sink,
        pa.ipc.new_file(sink, schema) as writer,
    ):
        writer.write_batch(pa.record_batch(arrays, schema=schema))


def kept(path: Path, *, features: bool = True, **more: Any) -> Table | None:
    """The table in `path`, where it was read by `more`; None where there is none, or it is damaged.
    features: whether it has its columns; else no byte of them is read."""
    import pyarrow as pa

    try:
        with pa.memory_map(str(path)) as source:
            batch = pa.ipc.open_file(source).get_batch(0)
        told = json.loads(batch.schema.metadata[b"told"])
        if any(told[name] != value for name, value in more.items()):
            return None
        n = len(told["rows"])
        rows = {name: batch.column(at).to_numpy() for at, name in enumerate(told["rows"])}
        frame = pd.DataFrame(index=range(batch.num_rows))
        if features:
            batch.validate(full=True)
            arrays = zip(told["columns"], batch.columns[n:], strict=True)
            frame = pd.DataFrame({name: _from_arrow(array) for name, array in arrays})
        plain = told["table"] | {"costs": tuple(map(tuple, told["table"]["costs"]))}
        plain |= {name: tuple(plain[name]) for name in ("classes", "warnings", "left_out")}
        return Table(frame=frame, **rows, **plain)
    except (OSError, pa.ArrowException, LookupError, ValueError, TypeError):
        return None


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
