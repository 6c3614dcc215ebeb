"""Sealed segments of a ledger: content, crashes while sealing, and damage."""

from __future__ import annotations

import errno
import hashlib
import itertools
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from ledger_cases import contents, filled, row
from tabsweep.benchmark.running.reuse import groups_each
from tabsweep.common import files
from tabsweep.sweeps.store import append_files, segment_files
from tabsweep.sweeps.store import ledger as store
from tabsweep.sweeps.store.ledger import Ledger, LedgerError
from tabsweep.sweeps.store.manifest import Manifest
from tabsweep.sweeps.store.segment_files import GROUPS_KEPT

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


def test_a_reader_keeps_no_more_groups_of_records_than_it_was_told(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "SEAL_AT", 20)
    monkeypatch.setattr(segment_files, "ROW_GROUP", 5)
    expected = filled(tmp_path, 100)
    for kept in (2, 512):
        ledger = Ledger(tmp_path, groups_kept=kept)
        for at in [*range(100), *range(0, 100, 7)]:
            assert ledger.at(at) == expected[at]
        assert ledger._segments.groups.cache_info().currsize == min(kept, 20)


def test_all_runs_that_a_sweep_reads_from_keep_together_what_one_alone_keeps():
    for n in (0, 1, 3, 40, 1000):
        assert groups_each(n) * n <= max(GROUPS_KEPT, 4 * n) and groups_each(n) >= 4
    assert groups_each(1) == GROUPS_KEPT


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


# The modules that look up each step by its name while a tail is sealed.
HOMES: dict[str, tuple[Any, ...]] = {
    "fsync": (os,),
    "replace": (os,),
    "sync_folder": (files, append_files),
    "unlink": (Path,),
    "open": (files, append_files),
}


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
    homes = HOMES[step]
    real = open if step == "open" else getattr(homes[0], step)

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

    for home in homes:
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
