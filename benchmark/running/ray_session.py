"""The workers of a sweep, mostly of Ray: a start with limits, its end, and errors of its loss."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path

from ...sweeps.machine.cgroups import available_cpus
from ...sweeps.scheduling.interface import Stop
from ...sweeps.store.run_folder import is_run
from ...sweeps.workers.pool import ClusterLost
from ...sweeps.workers.process_calls import ProcessCalls
from ...sweeps.workers.ray_cluster import (
    NobodyAnswers,
    ask_for_cpus,
    daemons_here,
    start_ray,
    stop_ray,
    take_back_sigterm,
)
from ...sweeps.workers.ray_start import (
    check_worker,
    daemons_below,
    kill_ray_below,
    logs_of_ray,
    patience_s,
    stage_of_start,
)
from ...sweeps.workers.ray_thread import FAR_S, RAY
from ..console import count
from ..errors import NO_RAY, SweepError, resume_with, way_out
from . import run_trial

HERE = (NO_RAY, "local")  # addresses that start workers on this machine
LOOK_S = 1.0  # between two looks at how far the start has come
# What workers without Ray share, as the fork server imports it.
PRELOADED = (run_trial.__name__, "pandas", "sklearn.model_selection")
END_S = 15.0  # how long the end of a sweep waits for a Ray that is still starting


def check_workers(workers: int | None, address: str) -> None:
    """Every worker is a process with its libraries: refuse numbers that would exhaust a machine."""
    most = max(16, 4 * available_cpus())
    if workers is not None and address in HERE and workers > most:
        raise SweepError(
            f"--workers {workers} on {count(available_cpus(), 'CPU')}: at most {most} here; "
            "--address joins a cluster"
        )


class RayNotUp(ClusterLost):
    """Ray did not start, or stopped half-way. Another process may try again."""


class RayStart:
    """Starts Ray, or the fork server of workers without it, while the data loads; a sweep with
    nothing to run never waits for it.

    workers: CPUs for trials, None for all, 0 for none. address: of a cluster, "local", or NO_RAY.
    calls: to the workers, once they can be started; None for those to Ray.

    A start that hangs cannot be taken back in this process: `wait` raises RayNotUp, and `end` kills
    what it started.
    """

    def __init__(self, workers: int | None, address: str) -> None:
        # None: all that a cluster has
        self.n_workers = workers
        if self.n_workers is None and address in HERE:
            self.n_workers = available_cpus()
        self.calls: ProcessCalls | None = None
        self._address = address
        self._patience_s = patience_s()
        self._up: Future[None] | None = None
        self._connected = False
        self._over = threading.Event()

    def begin(self) -> None:
        """Start it in the background, once; nothing for a sweep without workers."""
        if self.n_workers and self._address == NO_RAY:
            self.calls = self.calls or ProcessCalls(self.n_workers, PRELOADED)
        elif self.n_workers != 0 and self._up is None:
            if RAY.lost:  # of an earlier sweep in this process
                RAY.begin_anew()
            self._up = RAY.submit(self._start)

    def _start(self) -> None:
        start_ray(slots=self.n_workers, address=self._address)
        self._connected = True
        if self._address == "local":
            check_worker(self._over)

    def wait(self, stop: Stop, show: Callable[[str], None] = lambda stage: None) -> None:
        """Wait until Ray is up, and on this machine a worker process, too.

        `show` is told what the start waits for. Raises RayNotUp, NobodyAnswers for a cluster, and
        KeyboardInterrupt for a stop.
        """
        self.begin()
        if self.calls is not None:
            return
        assert self._up is not None, "a sweep without workers needs no Ray"
        error = self._error(self._up, stop, show)
        if error is not None:
            if isinstance(error, NobodyAnswers) or not isinstance(error, Exception):
                raise error
            raise self._not_up(" ".join(f"{type(error).__name__}: {error}".split())[:300])
        take_back_sigterm()
        far = self._address != "local"
        if far:
            RAY.answer_s = FAR_S
        RAY.watch(daemons_here())
        if far and self.n_workers:
            ask_for_cpus(self.n_workers)

    def _error(
        self, up: Future[None], stop: Stop, show: Callable[[str], None]
    ) -> BaseException | None:
        """What the start raised, None where Ray is up."""
        stage, since = "", time.monotonic()
        looked = since - LOOK_S  # the first look is the first thing
        while True:
            with suppress(TimeoutError):
                return up.exception(0.2)
            if stop.soon:
                raise KeyboardInterrupt
            now = time.monotonic()
            if now - looked < LOOK_S:
                continue
            looked = now
            found = stage_of_start(self._address, connected=self._connected)
            if found != stage:
                stage, since = found, now
                show(stage)
            waited = now - since
            if waited > self._patience_s:
                raise self._not_up(f"waited {waited:.0f} s for {stage}")

    def _not_up(self, text: str) -> RayNotUp:
        RAY.lost = f"Ray did not start: {text}"
        return RayNotUp(f"{RAY.lost}; {self._logs()}")

    def _logs(self) -> str:
        if self._address != "local":
            return f"cluster {self._address}: see ray status"
        return logs_of_ray()

    def end(self) -> None:
        """Shut down what was started; kill what a Ray that was lost or did not start has left. A
        second call does nothing."""
        if self.calls is not None:
            self.calls.close()
        up, self._up = self._up, None
        if up is None:
            return
        # From here on this process ends by itself, and whoever watches it ends what is left of Ray.
        watched, RAY.tell = RAY.tell is not None, None
        self._over.set()  # nobody waits for a worker any more
        if watched and (RAY.lost or not up.done()):
            return
        for pid in daemons_below():  # one that somebody stopped would not hear that it is to end
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        with suppress(TimeoutError):
            up.exception(0.0 if RAY.lost and not self._connected else END_S)
        with suppress(ClusterLost):
            if up.done() and up.exception() is None:
                if self._address != "local" and self.n_workers:
                    ask_for_cpus(0)
                return stop_ray()
        kill_ray_below()
        RAY.begin_anew()
        if self._connected:
            # Attached to a Ray that is gone, this process could start no other, and would be ended.
            with suppress(Exception):
                stop_ray()


def cluster_lost(error: ClusterLost, folder: Path) -> ClusterLost:
    """The error with the way out: the command that resumes the run in `folder`, mostly."""
    if isinstance(error, RayNotUp):
        return RayNotUp(f"{error}. {way_out(folder if is_run(folder) else None)}")
    return ClusterLost(f"{' '.join(str(error).split())[:300]}; {resume_with(folder)}")
