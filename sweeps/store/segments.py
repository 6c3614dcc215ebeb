"""Where are the records of a ledger, in memory or on disk? Runs of them behind one interface."""

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

from .column_cache import facts_table, is_facts

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq


@dataclass(slots=True)  # not frozen: that would make it three times as dear
class Head:
    """Which cell a record speaks of, and how that ended: known without decoding its text.

    "" or -1 stands for what a record of its kind does not say.
    """

    kind: str
    id: str = ""
    study: str = ""
    stage: str = ""
    index: int = -1
    status: str = ""


CRC32 = "%08x"
PARTS = tuple(field.name for field in fields(Head))
Columns = list[list[Any]]  # one for each part of a head


class LedgerError(Exception):
    """The store cannot be read or written; the message says which file and what to do."""


def head_of(record: Mapping[str, Any]) -> Head:
    """The head of a decoded record; what has another type than it should is not said.

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


def columns_of(heads: Sequence[Head]) -> Columns:
    return [[getattr(head, part) for head in heads] for part in PARTS]


class Part(Protocol):
    """Records that follow each other in the ledger, by row."""

    @property
    def heads(self) -> Columns: ...

    def __len__(self) -> int: ...

    def rows(self, kinds: Sequence[str]) -> Iterable[int]: ...

    def text(self, row: int) -> bytes: ...

    def facts(self) -> pa.Table: ...


class Kept:
    """Records in memory: those of a writer, of a tail, and what is left of a damaged segment.

    They stay encoded: a million of them as dictionaries would not fit.
    """

    def __init__(self, heads: Columns | None = None, texts: Iterable[bytes] = ()) -> None:
        self.heads: Columns = columns_of([])
        self.texts: list[bytes] = []
        self.records: list[dict[str, Any]] | None = None  # decoded, where that was done already
        self.add(heads or columns_of([]), texts)

    def add(self, heads: Columns, texts: Iterable[bytes]) -> None:
        for name, column, values in zip(PARTS, self.heads, heads, strict=True):
            column.extend(values if name == "index" else map(sys.intern, values))
        self.texts.extend(texts)

    def __len__(self) -> int:
        return len(self.texts)

    def rows(self, kinds: Sequence[str]) -> Iterator[int]:
        return (row for row, kind in enumerate(self.heads[0]) if kind in kinds)

    def text(self, row: int) -> bytes:
        return self.texts[row]

    def facts(self) -> pa.Table:
        return facts_table(self.heads[0], self.texts, self.records)


class Sealed:
    """Records of an undamaged segment: what is asked for is read then.

    Raises LedgerError where the file is another by then, or a record's crc is wrong.
    """

    def __init__(
        self, path: Path, stamp: Stamp, file: pq.ParquetFile, facts: Facts | None, groups: Groups
    ) -> None:
        self.path = path
        self._stamp = stamp
        self._metadata = file.metadata
        self._kinds = file.read(columns=["kind"]).column("kind")
        self._facts = facts
        sizes = [file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)]
        self._starts = [0, *accumulate(sizes)]
        self._groups = groups  # `read_group`, with a memory that all segments share

    def __len__(self) -> int:
        return self._starts[-1]

    @cached_property
    def heads(self) -> Columns:
        with self._open() as file:
            found = heads_in(file)
        return Kept(found or columns_of([head_of(json.loads(t)) for t in self._texts()])).heads

    def rows(self, kinds: Sequence[str]) -> Iterator[int]:
        import pyarrow as pa
        import pyarrow.compute as pc

        wanted = pc.is_in(self._kinds, value_set=pa.array(kinds, type=pa.string()))
        yield from wanted.to_numpy().nonzero()[0].tolist()

    def text(self, row: int) -> bytes:
        group = bisect_right(self._starts, row) - 1
        return self._groups(self, group)[row - self._starts[group]]

    def read_group(self, group: int) -> list[bytes]:
        with self._open() as file:
            table = file.read_row_group(group, columns=["crc", "json"])
        texts = table.column("json").to_pylist()
        if list(map(zlib.crc32, texts)) != table.column("crc").to_pylist():
            raise LedgerError(f"records of the sealed segment {self.path} fail their checksum")
        return texts

    def _texts(self) -> Iterator[bytes]:
        for group in range(len(self._starts) - 1):
            yield from self.read_group(group)

    def facts(self) -> pa.Table:
        """From the file beside the segment; from the records where it is gone, damaged or old."""
        found = self._facts.read(self.path.parent) if self._facts else None
        if found is None:
            found = facts_table(self._kinds.to_pylist(), self._texts())
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


class Deferred:
    """Records of a segment that is opened, and found whole or damaged, when one of them is asked
    for. Of a damaged one the rows beyond the intact records are empty; its facts stay true."""

    def __init__(
        self, folder: Path, n: int, kinds: Iterable[str], facts: Facts, opened: Callable[[], Part]
    ) -> None:
        self._folder, self._n, self._kinds, self._facts = folder, n, frozenset(kinds), facts
        self._opened = opened

    @cached_property
    def _part(self) -> Part:
        return self._opened()

    @property
    def heads(self) -> Columns:
        return self._part.heads

    def __len__(self) -> int:
        return self._n

    def rows(self, kinds: Sequence[str]) -> Iterable[int]:
        return self._part.rows(kinds) if self._kinds.intersection(kinds) else ()

    def text(self, row: int) -> bytes:
        return self._part.text(row)

    def facts(self) -> pa.Table:
        found = self._facts.read(self._folder)
        return self._part.facts() if found is None else found


@dataclass(frozen=True)
class Facts:
    """The manifest's word on a file of facts."""

    file: str
    crc32: str | None  # a third of the time that reading takes would go into a sha256
    sha256: str | None  # an older version's

    @classmethod
    def of(cls, segment: Mapping[str, Any]) -> Facts | None:
        """None where another version sealed the segment: its records say the same."""
        found = segment.get("facts")
        if not isinstance(found, dict) or not {"crc32", "sha256"} & set(found):
            return None
        return cls(plain_name(found.get("file")), found.get("crc32"), found.get("sha256"))

    def read(self, folder: Path) -> pa.Table | None:
        """None where the file is not what the manifest says, or not what this version asks for."""
        import pyarrow as pa

        try:
            data = (folder / self.file).read_bytes()
            if not self._is_whole(data):
                return None
            table = pa.ipc.open_file(pa.BufferReader(data)).read_all()
            table.validate(full=True)  # a run may come from others, its manifest too
        except (OSError, pa.ArrowException):
            return None
        return table if is_facts(table.schema) else None

    def _is_whole(self, data: bytes) -> bool:
        if self.crc32 is not None:
            return CRC32 % zlib.crc32(data) == self.crc32
        return hashlib.sha256(data).hexdigest() == self.sha256


def facts_file(table: pa.Table) -> bytes:
    """In Arrow's own format, which is read in half of the time that Parquet takes; lz4 is, in half
    of the time that zstd takes, and half as large again."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_file(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def heads_in(file: pq.ParquetFile) -> Columns | None:
    """The heads of a segment's records; None where a version sealed it that knew the kind alone."""
    if not set(PARTS) <= set(file.schema_arrow.names):
        return None
    table = file.read(columns=list(PARTS))
    return [table.column(name).to_pylist() for name in PARTS]


Stamp = tuple[int, int, int]
Groups = Callable[["Sealed", int], list[bytes]]


def stamp_of(file: BinaryIO) -> Stamp:
    """What changes when a file is replaced or written to."""
    found = os.fstat(file.fileno())
    return found.st_ino, found.st_size, found.st_mtime_ns


def plain_name(name: Any) -> str:
    """A file name out of a record, refused where it is a path: records may come from others."""
    if not isinstance(name, str) or name != os.path.basename(name) or name in ("", ".", ".."):
        raise LedgerError(f"a record names the file {name!r}, which is not a plain name; refused")
    return name
