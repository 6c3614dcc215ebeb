"""The lock of a run folder, with and without locks of the file system: leases, takeovers."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tabsweep.sweeps.store.run_lock import RunLock, RunLocked, owner_of

QUICK = {"stale_s": 0.6, "beat_s": 0.05}  # for an owner that is dead
PATIENT = {"stale_s": 30.0, "beat_s": 0.05}  # for one that lives, on a machine with other work
# Its owner works for a second at a time, and says so, as long as `check` lets it.
OWNER = """
import errno, fcntl, sys, time
def refuse(*_):
    raise OSError(errno.ENOLCK, "No locks available")
fcntl.flock = refuse
from tabsweep.sweeps.store.run_lock import RunLock, RunLocked
with RunLock(sys.argv[1], beat_s=0.05) as lock:
    print("held", flush=True)
    try:
        while True:
            time.sleep(0.02)
            lock.check()
    except RunLocked as error:
        print(error, flush=True)
"""

# Its owner has forked a process that lives longer than it.
FORKING = """
import os, sys, time
from tabsweep.sweeps.store.run_lock import RunLock
with RunLock(sys.argv[1]) as lock:
    child = os.fork()
    if child:
        print(child, flush=True)
    else:
        lock.release()
    time.sleep(120)
"""


@pytest.fixture(params=["ENOLCK", "EOPNOTSUPP", "ENOSYS"])
def no_locks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A file system without locks; at the end: were locks asked for, and refused?"""
    number = getattr(errno, request.param)
    refused = []

    def flock(*_: object) -> None:
        refused.append(number)
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", flock)
    yield
    assert refused


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lease of tmp_path."""
    command = [sys.executable, "-c", OWNER, str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def jumping(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A wall clock that jumps to and fro by hours and days; what it has shown."""
    shown: list[float] = []
    jumps = (0.0, -3600.0, 86_400.0, -3600.0)

    def now() -> float:
        shown.append(1.8e9 + jumps[len(shown) % 4])
        return shown[-1]

    monkeypatch.setattr(time, "time", now)
    return shown


@pytest.mark.fault(7, 29)
def test_without_locks_a_second_driver_is_refused_by_the_owners_name(no_locks, owner, tmp_path):
    said: list[str] = []
    began = time.monotonic()
    with pytest.raises(RunLocked) as caught:
        RunLock(tmp_path, note=said.append, **PATIENT).acquire()
    assert time.monotonic() - began < 20, "a counter that moves is enough"
    assert f"process {owner.pid} on {socket.gethostname()}, started" in str(caught.value)
    assert " s ago" in str(caught.value)
    assert len(said) == 1 and "file system without locks" in said[0] and str(owner.pid) in said[0]
    found = owner_of(tmp_path)
    assert found is not None and found["pid"] == owner.pid


def test_a_lease_ends_with_its_owner_and_leaves_nothing(no_locks, tmp_path):
    with RunLock(tmp_path, **QUICK) as held:
        held.check()
        found = owner_of(tmp_path)
        assert found is not None and found["pid"] == os.getpid()
        until = time.monotonic() + 20
        while owner_of(tmp_path)["beat"] == found["beat"] and time.monotonic() < until:
            time.sleep(0.01)
        assert owner_of(tmp_path)["beat"] > found["beat"]
    assert owner_of(tmp_path) is None
    assert [path.name for path in tmp_path.iterdir()] == ["owner.lock"]


@pytest.mark.fault(7, 29)
@pytest.mark.parametrize("no_locks", ["ENOLCK"], indirect=True)
def test_a_dead_owners_lease_is_taken_over_once_its_counter_stood_still(no_locks, owner, tmp_path):
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    assert owner_of(tmp_path)["pid"] == owner.pid, "a lease does not end with its process"
    began = time.monotonic()
    with RunLock(tmp_path, **QUICK) as held:
        assert time.monotonic() - began >= 0.6
        held.check()
        assert owner_of(tmp_path)["pid"] == os.getpid()


