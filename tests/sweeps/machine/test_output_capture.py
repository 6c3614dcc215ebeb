"""Captured output: every writer, every end of a trial, and its bounds."""

from __future__ import annotations

import ctypes
import faulthandler
import io
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from tabsweep.sweeps.machine import output_capture
from tabsweep.sweeps.machine.output_capture import captured, tail_of

# A worker that prints in three ways and then ends as its second argument says.
WORKER = """
import ctypes, os, sys
from pathlib import Path
from tabsweep.sweeps.machine.output_capture import captured
with captured(path=Path(sys.argv[1])):
    print("fitting", end="")
    os.write(2, b" beyond recall\\n")
    if sys.argv[2] == "segfault":
        import numpy  # whose modules the crash's report would list
        ctypes.string_at(0)
    os.kill(os.getpid(), int(sys.argv[2]))
"""


@pytest.fixture(autouse=True)
def _crash_dumps_of_pytest() -> Iterator[None]:
    yield
    faulthandler.enable(file=sys.__stderr__)


def places() -> list[tuple[int, int]]:
    """What descriptors 1 and 2 are."""
    return [(found.st_dev, found.st_ino) for found in map(os.fstat, (1, 2))]


def test_everything_that_reaches_the_descriptors_is_kept_in_order(tmp_path):
    libc = ctypes.CDLL(None)
    with captured(tmp_path / "out") as output:
        print("python")
        logging.StreamHandler().emit(logging.makeLogRecord({"msg": "logging"}))
        subprocess.run(["sh", "-c", "echo child; echo child too >&2"], check=True)
        os.write(1, b"descriptor\n")
        libc.printf(b"library\n")
    lines = output.text().splitlines()
    assert lines == ["python", "logging", "child", "child too", "descriptor", "library"]


@pytest.mark.parametrize("strange", [io.StringIO(), None], ids=["no file", "nothing"])
def test_it_works_where_the_streams_are_not_the_descriptors(strange, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "stdout", strange)
    monkeypatch.setattr(sys, "stderr", strange)
    with captured(tmp_path / "out") as output:
        print("out")
        print("err", file=sys.stderr)
    assert output.text() == "out\nerr\n"
    assert sys.stdout is strange and sys.stderr is strange
    assert strange is None or strange.getvalue() == ""


def spoil_nothing() -> None:
    print("fine")


def close_descriptors() -> None:
    os.close(1)
    os.close(2)


def redirect_streams() -> None:
    sys.stdout = sys.stderr = io.StringIO()


def close_streams() -> None:
    sys.stdout.close()


def fail() -> None:
    raise ZeroDivisionError


SPOILERS = [spoil_nothing, close_descriptors, redirect_streams, close_streams, fail]


def test_whatever_a_trial_does_the_descriptors_come_back(tmp_path):
    for trial in SPOILERS:
        before, streams = places(), (sys.stdout, sys.stderr)
        inside = None
        with captured(tmp_path / "out") as output:
            try:
                inside = places()
                trial()
            except ZeroDivisionError:
                pass
        assert inside is not None and inside != before
        assert places() == before and (sys.stdout, sys.stderr) == streams
        with captured(tmp_path / "out") as output:
            print("next")
        assert output.text() == "next\n"


def test_long_output_keeps_its_head_and_its_tail_and_says_what_is_missing(tmp_path):
    with captured(tmp_path / "out") as output:
        for number in range(10_000):
            print(f"line {number}")
    text = output.text()
    assert len(text) <= output_capture.LIMIT
    assert text.startswith("line 0\nline 1\n") and text.endswith("line 9998\nline 9999\n")
    size = sum(len(f"line {number}\n") for number in range(10_000))
    note = next(line for line in text.splitlines() if line.startswith("... "))
    left_out = int(note.split()[1])
    assert note == f"... {left_out} bytes left out ..."
    assert left_out + len(text) - len(f"\n{note}\n") == size


