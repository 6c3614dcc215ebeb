"""Worker processes of this machine without Ray, under the calls that a worker pool makes.

No daemon starts, and workers share what the fork server has imported (see `process_worker.py`).
"""

from __future__ import annotations

import os
import pickle
import queue
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from threading import Lock, Thread
from typing import Any

from ..machine.cgroups import free_memory_mb
from ..store.checkpoints import CheckpointFolder
from . import process_worker
from .process_worker import START, ProcessLink, Stored, kill_group
from .ray_calls import RayCalls
from .ray_cluster import Node, one_thread
from .ray_start import NO_PROCESS, own_folder, stat_of
from .trial_actor import WorkerLink

NO_THREADS = {"JE_ARROW_MALLOC_CONF": "background_thread:false"}  # of Arrow's allocator, at a fork
END_S = 10.0  # for the fork server to end by itself
POLITE = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)  # who sends them ends processes in order


class WorkerDied(Exception):
    """The process of a worker has ended. code: its exit code, or minus the number of a signal."""

    def __init__(self, code: int) -> None:
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with {code}"
        super().__init__(f"the worker's process ended {how}")
        self.code = code


class ForkServer:
    """The process that forks workers, seen from the driver. It imports `modules` first.

    folder: of stored values, which it removes at its end.
    """

    def __init__(self, folder: Path, modules: Sequence[str]) -> None:
        self._asking = Lock()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        one_thread()
        command = [sys.executable, "-P", "-m", process_worker.__name__]
        with theirs:
            self._process = subprocess.Popen(
                [*command, str(theirs.fileno()), str(folder), *modules],
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                pass_fds=[theirs.fileno()],
                env={**os.environ, **NO_THREADS},
                process_group=0,  # Ctrl-C is the driver's affair
            )

    def ask(self, message: bytes, sockets: Sequence[int] = ()) -> int:
        """Its answer. Raises OSError where it has ended, with the last line that it printed."""
        with self._asking:
            socket.send_fds(self._control, [message], sockets)
            answer = self._control.recv(64)
        if answer:
            return int(answer)
        self._log.seek(0)
        said = self._log.read()[-2000:].decode(errors="replace").strip().rpartition("\n")[2]
        raise BrokenPipeError(f"the fork server has ended: {said}")

    def end(self) -> None:
        """End it, and with it all workers."""
        with suppress(OSError):  # it has ended
            self._control.shutdown(socket.SHUT_RDWR)
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._control.close()


@dataclass(eq=False)
class Process:
    """A worker process. open: the calls that it has not answered, by number."""

    pid: int
    server: ForkServer
    connection: Connection
    open: dict[int, Future[Any]] = field(default_factory=dict)
    lock: Any = field(default_factory=Lock)
    death: WorkerDied | None = None
    sent: int = 0


