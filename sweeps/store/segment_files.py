"""Segment files: writing records as Parquet, reading them back, and what is intact of a damaged
one."""

from __future__ import annotations

import hashlib
import io
import json
import zlib
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from ...common.files import write_atomically
from .segments import (
    CRC32,
    HEAD_FIELDS,
    ColumnFile,
    DeferredPart,
    Head,
    LedgerError,
    MemoryPart,
    Part,
    SealedPart,
    column_file_bytes,
    head_columns,
    head_of,
    heads_in,
    stamp_of,
)

ROW_GROUP = 500  # records of a segment that are lost together where its disk fails
GROUPS_KEPT = 512  # such groups that a reader keeps in memory, some 400 kB each

Entry = dict[str, Any]  # of a segment, in the manifest


class SegmentFolder:
    """The segments in the folder of a ledger.

    in_memory: whether records are kept in memory. A writer does that, because a resume asks for
        single records all over a segment; a reader reads records when they are asked for.
    groups_kept: how many groups of 500 records a reader keeps in memory; None: 512.
    """

    def __init__(self, folder: Path, *, in_memory: bool, groups_kept: int | None = None) -> None:
        self.folder = folder
        self._in_memory = in_memory
        self.groups = lru_cache(groups_kept or GROUPS_KEPT)(SealedPart.read_group)

    def check(self, entry: Mapping[str, Any]) -> tuple[Part, bytes | None]:
        """The intact records of a segment, and its bytes where these are damaged.

        Raises LedgerError where the file cannot be read though it has the right checksum.
        """
        import pyarrow.parquet as pq

        path = self.folder / entry["file"]
        try:
            with open(path, "rb") as opened:
                data, stamp = opened.read(), stamp_of(opened)
        except OSError as error:
            raise LedgerError(f"cannot read the sealed segment {path}: {error}") from None
        if hashlib.sha256(data).hexdigest() != entry["sha256"]:
            rows = intact_records(data)
            heads = head_columns([head for head, _ in rows])
            return MemoryPart(heads, [text for _, text in rows]), data
        try:
            file = pq.ParquetFile(io.BytesIO(data))
            if self._in_memory:
                return all_records(file), None
            return SealedPart(path, stamp, file, ColumnFile.of(entry), self.groups), None
        except Exception as error:  # the bytes are right: nothing is thrown away
            raise LedgerError(f"cannot read the sealed segment {path}: {error}") from None

    def defer(
        self, entry: Mapping[str, Any], damaged: Callable[[Mapping[str, Any], Part, bytes], None]
    ) -> Part | None:
        """A part that is checked when one of its records is asked for.

        damaged: called with the entry, the intact records and the bytes of the segment, where the
            check finds that it is damaged.

        None where the manifest does not say enough for that (an older version wrote it).
        """
        columns, kinds = ColumnFile.of(entry), entry.get("kinds")
        if columns is None or kinds is None:
            return None

        def opened() -> Part:
            part, bad = self.check(entry)
            if bad is not None:
                damaged(entry, part, bad)
            return part

        return DeferredPart(self.folder, entry["records"], kinds, columns, opened)

    def write(self, name: str, part: MemoryPart) -> Entry:
        """Write records as a segment with a column file; returns the manifest's entry."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        texts, heads = part.texts, dict(zip(HEAD_FIELDS, part.heads, strict=True))
        kinds = sorted(set(heads["kind"]))
        table = pa.table(
            {
                "kind": pa.array(heads.pop("kind"), type=pa.string()),
                "crc": pa.array(map(zlib.crc32, texts), type=pa.uint32()),
                "json": pa.array(texts, type=pa.binary()),
                "index": pa.array(heads.pop("index"), type=pa.int32()),
                **{name: pa.array(values, type=pa.string()) for name, values in heads.items()},
            }
        )
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, compression="zstd", row_group_size=ROW_GROUP)
        data = sink.getvalue().to_pybytes()
        write_atomically(self.folder / name, data)
        entry = {
            "records": len(texts),
            "kinds": kinds,
            "file": name,
            "sha256": hashlib.sha256(data).hexdigest(),
        }
        return {**entry, "facts": self._write_columns(name, part)}

    def _write_columns(self, name: str, part: MemoryPart) -> dict[str, str]:
        columns, file = column_file_bytes(part.columns()), column_file_name(name)
        write_atomically(self.folder / file, columns)
        return {"file": file, "crc32": CRC32 % zlib.crc32(columns)}

    def with_columns(self, entry: Entry) -> Entry:
        """An entry of the manifest with a column file, made from the records of the segment; as it
        is for a damaged segment, which gets its columns when it is mended."""
        import pyarrow.parquet as pq

        if not entry["sha256"]:
            return entry
        part = all_records(pq.ParquetFile(self.folder / entry["file"]))
        return {**entry, "facts": self._write_columns(entry["file"], part)}

    def remove(self, name: str) -> None:
        """Remove a segment and the columns beside it."""
        for file in (name, column_file_name(name)):
            (self.folder / file).unlink(missing_ok=True)


def all_records(file: Any) -> MemoryPart:
    """The records of an undamaged segment, in memory."""
    texts = file.read(columns=["json"]).column("json").to_pylist()
    heads = heads_in(file) or head_columns([head_of(json.loads(t)) for t in texts])
    return MemoryPart(heads, texts)


def intact_records(data: bytes) -> list[tuple[Head, bytes]]:
    """The rows of a damaged segment whose own checksum holds; none where its table of contents,
    at the end of the file, cannot be read."""
    import pyarrow.parquet as pq

    rows: list[tuple[Head, bytes]] = []
    try:
        file = pq.ParquetFile(io.BytesIO(data))
    except Exception:  # a damaged file may raise anything
        return rows
    for number in range(file.num_row_groups):
        try:
            group = file.read_row_group(number, columns=["crc", "json"])
            found = zip(*(group.column(c).to_pylist() for c in ("crc", "json")), strict=True)
            texts = [text for crc, text in found if zlib.crc32(text) == crc]
            rows += [(head_of(json.loads(text)), text) for text in texts]
        except Exception:
            continue
    return rows


def column_file_name(segment: str) -> str:
    """The name of the columns beside a segment."""
    return segment.replace("segment", "facts").replace(".parquet", ".arrow")
