"""The ledger: records, sealing, damage, full disks, predictions, and the lock of a run."""

from __future__ import annotations

import errno
import hashlib
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from tabsweep.common import files
from tabsweep.sweeps.store import append_files, predictions, segment_files
from tabsweep.sweeps.store import ledger as store
from tabsweep.sweeps.store.ledger import Ledger, LedgerError, decode, encode
from tabsweep.sweeps.store.manifest import Manifest
from tabsweep.sweeps.store.run_lock import RunLock, RunLocked, owner_of
from tabsweep.sweeps.store.tail import line_of


def row(n: int) -> dict:
    return {"kind": "result", "id": f"id-{n}", "value": n / 3, "text": f"row {n} é\r\n"}


def filled(run: Path, n: int) -> list[dict]:
    """A ledger of n records, closed; returns them."""
    ledger = Ledger(run, write=True)
    for i in range(n):
        ledger.append([row(i)])
    ledger.close()
    return [row(i) for i in range(n)]


def contents(run: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(run)): path.read_bytes()
        for path in sorted(run.rglob("*"))
        if path.is_file()
    }


def tail_of(run: Path) -> Path:
    return run / "ledger" / json.loads((run / "ledger" / "MANIFEST.json").read_text())["tail"]


# ---------------------------------------------------------------------- round trip


def test_records_come_back_as_they_were_in_order(tmp_path):
    ledger = Ledger(tmp_path, write=True)
    ledger.append([row(0), {"kind": "lease", "id": "a"}], sync=False)
    ledger.append([row(1)])
    ledger.append([])
    expected = [row(0), {"kind": "lease", "id": "a"}, row(1)]
    assert list(ledger.records()) == expected
    assert list(Ledger(tmp_path).records()) == expected  # a reader beside the open writer
    ledger.close()
    again = Ledger(tmp_path, write=True)
    assert list(again.records()) == expected
    assert [again.at(i) for i in again.positions("result")] == [row(0), row(1)]
    assert len(again) == 3 and not again.warnings and again.torn_bytes == 0
    again.close()


def test_nan_is_no_record_and_leaves_nothing_behind(tmp_path):
    ledger = Ledger(tmp_path, write=True)
    with pytest.raises(ValueError):
        ledger.append([row(0), {"kind": "result", "id": "x", "value": float("nan")}])
    ledger.append([row(1)])
    ledger.close()
    assert list(Ledger(tmp_path).records()) == [row(1)]


def test_a_folder_without_a_ledger_is_refused_by_readers_and_left_alone(tmp_path):
    with pytest.raises(LedgerError, match="no ledger"):
        Ledger(tmp_path)
    assert not list(tmp_path.iterdir())
    filled(tmp_path / "run", 1)
    with pytest.raises(LedgerError, match="reading"):
        Ledger(tmp_path / "run").append([row(1)])


# ---------------------------------------------------------------------- damage


@pytest.mark.fault(6)
def test_no_bit_flip_in_the_tail_is_ever_read_as_a_record(tmp_path):
    expected = filled(tmp_path, 3)
    path = tail_of(tmp_path)
    whole = path.read_bytes()
    texts = [encode(record) for record in expected]
    for at in range(len(whole)):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << at % 8
        path.write_bytes(damaged)
        ledger = Ledger(tmp_path)
        # The line that was hit is gone; a hit line end takes the next line with it.
        hit = next(i for i in range(3) if at < sum(map(len, texts[: i + 1])))
        gone = {hit, hit + 1} if whole[at : at + 1] == b"\n" else {hit}
        assert list(ledger.records()) == [r for i, r in enumerate(expected) if i not in gone], at
        assert ledger.torn_bytes > 0
    for at in range(len(texts[0])):
        for bit in range(8):
            damaged = bytearray(texts[0])
            damaged[at] ^= 1 << bit
            assert decode(bytes(damaged)) is None


