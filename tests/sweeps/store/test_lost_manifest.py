"""A manifest that was deleted or emptied is made again from the segments and the tail."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ledger_cases import contents, filled, row
from tabsweep.sweeps.store import ledger as store
from tabsweep.sweeps.store.integrity import integrity_of
from tabsweep.sweeps.store.ledger import Ledger, LedgerError
from tabsweep.sweeps.store.run_folder import is_run, runs_below

RUINS = {
    "deleted": lambda path: path.unlink(),
    "emptied": lambda path: path.write_bytes(b""),
    "zeroed": lambda path: path.write_bytes(bytes(path.stat().st_size)),
}


def sealed(run: Path, n: int, monkeypatch: pytest.MonkeyPatch) -> list[dict]:
    """A ledger of n records, five in a segment."""
    monkeypatch.setattr(store, "SEAL_AT", 5)
    return filled(run, n)


@pytest.mark.fault(39)
@pytest.mark.parametrize("ruin", RUINS)
@pytest.mark.parametrize("n", [3, 10, 12])
def test_every_record_is_there_without_the_manifest(ruin, n, tmp_path, monkeypatch):
    run = tmp_path / "run"
    expected = sealed(run, n, monkeypatch)
    path = run / "ledger" / "MANIFEST.json"
    whole = contents(run)
    RUINS[ruin](path)
    before = contents(run)
    assert before != whole
    assert is_run(run) and runs_below(tmp_path) == [run]
    for deferred in (False, True):  # a reader changes nothing
        reader = Ledger(run, deferred=deferred)
        assert list(reader.records()) == expected and "made again" in reader.notices[0]
        assert not reader.warnings and not reader.torn_bytes
    assert contents(run) == before
    with_columns = Ledger(run).columns()
    writer = Ledger(run, write=True)
    writer.append([row(100)])
    writer.close()
    again = Ledger(run)
    assert list(again.records()) == [*expected, row(100)] and not again.notices
    old, new = json.loads(whole["ledger/MANIFEST.json"]), json.loads(path.read_bytes())
    assert new == old and again.damaged_columns() == []
    assert Ledger(run).columns().slice(0, len(with_columns)).equals(with_columns)


@pytest.mark.fault(39)
def test_a_damaged_segment_without_a_manifest_keeps_its_intact_records(tmp_path, monkeypatch):
    expected = sealed(tmp_path, 12, monkeypatch)
    (tmp_path / "ledger" / "MANIFEST.json").unlink()
    segment = tmp_path / "ledger" / "segment-000001.parquet"
    segment.write_bytes(segment.read_bytes()[:-20])
    assert list(Ledger(tmp_path).records()) == expected[5:]
    writer = Ledger(tmp_path, write=True)
    assert len(writer.warnings) == 1 and "segment-000001" in writer.warnings[0]
    writer.close()
    assert list(Ledger(tmp_path).records()) == expected[5:]
    assert len(list((tmp_path / "quarantine").iterdir())) == 1


@pytest.mark.fault(39)
@pytest.mark.parametrize("number", [1, 2, 3])  # 3 is the newest: the tail's number tells
def test_a_segment_that_is_gone_with_the_manifest_is_named(number, tmp_path, monkeypatch):
    expected = sealed(tmp_path, 17, monkeypatch)
    (tmp_path / "ledger" / "MANIFEST.json").unlink()
    (tmp_path / "ledger" / f"segment-00000{number}.parquet").unlink()
    ledger = Ledger(tmp_path)
    assert list(ledger.records()) == [*expected[: 5 * number - 5], *expected[5 * number :]]
    assert len(ledger.warnings) == 1 and f"segment-00000{number}" in ledger.warnings[0]
    assert not integrity_of(ledger).sound


@pytest.mark.fault(39)
def test_the_only_segment_that_is_gone_with_the_manifest_is_named(tmp_path, monkeypatch):
    sealed(tmp_path, 7, monkeypatch)
    (tmp_path / "ledger" / "MANIFEST.json").unlink()
    (tmp_path / "ledger" / "segment-000001.parquet").unlink()
    ledger = Ledger(tmp_path)
    assert len(ledger) == 2 and "segment-000001" in ledger.warnings[0]


def test_a_crash_while_sealing_leaves_each_record_once(tmp_path, monkeypatch):
    expected = sealed(tmp_path, 4, monkeypatch)
    tail = tmp_path / "ledger" / "tail-000001.jsonl"
    kept = tail.read_bytes()
    writer = Ledger(tmp_path, write=True)
    writer.seal()
    writer.close()
    tail.write_bytes(kept)  # the segment is there, and so is the tail that it was made of
    (tmp_path / "ledger" / "MANIFEST.json").unlink()
    assert list(Ledger(tmp_path).records()) == expected


def test_files_that_do_not_fit_together_are_refused_and_left_alone(tmp_path, monkeypatch):
    sealed(tmp_path, 12, monkeypatch)
    (tmp_path / "ledger" / "MANIFEST.json").unlink()
    (tmp_path / "ledger" / "segment-000002.parquet").unlink()
    (tmp_path / "ledger" / "tail-000002.jsonl").write_bytes(b"")
    before = contents(tmp_path)
    for write in (False, True):
        with pytest.raises(LedgerError, match="tail-000002"):
            Ledger(tmp_path, write=write)
    assert contents(tmp_path) == before
