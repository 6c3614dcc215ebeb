"""Where does the truth about a run live? In an append-only, checksummed, content-addressed store.

A run folder holds

    ledger/MANIFEST.json        the sealed segments with their sha256, and the name of the tail
    ledger/segment-000001.parquet   sealed records, 10,000 each, columnar and checksummed: the JSON
                                text of each, and in columns of their own what tells cells apart
    ledger/facts-000001.arrow       of the same records what tables need, in columns; made from them
    ledger/tail-000002.jsonl    one record a line: crc32 of the text, a blank, the JSON text
    predictions/000000.bin      predictions back to back; a record names file, offset and sha256
    quarantine/                 bytes that failed a checksum, kept for a person to look at

Only one process writes (see `lock.py`). A record counts once its line is complete and its checksum
right, so a torn write is never read as a result; the bytes that it left go to quarantine and the
cell runs again. Predictions are written and synced before the record that points at them.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from ...common.files import sync_folder, write_atomically
from ..trial import canonical
from .segments import (
    CRC32,
    PARTS,
    Deferred,
    Facts,
    Head,
    Kept,
    LedgerError,
    Part,
    Sealed,
    columns_of,
    facts_file,
    head_of,
    heads_in,
    plain_name,
    stamp_of,
)

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = 1
SEAL_AT = 10_000  # records in the tail
ROLL_AT = 256 * 1024 * 1024  # bytes in one file of predictions
ROW_GROUP = 500  # records of a segment that are lost together where its disk fails
GROUPS_KEPT = 512  # such groups that a reader keeps in memory, some 400 kB each
READERS = 4  # segments that are read at once

_NUMERIC = "biuf"  # kinds of dtype that predictions may have

Record = dict[str, Any]


def encode(record: Mapping[str, Any]) -> bytes:
    """One line of the tail: checksum, blank, canonical JSON, newline."""
    return _line(canonical(record).encode())


def _line(text: bytes) -> bytes:
    return b"%08x %s\n" % (zlib.crc32(text), text)


def decode(line: bytes) -> Record | None:
    """The record in a line, or None where the line is torn or its checksum wrong."""
    if not line.endswith(b"\n") or len(line) < 12 or line[8:9] != b" ":
        return None
    text = line[9:-1]
    if line[:8] != b"%08x" % zlib.crc32(text):
        return None
    try:
        record = json.loads(text)
    except ValueError:
        return None
    return record if isinstance(record, dict) and isinstance(record.get("kind"), str) else None


class Ledger:
    """The records of one run, in the order in which they became durable.

    `Ledger(path)` opens for reading: nothing on disk changes, damaged bytes are skipped and
    counted in `torn_bytes`. `Ledger(path, write=True)` opens for appending, creates what is missing
    and moves damaged bytes into quarantine. `Ledger(path, deferred=True)` opens for `facts`: a
    sealed segment is read and checked where one of its records is asked for, not before.
    """

    def __init__(self, run: Path, *, write: bool = False, deferred: bool = False) -> None:
        self.run = Path(run)
        self.folder = self.run / "ledger"
        self.writable, self._deferred = write, deferred and not write
        self.warnings: list[str] = []
        self.torn_bytes = 0
        self._parts: list[Part] = []
        self._starts: list[int] = []  # position of the first record of each part
        self._newest = Kept()  # the last part: the records of the tail
        self._groups = lru_cache(GROUPS_KEPT)(Sealed.read_group)
        self._tail: BinaryIO | None = None
        self._blobs: BinaryIO | None = None
        self._blob_index = 0
        if write:
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.run / "predictions").mkdir(exist_ok=True)
            if not self._manifest_path.exists():
                sealed = sorted(path.name for path in self.folder.glob("segment-*"))
                if sealed:
                    raise LedgerError(
                        f"{self._manifest_path} is gone, but {sealed[-1]} is there: restore the "
                        "manifest from a copy, or choose another --name"
                    )
                self._write_manifest({"format": FORMAT, "segments": [], "tail": _tail_name(1)})
        elif not self._manifest_path.exists():
            raise LedgerError(f"{self.run} holds no ledger: is it the folder of a run?")
        self._load()

    # ------------------------------------------------------------------ reading

    @property
    def _manifest_path(self) -> Path:
        return self.folder / "MANIFEST.json"

    def _manifest(self) -> dict[str, Any]:
        try:
            manifest = json.loads(self._manifest_path.read_bytes())
        except (OSError, ValueError) as error:
            raise LedgerError(f"cannot read {self._manifest_path}: {error}") from None
        if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
            found = manifest.get("format") if isinstance(manifest, dict) else manifest
            raise LedgerError(
                f"{self._manifest_path} has format {found!r}; this version reads "
                f"{FORMAT}: use the tabsweep that wrote it"
            )
        try:
            for segment in manifest["segments"]:
                plain_name(segment["file"]), str(segment["sha256"]), int(segment["records"])
                list(segment.get("kinds") or [])
            _number(plain_name(manifest["tail"]))
        except (KeyError, TypeError, ValueError) as error:
            raise LedgerError(f"{self._manifest_path} is damaged ({error!r})") from None
        return manifest

    def _read_tail(self) -> tuple[dict[str, Any], bytes]:
        """The manifest and the bytes of its tail, at one moment: the writer may be sealing."""
        manifest = self._manifest()
        while True:
            path = self.folder / manifest["tail"]
            data = path.read_bytes() if path.exists() else b""
            again = self._manifest()
            if again == manifest:
                return manifest, data
            manifest = again

    def _load(self) -> None:
        manifest, data = self._read_tail()
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
        path = self.folder / manifest["tail"]
        good: list[bytes] = []
        bad: list[bytes] = []
        found: list[Record] = []
        for line in data.splitlines(keepends=True):
            record = decode(line)
            if record is None:
                bad.append(line)
            else:
                good.append(line)
                found.append(record)
        self._newest.add(columns_of(list(map(head_of, found))), [line[9:-1] for line in good])
        if self._deferred:
            self._newest.records = found
        self._add(self._newest)
        self.torn_bytes += sum(map(len, bad))
        if self.writable:
            if bad:
                torn = b"".join(bad)
                place = self._quarantine(path.name, torn)
                write_atomically(path, b"".join(good))
                self.warnings.append(
                    f"{len(torn)} bytes of {path.name} failed their checksum and were moved to "
                    f"{place}; the cells that they stood for run again"
                )
            self._tail = _open_to_append(path)
            self._open_blobs()

    def _warn_of(self, segment: Mapping[str, Any], part: Part, damaged: bytes) -> None:
        """Of what is not a crash's doing: a failing disk's, or somebody's."""
        self.torn_bytes += len(damaged)
        self.warnings.append(
            f"the sealed segment {self.folder / segment['file']} has a wrong checksum: "
            f"{len(part)} of {segment['records']} records are intact, the cells of the others "
            "run again"
        )

    def _add(self, part: Part) -> None:
        self._starts.append(len(self))
        self._parts.append(part)

    def _read_segment(self, segment: Mapping[str, Any]) -> tuple[Part, bytes | None]:
        """`_checked`, put off where the ledger is opened so and the manifest says enough."""
        facts, kinds = Facts.of(segment), segment.get("kinds")
        if not self._deferred or facts is None or kinds is None:
            return self._checked(segment)

        def opened() -> Part:
            part, damaged = self._checked(segment)
            if damaged is not None:
                self._warn_of(segment, part, damaged)
            return part

        return Deferred(self.folder, segment["records"], kinds, facts, opened), None

    def _checked(self, segment: Mapping[str, Any]) -> tuple[Part, bytes | None]:
        """The intact records of a sealed segment, and its bytes where these are damaged.

        A writer keeps them in memory, where a resume asks for one here and one there; a reader
        reads them when they are asked for.
        """
        import pyarrow.parquet as pq

        path = self.folder / segment["file"]
        try:
            with open(path, "rb") as opened:
                data, stamp = opened.read(), stamp_of(opened)
        except OSError as error:
            raise LedgerError(f"cannot read the sealed segment {path}: {error}") from None
        if hashlib.sha256(data).hexdigest() != segment["sha256"]:
            rows = _intact(data)
            return Kept(columns_of([head for head, _ in rows]), [text for _, text in rows]), data
        try:
            file = pq.ParquetFile(io.BytesIO(data))
            if self.writable:
                return _whole(file), None
            return Sealed(path, stamp, file, Facts.of(segment), self._groups), None
        except Exception as error:  # not its bytes' fault: nothing is thrown away
            raise LedgerError(f"cannot read the sealed segment {path}: {error}") from None

    def _mend(
        self,
        manifest: dict[str, Any],
        segment: Mapping[str, Any],
        part: Part,
        damaged: bytes,
    ) -> None:
        """Keep a damaged segment's bytes in quarantine, and its intact records in its place."""
        path = self._quarantine(segment["file"], damaged)
        self.warnings[-1] += f"; its bytes are kept in {path}"
        at = manifest["segments"].index(segment)
        assert isinstance(part, Kept)
        manifest["segments"][at : at + 1] = (
            [self._write_segment(segment["file"], part)] if len(part) else []
        )
        self._write_manifest(manifest)
        if not len(part):
            for name in (segment["file"], _facts_name(segment["file"])):
                (self.folder / name).unlink(missing_ok=True)

    def _quarantine(self, name: str, data: bytes) -> Path:
        folder = self.run / "quarantine"
        folder.mkdir(exist_ok=True)
        path = folder / f"{name}.{hashlib.sha256(data).hexdigest()[:12]}"
        write_atomically(path, data)
        return path

    def records(self, kind: str | None = None) -> Iterator[Record]:
        """The records of a kind (plan, lease, death, result, slot, study), in order."""
        for position in self.positions(*([kind] if kind else [])):
            yield self.at(position)

    def positions(self, *kinds: str) -> Iterator[int]:
        """Where the records of some kinds (all, if none is named) stand, in order."""
        for start, part in zip(self._starts, self._parts, strict=True):
            rows = part.rows(kinds) if kinds else range(len(part))
            yield from (start + row for row in rows)

    def _find(self, position: int) -> tuple[Part, int]:
        """The part that holds a position (of which there may be empty ones), and the row there."""
        at = bisect_right(self._starts, position) - 1
        return self._parts[at], position - self._starts[at]

    def at(self, position: int) -> Record:
        """The whole record; decoding it takes some 20 microseconds."""
        part, row = self._find(position)
        return json.loads(part.text(row))

    def head(self, position: int) -> Head:
        """What it is about, at a tenth of the price."""
        part, row = self._find(position)
        return Head(*[column[row] for column in part.heads])

    def heads(self, *kinds: str) -> Iterator[tuple[int, Head]]:
        """Position and head of the records of some kinds (all, if none is named), in order."""
        for start, part in zip(self._starts, self._parts, strict=True):
            for row, values in enumerate(zip(*part.heads, strict=True)):
                if not kinds or values[0] in kinds:
                    yield start + row, Head(*values)

    def facts(self) -> pa.Table:
        """What tables need of results, slots and ends of studies (`facts.types`), in the
        order of the records; `row` is the position. Nothing is decoded that was sealed."""
        import pyarrow as pa
        import pyarrow.compute as pc

        with ThreadPoolExecutor(READERS) as pool:
            found = list(pool.map(lambda part: part.facts(), self._parts))
        for at, start in enumerate(self._starts):
            # In Arrow: an array made of numpy's would wait for the import of pandas.
            rows = pc.add(found[at].column("row").cast(pa.int64()), start)
            found[at] = found[at].set_column(0, "row", rows)
        return pa.concat_tables(found, promote_options="default").unify_dictionaries()

    def __len__(self) -> int:
        return self._starts[-1] + len(self._parts[-1]) if self._parts else 0

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
        before = self._tail.tell()
        try:
            self._tail.write(b"".join(map(_line, texts)))
            self._tail.flush()
            if sync:
                os.fsync(self._tail.fileno())
        except OSError:
            self._cut_tail(before)
            raise
        self._newest.add(columns_of([head_of(record) for record in records]), texts)
        if len(self._newest) >= SEAL_AT:
            self.seal()

    def _cut_tail(self, length: int) -> None:
        assert self._tail is not None
        path = self._tail.name
        try:
            self._tail.close()
        except OSError:
            pass  # the buffer that could not be written is what is being thrown away
        os.truncate(path, length)
        self._tail = _open_to_append(Path(path))

    def seal(self) -> None:
        """Turn the tail into a checksummed columnar segment and begin a new tail.

        The manifest is replaced last: a crash before that leaves the old tail in force, a crash
        after it leaves an old tail that nothing names and the next seal removes. After an error on
        the way the ledger can still be written.
        """
        assert self._tail is not None
        if not len(self._newest):
            return
        manifest = self._manifest()
        number = _number(manifest["tail"])
        name = f"segment-{number:06d}.parquet"
        manifest["segments"].append(self._write_segment(name, self._newest))
        manifest["tail"] = _tail_name(number + 1)
        fresh = _open_to_append(self.folder / manifest["tail"])
        try:
            self._write_manifest(manifest)
        finally:  # go on in the tail that the manifest on disk names, replaced or not
            if self._manifest()["tail"] == manifest["tail"]:
                self._tail, fresh = fresh, self._tail
                self._newest = Kept()
                self._add(self._newest)
            fresh.close()
        for old in self.folder.glob("tail-*.jsonl"):
            if _number(old.name) <= number:
                old.unlink(missing_ok=True)

    def _write_segment(self, name: str, part: Kept) -> dict[str, Any]:
        """Make records a segment, with their facts beside it; returns its entry in the manifest."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        texts, columns = part.texts, dict(zip(PARTS, part.heads, strict=True))
        kinds = sorted(set(columns["kind"]))
        table = pa.table(
            {
                "kind": pa.array(columns.pop("kind"), type=pa.string()),
                "crc": pa.array(map(zlib.crc32, texts), type=pa.uint32()),
                "json": pa.array(texts, type=pa.binary()),
                "index": pa.array(columns.pop("index"), type=pa.int32()),
                **{name: pa.array(values, type=pa.string()) for name, values in columns.items()},
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
        facts, columns_file = facts_file(part.facts()), _facts_name(name)
        write_atomically(self.folder / columns_file, facts)
        return {**entry, "facts": {"file": columns_file, "crc32": CRC32 % zlib.crc32(facts)}}

    def _write_manifest(self, manifest: Mapping[str, Any]) -> None:
        write_atomically(self._manifest_path, json.dumps(manifest, indent=1).encode() + b"\n")

    def close(self) -> None:
        """Ends writing. What a full disk kept in a buffer is dropped: no record speaks of it, and
        whoever wanted it there has heard of the error."""
        for file in (self._tail, self._blobs):
            if file is not None:
                with suppress(OSError):
                    file.close()
        self._tail = self._blobs = None

    # ------------------------------------------------------------------ predictions

    def _open_blobs(self) -> None:
        existing = sorted((self.run / "predictions").glob("[0-9]*.bin"))
        self._blob_index = int(existing[-1].stem) if existing else 0
        path = self.run / "predictions" / f"{self._blob_index:06d}.bin"
        self._blobs = _open_to_append(path)

    def put_predictions(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """Append arrays to the packed predictions; the caller syncs once with `sync_predictions`.

        Returns what the record keeps: {part: {file, offset, shape, dtype, sha256}}.
        """
        import numpy as np

        assert self._blobs is not None
        where: dict[str, Any] = {}
        for part, array in arrays.items():
            if self._blobs.tell() >= ROLL_AT:
                self.sync_predictions()
                self._blobs.close()
                self._blob_index += 1
                name = f"{self._blob_index:06d}.bin"
                self._blobs = _open_to_append(self.run / "predictions" / name)
            array = np.ascontiguousarray(array)
            if array.dtype.kind not in _NUMERIC:
                raise LedgerError(f"predictions are numbers; {part} has dtype {array.dtype}")
            data = array.tobytes()
            where[part] = {
                "file": f"{self._blob_index:06d}.bin",
                "offset": self._blobs.tell(),
                "shape": list(array.shape),
                "dtype": array.dtype.str,
                "sha256": hashlib.sha256(data).hexdigest(),
            }
            self._blobs.write(data)
        return where

    def sync_predictions(self) -> None:
        assert self._blobs is not None
        self._blobs.flush()
        os.fsync(self._blobs.fileno())

    def get_predictions(self, where: Mapping[str, Any]) -> dict[str, Any]:
        """The arrays that a record points at. Raises LedgerError where their bytes are not there
        or are not the bytes that were written."""
        import numpy as np

        found = {}
        for part, place in where.items():
            try:
                path = self.run / "predictions" / plain_name(place["file"])
                dtype, sha256 = np.dtype(str(place["dtype"])), str(place["sha256"])
                start, shape = int(place["offset"]), [int(n) for n in place["shape"]]
                if dtype.kind not in _NUMERIC or min(start, *shape) < 0:
                    raise ValueError(f"{dtype} {shape} at {start}")
            except (KeyError, TypeError, ValueError) as error:
                raise LedgerError(
                    f"a record names impossible predictions ({error!r}); refused"
                ) from None
            size = math.prod(shape) * dtype.itemsize
            try:
                with open(path, "rb") as file:
                    there = os.fstat(file.fileno()).st_size
                    data = b""
                    if start + size <= there:
                        file.seek(start)
                        data = file.read(size)
            except OSError as error:
                raise LedgerError(f"cannot read predictions: {error}") from None
            if hashlib.sha256(data).hexdigest() != sha256:
                raise LedgerError(f"predictions in {path} at {start} fail their checksum")
            found[part] = np.frombuffer(data, dtype=dtype).reshape(shape)
        return found


def _whole(file: Any) -> Kept:
    """The records of an undamaged segment, in memory."""
    texts = file.read(columns=["json"]).column("json").to_pylist()
    return Kept(heads_in(file) or columns_of([head_of(json.loads(t)) for t in texts]), texts)


def _intact(data: bytes) -> list[tuple[Head, bytes]]:
    """The rows of a damaged segment whose own checksum holds; none where its table of contents,
    at the end of the file, cannot be read."""
    import pyarrow.parquet as pq

    rows: list[tuple[Head, bytes]] = []
    try:
        file = pq.ParquetFile(io.BytesIO(data))
    except Exception:  # what a damaged file makes its reader raise is not to be listed
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


def _open_to_append(path: Path) -> BinaryIO:
    """Open a file for appending; that it exists is durable."""
    existed = path.exists()
    file = open(path, "ab")
    if not existed:
        sync_folder(path.parent)
    return file


def _tail_name(number: int) -> str:
    return f"tail-{number:06d}.jsonl"


def _facts_name(segment: str) -> str:
    return segment.replace("segment", "facts").replace(".parquet", ".arrow")


def _number(tail: str) -> int:
    """The number in the name of a tail, which its segment will have too."""
    return int(tail.removeprefix("tail-").removesuffix(".jsonl"))