@pytest.mark.fault(6)
def test_a_torn_last_line_is_quarantined_and_the_others_are_kept(tmp_path):
    expected = filled(tmp_path / "whole", 3)
    whole = tail_of(tmp_path / "whole").read_bytes()
    last = len(encode(row(2)))
    for missing in range(1, last + 1, 3):
        run = tmp_path / f"cut-{missing}"
        shutil.copytree(tmp_path / "whole", run)
        tail_of(run).write_bytes(whole[:-missing])
        ledger = Ledger(run, write=True)
        assert list(ledger.records()) == expected[:2]
        torn = whole[-last:-missing]
        kept = list((run / "quarantine").iterdir()) if torn else []
        assert [file.read_bytes() for file in kept] == ([torn] if torn else [])
        assert len(ledger.warnings) == len(kept) and ledger.torn_bytes == len(torn)
        ledger.append([row(9)])
        ledger.close()
        again = Ledger(run)
        assert list(again.records()) == [*expected[:2], row(9)] and again.torn_bytes == 0


JUNK = [b"", b"\n", b"\0" * 4096, b"not a record\n", os.urandom(2000)]


def test_garbage_for_a_tail_is_no_record_and_work_goes_on(tmp_path):
    for n, junk in enumerate(JUNK):
        folder = tmp_path / str(n)
        filled(folder, 2)
        tail_of(folder).write_bytes(junk)
        assert not list(Ledger(folder).records())
        ledger = Ledger(folder, write=True)
        assert len(ledger) == 0 and bool(ledger.warnings) == bool(junk)
        ledger.append([row(5)])
        ledger.close()
        assert list(Ledger(folder).records()) == [row(5)]


def test_what_is_valid_json_with_a_right_checksum_but_no_record_is_refused():
    for text in (b"[]", b"3", b'{"id": 1}', b'{"kind": 3}', b"{", b""):
        assert decode(line_of(text)) is None
    line = encode(row(1))
    assert decode(line) == row(1)
    assert decode(line.upper()[:8] + line[8:]) is None or line[:8].isdigit()
    assert decode(line[:-1]) is None and decode(b" " + line) is None


def test_a_reader_changes_nothing_on_disk(tmp_path):
    filled(tmp_path, 3)
    with open(tail_of(tmp_path), "ab") as file:
        file.write(b"torn")
    (tmp_path / "owner.lock").write_text("{}")
    before = contents(tmp_path)
    times = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    ledger = Ledger(tmp_path)
    assert ledger.torn_bytes == 4 and len(ledger) == 3
    assert owner_of(tmp_path) is None
    assert contents(tmp_path) == before
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == times


# ---------------------------------------------------------------------- a full disk


class Full:
    """A disk that is full after `room` more bytes; works as the file of a ledger's tail."""

    def __init__(self, file, room: int) -> None:
        self.file, self.room = file, room

    def write(self, data: bytes) -> int:
        self.file.write(data[: self.room])
        self.file.flush()
        if len(data) > self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.room -= len(data)
        return len(data)

    def __getattr__(self, name: str):
        return getattr(self.file, name)


@pytest.mark.fault(5)
def test_a_disk_that_fills_up_anywhere_in_an_append_leaves_whole_records_only(tmp_path):
    length = len(encode(row(2)) + encode(row(3)))
    for room in range(0, length, 7):
        run = tmp_path / str(room)
        filled(run, 2)
        ledger = Ledger(run, write=True)
        ledger._tail.file = Full(ledger._tail.file, room)  # type: ignore
        with pytest.raises(OSError, match="No space left"):
            ledger.append([row(2), row(3)])
        assert list(Ledger(run).records()) == [row(0), row(1)] == list(ledger.records())
        assert Ledger(run).torn_bytes == 0
        ledger.append([row(4)])  # there is room again
        ledger.close()
        assert list(Ledger(run).records()) == [row(0), row(1), row(4)]


@pytest.mark.fault(5)
def test_a_sync_that_fails_takes_the_records_back(tmp_path, monkeypatch):
    filled(tmp_path, 1)
    ledger = Ledger(tmp_path, write=True)
    real = os.fsync

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        ledger.append([row(1)])
    monkeypatch.setattr(os, "fsync", real)
    assert list(Ledger(tmp_path).records()) == [row(0)]
    ledger.append([row(2)])
    ledger.close()
    assert list(Ledger(tmp_path).records()) == [row(0), row(2)]


FILL = """
import os, resource, signal, sys
from tabsweep.sweeps.store.ledger import Ledger
# The kernel itself refuses writes beyond a file size: what a full disk does, without a mount.
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
ledger = Ledger(sys.argv[1], write=True)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))
n = 0
try:
    while True:
        ledger.append([{"kind": "result", "id": str(n), "text": "x" * 700} for n in (n, n + 1)])
        n += 2
except OSError as error:
    print(n, error.errno)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
ledger.append([{"kind": "result", "id": "later"}])
ledger.close()
"""


