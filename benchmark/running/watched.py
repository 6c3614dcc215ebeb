"""The process that a user sees while Ray's library lives in another one, its child.

Ray's library is native code that may end its process with an exit code and a line of its own, or
keep Python's lock while it waits for a process that does not answer. So a command that needs Ray
runs in a child process. The parent takes the signals, knows how to resume, and prints the last
line.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from ...sweeps.store.run_folder import is_run
from ...sweeps.workers.ray_start import (
    cpu_s_of,
    kill_ray_below,
    logs_of_ray,
    patience_s,
    server_awaited,
    stat_of,
)
from ..console import ENVIRONMENT
from ..errors import resume_with, way_out

WATCHED = "TABSWEEP_WATCHED"  # "id:tells:stderr" of the child, which `--portable` may replace
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
TICK_S = 1.0
NOTICE_S = 15.0  # without a sign of life
BUSY = 0.1  # CPU seconds per second of a process that computes, though no thread of Python runs
LOST_S = 20.0  # for the child to end by itself once it has lost Ray,
ASKED_S = 90.0  # and once it was told to end: trials may end in the first 30 s
ATTEMPTS = 2  # where Ray does not start
LOG_BYTES = 65536  # kept of what native code printed
LIVES, RUN, LOST, AGAIN, CODE = "lives", "run", "lost", "again", "code"  # what the child tells
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


class Teller:
    """The child's messages to its parent: signs of life, the run's folder, how it ends."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        threading.Thread(target=self._tick, daemon=True, name="tick").start()

    def _tick(self) -> None:
        while True:
            self._tell(LIVES)
            time.sleep(TICK_S)

    def _tell(self, word: str, about: object = "") -> None:
        with suppress(OSError):
            os.write(self._descriptor, f"{word} {about}\0".encode())

    def run_is(self, folder: Path) -> None:
        """Tell the folder of the run, which can be resumed from now on."""
        self._tell(RUN, folder)

    def lost(self, reason: str) -> None:
        """Tell that Ray was lost: this process ends now, or hangs in a call to Ray."""
        self._tell(LOST, reason)

    def not_up(self, reason: str) -> NoReturn:
        """End this process because Ray did not start; the parent tries another child."""
        self._tell(AGAIN, reason)
        os._exit(ENVIRONMENT)

    def end(self, code: int) -> NoReturn:
        """End this process after everything was printed and written."""
        self._tell(CODE, code)
        sys.stderr.flush()
        os._exit(code)


def watched(say: Callable[[str], None]) -> Teller:
    """Fork a child that goes on with the command. This function returns in the child only.

    The parent watches the child until it has ended. It then raises SystemExit with the child's exit
    code, ClusterLost if the child was killed, or KeyboardInterrupt if it had been told to end.
    """
    pid, *descriptors = os.environ.get(WATCHED, "0").split(":")
    if pid == str(os.getpid()):
        tells, stderr = map(int, descriptors)
        _print_to(stderr)
        return Teller(tells)
    watch = Watch(say)
    while True:
        if (teller := watch.fork()) is not None:
            return teller
        watch.until_ended()


