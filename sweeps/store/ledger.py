"""The ledger of a run: an append-only, checksummed log of records, and predictions.

A run folder holds

    ledger/log.jsonl            one record a line: crc32 of the text, a blank, the JSON text
    ledger/columns.bin          of every 10,000 records what tables need, in columns; made from
                                the log, and made again where it is gone or damaged
    predictions/000000.bin      predictions back to back; a record names file, offset and sha256
    quarantine/                 bytes that failed a checksum, kept for a person to look at

Only one process writes (see `run_lock.py`). A record counts once its line is complete and its
checksum right, so a torn write is never read as a result; the bytes that it left go to quarantine
and the trial runs again. Predictions are written and synced before the record that points at them.
"""

from __future__ import annotations

import hashlib
import json
import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ...common.files import write_atomically
from ..trial import canonical
from . import log
from .blocks import Block, Head, Newest, Part, blocks_in, head_of
from .log import LedgerError, LogFile, LogReader, Record, decode, encode, line_of, write_without
from .predictions import Predictions
from .run_folder import COLUMNS, LOG, ledger_files

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Head", "Ledger", "LedgerError", "Record", "decode", "encode", "head_of"]

COLUMNS_AT = 10_000  # records without columns in the file
READERS = 4  # blocks that are read at once


class Ledger:
    """The records of one run, in the order in which they became durable; positions count from 0.

    `Ledger(path)` opens for reading: nothing on disk changes, damaged bytes are skipped and
    counted in `torn_bytes`. `Ledger(path, write=True)` opens for appending, creates what is missing
    and moves damaged bytes into quarantine. Every checksum of the log is compared at once.

    `predictions`: the arrays that its records point at, to be synced before these records are
    written. `warnings` are sentences on damage; an open writer may still add some. `notices` are
    sentences on oddities that lost nothing.
    """

    def __init__(self, run: Path, *, write: bool = False) -> None:
        self.run = Path(run)
        self.folder = self.run / "ledger"
        self.writable = write
        self.warnings: list[str] = []
        self.notices: list[str] = []
        self.torn_bytes = 0
        self.torn_tail = 0  # of them the unfinished last line: it may be being written
        self._log = LogReader(self.folder / LOG)
        self.predictions = Predictions(self.run / "predictions", warn=self.warnings.append)
        self._file: LogFile | None = None
        if write:
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.run / "predictions").mkdir(exist_ok=True)
        self._look_round()
        if write and not self._log.path.exists():
            log.open_to_append(self._log.path).close()
        damaged, columns_are_right = self._load()
        if write:
            if damaged or not columns_are_right:
                self._mend(damaged, columns_are_right)
            self._file = LogFile(self._log.path)
            self._save_columns()
            self.predictions.open()

    def _look_round(self) -> None:
        """Account for every file in the folder. Raises LedgerError where it holds some and no
        log."""
        names = ledger_files(self.run)
        others = ", ".join(sorted({*names} - {LOG, COLUMNS}))
        if LOG not in names and names:
            way = "give it its name back, or restore it from a copy"
            if "MANIFEST.json" in names:
                way = "tabsweep 0.2.0 writes such a ledger of 0.1.0 anew"
            raise LedgerError(
                f"{self.folder} holds {', '.join(names)} and no {LOG}, which lists the records: "
                f"{way}"
            )
        if not names and not self.writable:
            raise LedgerError(f"{self.run} holds no ledger: is it the folder of a run?")
        if others:
            self.notices.append(f"{self.folder} also holds {others}: no part of a ledger, not read")

    # ------------------------------------------------------------------ opening

    def _load(self) -> tuple[list[tuple[int, bytes]], bool]:
        """Read what is on disk. Returns the damaged lines of the log with the places where they
        begin, and whether every block of columns is right."""
        self._newest = Newest()
        self._blocks: list[Block] = []
        self._starts = [0]  # positions of the first record of each block, and of the newest
        self._unsaved: list[tuple[Block, bytes]] = []  # blocks that the file of columns lacks
        self._columns_end = 0  # of the blocks in the file
        self.end = 0  # of the log, as far as its lines are complete
        # The columns come first: they never say more than the log, which only grows.
        blocks = blocks_in(self.folder / COLUMNS, self._log)
        size = self._log.size()
        damaged: list[tuple[int, bytes]] = []
        with ThreadPoolExecutor(READERS) as pool:
            checked = list(pool.map(Block.is_right, blocks))
        for block, right in zip(blocks, checked, strict=True):
            if block.end > size:
                self.warnings.append(
                    f"{self._log.path} ends before records that it held, at byte {size}: their "
                    "trials run again"
                )
                checked.append(False)
                break
            if right:
                self._add(block)
            else:
                damaged += self._decode(block.start, block.end)
                self._end_newest()
            self.end, self._columns_end = block.end, block.end_in_file
        damaged += self._decode(self.end, size)
        torn = damaged[-1][1] if damaged and not damaged[-1][1].endswith(b"\n") else b""
        self.end, self.torn_tail = size - len(torn), len(torn)
        self.torn_bytes = sum(len(line) for _, line in damaged)
        if not self.writable and self.torn_bytes > self.torn_tail:
            self.warnings.append(self._sentence(damaged))
        return damaged, all(checked)

    def _decode(self, start: int, end: int) -> list[tuple[int, bytes]]:
        """Add the records between two places of the log; returns the damaged lines."""
        damaged = []
        for at, line in self._log.lines(start, end):
            record = decode(line)
            if record is None:
                damaged.append((at, line))
                continue
            self._newest.add(at, record, line[9:-1])
            if len(self._newest) >= COLUMNS_AT:
                self._end_newest()
        return damaged

    def _add(self, block: Block) -> None:
        self._blocks.append(block)
        self._starts.append(self._starts[-1] + len(block))

    def _end_newest(self) -> None:
        """Turn the newest records into a block, which the file of columns does not have yet."""
        if len(self._newest):
            block, data = Block.of(self._newest, self._log)
            self._unsaved.append((block, data))
            self._add(block)
            self._newest = Newest()

    # ------------------------------------------------------------------ damage

    def _sentence(self, damaged: list[tuple[int, bytes]]) -> str:
        where = f"from byte {damaged[0][0]} on" if len(damaged) > 1 else f"at byte {damaged[0][0]}"
        return (
            f"{self.torn_bytes} bytes of {self._log.path}, {where}, fail their checksum: "
            f"{len(self)} records are intact, the trials of the others run again"
        )

    def _mend(self, damaged: list[tuple[int, bytes]], columns_are_right: bool) -> None:
        """Move damaged lines into quarantine; columns that are not right are made again."""
        torn = self.torn_bytes, self.torn_tail
        if damaged:
            place = self._quarantine(b"".join(line for _, line in damaged))
            self.warnings.append(f"{self._sentence(damaged)}; the bytes are kept in {place}")
        if damaged and torn[0] == torn[1] and columns_are_right:
            os.truncate(self._log.path, self.end)
            return
        (self.folder / COLUMNS).unlink(missing_ok=True)
        if damaged:
            write_without(self._log.path, damaged)
        self._load()
        self.torn_bytes, self.torn_tail = torn

    def _quarantine(self, data: bytes) -> Path:
        folder = self.run / "quarantine"
        folder.mkdir(exist_ok=True)
        path = folder / f"{LOG}.{hashlib.sha256(data).hexdigest()[:12]}"
        write_atomically(path, data)
        return path

    def has_right_columns(self) -> bool:
        """Whether the file of columns has all that it should."""
        return not self._unsaved and all(block.stored_columns() for block in self._blocks)

    # ------------------------------------------------------------------ reading

    @property
    def _parts(self) -> list[Part]:
        return [*self._blocks, self._newest]

    def __len__(self) -> int:
        return self._starts[-1] + len(self._newest)

    def records(self, kind: str | None = None) -> Iterator[Record]:
        """The records of a kind (plan, lease, death, result, slot, study), in order."""
        for position in self.positions(*([kind] if kind else [])):
            yield self.at(position)

    def positions(self, *kinds: str) -> Iterator[int]:
        """The positions of the records of some kinds (all, if none is named), in order."""
        for start, part in zip(list(self._starts), self._parts, strict=True):
            rows = part.rows(kinds) if kinds else range(len(part))
            yield from (start + row for row in rows)

    def _find(self, position: int) -> tuple[Part, int]:
        """The part that holds a position, and the row there."""
        at = bisect_right(self._starts, position) - 1
        part = self._blocks[at] if at < len(self._blocks) else self._newest
        return part, position - self._starts[at]

    def at(self, position: int) -> Record:
        """The whole record; decoding it takes some 20 microseconds. Raises LedgerError where its
        checksum is wrong by now."""
        part, row = self._find(position)
        return json.loads(part.text(row))

    def head(self, position: int) -> Head:
        """The head of a record, in a tenth of the time of `at`."""
        part, row = self._find(position)
        return Head(*[column[row] for column in part.heads])

    def heads(self, *kinds: str) -> Iterator[tuple[int, Head]]:
        """Position and head of the records of some kinds (all, if none is named), in order."""
        for start, part in zip(list(self._starts), self._parts, strict=True):
            for row, values in enumerate(zip(*part.heads, strict=True)):
                if not kinds or values[0] in kinds:
                    yield start + row, Head(*values)

    def columns(self) -> pa.Table:
        """What tables need of results, slots and ends of studies (`column_cache.column_types`), in
        the order of the records; `row` is the position. No record of a block is decoded."""
        import pyarrow as pa
        import pyarrow.compute as pc

        with ThreadPoolExecutor(READERS) as pool:
            tables = list(pool.map(lambda part: part.columns(), self._parts))
        for at, start in enumerate(self._starts):
            # In Arrow: to make an array from numpy's, pyarrow waits for another thread's import
            # of pandas.
            rows = pc.add(tables[at].column("row").cast(pa.int64()), start)
            tables[at] = tables[at].set_column(0, "row", rows)
        return pa.concat_tables(tables, promote_options="default").unify_dictionaries()

    # ------------------------------------------------------------------ writing

    def append(self, records: Iterable[Record], *, sync: bool = True) -> None:
        """Make records durable, in order; several may share one sync.

        Raises OSError (disk full, say) with the log cut back to what it held before, so that what
        is on disk stays a whole number of records.
        """
        if self._file is None:
            raise LedgerError(f"the ledger of {self.run} is open for reading only")
        records = list(records)
        if not records:
            return
        texts = [canonical(record).encode() for record in records]
        lines = list(map(line_of, texts))
        self._file.append(b"".join(lines), sync=sync)
        for text, line in zip(texts, lines, strict=True):
            self._newest.add(self.end, json.loads(text), text)
            self.end += len(line)
        if len(self._newest) >= COLUMNS_AT:
            self.write_columns()

    def write_columns(self) -> None:
        """Give the newest records their columns, once the log with them is durable."""
        assert self._file is not None
        self._file.sync()
        self._end_newest()
        self._save_columns()

    def _save_columns(self) -> None:
        """Append the finished blocks to the file of columns. If the disk is full, a block stays in
        memory and is written together with the next one."""
        path = self.folder / COLUMNS
        with suppress(OSError):
            if path.exists() and path.stat().st_size > self._columns_end:
                os.truncate(path, self._columns_end)  # what a crash or a full disk left
            while self._unsaved:
                block, data = self._unsaved[0]
                with open(path, "ab") as file:
                    file.write(data)
                block.move_to(path, self._columns_end)
                self._columns_end = block.end_in_file
                self._unsaved.pop(0)

    def close(self) -> None:
        """End writing. Bytes that a full disk left in a buffer are dropped: no record points at
        them, and the write that failed has raised its error."""
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
        self._file = None
        self.predictions.close()