@pytest.mark.fault(5)
def test_a_write_that_the_kernel_cuts_short_is_taken_back(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", FILL, str(tmp_path)], capture_output=True, text=True, check=True
    )
    n, number = map(int, done.stdout.split())
    assert number == errno.EFBIG and n >= 20
    ledger = Ledger(tmp_path)
    assert [record["id"] for record in ledger.records()] == [*map(str, range(n)), "later"]
    assert ledger.torn_bytes == 0


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 64 KB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
    if os.geteuid() or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("needs the right to mount a file system; RLIMIT_FSIZE stands in above")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


@pytest.mark.fault(5)
def test_on_a_full_disk_nothing_is_torn_and_work_goes_on_after_space(small_disk):
    run = small_disk / "run"
    (small_disk / "other").write_bytes(bytes(16_000))
    ledger = Ledger(run, write=True)
    records, stored = 0, 0
    with pytest.raises(OSError, match="No space left") as caught:
        while records < 10_000:
            place = ledger.put_predictions({"val": np.arange(40.0)})
            ledger.sync_predictions()
            where, stored = place, stored + 1
            ledger.append([row(records)])
            records += 1
    assert caught.value.errno == errno.ENOSPC and records > 10
    found = Ledger(run)
    assert list(found.records()) == [row(i) for i in range(records)] and found.torn_bytes == 0
    assert np.array_equal(found.get_predictions(where)["val"], np.arange(40.0))
    (small_disk / "other").unlink()
    ledger.append([row(records)])
    place = ledger.put_predictions({"val": np.arange(7.0)})
    ledger.sync_predictions()
    ledger.close()
    again = Ledger(run, write=True)
    assert list(again.records()) == [row(i) for i in range(records + 1)] and not again.warnings
    assert np.array_equal(again.get_predictions(place)["val"], np.arange(7.0))
    again.close()


# ---------------------------------------------------------------------- sealing


def test_sealed_and_unsealed_records_read_alike(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "SEAL_AT", 10)
    expected = filled(tmp_path, 34)
    manifest = json.loads((tmp_path / "ledger" / "MANIFEST.json").read_text())
    assert [segment["records"] for segment in manifest["segments"]] == [10, 10, 10]
    assert sorted(path.name for path in (tmp_path / "ledger").glob("tail-*")) == [manifest["tail"]]
    assert list(Ledger(tmp_path).records()) == expected
    ledger = Ledger(tmp_path, write=True)
    ledger.append([row(100 + i) for i in range(7)])
    ledger.close()
    assert list(Ledger(tmp_path).records()) == [*expected, *(row(100 + i) for i in range(7))]


def cell(n: int, kind: str = "result", **more) -> dict:
    record = {"kind": kind, "id": f"{n:032x}", "study": f"d/{n % 3}/m", "stage": "tune"}
    return {**record, "index": n, "status": "done" if n % 2 else "failed", **more}


def test_the_head_of_a_record_is_what_the_record_says_sealed_or_not(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "SEAL_AT", 10)
    odd: list[dict] = [
        {"kind": "plan", "studies": [], "time": "now"},
        {"kind": "death", "id": "ab", "cause": "oom"},
        cell(5, "slot", index=None, study=3, stage=["x"], status=None, id=7.5),
        cell(6, index=2**40),
        cell(7, index=True),
        cell(8, index=-1),
    ]
    expected = [*odd, *map(cell, range(20))]
    ledger = Ledger(tmp_path, write=True)
    for record in expected:
        ledger.append([record])
    heads = [ledger.head(at) for at in ledger.positions()]
    ledger.close()
    assert heads == [store.head_of(record) for record in expected]
    assert heads[-1] == store.Head("result", f"{19:032x}", "d/1/m", "tune", 19, "done")
    assert heads[2] == store.Head("slot") and heads[3].index == heads[5].index == -1
    again = Ledger(tmp_path)
    assert [again.head(at) for at in again.positions()] == heads
    assert list(again.records()) == expected
    assert [*again.positions("death", "slot")] == [1, 2] and [*again.positions("x")] == []
    assert [*again.heads()] == [*enumerate(heads)]
    assert [*again.heads("death", "slot")] == [(1, heads[1]), (2, heads[2])]


