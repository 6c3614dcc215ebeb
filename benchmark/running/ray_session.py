"""The Ray of a sweep: a start with limits, its end, and errors of its loss."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

from ...sweeps.scheduling.interface import Stop
from ...sweeps.store.run_folder import is_run
from ...sweeps.workers.freeze_guard import FreezeGuard
from ...sweeps.workers.pool import ClusterLost
from ...sweeps.workers.ray_cluster import (
    NobodyAnswers,
    ask_for_cpus,
    process_runs,
    start_ray,
    stop_ray,
    take_back_sigterm,
)
from ...sweeps.workers.ray_start import (
    check_worker,
    daemons_below,
    kill_ray_below,
    outlives,
    ray_folder,
    raylets_below,
    stage_of_start,
)
from ..console import ENVIRONMENT
from ..errors import command_on, resume_with
from .cpus import available_cpus

NOTICE_S = 15.0  # after so long without a step forward the start says what it waits for
PATIENCE = "TABSWEEP_RAY_START_S"  # seconds without a step forward that end an attempt
ATTEMPTS = 3  # to connect to a cluster that is there
LOOK_S = 1.0  # between two looks at how far the start has come
END_S = 60.0  # how long the end of a sweep waits for a Ray that is still starting
DEAF_S = 20.0  # how long a driver whose Ray has died may take to end by itself
RAY_DIED = "Ray on this machine has died"
OUT_S = 5.0  # how long the thread of a failed start may take to come out of Ray
RAY_ENDED_S = 2.0  # how long a sweep that stops may outlive its Ray before it ends it itself
ENDING_S = 15.0  # and from then on

# Exceptions of Ray that mean that the cluster failed, and not a trial.
RAY_GONE = ("RaySystemError", "RpcError", "LocalRayletDiedError", "RayChannelError")

WITHOUT_RAY = "Try `bench doctor`, or the same command with --workers 0, which runs without Ray"


class RayNotUp(ClusterLost):
    """Ray did not start, or stopped half-way. Another process may try again."""


def way_out(folder: Path) -> str:
    """What to do where Ray does not start, also before there is a run to resume."""
    if not is_run(folder):
        return WITHOUT_RAY
    without = command_on(folder, "resume", "--workers", "0")
    return f"Try `bench doctor`, or run without Ray: {without}"


def patience_s() -> float:
    """Seconds without a step forward after which a start of Ray has failed. Raises ValueError."""
    text = os.environ.get(PATIENCE, "60")
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.0 < seconds < float("inf"):
        raise ValueError(f"{PATIENCE}={text!r} must be a number of seconds above 0")
    return seconds


class RayStart:
    """Starts Ray while the data loads; a sweep with nothing to run never waits for it.

    workers: CPUs for trials, None for all, 0 for none. address: of a cluster, or "local". folder:
    of the run, for messages.

    The thread that starts Ray lives until the end: on Linux the processes of Ray ask to be killed
    when their parent ends, and the parent is the thread that started them. A start that hangs
    cannot be taken back in this process: `wait` raises RayNotUp, and `end` kills what it started.

    raylets: those of this process, once Ray is up.
    ending: whether they are being shut down.
    """

    raylets: ClassVar[list[Any]] = []
    ending: ClassVar[bool] = False

    def __init__(self, workers: int | None, address: str, folder: Path) -> None:
        # None: all that a cluster has
        self.n_workers = workers
        if self.n_workers is None and address == "local":
            self.n_workers = available_cpus()
        self._address, self._folder = address, folder
        self._patience_s = patience_s()
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._connected = False
        self._daemons: list[int] = []
        self._failed = False
        self._ended = False
        frozen = f"Ray did not start: its library froze this process for {self._patience_s:g} s"
        self._guard = FreezeGuard(
            notice_s=NOTICE_S,
            end_s=self._patience_s,
            notice=f"warning: Ray is slow to start: it does not connect ({self._logs()})",
            # The run may have no plan yet, so that there is nothing to resume.
            last_words=f"error BENCH-E021: {frozen}; {self._logs()}. {WITHOUT_RAY}",
        )
        self._up = threading.Event()
        self._over = threading.Event()

    def begin(self) -> None:
        """Start Ray in the background, once; nothing for a sweep without workers."""
        if self.n_workers != 0 and self._thread is None:
            if self._address == "local":
                self._guard.begin()
            self._thread = threading.Thread(target=self._start, daemon=True)
            self._thread.start()

    def _start(self) -> None:
        try:
            self._connect()
            self._connected = True
            if self._address == "local":
                check_worker(self._over)
        except BaseException as error:
            self._error = error
        self._up.set()
        self._over.wait()

    def _connect(self) -> None:
        """Start Ray or join the cluster, which may answer late where its machines are busy: Ray
        gives up after some seconds, and is asked again."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return start_ray(slots=self.n_workers, address=self._address)
            except NobodyAnswers:
                raise
            except ConnectionError:
                if self._address == "local" or attempt == ATTEMPTS or self._over.is_set():
                    raise

    def wait(
        self,
        stop: Stop,
        say: Callable[[str], None] = lambda text: None,
        show: Callable[[str], None] = lambda stage: None,
    ) -> None:
        """Wait until Ray is up, and on this machine a worker process, too.

        `say` is told what a slow start waits for, `show` at once what any start does. Raises
        RayNotUp, the error of a cluster that does not answer, and KeyboardInterrupt for a stop.
        """
        self.begin()
        try:
            self._await(stop, say, show)
        finally:
            self._guard.end()
        error = self._error
        if error is not None:
            if self._address == "local" and isinstance(error, Exception):
                raise self._not_up(" ".join(f"{type(error).__name__}: {error}".split())[:300])
            if isinstance(error, ConnectionError) and not isinstance(error, NobodyAnswers):
                raise ClusterLost(" ".join(str(error).split())[:300])
            raise error
        RayStart.raylets, RayStart.ending = raylets_below(), False
        take_back_sigterm()
        if self._address == "local" and self.n_workers:
            self._daemons = daemons_below()
            threading.Thread(target=self._end_if_ray_dies, daemon=True).start()
        if self._address != "local" and self.n_workers:
            ask_for_cpus(self.n_workers)

    def _has_died(self) -> bool:
        return not all(map(process_runs, self._daemons))

    def _end_if_ray_dies(self) -> None:
        """End this process where a daemon of its Ray has died and it does not end by itself: a call
        to Ray that was on its way then returns after a minute at the earliest, and Ray's library
        may end the process with exit code 1 and a message of its own. All that has finished is in
        the ledger."""
        while not self._over.wait(LOOK_S):
            if self._has_died():
                if RayStart.ending or self._over.wait(DEAF_S):
                    return
                os.write(2, f"error BENCH-E021: {RAY_DIED}; {resume_with(self._folder)}\n".encode())
                kill_ray_below()
                os._exit(ENVIRONMENT)

    def _await(self, stop: Stop, say: Callable[[str], None], show: Callable[[str], None]) -> None:
        stage, since, told = "", time.monotonic(), False
        looked = since - LOOK_S  # the first look is the first thing
        while not self._up.wait(0.2):
            if stop.soon:
                raise KeyboardInterrupt
            now = time.monotonic()
            if now - looked < LOOK_S:
                continue
            looked = now
            found = stage_of_start(self._address, connected=self._connected)
            if found != stage:
                stage, since, told = found, now, False
                show(stage)
            waited = now - since
            if waited > self._patience_s:
                raise self._not_up(f"waited {waited:.0f} s for {stage}")
            if waited > NOTICE_S and not told:
                told = True
                say(f"Ray is slow to start: {waited:.0f} s for {stage} ({self._logs()})")

    def _not_up(self, text: str) -> RayNotUp:
        self._failed = True
        return RayNotUp(f"Ray did not start: {text}; {self._logs()}")

    def _logs(self) -> str:
        if self._address != "local":
            return f"cluster {self._address}: see ray status"
        return f"logs: {ray_folder()}/session_latest/logs"

    def end(self) -> None:
        """Shut Ray down, if it was started; kill what a failed start left. A second call does
        nothing."""
        if self._thread is None or self._ended:
            return
        self._ended = True
        self._guard.end()
        if self._failed:
            self._over.set()
            if self._connected:
                self._up.wait(OUT_S)
            kill_ray_below()
            # Attached to a Ray that is gone, this process could start no other, and Ray would end
            # it. Nothing of Ray may be called while the thread is inside of it.
            if self._up.is_set():
                with suppress(Exception):
                    stop_ray()
            return
        if not self._up.wait(END_S):
            kill_ray_below()  # it hangs
            return
        RayStart.ending = True
        if self._has_died():
            kill_ray_below()  # its agents would outlive the driver by minutes
        ray = sys.modules.get("ray")
        if ray is not None and ray.is_initialized():
            if self._address != "local" and self.n_workers:
                ask_for_cpus(0)
            stop_ray()
        self._over.set()


def end_with_ray(over: threading.Event, code: int, last_words: str) -> None:
    """End this process with its Ray, if that ends before it: with this exit code and these words.

    For a thread beside a sweep that was told to stop, until `over`. Where somebody ended all
    processes, calls into Ray come to nothing, and Ray ends the driver some seconds later without a
    word. All that has finished is in the ledger by then.
    """
    grace = lambda: ENDING_S if RayStart.ending else RAY_ENDED_S  # noqa: E731
    if outlives(RayStart.raylets, over, grace):
        os.write(2, f"{last_words}\n".encode())
        os._exit(code)


def cluster_lost(error: Exception, folder: Path) -> ClusterLost | None:
    """The error as the loss of the cluster, with the command that resumes the run in `folder`;
    None for any other error."""
    names = {cls.__name__ for cls in type(error).__mro__}
    if isinstance(error, RayNotUp):
        return RayNotUp(f"{error}. {way_out(folder)}")
    if isinstance(error, ClusterLost) or names & {*RAY_GONE}:
        text = " ".join(str(error).split())[:300]
        return ClusterLost(f"{text}; {resume_with(folder)}")
    return None
