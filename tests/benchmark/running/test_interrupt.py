"""Sweeps that are interrupted by signals, in processes of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from chaos import wait_for
from small_sweeps import AGAIN, SMALL, answer, executions, sweeps
from tabsweep.benchmark.commands import sweep as commands
from tabsweep.benchmark.results.run_status import status_of
from tabsweep.sweeps.store.ledger import Ledger

pytestmark = pytest.mark.usefixtures("work", "unreported")


BENCH = [sys.executable, "-c", "from tabsweep.benchmark.cli import main; main()"]


def start(*args: object, log: str = "slow.log", **options) -> subprocess.Popen[str]:
    """The command in a process of its own."""
    return subprocess.Popen(
        [*BENCH, *map(str, args)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "SLOW_LOG": str(Path(log).resolve())},
        **options,
    )


def lines(log: str = "slow.log") -> list[str]:
    return Path(log).read_text().splitlines() if Path(log).exists() else []


@pytest.mark.fault(30)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_sweep_keeps_what_ended_says_how_to_go_on_and_does(own, number, monkeypatch):
    call = (*SMALL, "--model", f"{own}:Slow", "--folds", 1, "--trials", 6, "--name", "cut")
    process = start(*call)
    wait_for(lambda: len(lines()) >= 3, "the second trial to begin")  # start, end, start
    assert process.poll() is None
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, (out, err)
    assert "stopping" in err and "bench resume runs/cut" in err
    assert "Traceback" not in err
    log = lines()
    assert len(log) % 2 == 0, "the running trial was cut in the middle"
    status = status_of(Path("runs/cut"))
    assert 2 <= status.done == len(log) // 2 < 6 and not status.failed and not status.owner
    monkeypatch.setenv("SLOW_LOG", str(Path("slow.log").resolve()))
    assert answer("resume", "runs/cut", *AGAIN)["ran"] == 6 - status.done
    counts = Counter(lines())
    assert len(counts) == 12 and set(counts.values()) == {1}, "a trial was lost or ran twice"
    assert set(executions("runs/cut").values()) == {1}


def test_a_second_interrupt_does_not_wait(own):
    call = (*SMALL, "--model", f"{own}:Slow", "--folds", 1, "--trials", 20, "--name", "cut")
    process = start(*call, "--json")
    wait_for(lambda: len(lines()) >= 3, "the second trial to begin")
    process.send_signal(signal.SIGINT)
    time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, (out, err)
    assert json.loads(out)["interrupted"] is True
    assert "bench resume runs/cut" in err and "Traceback" not in err
    assert status_of(Path("runs/cut")).left > 10
    end = json.loads(Path("runs/cut/logs/events.jsonl").read_text().splitlines()[-1])
    assert (end["event"], end["level"], end["interrupted"]) == ("end", "info", True)
    assert end["done"] == status_of(Path("runs/cut")).done
    assert json.loads(Path("runs/cut/live.json").read_text())["state"] == "interrupted"


@pytest.mark.xdist_group("ray")
def test_on_ray_standard_output_is_one_document_and_ctrl_c_of_the_terminal_loses_nothing(
    own, monkeypatch
):
    """A terminal sends Ctrl-C to every process of the command; trials must not die of it."""
    args = ("sweep", "--suite", "smoke", "--dataset", "iris", "--runs", "runs", "--name", "ray")
    call = (*args, "--tracking-uri", "none", "--workers", 2, "--json")
    call = (*call, "--model", f"{own}:Slow", "--folds", 1, "--trials", 20)
    process = start(*call, start_new_session=True)
    wait_for(lambda: len(lines()) >= 4, "trials to begin")
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    document = json.loads(out)
    assert document["interrupted"] is True and not document["failed"]
    assert 2 <= document["done"] < 20
    kinds = Counter(record["kind"] for record in Ledger(Path("runs/ray")).records())
    assert not kinds["death"], "a worker died of Ctrl-C"
    monkeypatch.setenv("SLOW_LOG", str(Path("slow.log").resolve()))
    found = answer("resume", "runs/ray", *AGAIN)
    assert (found["done"], found["ran"]) == (20, 20 - document["done"])
    counts = Counter(lines())
    assert len(counts) == 40 and set(counts.values()) == {1}, "a trial was lost or ran twice"


def test_a_handler_for_signals_is_put_back():
    before = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    sweeps("--model", "constant", "--folds", 1, "--name", "r")
    assert {n: signal.getsignal(n) for n in before} == before
    assert commands.Stop().soon is False
