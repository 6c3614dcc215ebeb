"""Blocks of records: their heads and columns, in memory while they are new, then in one file.

The file of columns is derived from the log: block after block, each a line as in the log and then
two tables of Arrow. The line says which bytes of the log the block stands for, and their checksum.
"""

from __future__ import annotations

import json
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .column_cache import KINDS, column_table, column_values, has_columns
from .log import LedgerError, LogReader, decode, encode, line_of

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = 2
LONGEST_LINE = 10_000  # bytes of the line before a block's tables
MOST_UNPACKED = 16  # bytes of tables for each byte of the log that they stand for
LENGTH, CODEC = 8, "lz4"  # bytes of the unpacked length before a table; its compression
SIZES = ("start", "end", "records", "heads", "columns")  # of a block, in the log and in the file


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


HEAD_FIELDS = tuple(field.name for field in fields(Head))
HeadColumns = list[list[Any]]  # one list for each of HEAD_FIELDS


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


class Newest:
    """The newest records, in memory: encoded, and as values of columns."""

    def __init__(self) -> None:
        self.heads: HeadColumns = [[] for _ in HEAD_FIELDS]
        self.texts: list[bytes] = []
        self.starts: list[int] = []  # of their lines, in the log
        self._values: dict[int, dict[str, Any]] = {}  # of the columns, by row

    def add(self, start: int, record: Mapping[str, Any], text: bytes) -> None:
        """Append a record, its line beginning at `start` in the log."""
        head = head_of(record)
        for name, column in zip(HEAD_FIELDS, self.heads, strict=True):
            value = getattr(head, name)
            column.append(value if name == "index" else sys.intern(value))
        if head.kind in KINDS:
            self._values[len(self.texts)] = column_values(record)
        self.texts.append(text)
        self.starts.append(start)

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
        return column_table(list(self._values), list(self._values.values()))

    def block_bytes(self) -> bytes:
        """The records as a block, as the file of columns holds it."""
        import pyarrow as pa

        types = {name: pa.int32() if name == "index" else pa.string() for name in HEAD_FIELDS}
        columns = zip(types.items(), self.heads, strict=True)
        heads = {name: pa.array(values, type=type_) for (name, type_), values in columns}
        starts = pa.array(self.starts, type=pa.int64())
        tables = [table_bytes(pa.table({**heads, "start": starts})), table_bytes(self.columns())]
        crc = 0
        for text in self.texts:
            crc = zlib.crc32(line_of(text), crc)
        line = {
            "kind": "block",
            "format": FORMAT,
            "start": self.starts[0],
            "end": self.starts[-1] + len(line_of(self.texts[-1])),
            "records": len(self),
            "kinds": sorted(set(self.heads[0])),
            "heads": len(tables[0]),
            "columns": len(tables[1]),
            "log_crc32": crc,
            "crc32": zlib.crc32(b"".join(tables)),
        }
        return b"".join([encode(line), *tables])


Read = Callable[[int, int], bytes]  # so many bytes from a place on


