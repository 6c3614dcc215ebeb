"""Where does the truth about a run live? In an append-only, checksummed, content-addressed store.

A run folder holds

    ledger/MANIFEST.json        the sealed segments with their sha256, and the name of the tail
    ledger/segment-000001.parquet   sealed records, 10,000 each, columnar and checksummed
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
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from .trial import canonical

FORMAT = 1
SEAL_AT = 10_000  # records in the tail
ROLL_AT = 256 * 1024 * 1024  # bytes in one file of predictions
ROW_GROUP = 500  # records of a segment that are lost together where its disk fails

_NUMERIC = "biuf"  # kinds of dtype that predictions may have

Record = dict[str, Any]


class LedgerError(Exception):
    """The store cannot be read or written; the message says which file and what to do."""


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


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a file so that a reader or a crash sees the old bytes or the new, never a mixture."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        _sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Ledger:
    """The records of one run, in the order in which they became durable.

    `Ledger(path)` opens for reading: nothing on disk changes, torn bytes are skipped and counted
    in `torn_bytes`. `Ledger(path, write=True)` opens for appending, creates what is missing and
    moves torn bytes into quarantine.
    """

    def __init__(self, run: Path, *, write: bool = False) -> None:
        self.run = Path(run)
        self.folder = self.run / "ledger"
        self.writable = write
        self.warnings: list[str] = []
        self.torn_bytes = 0
        # Records stay encoded: a million of them as dictionaries would not fit.
        self._texts: list[bytes] = []
        self._kinds: list[str] = []
        self._tail: BinaryIO | None = None
        self._tail_count = 0
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
                _plain_name(segment["file"]), str(segment["sha256"]), int(segment["records"])
            _number(_plain_name(manifest["tail"]))
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
        for segment in manifest["segments"]:
            for kind, text in self._read_segment(segment):
                self._keep(kind, text)
        path = self.folder / manifest["tail"]
        good: list[bytes] = []
        bad: list[bytes] = []
        for line in data.splitlines(keepends=True):
            record = decode(line)
            if record is None:
                bad.append(line)
            else:
                good.append(line)
                self._keep(record["kind"], line[9:-1])
        self._tail_count = len(good)
        self.torn_bytes += sum(map(len, bad))
        if self.writable:
            if bad:
                self._quarantine(path.name, b"".join(bad))
                write_atomically(path, b"".join(good))
            self._tail = _open_to_append(path)
            self._open_blobs()

    def _keep(self, kind: str, text: bytes) -> None:
        self._kinds.append(sys.intern(kind))
        self._texts.append(text)

    def _read_segment(self, segment: Mapping[str, Any]) -> list[tuple[str, bytes]]:
        import pyarrow.parquet as pq

        path = self.folder / segment["file"]
        try:
            data = path.read_bytes()
        except OSError as error:
            raise LedgerError(f"cannot read the sealed segment {path}: {error}") from None
        try:
            file = pq.ParquetFile(io.BytesIO(data))
            if hashlib.sha256(data).hexdigest() == segment["sha256"]:
                table = file.read(columns=["kind", "json"])
                kinds, texts = (table.column(c).to_pylist() for c in ("kind", "json"))
                return list(zip(kinds, texts, strict=True))
        except Exception as error:
            raise LedgerError(
                f"the sealed segment {path} is damaged ({error}); restore it from a copy, or "
                f"remove its entry from {self._manifest_path} to run its cells again"
            ) from None
        # Not a crash's doing: a failing disk's, or somebody's.
        rows = [row for number in range(file.num_row_groups) for row in _intact(file, number)]
        self.torn_bytes += len(data)
        self.warnings.append(
            f"the sealed segment {path} has a wrong checksum: {len(rows)} of "
            f"{segment['records']} records are intact, the cells of the others run again"
        )
        return rows

    def _quarantine(self, name: str, data: bytes) -> None:
        folder = self.run / "quarantine"
        folder.mkdir(exist_ok=True)
        path = folder / f"{name}.{hashlib.sha256(data).hexdigest()[:12]}"
        write_atomically(path, data)
        self.warnings.append(
            f"{len(data)} bytes of {name} failed their checksum and were moved to {path}; "
            "the cells that they stood for run again"
        )

    def records(self, kind: str | None = None) -> Iterator[Record]:
        """The records of a kind (plan, lease, death, result, slot, study), in order."""
        for position in self.positions(kind):
            yield self.at(position)

    def positions(self, kind: str | None = None) -> Iterator[int]:
        """Where the records of one kind stand; `at` reads one."""
        return (i for i, other in enumerate(self._kinds) if kind is None or other == kind)

    def at(self, position: int) -> Record:
        return json.loads(self._texts[position])

    def __len__(self) -> int:
        return len(self._kinds)

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
        for record, text in zip(records, texts, strict=True):
            self._keep(record["kind"], text)
        self._tail_count += len(records)
        if self._tail_count >= SEAL_AT:
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
        import pyarrow as pa
        import pyarrow.parquet as pq

        assert self._tail is not None
        if not self._tail_count:
            return
        manifest = self._manifest()
        number = _number(manifest["tail"])
        texts = self._texts[-self._tail_count :]
        table = pa.table(
            {
                "kind": self._kinds[-self._tail_count :],
                "crc": pa.array(map(zlib.crc32, texts), type=pa.uint32()),
                "json": pa.array(texts, type=pa.binary()),
            }
        )
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, compression="zstd", row_group_size=ROW_GROUP)
        data = sink.getvalue().to_pybytes()
        name = f"segment-{number:06d}.parquet"
        write_atomically(self.folder / name, data)
        manifest["segments"].append(
            {"file": name, "sha256": hashlib.sha256(data).hexdigest(), "records": len(texts)}
        )
        manifest["tail"] = _tail_name(number + 1)
        fresh = _open_to_append(self.folder / manifest["tail"])
        try:
            self._write_manifest(manifest)
        finally:  # go on in the tail that the manifest on disk names, replaced or not
            if self._manifest()["tail"] == manifest["tail"]:
                self._tail, fresh = fresh, self._tail
                self._tail_count = 0
            fresh.close()
        for old in self.folder.glob("tail-*.jsonl"):
            if _number(old.name) <= number:
                old.unlink(missing_ok=True)

    def _write_manifest(self, manifest: Mapping[str, Any]) -> None:
        write_atomically(self._manifest_path, json.dumps(manifest, indent=1).encode() + b"\n")

    def close(self) -> None:
        for file in (self._tail, self._blobs):
            if file is not None:
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
                "file": Path(self._blobs.name).name,
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
                path = self.run / "predictions" / _plain_name(place["file"])
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


def _intact(file: Any, number: int) -> list[tuple[str, bytes]]:
    """The rows of a damaged segment's row group whose own checksum holds."""
    try:
        table = file.read_row_group(number, columns=["crc", "json"])
        rows = zip(*(table.column(c).to_pylist() for c in ("crc", "json")), strict=True)
        texts = [text for crc, text in rows if zlib.crc32(text) == crc]
        return [(json.loads(text)["kind"], text) for text in texts]
    except Exception:  # what a damaged file makes its reader raise is not to be listed
        return []


def _open_to_append(path: Path) -> BinaryIO:
    """Open a file for appending; that it exists is durable."""
    existed = path.exists()
    file = open(path, "ab")
    if not existed:
        _sync_folder(path.parent)
    return file


def _tail_name(number: int) -> str:
    return f"tail-{number:06d}.jsonl"


def _number(tail: str) -> int:
    """The number in the name of a tail, which its segment will have too."""
    return int(tail.removeprefix("tail-").removesuffix(".jsonl"))


def _plain_name(name: Any) -> str:
    """A file name out of a record, refused where it is a path: records may come from others."""
    if not isinstance(name, str) or name != os.path.basename(name) or name in ("", ".", ".."):
        raise LedgerError(f"a record names the file {name!r}, which is not a plain name; refused")
    return name
