"""A ledger that somebody else prepared, stored predictions, and the lock of a run."""

from __future__ import annotations

import hashlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from ledger_cases import filled
from tabsweep.sweeps.store import predictions
from tabsweep.sweeps.store.ledger import Ledger, LedgerError
from tabsweep.sweeps.store.run_lock import RunLock, RunLocked, owner_of

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


def test_a_line_that_never_ends_is_refused_before_it_fills_the_memory(tmp_path):
    filled(tmp_path, 1)
    with open(tmp_path / "ledger" / "log.jsonl", "ab") as file:
        file.truncate(file.tell() + 100 * 2**20)  # a hole: 100 MB of zeros, no newline
    with pytest.raises(LedgerError, match="too long"):
        Ledger(tmp_path)
