"""Worker processes of this machine without Ray: the fork server, and what a worker does.

The fork server imports once what trials need and then forks a worker for each socket that the
driver sends it. A worker answers one call after the other. When the driver ends, however it does,
the fork server ends, and with it the workers and what their trials started. Python's own would run
the user's script again in each worker.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import shutil
import signal
import socket
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Lock
from typing import Any

from ..store.checkpoints import CheckpointFolder

END_S = 1.0  # from the last word of a worker to its end
START = "start"  # the first call of a worker: make the body
PR_SET_PDEATHSIG = 1

_driver: Connection  # of a worker process: the way to its driver
_sending = Lock()  # its trial's thread and the one that watches its limits both send


@dataclass(frozen=True, eq=False)
class Stored:
    """A value in a file of this machine; the arrays in it are mapped, not read."""

    file: Path

    def load(self) -> Any:
        """The value, its arrays read-only."""
        import joblib

        return joblib.load(self.file, mmap_mode="r")


class ProcessLink:
    """A `trial_actor.WorkerLink` of a process of this machine."""

    pages = ".stored"

    def get(self, ref: Stored) -> Any:
        """The value of a reference."""
        return ref.load()

    def report(self, worker: str, cause: str, **facts: Any) -> None:
        """Tell the driver why this process is about to end itself."""
        _send(None, True, {"worker": worker, "cause": cause, **facts})

    def checkpoints(self, keeper: CheckpointFolder) -> CheckpointFolder:
        """Where the states of fits are kept: a folder of this machine."""
        return keeper


def _send(number: int | None, returned: bool, value: Any) -> None:
    """Send an answer: number of the call (None: a report), whether it returned, and what."""
    with _sending:
        _driver.send_bytes(pickle.dumps((number, returned, pickle.dumps(value))))


class Failed:
    """In place of a body that could not be made: every call of it raises why."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __getattr__(self, name: str) -> Any:
        raise self._error


def serve(connection: Connection) -> None:
    """Be a worker until the driver hangs up: make the body, then answer its calls."""
    global _driver
    _driver = connection
    body: Any = None
    with suppress(EOFError):
        while True:
            number, method, words = pickle.loads(connection.recv_bytes())
            try:
                found = pickle.loads(words)
                args = [one.load() if isinstance(one, Stored) else one for one in found]
                if method == START:
                    body = args[0](*args[1:])
                    continue
                answer = True, getattr(body, method)(*args)
            except Exception as error:
                if method == START:
                    body = Failed(error)
                    continue
                answer = False, error
            try:
                _send(number, *answer)
            except (pickle.PicklingError, TypeError, AttributeError) as error:
                _send(number, False, RuntimeError(f"no answer: {error}; {answer[1]!r:.500}"))


class ForkServer:
    """The process that forks workers. It computes nothing, so that it has no threads to lose."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._workers: set[int] = set()

    def run(self) -> None:
        """Answer the driver until it hangs up: a socket asks for a worker, a number for the exit
        code of one that hung up."""
        while True:
            message, sockets, *_ = socket.recv_fds(self._control, 64, 1)
            if sockets:
                answer = self._fork(sockets[0])
            elif message:
                answer = self._code_of(int(message))
            else:
                break
            self._control.send(b"%d" % answer)
        for pid in self._workers:
            kill_group(pid)

    def _fork(self, worker: int) -> int:
        os.set_inheritable(worker, False)
        if pid := os.fork():
            os.close(worker)
            self._workers.add(pid)
            return pid
        die_with_parent()
        os.setpgid(0, 0)  # with all that its trials start, it can be ended as a group
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        self._control.close()
        code = 1
        try:
            serve(Connection(worker))
            code = 0
        finally:
            sys.stderr.flush()
            os._exit(code)

    def _code_of(self, pid: int) -> int:
        """The exit code of a worker, -9 if it has not ended in time; ends what it had started."""
        end = time.monotonic() + END_S
        while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            if time.monotonic() > end:
                break
            time.sleep(0.005)
        kill_group(pid)
        self._workers.discard(pid)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def kill_group(pid: int) -> None:
    """Kill a worker, which leads its group, and what is in it; one that is gone is fine."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    with suppress(ProcessLookupError):  # it has no group yet
        os.kill(pid, signal.SIGKILL)


def die_with_parent() -> None:
    """Have the system kill this process when its parent ends; on Linux alone."""
    with suppress(AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def fork_server(control: int, folder: Path, modules: list[str]) -> None:
    """The fork server's whole life. `folder`, of stored values, is removed at its end."""
    try:
        for module in modules:
            import_module(module)
        ForkServer(socket.socket(fileno=control)).run()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    # By its own name: `serve` keeps the way to the driver in this module.
    name = __spec__.name if __spec__ else __name__
    import_module(name).fork_server(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
