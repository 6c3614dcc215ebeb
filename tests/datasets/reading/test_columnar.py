"""Parquet and Arrow files: small ones that hold much are refused."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from tabsweep.datasets.errors import DataError
from tabsweep.datasets.infer import Reading, table_from_file
from tabsweep.datasets.reading import files
from tabsweep.datasets.reading.cells import read_file

FREE = 50_000_000  # bytes


POOLS = []  # tables that the traceback of a refusal holds are freed to their pool, however late


def write(table, path, form, compression="zstd"):
    if form == "parquet":
        pq.write_table(table, path, compression=compression, row_group_size=len(table) or 1)
    else:
        feather.write_feather(table, path, compression=compression)


def one_text(n_rows, length, kind):
    """A column in which each row has the same text."""
    indices = pa.array(np.zeros(n_rows, dtype=np.int32))
    column = pa.DictionaryArray.from_arrays(indices, pa.array(["x" * length]))
    return column if kind == "dictionary" else column.cast(kind)


def large(kind):
    """A table whose cells take more than a fifteenth of FREE."""
    if kind == "numbers":
        return pa.table({"x": np.zeros(900_000), "y": np.arange(900_000) % 2})
    if kind == "null":
        return pa.table({"x": pa.nulls(900_000)})
    return pa.table({"x": one_text(3000, 20_000, kind), "y": np.arange(3000) % 2})


@pytest.mark.parametrize("form", ["parquet", "arrow"])
@pytest.mark.parametrize("kind", ["numbers", "string", "large_string", "dictionary", "null"])
def test_a_small_file_that_holds_much_is_refused(form, kind, tmp_path, monkeypatch):
    path = tmp_path / "small"
    write(large(kind), path, form)
    assert path.stat().st_size * files.BYTES_PER_BYTE < FREE / 10
    monkeypatch.setattr(files, "free_memory", lambda: FREE)
    pool, usual = pa.proxy_memory_pool(pa.system_memory_pool()), pa.default_memory_pool()
    POOLS.append(pool)
    pa.set_memory_pool(pool)
    try:
        with pytest.raises(DataError, match=r"small: .* MB need about .* use a sample of the rows"):
            read_file(path)
    finally:
        pa.set_memory_pool(usual)
    if form == "parquet":  # where the file states its size
        assert pool.max_memory() < FREE / 2  # the texts are 60 MB


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_a_table_is_the_same_in_every_file(compression, tmp_path, monkeypatch):
    n = 1500  # several batches
    rng = np.random.default_rng(0)
    table = pa.table(
        {
            "number": rng.normal(size=n),
            "text": [None if i % 7 == 0 else f"text {i}" for i in range(n)],
            "code": pa.array([f"c{i % 5}" for i in range(n)]).dictionary_encode(),
            "whole": pa.array([None if i % 3 == 0 else i for i in range(n)], pa.int16()),
        }
    )
    monkeypatch.setattr(files, "free_memory", lambda: FREE)
    wanted = pd.DataFrame(
        {
            "number": table["number"].to_numpy(),
            "text": [text or "" for text in table["text"].to_pylist()],
            "code": table["code"].to_pylist(),
            "whole": [np.nan if v is None else float(v) for v in table["whole"].to_pylist()],
        }
    )
    wanted.columns = wanted.columns.astype(object)
    for form, without in (("parquet", "none"), ("arrow", "uncompressed")):
        write(table, tmp_path / form, form, compression or without)
        found = read_file(tmp_path / form)
        pd.testing.assert_frame_equal(found.frame, wanted.astype(found.frame.dtypes))
        assert found.kinds == {"code": "categorical"}


@pytest.mark.parametrize("form", ["parquet", "arrow"])
@pytest.mark.parametrize("kind", [pa.string(), pa.bool_(), pa.date32(), pa.float64(), pa.null()])
def test_a_table_without_rows_is_refused(kind, form, tmp_path):
    write(pa.table({"a": pa.array([], kind), "y": pa.array([], pa.int64())}), tmp_path / "t", form)
    with pytest.raises(DataError, match="2 columns and no rows"):
        read_file(tmp_path / "t")


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_categories_of_pandas_are_categories_in_every_format(form, tmp_path):
    """Parquet has no dictionaries of numbers: there pandas' own note tells."""
    levels = {"whole": [3, 1, 3, 2], "real": [0.5, 1.5, 0.5, 0.5], "text": list("abca")}
    frame = pd.DataFrame({name: pd.Categorical(cells) for name, cells in levels.items()})
    table = pa.Table.from_pandas(frame.assign(number=[3, 1, 3, 2]))
    write(table, tmp_path / "t", form)
    found = read_file(tmp_path / "t")
    assert found.kinds == dict.fromkeys(levels, "categorical")
    assert found.frame["whole"].astype(float).tolist() == [3, 1, 3, 2]


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_texts_of_categories_are_levels_as_they_stand_but_for_marks_of_the_user(form, tmp_path):
    texts = ["NA", "1e3", "007", "?", None, "-"]
    table = pa.table({name: pa.array(texts * 10).dictionary_encode() for name in ("x", "y")})
    table = table.append_column("n", pa.array(np.arange(60.0)))
    write(table, tmp_path / "t", form)
    reading = Reading("y", missing=("?",), drop_missing_target=True, drop=("x",))
    found = table_from_file(tmp_path / "t", reading)
    assert found.classes == ("-", "007", "1e3", "NA") and found.n_rows == 40
    found = table_from_file(tmp_path / "t", Reading("n", missing=("?",)))
    assert list(found.frame["x"].cat.categories) == ["-", "007", "1e3", "NA"]


FLIPS = """
import sys
from pathlib import Path
from tabsweep.datasets.errors import DataError
from tabsweep.datasets.reading.cells import read_file

path = Path(sys.argv[1])
sound, refused = path.read_bytes(), 0
for at in range(0, len(sound), 2):
    damaged = bytearray(sound)
    damaged[at] ^= 0x41
    path.write_bytes(damaged)
    try:
        read_file(path)
    except DataError:
        refused += 1
print(refused)
"""


def test_no_flipped_byte_ends_the_process(tmp_path):
    texts = [None, *"ab" * 12]
    codes = pa.array(list("xyxyz") * 5).dictionary_encode()
    table = pa.table({"a": np.arange(25) * 1.5, "b": texts, "c": codes})
    write(table, tmp_path / "t", "arrow", "uncompressed")
    command = [sys.executable, "-c", FLIPS, str(tmp_path / "t")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-500:]
    assert int(done.stdout) > 100


NOTES = [
    '{"columns": 3}',
    '{"columns": [3, {}]}',
    "[]",
    "{",
    "\\xff",
    '{"columns": [{"field_name": []}]}',
]


@pytest.mark.parametrize("note", NOTES)
def test_a_note_that_pandas_never_wrote_is_passed_over(note, tmp_path):
    table = pa.table({"x": [3, 1, 2]}).replace_schema_metadata({"pandas": note})
    write(table, tmp_path / "t", "parquet")
    assert read_file(tmp_path / "t").kinds == {}