class Block:
    """Records whose heads and columns lie in a file, or in bytes, and their texts in the log."""

    def __init__(self, line: Mapping[str, Any], read: Read, at: int, log: LogReader) -> None:
        """line: the decoded line before the tables, which begin at `at`."""
        self.start, self.end, self._n, *self._sizes = (line[name] for name in SIZES)
        self._line, self._read, self._at, self._log = line, read, at, log

    @classmethod
    def of(cls, newest: Newest, log: LogReader) -> tuple[Block, bytes]:
        """Records as a block that is in memory, and its bytes."""
        data = newest.block_bytes()
        at = data.index(b"\n") + 1
        line = decode(data[:at])
        assert line is not None
        return cls(line, lambda start, size: data[start : start + size], at, log), data

    def move_to(self, path: Path, at: int) -> None:
        """The block was written to a file, from that place on."""
        self._read, self._at = _reader_of(path), at + self._at

    @property
    def end_in_file(self) -> int:
        """The place behind the block."""
        return self._at + sum(self._sizes)

    def is_right(self) -> bool:
        """Whether two checksums are right: of the block's own bytes, and of the part of the log
        that the block was made from."""
        return (
            zlib.crc32(self._read(self._at, sum(self._sizes))) == self._line["crc32"]
            and self._log.crc32(self.start, self.end) == self._line["log_crc32"]
        )

    @cached_property
    def _heads(self) -> pa.Table:
        import pyarrow as pa

        table = self._table(self._at, self._sizes[0])
        if table is None or table.column_names != [*HEAD_FIELDS, "start"] or len(table) != self._n:
            raise LedgerError(
                f"the columns beside {self._log.path} are not those of its records: delete "
                "columns.bin, it is made again"
            )
        return table.set_column(0, "kind", table.column("kind").cast(pa.string()))

    @cached_property
    def heads(self) -> HeadColumns:
        """The heads of all records, as columns."""
        columns = [self._heads.column(name).to_pylist() for name in HEAD_FIELDS]
        return [columns[0], *(list(map(_interned, column)) for column in columns[1:])]

    @cached_property
    def _starts(self) -> Sequence[int]:
        return self._heads.column("start").to_numpy().tolist()

    def __len__(self) -> int:
        return self._n

    def rows(self, kinds: Sequence[str]) -> Iterable[int]:
        """The rows of the records of these kinds; decodes nothing where the block has none."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if not set(self._line["kinds"]).intersection(kinds):
            return ()
        wanted = pc.is_in(self._heads.column("kind"), value_set=pa.array(kinds, type=pa.string()))
        return wanted.to_numpy().nonzero()[0].tolist()

    def text(self, row: int) -> bytes:
        """The JSON text of a record, its checksum compared. Raises LedgerError where it differs."""
        return self._log.text(self._starts[row])

    def stored_columns(self) -> pa.Table | None:
        """The columns in the file; None where they are damaged or of another version."""
        table = self._table(self._at + self._sizes[0], self._sizes[1])
        return table if table is not None and has_columns(table.schema) else None

    def columns(self) -> pa.Table:
        """The columns in the file; where these are damaged, made from the records."""
        table = self.stored_columns()
        if table is None:
            rows = list(self.rows(KINDS))
            table = column_table(rows, [column_values(json.loads(self.text(r))) for r in rows])
        return table

    def _table(self, at: int, size: int) -> pa.Table | None:
        """A table in the file; None for one that is damaged, or far larger than its records."""
        import pyarrow as pa

        try:
            data = pa.py_buffer(self._read(at, size))
            n_bytes = int.from_bytes(data[:LENGTH], "little")
            if n_bytes > MOST_UNPACKED * (self.end - self.start) + 2**20:
                return None
            table = pa.ipc.open_stream(pa.decompress(data[LENGTH:], n_bytes, CODEC)).read_all()
            table.validate(full=True)  # a run may come from others
        except (OSError, ValueError, pa.ArrowException):
            return None
        return table


Part = Newest | Block  # records that follow each other in the log; rows count from 0 in each


def _interned(value: Any) -> Any:
    return sys.intern(value) if isinstance(value, str) else value


def table_bytes(table: pa.Table) -> bytes:
    """A table in Arrow's own format, read in half the time of Parquet: its length unpacked, and
    its bytes packed. lz4 is read in half the time of zstd, and takes half as much space again."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    unpacked = sink.getvalue()
    length = unpacked.size.to_bytes(LENGTH, "little")
    return length + pa.compress(unpacked, CODEC, asbytes=True)


def blocks_in(path: Path, log: LogReader) -> list[Block]:
    """The blocks in a file of columns, up to the first that does not follow the one before it;
    none where there is no file. Their checksums are not compared."""
    blocks: list[Block] = []
    try:
        with open(path, "rb") as file:
            size, at, end = file.seek(0, 2), 0, 0
            while at < size:
                file.seek(at)
                line = decode(file.readline(LONGEST_LINE))
                if line is None or not _makes_sense(line) or line["start"] != end:
                    break
                block = Block(line, _reader_of(path), file.tell(), log)
                at, end = block.end_in_file, block.end
                if at <= size:
                    blocks.append(block)
    except OSError:
        pass  # without the file everything is decoded from the log
    return blocks


def _makes_sense(line: Mapping[str, Any]) -> bool:
    """Whether a line says where a block lies; a run may come from others."""
    sizes = [line.get(name) for name in SIZES]
    return (
        line.get("format") == FORMAT
        and isinstance(line.get("kinds"), list)
        and all(type(size) is int and 0 <= size < 2**60 for size in sizes)
        and line["start"] < line["end"]
        and 0 < line["records"] <= line["end"] - line["start"]
    )


def _reader_of(path: Path) -> Read:
    def read(at: int, size: int) -> bytes:
        with open(path, "rb") as file:
            file.seek(at)
            return file.read(size)

    return read