def test_a_trial_that_prints_without_end_does_not_fill_the_disk(monkeypatch, tmp_path):
    monkeypatch.setattr(output_capture, "DISK_LIMIT", 50_000)
    path = tmp_path / "worker"
    with captured(path) as output:
        print("first line")
        for number in range(20_000):
            print("x" * 20)
            if number % 1000 == 0:
                output.trim()
        assert path.stat().st_size < 100_000 < 20_000 * 21, "it was cut"
        print("last line")
    text = output.text()
    assert text.startswith("first line\n") and text.endswith("x\nlast line\n")
    left_out = int(text.partition("... ")[2].split()[0])
    kept = len(text) - len(f"\n... {left_out} bytes left out ...\n")
    assert left_out + kept == 20_000 * 21 + len("first line\nlast line\n")


@pytest.mark.parametrize("end", ["segfault", str(int(signal.SIGKILL))])
def test_what_a_killed_worker_printed_can_be_read_afterwards(end, tmp_path):
    path = tmp_path / "worker"
    ran = subprocess.run([sys.executable, "-c", WORKER, str(path), end], capture_output=True)
    assert ran.returncode == -(signal.SIGSEGV if end == "segfault" else signal.SIGKILL)
    text = tail_of(path)
    assert text.startswith("fitting beyond recall\n")
    assert ("Segmentation fault" in text and "string_at" in text) == (end == "segfault")
    assert "Extension modules" not in text


STARTED = """
from tabsweep.sweeps.workers.ray_calls import RayLink
from tabsweep.sweeps.workers.trial_actor import TrialWorker
TrialWorker(RayLink(), print, "new", [], None, {}, 0.0)
"""


def test_a_worker_that_starts_removes_what_dead_ones_left_and_nobody_read(tmp_path):
    folder = tmp_path / f"tabsweep-{os.getuid()}"
    folder.mkdir()
    for name in ("dead.out", "young.out"):
        words = [sys.executable, "-c", WORKER, str(folder / name), str(int(signal.SIGKILL))]
        assert subprocess.run(words, capture_output=True).returncode == -signal.SIGKILL
    long_ago = time.time() - 2 * output_capture.ABANDONED_S
    os.utime(folder / "dead.out", (long_ago, long_ago))
    with captured(path=folder / "alive.out"):  # a trial that has printed nothing for long
        os.utime(folder / "alive.out", (long_ago, long_ago))
        env = {**os.environ, "TMPDIR": str(tmp_path)}
        subprocess.run([sys.executable, "-c", STARTED], env=env, check=True)
        assert {path.name for path in folder.iterdir()} == {"young.out", "alive.out"}


def test_the_file_of_a_trial_that_ended_is_gone_and_the_next_one_is_its_own(tmp_path):
    path = tmp_path / "worker"
    with captured(path=path):
        child = subprocess.Popen(["sh", "-c", "sleep 0.3; echo late"])
    assert not path.exists() and tail_of(path) == ""
    path.write_text("of a worker that died")
    with captured(path=path) as output:
        print("mine")
        assert tail_of(path) == "mine\n"
        child.wait()
    assert output.text() == "mine\n", "a child of the trial before writes elsewhere"


def test_a_link_in_the_file_s_place_is_neither_written_nor_read(tmp_path):
    target, path = tmp_path / "target", tmp_path / "worker"
    target.write_text("precious")
    path.symlink_to(target)
    assert tail_of(path) == ""
    with captured(path=path) as output:
        print("mine")
    assert output.text() == "mine\n" and target.read_text() == "precious"
    os.mkfifo(path)
    assert tail_of(path) == "", "and reading a pipe does not block"


def test_a_trial_runs_where_its_output_cannot_be_kept(tmp_path):
    with captured(path=tmp_path / "no such folder" / "worker") as output:
        print("lost")
    assert output.text() == ""
