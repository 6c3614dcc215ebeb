"""The ledger of a run: an append-only, checksummed store of records and predictions.

A run folder holds

    ledger/MANIFEST.json        the sealed segments with their sha256, and the name of the tail
    ledger/segment-000001.parquet   sealed records, 10,000 each: the JSON text of each with its
                                crc, and its head (kind, id, study, stage, index, status) in columns
    ledger/facts-000001.arrow   of the same records what tables need, in columns; made from them
    ledger/tail-000002.jsonl    one record a line: crc32 of the text, a blank, the JSON text
    predictions/000000.bin      predictions back to back; a record names file, offset and sha256
    quarantine/                 bytes that failed a checksum, kept for a person to look at

Only one process writes (see `run_lock.py`). A record counts once its line is complete and its
checksum right, so a torn write is never read as a result; the bytes that it left go to quarantine
and the trial runs again. Predictions are written and synced before the record that points at them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...common.files import write_atomically
from ..trial import canonical
from .manifest import Manifest, number_of, segment_name, tail_name
from .manifest_rebuild import rebuilt
from .predictions import Predictions
from .record_sequence import READERS, RecordSequence
from .segment_files import SegmentFolder
from .segments import ColumnFile, Head, LedgerError, MemoryPart, Part, head_columns, head_of
from .tail import Record, TailFile, decode, encode, line_of, parse_tail

__all__ = ["Head", "Ledger", "LedgerError", "Record", "decode", "encode", "head_of"]

SEAL_AT = 10_000  # records in the tail


class Ledger(RecordSequence):
    """The records of one run, in the order in which they became durable.

    `Ledger(path)` opens for reading: nothing on disk changes, damaged bytes are skipped and
    counted in `torn_bytes`. `Ledger(path, write=True)` opens for appending, creates what is missing
    and moves damaged bytes into quarantine. `Ledger(path, deferred=True)` opens for `columns`: a
    sealed segment is read and checked when one of its records is asked for, not before. A reader
    keeps `groups_kept` groups of 500 records in memory (None: 512), some 400 kB each.

    `warnings` says in sentences what was damaged; a writer may add to it as long as it is open.
    `notices` says what was made again without a loss.
    """

    def __init__(
        self,
        run: Path,
        *,
        write: bool = False,
        deferred: bool = False,
        groups_kept: int | None = None,
    ) -> None:
        super().__init__()
        self.run = Path(run)
        self.folder = self.run / "ledger"
        self.writable, self._deferred = write, deferred and not write
        self.warnings: list[str] = []
        self.notices: list[str] = []
        self.torn_bytes = 0  # of segments and tail
        self.torn_tail = 0  # of the tail alone: a reader may see a line that is being written
        self._manifest = Manifest(self.folder)
        self._segments = SegmentFolder(self.folder, in_memory=write, groups_kept=groups_kept)
        self._predictions = Predictions(self.run / "predictions", warn=self.warnings.append)
        self._newest = MemoryPart()  # the last part: the records of the tail
        self._tail: TailFile | None = None
        if write:
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.run / "predictions").mkdir(exist_ok=True)
        if not self._manifest.exists():
            self._without_manifest()
        self._load()

    def _without_manifest(self) -> None:
        """Begin a new ledger, or make the manifest of an old one again, on disk if this one is
        open for writing."""
        found = rebuilt(self.folder) if self.folder.is_dir() else None
        if found is not None:
            manifest, text, lost = found
            self.notices.append(text)
            self.warnings.extend(lost)
            if self.writable:
                manifest["segments"] = list(map(self._segments.with_columns, manifest["segments"]))
                self._manifest.write(manifest)
            else:
                self._manifest.stand_in(manifest)
        elif self.writable:
            self._manifest.create()
        else:
            raise LedgerError(f"{self.run} holds no ledger: is it the folder of a run?")

    # ------------------------------------------------------------------ reading

    def _load(self) -> None:
        manifest, data = self._manifest.read_with_tail()
        segments = list(manifest["segments"])
        if len(segments) > 1:
            with ThreadPoolExecutor(min(READERS, len(segments))) as pool:
                parts = list(pool.map(self._read_segment, segments))
        else:
            parts = [self._read_segment(segment) for segment in segments]
        for segment, (part, damaged) in zip(segments, parts, strict=True):
            self._add(part)
            if damaged is not None:
                self._warn_of(segment, part, damaged)
                if self.writable:
                    self._mend(manifest, segment, part, damaged)
        self._load_tail(self.folder / manifest["tail"], data)

    def _read_segment(self, segment: Mapping[str, Any]) -> tuple[Part, bytes | None]:
        part = self._segments.defer(segment, self._warn_of) if self._deferred else None
        return self._segments.check(segment) if part is None else (part, None)

    def _load_tail(self, path: Path, data: bytes) -> None:
        found = parse_tail(data)
        self._newest.add(head_columns(list(map(head_of, found.records))), found.texts)
        if self._deferred:
            self._newest.records = found.records
        self._add(self._newest)
        self.torn_tail = len(found.torn)
        self.torn_bytes += len(found.torn)
        if self.writable:
            if found.torn:
                place = self._quarantine(path.name, found.torn)
                write_atomically(path, b"".join(found.lines))
                self.warnings.append(
                    f"{len(found.torn)} bytes of {path.name} failed their checksum and were moved "
                    f"to {place}; the cells that they stood for run again"
                )
            self._tail = TailFile(path)
            self._predictions.open()

    # ------------------------------------------------------------------ damage

    def _warn_of(self, segment: Mapping[str, Any], part: Part, damaged: bytes) -> None:
        """Warn of a damaged segment: no crash does that, but a failing disk or a person."""
        self.torn_bytes += len(damaged)
        self.warnings.append(
            f"the sealed segment {self.folder / segment['file']} has a wrong checksum: "
            f"{len(part)} of {segment['records']} records are intact, the cells of the others "
            "run again"
        )

    def _mend(
        self, manifest: dict[str, Any], segment: Mapping[str, Any], part: Part, damaged: bytes
    ) -> None:
        """Keep a damaged segment's bytes in quarantine, and its intact records in its place."""
        path = self._quarantine(segment["file"], damaged)
        self.warnings[-1] += f"; its bytes are kept in {path}"
        at = manifest["segments"].index(segment)
        assert isinstance(part, MemoryPart)
        manifest["segments"][at : at + 1] = (
            [self._segments.write(segment["file"], part)] if len(part) else []
        )
        self._manifest.write(manifest)
        if not len(part):
            self._segments.remove(segment["file"])

    def damaged_columns(self) -> list[str]:
        """The files of columns that are damaged or missing; what they hold is made of records."""
        named = map(ColumnFile.of, self._manifest.read()["segments"])
        return [one.file for one in named if one is not None and one.read(self.folder) is None]

    def _quarantine(self, name: str, data: bytes) -> Path:
        folder = self.run / "quarantine"
        folder.mkdir(exist_ok=True)
        path = folder / f"{name}.{hashlib.sha256(data).hexdigest()[:12]}"
        write_atomically(path, data)
        return path

    # ------------------------------------------------------------------ writing

    def append(self, records: Iterable[Record], *, sync: bool = True) -> None:
        """Make records durable, in order; several may share one sync.

        Raises OSError (disk full, say) with the tail cut back to what it held before, so that what
        is on disk stays a whole number of records.
        """
        if self._tail is None:
            raise LedgerError(f"the ledger of {self.run} is open for reading only")
        records = list(records)
        if not records:
            return
        texts = [canonical(record).encode() for record in records]
        self._tail.append(b"".join(map(line_of, texts)), sync=sync)
        self._newest.add(head_columns([head_of(record) for record in records]), texts)
        if len(self._newest) >= SEAL_AT:
            self.seal()

    def seal(self) -> None:
        """Turn the tail into a checksummed columnar segment and begin a new tail.

        The manifest is replaced last: after a crash before that the old tail is still in force; a
        crash after it leaves an old tail that nothing names and that the next seal removes. After
        an error on the way the ledger can still be written.
        """
        assert self._tail is not None
        if not len(self._newest):
            return
        manifest = self._manifest.read()
        number = number_of(manifest["tail"])
        manifest["segments"].append(self._segments.write(segment_name(number), self._newest))
        manifest["tail"] = tail_name(number + 1)
        fresh = TailFile(self.folder / manifest["tail"])
        try:
            self._manifest.write(manifest)
        finally:  # go on in the tail that the manifest on disk names, replaced or not
            if self._manifest.read()["tail"] == manifest["tail"]:
                self._tail, fresh = fresh, self._tail
                self._newest = MemoryPart()
                self._add(self._newest)
            fresh.close()
        for old in self.folder.glob("tail-*.jsonl"):
            if number_of(old.name) <= number:
                old.unlink(missing_ok=True)

    def close(self) -> None:
        """End writing. Bytes that a full disk left in a buffer are dropped: no record points at
        them, and the write that failed has raised its error."""
        if self._tail is not None:
            with suppress(OSError):
                self._tail.close()
        self._tail = None
        self._predictions.close()

    # ------------------------------------------------------------------ predictions

    def put_predictions(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """Append arrays to the predictions; returns what the record keeps (`Predictions.put`).

        The caller makes them durable with one `sync_predictions`, before the record is written.
        """
        return self._predictions.put(arrays)

    def sync_predictions(self) -> None:
        """Make everything durable that `put_predictions` wrote."""
        self._predictions.sync()

    def get_predictions(self, where: Mapping[str, Any]) -> dict[str, Any]:
        """The arrays that a record points at. Raises LedgerError where their bytes are missing or
        differ from what was written."""
        return self._predictions.get(where)
