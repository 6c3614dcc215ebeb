"""Is a report the same whether its parts were computed in a copy of the process or not?"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tabsweep.reports import aside
from tabsweep.reports.aside import Aside, is_worth_it

linux = pytest.mark.skipif(sys.platform != "linux", reason="a process is copied on Linux alone")


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@linux
def test_the_work_is_done_in_another_process_and_its_result_comes_back():
    with Aside(lambda: (os.getpid(), "x" * 5_000_000), apart=True) as work:
        pid, text = work.result()
    assert pid != os.getpid() and not alive(pid) and len(text) == 5_000_000


def test_without_a_copy_the_work_is_done_here():
    with Aside(os.getpid, apart=False) as work:
        assert work.result() == os.getpid()


@linux
@pytest.mark.parametrize("how", ["killed", "raises", "unpicklable", "exits"])
def test_what_a_copy_does_not_deliver_is_done_here(how):
    here = os.getpid()

    def work() -> object:
        if os.getpid() != here:
            if how == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            if how == "raises":
                raise MemoryError
            if how == "exits":
                os._exit(0)
            return lambda: None
        return "done here"

    with Aside(work, apart=True) as found:
        assert found.result() == "done here"


def test_where_no_copy_can_be_made_the_work_is_done_here(monkeypatch):
    def full() -> int:
        raise BlockingIOError("Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", full)
    with Aside(os.getpid, apart=True) as work:
        assert work.result() == os.getpid()


@linux
def test_an_error_of_the_work_is_raised_here():
    def work() -> None:
        raise ValueError("bad rows")

    with Aside(work, apart=True) as failing, pytest.raises(ValueError, match="bad rows"):
        failing.result()


@linux
def test_a_copy_that_never_ends_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(aside, "PATIENCE_S", 0.2)
    here = os.getpid()

    def work() -> str:
        while os.getpid() != here:
            time.sleep(1.0)
        return "done here"

    with Aside(work, apart=True) as stuck:
        pid = stuck._pid
        assert stuck.result() == "done here"
    assert not alive(pid)


@linux
def test_nothing_is_left_where_the_block_ends_early():
    with pytest.raises(KeyError), Aside(lambda: time.sleep(600), apart=True) as work:
        pid = work._pid
        raise KeyError
    assert not alive(pid)


def test_small_reports_and_processes_with_threads_make_no_copy(monkeypatch):
    monkeypatch.setattr(aside, "FROM_TRIALS", 10)
    monkeypatch.setattr(aside, "FROM_STUDIES", 3)
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    for name in ("grpc", "ray"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    several = sys.platform == "linux" and len(os.sched_getaffinity(0)) > 1
    assert is_worth_it(10, 1) == is_worth_it(3, 3) == several and not is_worth_it(9, 2)
    monkeypatch.setitem(sys.modules, "ray", threading)
    assert not is_worth_it(10, 10)
    monkeypatch.delitem(sys.modules, "ray")
    monkeypatch.setattr(threading, "active_count", lambda: 2)
    assert not is_worth_it(10, 10)


REPORT = """
import json, os, sys
from pathlib import Path
import numpy as np
from tabsweep.reports import aside, report
from tabsweep.tests.helpers.matrices import evidence

forks = []
fork = os.fork
os.fork = lambda: forks.append(1) or fork()
aside.FROM_TRIALS = int(sys.argv[2])
report.write(evidence(np.random.default_rng(0).uniform(size=(8, 5, 3))), Path(sys.argv[1]))
print(json.dumps(len(forks)))
"""


def reported(out: Path, from_trials: int) -> tuple[dict[str, bytes], int]:
    """The files of a report that a fresh process wrote, and how often it copied itself."""
    words = [sys.executable, "-c", REPORT, str(out), str(from_trials)]
    said = subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout
    files = {str(p.relative_to(out)): p.read_bytes() for p in out.rglob("*") if p.is_file()}
    return files, json.loads(said)


@linux
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="a second core is needed")
def test_a_report_has_the_same_bytes_with_and_without_copies(tmp_path):
    alone, none = reported(tmp_path / "alone", 10**9)
    apart, copies = reported(tmp_path / "apart", 0)
    assert (none, copies) == (0, 2)
    assert apart == alone and "html/index.html" in apart