class ProcessCalls(RayCalls):
    """The calls of a pool to processes of this machine, which is its only node.

    cpus: how many CPUs trials may use. modules: what the fork server imports. A call
    is its own reference: a future.
    """

    here = "here"
    link: WorkerLink = ProcessLink()

    def __init__(self, cpus: int, modules: Sequence[str] = ()) -> None:
        self._ended: queue.SimpleQueue[tuple[Any, Future[Any]]] = queue.SimpleQueue()
        self._node = Node(self.here, socket.gethostname(), cpus, 0, free_memory_mb())
        self._causes: dict[str, dict[str, Any]] = {}
        temporary = own_folder(tempfile.gettempdir())
        for left in temporary.glob("stored-*-*"):  # by a driver that was killed with all it started
            if stat_of(int(left.name.split("-")[1])) == NO_PROCESS:
                shutil.rmtree(left, ignore_errors=True)
        self._folder = Path(tempfile.mkdtemp(prefix=f"stored-{os.getpid()}-", dir=temporary))
        self._modules = modules
        self._server = ForkServer(self._folder, modules)

    def close(self) -> None:
        """End all workers, and remove what was stored."""
        self._server.end()
        shutil.rmtree(self._folder, ignore_errors=True)

    # ------------------------------------------------------------------ nodes and data

    def check(self) -> None:
        """Nothing is there that could be lost: a fork server that has ended is started again."""

    def nodes(self) -> dict[str, Node]:
        """This machine."""
        return {self.here: self._node}

    def draining(self) -> set[str]:
        """None leaves."""
        return set()

    def put(self, value: Any) -> Any:
        """A reference of an object: arrays in it are mapped by all workers, as Ray's are. Raises
        OSError where the folder for temporary files is full."""
        import joblib

        if callable(value):  # goes with the message
            return value
        descriptor, name = tempfile.mkstemp(suffix=ProcessLink.pages, dir=self._folder)
        try:
            with open(descriptor, "wb") as file:
                joblib.dump(value, file)
        except OSError as error:  # which does not name the full disk
            raise OSError(error.errno, error.strerror, f"TMPDIR={tempfile.gettempdir()}") from error
        stored = Stored(Path(name))
        weakref.finalize(stored, Path(name).unlink, missing_ok=True)
        return stored

    def keeper(self, folder: Path) -> Any:
        """Checkpoints in a folder, which each worker writes itself."""
        return CheckpointFolder(folder)

    # ------------------------------------------------------------------ workers

    def start(self, body: type, *args: Any, node: str, **options: Any) -> Process:
        """A new worker. Raises OSError where none can be started."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                pid = self._server.ask(b"fork", [theirs.fileno()])
            except OSError:  # somebody ended it
                self._server.end()
                self._server = ForkServer(self._folder, self._modules)
                pid = self._server.ask(b"fork", [theirs.fileno()])
        process = Process(pid, self._server, Connection(ours.detach()))
        self._send(process, None, START, [body, *args])
        Thread(target=self._listen, args=[process], daemon=True, name=f"worker-{pid}").start()
        return process

    def call(self, actor: Process, method: str, *args: Any) -> Future[Any]:
        """Send a call; its end will be among `ended`."""
        future: Future[Any] = Future()
        with actor.lock:
            if actor.death is None:
                actor.sent += 1
                actor.open[actor.sent] = future
                self._send(actor, actor.sent, method, list(args))
                return future
        self._fail([future], actor.death)
        return future

    def _send(self, process: Process, number: int | None, method: str, args: list[Any]) -> None:
        import cloudpickle

        message = pickle.dumps((number, method, cloudpickle.dumps(args)))
        with suppress(OSError):  # its thread hears of its death
            process.connection.send_bytes(message)

    def _listen(self, process: Process) -> None:
        """Take in what a worker answers, until it has ended."""
        ends: list[Any] = [process.connection]
        with suppress(AttributeError, OSError):  # what a trial left behind may hold the connection
            ends.append(os.pidfd_open(process.pid))
        with suppress(EOFError, OSError):
            while process.connection in wait(ends):
                number, returned, value = pickle.loads(process.connection.recv_bytes())
                try:
                    value = pickle.loads(value)
                except Exception as error:  # an exception of a class that cannot be made here
                    returned, value = False, error
                if number is None:
                    self._causes[value.pop("worker")] = value
                    continue
                with process.lock:
                    future = process.open.pop(number)
                (future.set_result if returned else future.set_exception)(value)
                self._ended.put((future, future))
        for descriptor in ends[1:]:
            os.close(descriptor)
        try:
            code = process.server.ask(b"%d" % process.pid)
        except OSError:  # it has ended, and its workers with it
            kill_group(process.pid)
            code = -signal.SIGTERM
        with process.lock:
            process.death = WorkerDied(code)
            left = list(process.open.values())
            process.open.clear()
            process.connection.close()
        self._fail(left, process.death)

    def _fail(self, futures: Sequence[Future[Any]], error: Exception | None) -> None:
        for future in futures:
            future.set_exception(error)
            self._ended.put((future, future))

    def fetch(self, refs: list[Any]) -> None:
        """What a worker answered before its death has come before it."""

    def result_if_there(self, ref: Future[Any]) -> Any:
        """What a call returned, None where it has not ended or ended in an error."""
        return ref.result() if ref.done() and ref.exception() is None else None

    def end_of(self, error: Exception) -> str | None:
        """'killed', 'lost' where somebody ended the process in order, None where it lives."""
        if not isinstance(error, WorkerDied):
            return None
        return "lost" if -error.code in POLITE else "killed"

    def crash_cause(self, worker: str) -> dict[str, Any]:
        """What a worker that ended itself had reported, once; {} where it had not."""
        return self._causes.pop(worker, {})

    def kill(self, actor: Process | CheckpointFolder) -> None:
        """End a worker at once, with all that its trials started; a folder is none."""
        if isinstance(actor, CheckpointFolder):
            return
        with actor.lock:
            if actor.death is None:
                kill_group(actor.pid)
