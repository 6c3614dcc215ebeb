"""Parquet files whose bytes depend on the frame alone."""

from __future__ import annotations

import io

import pandas as pd


def to_parquet(frame: pd.DataFrame) -> bytes:
    """The frame as Parquet, numbers unrounded, without pandas' own metadata; no time is stored."""
    import pyarrow
    from pyarrow import parquet

    columns = {}
    for name in frame:
        values = frame[name]
        if values.dtype == object or pd.api.types.is_string_dtype(values):
            texts = ["" if v is None or v != v else str(v) for v in values.tolist()]
            columns[str(name)] = pyarrow.array(texts, pyarrow.string())
        else:
            columns[str(name)] = pyarrow.array(values.to_numpy(), from_pandas=True)
    out = io.BytesIO()
    parquet.write_table(pyarrow.table(columns), out, compression="zstd")
    return out.getvalue()
