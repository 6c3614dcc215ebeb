"""Child processes of a step: commands of the checkout that is judged, with a limit."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..context import NightContext

BENCH = "from tabsweep.benchmark.cli import main; main(prog_name='bench')"
KEPT = 4000  # characters of a command's output


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit code (None: stopped at its limit), its seconds, and the end of
    its output."""

    code: int | None
    seconds: float
    output: str

    @property
    def how(self) -> str:
        """Its exit code and the last line of its output, on one line."""
        ending = "it was stopped at its limit" if self.code is None else f"exit code {self.code}"
        last = [line.strip() for line in self.output.splitlines() if line.strip()][-1:]
        return f"{ending}, after {self.seconds:.0f} s{''.join(f': {line}' for line in last)}"


def bench(context: NightContext, *words: object) -> list[str]:
    """The command line of a verb of the checkout that is judged."""
    return [str(context.python), "-c", BENCH, *map(str, words)]


def run(
    context: NightContext, command: Sequence[str], *, log: Path, limit_s: float, cwd: Path
) -> Ended:
    """Run a command in the folder `cwd`, its output in the file `log`; it and all below it are
    stopped after `limit_s` seconds."""
    log.parent.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    process = start(context, command, log=log, cwd=cwd)
    code: int | None
    try:
        code = process.wait(limit_s)
    except subprocess.TimeoutExpired:
        code = None
    finally:
        kill(process)
    return Ended(code, time.monotonic() - began, end_of(log))


def start(
    context: NightContext, command: Sequence[str], *, log: Path, cwd: Path
) -> subprocess.Popen[bytes]:
    """The command, started; its output is appended to `log`."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "ab") as output:
        return subprocess.Popen(
            command,
            cwd=cwd,
            env=context.environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )


def kill(process: subprocess.Popen[bytes]) -> bool:
    """SIGKILL for a process and every one below it; returns when they are gone, and whether the
    process still ran."""
    import psutil

    if process.poll() is not None:
        return False
    try:
        family = [
            psutil.Process(process.pid),
            *psutil.Process(process.pid).children(recursive=True),
        ]
    except psutil.NoSuchProcess:
        family = []
    for member in family:
        try:
            member.kill()
        except psutil.NoSuchProcess:
            pass
    process.wait()
    psutil.wait_procs(family, timeout=30)
    return True


def end_of(log: Path) -> str:
    """The end of a file of text."""
    return log.read_bytes()[-KEPT:].decode("utf-8", errors="replace")