def test_segments_sealed_before_heads_had_columns_still_open(tmp_path, monkeypatch):
    import pyarrow.parquet as pq

    monkeypatch.setattr(store, "SEAL_AT", 10)
    ledger = Ledger(tmp_path, write=True)
    ledger.append(list(map(cell, range(12))))
    ledger.close()
    heads = [Ledger(tmp_path).head(at) for at in range(12)]
    (path,) = (tmp_path / "ledger").glob("segment-*")
    pq.write_table(pq.read_table(path, columns=["kind", "crc", "json"]), path)
    manifest = json.loads((tmp_path / "ledger" / "MANIFEST.json").read_text())
    manifest["segments"][0]["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    (tmp_path / "ledger" / "MANIFEST.json").write_text(json.dumps(manifest))
    old = Ledger(tmp_path, write=True)
    assert [old.head(at) for at in old.positions()] == heads and not old.warnings
    assert list(old.records()) == list(map(cell, range(12)))
    old.append([cell(12)])
    old.seal()
    old.close()
    assert [Ledger(tmp_path).head(at) for at in range(12)] == heads


class Crash(BaseException):
    """Stands for the end of the process: nothing in the product catches it."""


def test_a_crash_at_any_step_of_sealing_loses_nothing(tmp_path, monkeypatch):
    """Ends before or after every call that touches the disk while a tail of ten is sealed."""
    monkeypatch.setattr(store, "SEAL_AT", 10)
    steps = ("fsync", "replace", "sync_folder", "unlink", "open")
    for n, case in enumerate(itertools.product(steps, (True, False), (Crash, OSError))):
        crash_while_sealing(tmp_path / str(n), monkeypatch, *case)


def crash_while_sealing(folder: Path, monkeypatch, step: str, before: bool, kind) -> None:
    """The at-th call of a step ends in an exception, for every at."""
    at = 0
    while True:
        at += 1
        run = folder / str(at)
        ledger = Ledger(run, write=True)
        ledger.append([row(i) for i in range(9)])
        with monkeypatch.context() as patch:
            crashed = crash_at(patch, step, at, before=before, kind=kind)
            try:
                ledger.append([row(9)])
                durable = 10
            except kind:
                durable = 9  # at least: what raised was not acknowledged
        if not crashed:
            assert at > 1
            return
        found = list(Ledger(run).records())
        assert found in ([row(i) for i in range(n)] for n in range(durable, 11))
        if kind is OSError:  # the process lives on, and so does its ledger
            ledger.append([row(50)])
            ledger.close()
            found = [*ledger.records()]
            assert found[-1] == row(50) and list(Ledger(run).records()) == found
        again = Ledger(run, write=True)
        assert list(again.records()) == found
        again.append([row(100 + i) for i in range(10)])  # seals, whatever the crash left
        again.close()
        assert list(Ledger(run).records()) == [*found, *(row(100 + i) for i in range(10))]
        assert len(list((run / "ledger").glob("tail-*"))) <= 1


def crash_at(patch, step: str, at: int, *, before: bool, kind: type[BaseException]) -> list[int]:
    """Make the at-th call of a step end in an exception; the list returned says whether it did."""
    calls, crashed = [0], []
    home = {"fsync": os, "replace": os, "sync_folder": files, "unlink": Path, "open": append_files}[
        step
    ]
    real = open if step == "open" else getattr(home, step)

    def failing(*args, **kwargs):
        calls[0] += 1
        if calls[0] == at and before:
            crashed.append(at)
            raise kind(errno.EIO, "injected")
        result = real(*args, **kwargs)
        if calls[0] == at:
            crashed.append(at)
            raise kind(errno.EIO, "injected")
        return result

    patch.setattr(home, step, failing, raising=step != "open")
    return crashed


@pytest.mark.fault(6)
def test_of_a_damaged_segment_the_intact_records_are_kept_with_a_warning(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "SEAL_AT", 40)
    monkeypatch.setattr(segment_files, "ROW_GROUP", 10)
    expected = filled(tmp_path, 43)
    (path,) = (tmp_path / "ledger").glob("segment-*")
    whole = path.read_bytes()
    kept = []
    for at in range(8, len(whole), 97):
        damaged = bytearray(whole)
        damaged[at] ^= 0x10
        path.write_bytes(damaged)
        ledger = Ledger(tmp_path)
        found = list(ledger.records())
        assert all(record in expected for record in found)  # less, perhaps; never something else
        assert "segment-000001" in ledger.warnings[0] and ledger.torn_bytes
        kept.append(len(found))
    # Where the file's own table of contents was hit, all of it is lost.
    assert max(kept) >= 33 and kept.count(43) < len(kept) and min(kept) == 3
    # A hit in the records themselves costs one group of them.
    middle = whole.index(b"PAR1") + 4 + len(whole) // 5
    path.write_bytes(whole[:middle] + bytes([whole[middle] ^ 0xFF]) + whole[middle + 1 :])
    assert len(Ledger(tmp_path)) >= 33
    path.unlink()
    with pytest.raises(LedgerError, match="segment-000001"):
        Ledger(tmp_path)


@pytest.mark.parametrize("damage", ["footer", "empty", "records", "tail of zeros"])
def test_a_damaged_segment_is_mended_by_the_writer_and_kept_in_quarantine(
    tmp_path, monkeypatch, damage
):
    import pyarrow.parquet as pq

    monkeypatch.setattr(store, "SEAL_AT", 40)
    monkeypatch.setattr(segment_files, "ROW_GROUP", 10)
    expected = filled(tmp_path, 83)
    first, second = sorted((tmp_path / "ledger").glob("segment-*"))
    whole = first.read_bytes()
    group = pq.ParquetFile(first).metadata.row_group(0)
    texts = next(c for i in range(9) if (c := group.column(i)).path_in_schema == "json")
    at = texts.dictionary_page_offset + texts.total_compressed_size // 2
    bad = {
        "footer": whole[:-30] + b"\xff" * 20 + whole[-10:],
        "empty": b"",
        "records": whole[:at] + b"\0" * 8 + whole[at + 8 :],
        "tail of zeros": whole[:-100] + bytes(100),
    }[damage]
    first.write_bytes(bad)
    lost = 10 if damage == "records" else 40
    before = contents(tmp_path)
    reader = Ledger(tmp_path)
    assert list(reader.records()) == expected[lost:] and "segment-000001" in reader.warnings[0]
    assert contents(tmp_path) == before  # it is for the writer to mend
    for step, before_it in ((1, True), (1, False), (2, True), (2, False)):
        run = tmp_path.with_name(f"{tmp_path.name}-{step}-{before_it}")
        shutil.copytree(tmp_path, run)
        with monkeypatch.context() as patch:  # a crash on the way makes nothing worse
            crashed = crash_at(patch, "replace", step, before=before_it, kind=Crash)
            with pytest.raises(Crash):
                Ledger(run, write=True)
            assert crashed
        assert list(Ledger(run).records()) == expected[lost:]
        Ledger(run, write=True).close()
        again = Ledger(run, write=True)
        assert list(again.records()) == expected[lost:] and not again.warnings
        again.close()
    writer = Ledger(tmp_path, write=True)
    (kept,) = (tmp_path / "quarantine").iterdir()
    assert kept.read_bytes() == bad
    (warning,) = writer.warnings
    assert f"{40 - lost} of 40 records are intact" in warning and str(kept) in warning
    writer.append([row(i) for i in range(lost)])
    writer.close()
    again = Ledger(tmp_path, write=True)
    assert list(again.records()) == expected[lost:] + [row(i) for i in range(lost)]
    assert not again.warnings and not again.torn_bytes
    again.close()
    files = {path.name for path in (tmp_path / "ledger").glob("segment-*")}
    named = json.loads((tmp_path / "ledger" / "MANIFEST.json").read_text())["segments"]
    assert files == {segment["file"] for segment in named} >= {second.name}


def test_a_segment_that_cannot_be_read_though_its_bytes_are_right_is_not_thrown_away(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(store, "SEAL_AT", 10)
    expected = filled(tmp_path, 12)
    before = contents(tmp_path)

    def no_memory(*what):
        raise MemoryError("injected")

    with monkeypatch.context() as patch:
        patch.setattr(segment_files, "all_records", no_memory)
        patch.setattr(segment_files.SealedPart, "__init__", no_memory)
        for write in (False, True):
            with pytest.raises(LedgerError, match="injected"):
                Ledger(tmp_path, write=write)
    assert contents(tmp_path) == before
    assert list(Ledger(tmp_path).records()) == expected


def test_dropping_a_damaged_segment_from_the_manifest_harms_no_other(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "SEAL_AT", 10)
    expected = filled(tmp_path, 32)
    path = tmp_path / "ledger" / "MANIFEST.json"
    manifest = json.loads(path.read_text())
    del manifest["segments"][0]
    path.write_text(json.dumps(manifest))
    ledger = Ledger(tmp_path, write=True)
    more = [row(100 + i) for i in range(25)]
    for record in more:
        ledger.append([record])
    ledger.close()
    assert list(Ledger(tmp_path).records()) == expected[10:] + more


def test_a_reader_misses_no_record_when_the_tail_is_sealed_under_it(tmp_path, monkeypatch):
    writer = Ledger(tmp_path, write=True)
    writer.append([row(i) for i in range(5)])
    real = Manifest.read
    seals = [0]

    def read(self: Manifest) -> dict:
        found = real(self)
        if (
            self is not writer._manifest and seals[0] < 2
        ):  # between reading the manifest and its tail
            seals[0] += 1
            writer.seal()
            writer.append([row(4 + seals[0])])
        return found

    monkeypatch.setattr(Manifest, "read", read)
    assert list(Ledger(tmp_path).records()) == [row(i) for i in range(7)] and seals == [2]
    writer.close()


MANIFESTS = [
    "",
    "[]",
    "null",
    "{",
    '{"format": 99}',
    '{"format": 1}',
    '{"format": 1, "segments": 3}',
]


def test_a_manifest_that_makes_no_sense_is_refused_by_its_name(tmp_path):
    for n, text in enumerate(MANIFESTS):
        folder = tmp_path / str(n)
        filled(folder, 1)
        (folder / "ledger" / "MANIFEST.json").write_text(text)
        for write in (False, True):
            with pytest.raises(LedgerError, match=r"MANIFEST\.json"):
                Ledger(folder, write=write)


def test_a_lost_manifest_does_not_let_sealed_records_be_overwritten(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "SEAL_AT", 5)
    filled(tmp_path, 7)
    (tmp_path / "ledger" / "MANIFEST.json").unlink()
    before = contents(tmp_path)
    with pytest.raises(LedgerError, match="MANIFEST"):
        Ledger(tmp_path, write=True)
    assert contents(tmp_path) == before


# ---------------------------------------------------------------------- a prepared ledger


PATHS = ["../../x", "/etc/passwd", "..", "", "a/b", None, 3]


@pytest.mark.fault(28)
def test_a_file_name_that_is_a_path_is_refused_wherever_it_stands(tmp_path):
    for n, name in enumerate(PATHS):
        folder = tmp_path / str(n)
        filled(folder, 1)
        ledger = Ledger(folder)
        place = {"file": name, "offset": 0, "shape": [1], "dtype": "<f8", "sha256": "0"}
        with pytest.raises(LedgerError, match="refused"):
            ledger.get_predictions({"val": place})
        path = folder / "ledger" / "MANIFEST.json"
        good = json.loads(path.read_text())
        segment = {"file": name, "sha256": "0", "records": 1}
        for bad in ({**good, "tail": name}, {**good, "segments": [segment]}):
            path.write_text(json.dumps(bad))
            with pytest.raises(LedgerError, match="plain name|MANIFEST"):
                Ledger(folder)


IMPOSSIBLE = [
    {"dtype": "|O"},
    {"dtype": "garbage"},
    {"dtype": "<U8"},
    {"shape": [-1]},
    {"shape": [10**15, 10**6]},
    {"shape": "x"},
    {"shape": None},
    {"offset": -8},
    {"offset": 10**30},
    {"offset": None},
    {"sha256": "0" * 64},
]


@pytest.mark.fault(28)
def test_impossible_predictions_are_refused_before_memory_is_asked_for(tmp_path):
    for change in IMPOSSIBLE:
        ledger = Ledger(tmp_path, write=True)
        where = ledger.put_predictions({"val": np.arange(6.0).reshape(3, 2)})
        ledger.sync_predictions()
        assert np.array_equal(ledger.get_predictions(where)["val"], np.arange(6.0).reshape(3, 2))
        with pytest.raises(LedgerError):
            ledger.get_predictions({"val": {**where["val"], **change}})
        ledger.close()


def test_a_record_that_lacks_its_places_is_refused(tmp_path):
    filled(tmp_path, 1)
    for place in ({}, None, "x", {"file": "000000.bin"}):
        with pytest.raises(LedgerError, match="refused"):
            Ledger(tmp_path).get_predictions({"val": place})


# ---------------------------------------------------------------------- predictions


def test_predictions_come_back_bit_for_bit_across_files(tmp_path, monkeypatch):
    monkeypatch.setattr(predictions, "ROLL_AT", 100)
    chance = np.random.default_rng(0)
    ledger = Ledger(tmp_path, write=True)
    arrays, places = [], []
    for n in range(6):
        arrays.append({"val": chance.random((n, 3)), "test": chance.random(n).astype("float32")})
        places.append(ledger.put_predictions(arrays[-1]))
    ledger.sync_predictions()
    ledger.close()
    assert len(list((tmp_path / "predictions").iterdir())) > 2
    ledger = Ledger(tmp_path, write=True)  # a new driver writes behind what is there
    arrays.append({"val": np.array([1, 2, 3])})
    places.append(ledger.put_predictions(arrays[-1]))
    ledger.sync_predictions()
    ledger.close()
    for expected, where in zip(arrays, places, strict=True):
        found = Ledger(tmp_path).get_predictions(where)
        for part, array in expected.items():
            assert found[part].dtype == array.dtype and np.array_equal(found[part], array)


@pytest.mark.fault(19, 28)
def test_objects_are_never_stored_as_predictions(tmp_path):
    ledger = Ledger(tmp_path, write=True)
    with pytest.raises(LedgerError, match="object"):
        ledger.put_predictions({"val": np.array([object()])})
    ledger.close()


@pytest.mark.fault(6)
def test_damaged_or_missing_predictions_fail_their_checksum(tmp_path):
    ledger = Ledger(tmp_path, write=True)
    where = ledger.put_predictions({"val": np.arange(5.0)})
    ledger.sync_predictions()
    ledger.close()
    path = tmp_path / "predictions" / where["val"]["file"]
    whole = path.read_bytes()
    assert hashlib.sha256(whole).hexdigest() == where["val"]["sha256"]
    for damaged in (whole[:-1], b"", whole[:7] + b"\xff" + whole[8:]):
        path.write_bytes(damaged)
        with pytest.raises(LedgerError, match="checksum"):
            Ledger(tmp_path).get_predictions(where)
    path.unlink()
    with pytest.raises(LedgerError, match="000000.bin"):
        Ledger(tmp_path).get_predictions(where)


# ---------------------------------------------------------------------- the lock

HOLD = """
import sys, time
from tabsweep.sweeps.store.run_lock import RunLock
with RunLock(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.mark.fault(7)
def test_a_second_driver_is_refused_by_the_owners_name_and_let_in_when_the_owner_dies(tmp_path):
    run = tmp_path / "run"
    owner = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(run)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert owner.stdout is not None and owner.stdout.readline() == "held\n"
        with pytest.raises(RunLocked) as caught:
            RunLock(run).acquire()
        text = str(caught.value)
        assert f"process {owner.pid} on {socket.gethostname()}" in text
        assert " s ago" in text and "--name" in text and "\n" not in text
        found = owner_of(run)
        assert found is not None and found["pid"] == owner.pid
        owner.send_signal(signal.SIGKILL)
        owner.wait()
        assert owner_of(run) is None
        with RunLock(run):
            found = owner_of(run)
            assert found is not None and found["pid"] == os.getpid()
        assert owner_of(run) is None
    finally:
        owner.kill()
        owner.wait()


@pytest.mark.fault(7)
def test_a_stale_or_senseless_text_in_the_lock_file_locks_no_driver_out(tmp_path):
    for text in ('{"pid": 1, "host": "elsewhere", "since": 0}', "", "garbage", "[]"):
        (tmp_path / "owner.lock").write_text(text)
        assert owner_of(tmp_path) is None
        with RunLock(tmp_path):
            with pytest.raises(RunLocked):
                RunLock(tmp_path).acquire()


def test_asking_who_owns_a_run_keeps_no_driver_out(tmp_path):
    RunLock(tmp_path).acquire().release()
    over = threading.Event()

    def ask() -> None:
        while not over.is_set():
            owner_of(tmp_path)
            time.sleep(0.001)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        for _ in range(200):
            with RunLock(tmp_path):
                pass
    finally:
        over.set()
        thread.join()
