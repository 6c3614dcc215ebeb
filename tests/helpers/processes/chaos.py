"""Sweeps in processes of their own: started, watched, killed, and checked for lost trials."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest
from calls import bench
from driver import logged_trial
from hosts import Host
from tabsweep.benchmark.commands import sweep as commands
from tabsweep.benchmark.results.run_status import status_of
from tabsweep.sweeps.store.ledger import Ledger

DRIVER = Path(__file__).with_name("driver.py")
TABLES = [
    f"{table}.{kind}" for table in ("scores", "leaderboard", "tests") for kind in ("tex", "csv")
]


class Line(NamedTuple):
    """Of the execution log: a trial has started or finished in a process of a host. `index` and
    `stop`: of an asynchronous trial and its piece, "-" for others."""

    word: str
    trial: str
    pid: int
    host: str
    time: float
    index: str
    stop: str


class Sweep:
    """One run in a folder of its own, started and killed at will; `options` are those of `bench
    sweep`."""

    def __init__(
        self,
        folder: Path,
        *options: object,
        host: Host | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.run = folder / "runs" / "reduced"
        self.host = host
        self.driver: subprocess.Popen[bytes] | None = None
        self.options = [*map(str, options)]
        self._env = {**(env or {})}
        self.log = folder / "execution.log"
        self._output = folder / "output.txt"
        folder.mkdir()
        self.log.touch()

    # ------------------------------------------------------------------ running

    def start(self, *more: object, pause_s: float = 0.0) -> subprocess.Popen[bytes]:
        """The first time and every other, with more options."""
        words = ["sweep", "--runs", str(self.run.parent), "--name", self.run.name]
        return self._launch(*words, *self.options, *map(str, more), pause_s=pause_s)

    def resume(self) -> None:
        """`bench resume` in this process, to its end."""
        run_trial = partial(logged_trial, self.log, 0.0)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(commands, "Request", partial(commands.Request, run_trial=run_trial))
            for name, value in self._env.items():
                patch.setenv(name, value)
            ran = bench("resume", self.run, "--workers", 0)
        assert ran.code == 0, ran

    def _launch(self, *words: str, pause_s: float = 0.0) -> subprocess.Popen[bytes]:
        command = [sys.executable, str(DRIVER), str(self.log), str(pause_s), *words]
        with open(self._output, "ab") as output:
            self.driver = subprocess.Popen(
                self.host.command(*command) if self.host else command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **self._env},
            )
        return self.driver

    def end(self, timeout_s: float = 300) -> None:
        """Wait until the driver has ended by itself, well."""
        assert self.driver is not None
        try:
            self.driver.wait(timeout_s)
        finally:
            code = self.driver.poll()
            self.off()
        assert code == 0, self.output()

    def off(self) -> None:
        """SIGKILL for the driver, if there is one."""
        if self.driver is not None and self.driver.poll() is None:
            kill_all(self.driver)
        self.driver = None

    def finish(self, *more: object) -> None:
        """Start the driver and wait until it has ended well."""
        self.start(*more)
        self.end()

    def wait(self, condition: Callable[[], Any], what: str, timeout_s: float = 180) -> Any:
        """What `condition` says once it holds, while the driver lives."""

        def look() -> Any:
            found = condition()
            assert found or self.driver is None or self.driver.poll() is None, self.output()
            return found

        try:
            return wait_for(look, what, timeout_s=timeout_s)
        except TimeoutError as error:
            raise TimeoutError(f"{error}\n{self.output()}") from None

    # ------------------------------------------------------------------ what is known of it

    def output(self) -> str:
        """The end of what the driver printed."""
        return self.whole_output()[-6000:]

    def whole_output(self) -> str:
        """All that the driver printed, each time that it was started."""
        return self._output.read_text(errors="replace")

    def lines(self) -> list[Line]:
        """The execution log."""
        found = [line.split() for line in self.log.read_text().splitlines()]
        return [
            Line(word, trial, int(pid), host, float(at), *piece)
            for word, trial, pid, host, at, *piece in found
        ]

    def running(self) -> list[Line]:
        """Starts without a finish in the log."""
        open_: dict[tuple[str, int, str], Line] = {}
        for line in self.lines():
            if line.word == "start":
                open_[line.trial, line.pid, line.host] = line
            else:
                open_.pop((line.trial, line.pid, line.host), None)
        return [*open_.values()]

    def results(self) -> list[dict[str, Any]]:
        """The result records of the ledger; none before there is a ledger."""
        if not (self.run / "ledger" / "log.jsonl").exists():
            return []
        return list(Ledger(self.run).records("result"))

    def finished(self) -> set[str]:
        """Trials whose results are in the ledger."""
        return {record["id"] for record in self.results()}

    def events(self, *names: str) -> list[dict[str, Any]]:
        """Events of these names in the log of the run."""
        path = self.run / "logs" / "events.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [event for event in map(json.loads, lines) if event["event"] in names]

    def tables(self) -> dict[str, bytes]:
        """The bytes of the tables of the report, by file name."""
        return {name: (self.run / "report" / name).read_bytes() for name in TABLES}

    # ------------------------------------------------------------------ laws

    def check_nothing_lost(self, planned: int | None = None) -> None:
        """Every planned trial has a score."""
        status = status_of(self.run)
        assert status.planned == (planned or status.planned) and status.planned > 0
        assert (status.done, status.left) == (status.planned, 0), status

    def check_nothing_twice(self, *, cut_off: tuple[str, ...] = ()) -> None:
        """A trial has one row, and did not start again once it had it. (A host that was cut off
        could not know.)"""
        results = self.results()
        counts = Counter(record["id"] for record in results)
        assert set(counts.values()) == {1}, counts.most_common(3)
        written = {record["id"]: seconds(record["time"]) for record in results}
        again = [
            line
            for line in self.lines()
            if line.word == "start" and line.host not in cut_off and line.time > written[line.trial]
        ]
        assert not again, again

    def check_ran_once(self) -> None:
        """Where nothing was killed every distinct trial starts exactly once."""
        starts = Counter(line.trial for line in self.lines() if line.word == "start")
        assert set(starts.values()) == {1}
        assert set(starts) == self.finished()


def seconds(time: str) -> float:
    """A record's time, as the log has it."""
    return datetime.fromisoformat(time).timestamp()


def wait_for(condition: Callable[[], Any], what: str, *, timeout_s: float = 180) -> Any:
    """What `condition` says once it holds. Raises TimeoutError."""
    end = time.monotonic() + timeout_s
    while not (found := condition()):
        if time.monotonic() > end:
            raise TimeoutError(f"waited {timeout_s:g} s for {what}")
        time.sleep(0.05)
    return found


def alive(pid: int) -> bool:
    """Does a process with this id run on this machine?"""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def kill_all(process: subprocess.Popen[Any], number: int = signal.SIGKILL) -> None:
    """A signal for a process and every one below it (of a local driver: Ray's own and the workers);
    returns when they are gone."""
    family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    for member in family:
        try:
            member.send_signal(number)
        except psutil.NoSuchProcess:
            pass
    process.wait()
    wait_for(lambda: not any(alive(p.pid) for p in family), "the killed processes to be gone")


def kill_worker(sweep: Sweep) -> Line:
    """SIGKILL for one worker of this machine in the middle of a trial."""

    def strike() -> Line | None:
        for line in sweep.running():
            if alive(line.pid):
                os.kill(line.pid, signal.SIGKILL)
                return line
        return None

    return sweep.wait(strike, "a running trial")