class Watch:
    """The parent's side: watches a child, and forks another one if Ray did not start in it."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._patience_s = patience_s()
        self._attempts = 0
        self._child = 0
        self._asked = self._interrupts = 0  # signals that came
        self._before = {number: signal.getsignal(number) for number in SIGNALS}
        for number, before in self._before.items():
            if number != signal.SIGHUP or before is not signal.SIG_IGN:  # as under nohup
                signal.signal(number, self._handle)
        _prctl(PR_SET_CHILD_SUBREAPER, 1)  # what a dead child leaves behind comes here

    def fork(self) -> Teller | None:
        """Fork. Returns a Teller in the child, None in the parent, with which the child ends."""
        self._attempts += 1
        self._told: dict[str, str] = {}
        self._rest = b""
        self._hears, tells = os.pipe()
        self._printed = tempfile.TemporaryFile()  # noqa: SIM115
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        here = os.getpid()
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        self._child = os.fork()
        if self._child:
            os.close(tells)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            return None
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != here:
            os._exit(1)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        stderr = os.dup(2)
        os.dup2(self._printed.fileno(), 2)
        for descriptor in (tells, stderr):
            os.set_inheritable(descriptor, True)
        os.environ[WATCHED] = f"{os.getpid()}:{tells}:{stderr}"
        _print_to(stderr)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        return Teller(tells)

    # ------------------------------------------------------------------ the child

    def until_ended(self) -> None:
        """Watch the child until it has ended. Returns if another child must be started."""
        frozen = self._watch()
        while self._hear(0.0):
            pass
        with suppress(ChildProcessError):  # none is left
            os.waitpid(-1, os.WNOHANG)
            kill_ray_below()
        os.close(self._hears)
        self._keep_printed()
        folder = Path(self._told.get(RUN, ""))
        run = folder if RUN in self._told and is_run(folder) else None
        if CODE in self._told:
            raise SystemExit(int(self._told[CODE]))
        if self._asked:
            raise KeyboardInterrupt(resume_with(run) if run else "nothing was started yet")
        from ...sweeps.workers.pool import ClusterLost  # with what it needs; late, as it is seldom

        if AGAIN in self._told or frozen:
            why = self._told.get(AGAIN, f"{frozen}. {way_out(run)}")
            if self._attempts == ATTEMPTS:
                raise ClusterLost(why)
            self._say(f"warning: {why}; starting once more, in a new session")
            return
        why = self._told.get(LOST, f"the process of the sweep {self._end()}")
        raise ClusterLost(f"{why}; {resume_with(run) if run else way_out(None)}")

    def _watch(self) -> str:
        """Wait for the child's end. Returns how Ray's library had blocked it, if it was killed for
        that; else an empty text."""
        silent = waited = computed = 0.0
        last, said = time.monotonic(), False
        while not self._has_ended():
            heard = self._hear()
            now = time.monotonic()
            passed, last = min(now - last, 2 * TICK_S), now  # this process may have been stopped
            waited = waited + passed if self._asked or LOST in self._told else 0.0
            if waited > (ASKED_S if self._asked else LOST_S):
                os.kill(self._child, signal.SIGKILL)
            if heard:
                silent, computed, said = 0.0, cpu_s_of(self._child) or 0.0, False
                continue
            silent += passed
            stands = stat_of(self._child)[0] in "Tt"
            if silent > NOTICE_S and not said:
                said = True
                what = f"was stopped: kill -CONT {self._child}" if stands else "does not answer"
                self._say(f"warning: the process of the sweep {what}")
            computes = (cpu_s_of(self._child) or 0.0) - computed > BUSY * silent
            if silent > self._patience_s and not (stands or computes):
                awaited = server_awaited()
                os.kill(self._child, signal.SIGKILL)
                os.waitpid(self._child, 0)
                froze = f"Ray's library froze the sweep for {silent:.0f} s"
                return f"{froze}, waiting for {awaited}; {logs_of_ray()}"
        return ""

    def _hear(self, within_s: float = TICK_S) -> bool:
        """Read the child's messages; returns whether there were any."""
        if not select.select([self._hears], [], [], within_s)[0]:
            return False
        data = os.read(self._hears, 65536)
        if not data:  # it is about to end
            time.sleep(0.05)
        *words, self._rest = (self._rest + data).split(b"\0")
        self._told |= dict(os.fsdecode(word).split(" ", 1) for word in words)
        return bool(data)

    def _has_ended(self) -> bool:
        """Whether the child has ended. Its orphans, which this process inherits, are reaped."""
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid in (0, self._child):
                self._status = os.waitstatus_to_exitcode(status)
                return pid != 0

    def _end(self) -> str:
        if self._status < 0:
            return f"was ended by {signal.Signals(-self._status).name}"
        return f"ended with {self._status} and no word, as Ray's library ends it where Ray is lost"

    def _keep_printed(self) -> None:
        """Append what native code printed to logs/ray.log in the run's folder."""
        with self._printed as file, suppress(OSError):
            end = file.seek(0, os.SEEK_END)
            file.seek(max(0, end - LOG_BYTES))
            if end and RUN in self._told:
                with open(Path(self._told[RUN]) / "logs" / "ray.log", "ab") as log:
                    log.write(file.read())

    # ------------------------------------------------------------------ signals

    def _handle(self, number: int, frame: Any) -> None:
        """The first signal lets running trials end, a second Ctrl-C stops them, a third ends all.

        A terminal sends Ctrl-C to the child as well. The first one is passed on as SIGTERM, so the
        child may get SIGTERM twice.
        """
        self._asked += 1
        self._interrupts += number == signal.SIGINT
        if self._asked == 1:
            sent = signal.SIGTERM
            os.write(2, b"stopping: waiting for running trials (Ctrl-C again stops them)\n")
        elif number == signal.SIGINT:
            sent = signal.SIGINT if self._interrupts < 3 else signal.SIGKILL
        else:
            return
        for one in (sent, signal.SIGCONT):  # a process that was stopped would not hear of it
            with suppress(ProcessLookupError):
                os.kill(self._child, one)


# ---------------------------------------------------------------------- the system


def _print_to(descriptor: int) -> None:
    """Let Python print its errors to this descriptor; native code still prints to 2."""
    sys.stderr = open(descriptor, "w", buffering=1, errors="replace", closefd=False)  # noqa: SIM115


def _prctl(option: int, value: int) -> None:
    """Call prctl, which only Linux has; elsewhere a child outlives its parent."""
    with suppress(AttributeError):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
