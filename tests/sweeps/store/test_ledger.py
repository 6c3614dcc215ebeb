"""The ledger: records, predictions, damage, full disks, and one that somebody else prepared."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
from ledger_cases import contents, filled, log_of, row
from tabsweep.sweeps.store import predictions
from tabsweep.sweeps.store.ledger import Ledger, LedgerError, decode, encode
from tabsweep.sweeps.store.log import line_of
from tabsweep.sweeps.store.run_lock import owner_of

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
def test_no_bit_flip_in_the_log_is_ever_read_as_a_record(tmp_path):
    expected = filled(tmp_path, 3)
    path = log_of(tmp_path)
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
    whole = log_of(tmp_path / "whole").read_bytes()
    last = len(encode(row(2)))
    for missing in range(1, last + 1, 3):
        run = tmp_path / f"cut-{missing}"
        shutil.copytree(tmp_path / "whole", run)
        log_of(run).write_bytes(whole[:-missing])
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


def test_what_is_valid_json_with_a_right_checksum_but_no_record_is_refused():
    for text in (b"[]", b"3", b'{"id": 1}', b'{"kind": 3}', b"{", b""):
        assert decode(line_of(text)) is None
    line = encode(row(1))
    assert decode(line) == row(1)
    assert decode(line.upper()[:8] + line[8:]) is None or line[:8].isdigit()
    assert decode(line[:-1]) is None and decode(b" " + line) is None


def test_a_reader_changes_nothing_on_disk(tmp_path):
    filled(tmp_path, 3)
    with open(log_of(tmp_path), "ab") as file:
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


# ---------------------------------------------------------------------- somebody else's ledger


PATHS = ["../../x", "/etc/passwd", "..", "", "a/b", None, 3]
PLACE = {"offset": 0, "shape": [1], "dtype": "<f8", "sha256": "0"}


@pytest.mark.fault(28)
def test_a_place_that_is_a_path_or_lacks_something_is_refused(tmp_path):
    filled(tmp_path, 1)
    ledger = Ledger(tmp_path)
    for place in (*({**PLACE, "file": name} for name in PATHS), {}, None, "x", {"file": "0.bin"}):
        with pytest.raises(LedgerError, match="refused"):
            ledger.predictions.get({"val": place})


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
        where = ledger.predictions.put({"val": np.arange(6.0).reshape(3, 2)})
        ledger.predictions.sync()
        assert np.array_equal(ledger.predictions.get(where)["val"], np.arange(6.0).reshape(3, 2))
        with pytest.raises(LedgerError):
            ledger.predictions.get({"val": {**where["val"], **change}})
        ledger.close()


# ---------------------------------------------------------------------- predictions


def test_predictions_come_back_bit_for_bit_across_files(tmp_path, monkeypatch):
    monkeypatch.setattr(predictions, "ROLL_AT", 100)
    chance = np.random.default_rng(0)
    ledger = Ledger(tmp_path, write=True)
    arrays, places = [], []
    for n in range(6):
        arrays.append({"val": chance.random((n, 3)), "test": chance.random(n).astype("float32")})
        places.append(ledger.predictions.put(arrays[-1]))
    ledger.predictions.sync()
    ledger.close()
    assert len(list((tmp_path / "predictions").iterdir())) > 2
    ledger = Ledger(tmp_path, write=True)  # a new driver writes behind what is there
    arrays.append({"val": np.array([1, 2, 3])})
    places.append(ledger.predictions.put(arrays[-1]))
    ledger.predictions.sync()
    ledger.close()
    for expected, where in zip(arrays, places, strict=True):
        found = Ledger(tmp_path).predictions.get(where)
        for part, array in expected.items():
            assert found[part].dtype == array.dtype and np.array_equal(found[part], array)


@pytest.mark.fault(19, 28)
def test_objects_are_never_stored_as_predictions(tmp_path):
    ledger = Ledger(tmp_path, write=True)
    with pytest.raises(LedgerError, match="object"):
        ledger.predictions.put({"val": np.array([object()])})
    ledger.close()


def test_a_line_that_never_ends_is_refused_before_it_fills_the_memory(tmp_path):
    filled(tmp_path, 1)
    with open(tmp_path / "ledger" / "log.jsonl", "ab") as file:
        file.truncate(file.tell() + 100 * 2**20)  # a hole: 100 MB of zeros, no newline
    with pytest.raises(LedgerError, match="too long"):
        Ledger(tmp_path)