@pytest.mark.fault(29)
@pytest.mark.parametrize("no_locks", ["ENOLCK"], indirect=True)
def test_an_owner_that_stood_still_and_wakes_up_writes_nothing_more(no_locks, owner, tmp_path):
    owner.send_signal(signal.SIGSTOP)
    with RunLock(tmp_path, **QUICK) as held:
        owner.send_signal(signal.SIGCONT)
        assert owner.stdout is not None
        said = owner.stdout.readline()
        assert "stood still" in said and f"taken over by process {os.getpid()}" in said
        assert owner.wait(10) == 0
        held.check()
        time.sleep(0.2)
        held.check()  # its last beats went nowhere
        assert owner_of(tmp_path)["pid"] == os.getpid()


@pytest.mark.fault(8)
@pytest.mark.parametrize("no_locks", ["ENOLCK"], indirect=True)
def test_a_wall_clock_that_jumps_neither_frees_a_live_lease_nor_keeps_a_dead_one(
    no_locks, owner, tmp_path, monkeypatch
):
    shown = jumping(monkeypatch)
    with pytest.raises(RunLocked, match=r"started \d+ s ago"):
        RunLock(tmp_path, **PATIENT).acquire()
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    began = time.monotonic()
    with RunLock(tmp_path, **QUICK) as held:
        assert 0.6 <= time.monotonic() - began < 20
        held.check()
    assert min(shown) < 1.8e9 - 3000 and max(shown) > 1.8e9 + 80_000


@pytest.mark.fault(29)
@pytest.mark.parametrize("no_locks", ["ENOLCK"], indirect=True)
def test_of_many_that_want_a_dead_owners_folder_one_gets_it(no_locks, owner, tmp_path):
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    held: list[RunLock] = []
    refused: list[str] = []

    def want() -> None:
        try:
            held.append(RunLock(tmp_path, stale_s=3.0, beat_s=0.05).acquire())
        except RunLocked as error:
            refused.append(str(error))

    threads = [threading.Thread(target=want) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(held), len(refused)) == (1, 7)
    held[0].check()
    held[0].release()
    assert [path.name for path in tmp_path.iterdir()] == ["owner.lock"]


@pytest.mark.parametrize("no_locks", ["ENOLCK"], indirect=True)
def test_a_full_disk_leaves_no_lease_without_an_owner(no_locks, tmp_path, monkeypatch):
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        with pytest.raises(OSError, match="No space left"):
            RunLock(tmp_path, **QUICK).acquire()
    with RunLock(tmp_path, **QUICK) as held:
        held.check()


def test_an_owner_whose_lock_file_was_replaced_stops(tmp_path):
    with RunLock(tmp_path) as held:
        held.check()
        (tmp_path / "owner.lock").unlink()
        with RunLock(tmp_path) as second:
            second.check()
            with pytest.raises(RunLocked, match="was replaced"):
                held.check()


def test_a_process_that_the_owner_forked_does_not_hold_the_lock_after_it(tmp_path):
    command = [sys.executable, "-c", FORKING, str(tmp_path)]
    owner = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    child = int(owner.stdout.readline())
    try:
        with pytest.raises(RunLocked):  # the child released nothing of its parent's
            RunLock(tmp_path).acquire()
        assert owner_of(tmp_path)["pid"] == owner.pid
        owner.kill()
        owner.wait()
        os.kill(child, 0)
        assert owner_of(tmp_path) is None
        RunLock(tmp_path).acquire().release()
    finally:
        owner.kill()
        os.kill(child, signal.SIGKILL)
        owner.communicate()


def test_another_refusal_of_the_lock_is_not_taken_for_a_missing_one(tmp_path, monkeypatch):
    def flock(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(RunLocked, match="cannot be locked"):
        RunLock(tmp_path).acquire()
    assert not (tmp_path / "owner.lease").exists()


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
