"""Parts of a ledger, in memory, sealed on disk or not yet opened, behind one interface."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from .column_cache import column_table, has_columns

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq


@dataclass(slots=True)  # not frozen: that would make it three times as slow
class Head:
    """The kind of a record, its trial and slot, and its status: known without decoding its text.

    "" or -1 stands for a field that the record does not have.
    """

    kind: str
    id: str = ""
    study: str = ""
    stage: str = ""
    index: int = -1
    status: str = ""


CRC32 = "%08x"
HEAD_FIELDS = tuple(field.name for field in fields(Head))
HeadColumns = list[list[Any]]  # one list for each of HEAD_FIELDS


class LedgerError(Exception):
    """The store cannot be read or written; the message says which file and what to do."""


def head_of(record: Mapping[str, Any]) -> Head:
    """The head of a decoded record; a field of the wrong type counts as missing.

    >>> head_of({"kind": "death", "id": "ab", "index": None})
    Head(kind='death', id='ab', study='', stage='', index=-1, status='')
    """
    texts = {name: record.get(name) for name in ("id", "study", "stage", "status")}
    index = record.get("index")
    return Head(
        kind=record["kind"],
        index=index if type(index) is int and 0 <= index < 2**31 else -1,
        **{name: text if isinstance(text, str) else "" for name, text in texts.items()},
    )


def head_columns(heads: Sequence[Head]) -> HeadColumns:
    """Heads as columns."""
    return [[getattr(head, part) for head in heads] for part in HEAD_FIELDS]


class Part(Protocol):
    """Records that follow each other in the ledger; rows count from 0 in each part."""

    @property
    def heads(self) -> HeadColumns:
        """The heads of all records, as columns."""
        ...

    def __len__(self) -> int: ...

    def rows(self, kinds: Sequence[str]) -> Iterable[int]:
        """The rows of the records of these kinds, in order."""
        ...

    def text(self, row: int) -> bytes:
        """The JSON text of a record."""
        ...

    def columns(self) -> pa.Table:
        """The records as columns (see `column_cache`)."""
        ...


class MemoryPart:
    """Records in memory: those of a writer, of a tail, and the intact ones of a damaged segment.

    They stay encoded: a million of them as dictionaries would need too much memory.
    """

    def __init__(self, heads: HeadColumns | None = None, texts: Iterable[bytes] = ()) -> None:
        self.heads: HeadColumns = head_columns([])
        self.texts: list[bytes] = []
        self.records: list[dict[str, Any]] | None = None  # decoded, where that was done already
        self.add(heads or head_columns([]), texts)

    def add(self, heads: HeadColumns, texts: Iterable[bytes]) -> None:
        """Append records: their heads and their texts."""
        for name, column, values in zip(HEAD_FIELDS, self.heads, heads, strict=True):
            column.extend(values if name == "index" else map(sys.intern, values))
        self.texts.extend(texts)

    def __len__(self) -> int:
        return len(self.texts)

    def rows(self, kinds: Sequence[str]) -> Iterator[int]:
        """The rows of the records of these kinds, in order."""
        return (row for row, kind in enumerate(self.heads[0]) if kind in kinds)

    def text(self, row: int) -> bytes:
        """The JSON text of a record."""
        return self.texts[row]

    def columns(self) -> pa.Table:
        """The records as columns."""
        return column_table(self.heads[0], self.texts, self.records)


class SealedPart:
    """Records of an undamaged segment, each read when it is asked for.

    Raises LedgerError where the file has been replaced by then, or a record's crc is wrong.
    """

    def __init__(
        self,
        path: Path,
        stamp: Stamp,
        file: pq.ParquetFile,
        column_file: ColumnFile | None,
        groups: Groups,
    ) -> None:
        self.path = path
        self._stamp = stamp
        self._metadata = file.metadata
        self._kinds = file.read(columns=["kind"]).column("kind")
        self._column_file = column_file
        sizes = [file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)]
        self._starts = [0, *accumulate(sizes)]
        self._groups = groups  # `read_group`, with a cache that all segments share

    def __len__(self) -> int:
        return self._starts[-1]

    @cached_property
    def heads(self) -> HeadColumns:
        """The heads of all records, as columns."""
        with self._open() as file:
            found = heads_in(file)
        return MemoryPart(
            found or head_columns([head_of(json.loads(t)) for t in self._texts()])
        ).heads

    def rows(self, kinds: Sequence[str]) -> Iterator[int]:
        """The rows of the records of these kinds, in order."""
        import pyarrow as pa
        import pyarrow.compute as pc

        wanted = pc.is_in(self._kinds, value_set=pa.array(kinds, type=pa.string()))
        yield from wanted.to_numpy().nonzero()[0].tolist()

    def text(self, row: int) -> bytes:
        """The JSON text of a record."""
        group = bisect_right(self._starts, row) - 1
        return self._groups(self, group)[row - self._starts[group]]

    def read_group(self, group: int) -> list[bytes]:
        """The texts of a row group, their checksums compared."""
        with self._open() as file:
            table = file.read_row_group(group, columns=["crc", "json"])
        texts = table.column("json").to_pylist()
        if list(map(zlib.crc32, texts)) != table.column("crc").to_pylist():
            raise LedgerError(f"records of the sealed segment {self.path} fail their checksum")
        return texts

    def _texts(self) -> Iterator[bytes]:
        for group in range(len(self._starts) - 1):
            yield from self.read_group(group)

    def columns(self) -> pa.Table:
        """From the column file; from the records where it is missing, damaged or old."""
        found = self._column_file.read(self.path.parent) if self._column_file else None
        if found is None:
            found = column_table(self._kinds.to_pylist(), self._texts())
        return found

    @contextmanager
    def _open(self) -> Iterator[pq.ParquetFile]:
        import pyarrow.parquet as pq

        try:
            with open(self.path, "rb") as file:
                if stamp_of(file) != self._stamp:
                    raise LedgerError(f"the sealed segment {self.path} was replaced meanwhile")
                yield pq.ParquetFile(file, metadata=self._metadata)
        except OSError as error:  # ArrowInvalid is a ValueError: bytes that changed in place
            raise LedgerError(f"cannot read the sealed segment {self.path}: {error}") from None


class DeferredPart:
    """Records of a segment that is opened and checked when one of them is asked for.

    Of a damaged one the rows beyond the intact records are empty; its column file stays valid.
    """

    def __init__(
        self,
        folder: Path,
        n: int,
        kinds: Iterable[str],
        column_file: ColumnFile,
        opened: Callable[[], Part],
    ) -> None:
        self._folder, self._n, self._kinds, self._column_file = (
            folder,
            n,
            frozenset(kinds),
            column_file,
        )
        self._opened = opened

    @cached_property
    def _part(self) -> Part:
        return self._opened()

    @property
    def heads(self) -> HeadColumns:
        """The heads of all records, as columns."""
        return self._part.heads

    def __len__(self) -> int:
        return self._n

    def rows(self, kinds: Sequence[str]) -> Iterable[int]:
        """The rows of the records of these kinds; opens nothing where the manifest names none."""
        return self._part.rows(kinds) if self._kinds.intersection(kinds) else ()

    def text(self, row: int) -> bytes:
        """The JSON text of a record."""
        return self._part.text(row)

    def columns(self) -> pa.Table:
        """From the column file; from the records where it is missing, damaged or old."""
        found = self._column_file.read(self._folder)
        return self._part.columns() if found is None else found


@dataclass(frozen=True)
class ColumnFile:
    """A file of columns beside a segment, as the manifest names it: its name and checksum."""

    file: str
    crc32: str | None  # a sha256 would take a third of the time of reading
    sha256: str | None  # written by an older version

    @classmethod
    def of(cls, segment: Mapping[str, Any]) -> ColumnFile | None:
        """From a segment's entry in the manifest; None where another version wrote it without."""
        found = segment.get("facts")
        if not isinstance(found, dict) or not {"crc32", "sha256"} & set(found):
            return None
        return cls(plain_name(found.get("file")), found.get("crc32"), found.get("sha256"))

    def read(self, folder: Path) -> pa.Table | None:
        """The columns; None where the file is damaged, missing or written by another version."""
        import pyarrow as pa

        try:
            data = (folder / self.file).read_bytes()
            if not self._is_whole(data):
                return None
            table = pa.ipc.open_file(pa.BufferReader(data)).read_all()
            table.validate(full=True)  # a run may come from others, its manifest too
        except (OSError, pa.ArrowException):
            return None
        return table if has_columns(table.schema) else None

    def _is_whole(self, data: bytes) -> bool:
        if self.crc32 is not None:
            return CRC32 % zlib.crc32(data) == self.crc32
        return hashlib.sha256(data).hexdigest() == self.sha256


def column_file_bytes(table: pa.Table) -> bytes:
    """A table in Arrow's own format, read in half the time of Parquet. lz4 is read in half the time
    of zstd, and takes half as much space again."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_file(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def heads_in(file: pq.ParquetFile) -> HeadColumns | None:
    """The heads of a segment's records; None where a version sealed it that stored only kinds."""
    if not set(HEAD_FIELDS) <= set(file.schema_arrow.names):
        return None
    table = file.read(columns=list(HEAD_FIELDS))
    return [table.column(name).to_pylist() for name in HEAD_FIELDS]


Stamp = tuple[int, int, int]
Groups = Callable[["SealedPart", int], list[bytes]]


def stamp_of(file: BinaryIO) -> Stamp:
    """Inode, size and time of change: they differ when a file was replaced or written to."""
    found = os.fstat(file.fileno())
    return found.st_ino, found.st_size, found.st_mtime_ns


def plain_name(name: Any) -> str:
    """A file name out of a record, refused where it is a path: records may come from others."""
    if not isinstance(name, str) or name != os.path.basename(name) or name in ("", ".", ".."):
        raise LedgerError(f"a record names the file {name!r}, which is not a plain name; refused")
    return name
