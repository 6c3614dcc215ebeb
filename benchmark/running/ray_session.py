"""The Ray of a sweep: started in the background, shut down at the end, and errors of its loss."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from ...sweeps.engine import Stop
from ...sweeps.workers.pool import ClusterLost
from ...sweeps.workers.ray_cluster import start_ray, take_back_sigterm
from .request import Request, available_cpus

START_S = 60.0  # how long the end of a sweep waits for a Ray that is still starting

# Exceptions of Ray that mean that the cluster failed, and not a trial.
RAY_GONE = ("RaySystemError", "RpcError", "LocalRayletDiedError", "RayChannelError")


class RayStart:
    """Starts Ray while the data loads; a sweep with nothing to run never waits for it.

    The thread that starts Ray lives until the end: on Linux the processes of Ray ask to be killed
    when their parent ends, and the parent is the thread that started them.
    """

    def __init__(self, request: Request) -> None:
        # None: all that a cluster has
        self.n_workers = request.workers
        if self.n_workers is None and request.address == "local":
            self.n_workers = available_cpus()
        self._address = request.address
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._up = threading.Event()
        self._over = threading.Event()

    def begin(self) -> None:
        """Start Ray in the background, once; nothing for a sweep without workers."""
        if self.n_workers != 0 and self._thread is None:
            self._thread = threading.Thread(target=self._start, daemon=True)
            self._thread.start()

    def _start(self) -> None:
        try:
            start_ray(slots=self.n_workers, address=self._address)
        except BaseException as error:
            self._error = error
        self._up.set()
        self._over.wait()

    def wait(self, stop: Stop) -> None:
        """Wait until Ray is up. Raises the error of its start, KeyboardInterrupt for a stop."""
        self.begin()
        while not self._up.wait(0.2):
            if stop.soon:
                raise KeyboardInterrupt
        if self._error is not None:
            raise self._error
        take_back_sigterm()

    def end(self) -> None:
        """Shut Ray down, if it was started."""
        if self._thread is None:
            return
        if not self._up.wait(START_S):
            return  # it hangs; its processes end with this one
        ray = sys.modules.get("ray")
        if ray is not None and ray.is_initialized():
            ray.shutdown()
        self._over.set()


def cluster_lost(error: Exception, folder: Path) -> ClusterLost | None:
    """The error as the loss of the cluster, with the command that resumes the run in `folder`;
    None for any other error."""
    names = {cls.__name__ for cls in type(error).__mro__}
    if isinstance(error, ClusterLost) or names & {*RAY_GONE}:
        text = " ".join(str(error).split())[:300]
        return ClusterLost(f"{text}. Finished trials are kept; resume with: bench resume {folder}")
    return None
