"""A command whose own process ends, freezes or is stopped: the process that watches it speaks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

pytestmark = pytest.mark.usefixtures("work")

# A command that does what its name says in the child, once the parent knows of the run.
PROGRAM = """
import ctypes, os, signal, subprocess, sys, time
from pathlib import Path
import click
from tabsweep.benchmark.console import common
from tabsweep.benchmark.running.watched import watched

@click.command()
@click.argument("what")
@common
def main(console, what):
    console.teller = watched(console.tell)
    console.teller.run_is(Path("runs/knn"))
    os.write(2, b"native words\\n")
    if what == "freezes":
        ctypes.PyDLL(None).sleep(60)  # in C, with Python's lock held
    if what == "exits":
        os._exit(1)
    if what == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "loses Ray":
        console.teller.lost("the state server is deaf")
        os._exit(1)
    if what == "fails":
        raise OSError(28, "No space left on device")
    if what == "ends":
        return 4
    if what == "leaves one behind":
        child = "import time; time.sleep(60)"
        words = [sys.executable, "-c", child, "/ray/session_x"]
        print(subprocess.Popen(words, start_new_session=True).pid, flush=True)
        os._exit(1)
    print("waits", flush=True)
    while True:
        time.sleep(0.1)

main()
"""
RESUME = "bench resume runs/knn"


def command(what: str, *words: str) -> list[str]:
    return [*words, sys.executable, "-c", PROGRAM, what]


def ended(what: str, **env: str) -> tuple[int, list[str]]:
    """Exit code and lines of standard error."""
    done = subprocess.run(
        command(what), capture_output=True, text=True, timeout=120, env={**os.environ, **env}
    )
    assert "native words" not in done.stderr
    return done.returncode, done.stderr.splitlines()


@pytest.fixture
def waiting():
    """A command whose child waits."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(command("waits"), stdout=pipe, stderr=pipe, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "waits\n"
    yield process
    process.kill()
    process.wait()


def child_of(process: subprocess.Popen[str]) -> psutil.Process:
    (child,) = psutil.Process(process.pid).children()
    return child


@pytest.mark.fault(35)
@pytest.mark.parametrize("what", ["exits", "dies", "loses Ray"])
def test_a_process_that_ends_without_a_word_is_a_lost_cluster(copy_run, what) -> None:
    copy_run("knn")
    code, lines = ended(what)
    assert code == 3 and len(lines) == 1, lines
    assert lines[0].startswith("error BENCH-E021: ") and lines[0].endswith(RESUME)
    assert ("SIGKILL" in lines[0], "deaf" in lines[0]) == (what == "dies", what == "loses Ray")
    assert Path("runs/knn/logs/ray.log").read_text() == "native words\n"


def test_without_a_run_the_way_out_is_another_command() -> None:
    code, lines = ended("exits")
    assert code == 3 and RESUME not in lines[-1] and "--address none" in lines[-1]


def test_a_process_that_ends_in_order_speaks_for_itself(copy_run) -> None:
    assert ended("ends") == (4, [])
    code, lines = ended("fails")
    assert (code, len(lines)) == (3, 1) and lines[0].startswith("error BENCH-E016")


@pytest.mark.fault(37)
def test_a_process_that_a_library_freezes_is_tried_once_more_and_ended(copy_run) -> None:
    """Before there is a run, and with one."""
    for there in (False, True):
        if there:
            copy_run("knn")
        code, lines = ended("freezes", TABSWEEP_RAY_START_S="2")
        assert code == 3 and "starting once more" in lines[0], lines
        assert len(lines) == 2 and lines[1].startswith("error BENCH-E021: ")
        assert (f"{RESUME} --address none" in lines[1]) == there and "--address none" in lines[1]


@pytest.mark.fault(30)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_is_an_interruption_whatever_becomes_of_the_child(
    copy_run, waiting, number
) -> None:
    copy_run("knn")
    child = child_of(waiting)
    waiting.send_signal(number)  # for which the child, which is no sweep, has no handler
    _, told = waiting.communicate(timeout=60)
    last = told.splitlines()[-1]
    assert waiting.returncode == 130 and last.startswith("interrupted; "), told
    assert last.endswith(RESUME) and not child.is_running()


def test_the_child_ends_with_the_process_that_watches_it(waiting) -> None:
    child = child_of(waiting)
    waiting.kill()
    waiting.wait()
    psutil.wait_procs([child], timeout=20)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


@pytest.mark.fault(30)
def test_a_child_that_was_stopped_is_named_and_ends_all_the_same(copy_run, waiting) -> None:
    copy_run("knn")
    child = child_of(waiting)
    child.suspend()
    assert waiting.stderr is not None
    said = waiting.stderr.readline()
    assert f"kill -CONT {child.pid}" in said
    waiting.send_signal(signal.SIGTERM)
    assert waiting.wait(60) == 130


def test_nohup_holds_for_the_child_too() -> None:
    ignore = ("sh", "-c", 'trap "" HUP; exec "$@"', "sh")
    pipe = subprocess.PIPE
    with subprocess.Popen(command("waits", *ignore), stdout=pipe, stderr=pipe) as process:
        assert process.stdout is not None and process.stdout.readline() == b"waits\n"
        for one in (process, child_of(process)):  # type: ignore[list-item]
            one.send_signal(signal.SIGHUP)
        time.sleep(1.0)
        assert process.poll() is None
        process.kill()


def test_what_a_dead_child_left_of_ray_is_ended() -> None:
    done = subprocess.run(command("leaves one behind"), capture_output=True, text=True, timeout=120)
    assert done.returncode == 3
    assert not psutil.pid_exists(int(done.stdout))
