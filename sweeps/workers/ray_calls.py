"""The calls to Ray that a worker pool makes (start and end actors, send trials, hear of ends), and
those of its workers."""

from __future__ import annotations

import queue
from concurrent.futures import Future
from functools import cached_property
from pathlib import Path
from typing import Any

from ..store.checkpoints import CheckpointFolder
from .ray_cluster import Node, end_of, nodes, on_node
from .ray_private import draining, report_crash_cause, take_crash_cause
from .ray_thread import RAY, bounded
from .trial_actor import WorkerLink

PUT_S = 120.0  # for an object to be stored, by a busy disk too
FETCH_S = 5.0  # how long results of a dead worker may be on their way


class RayLink:
    """A `trial_actor.WorkerLink` of an actor of Ray."""

    pages = "/plasma"

    def get(self, ref: Any) -> Any:
        """The value of a reference. Raises MemoryError where it does not fit."""
        import ray
        from ray.exceptions import RaySystemError

        try:
            return ray.get(ref)
        except RaySystemError as error:  # what unpickling raises comes as one
            if isinstance(error.client_exc, MemoryError):
                raise MemoryError from error
            raise

    def report(self, worker: str, cause: str, **facts: Any) -> None:
        """Tell the driver why this process is about to end itself."""
        report_crash_cause(worker, cause, **facts)

    def checkpoints(self, keeper: Any) -> RemoteCheckpoints:
        """The folder that an actor keeps."""
        return RemoteCheckpoints(keeper)


class RemoteCheckpoints:
    """A `CheckpointFolder` that is an actor, as `Checkpoints`. Raises ray.exceptions.RayError where
    it cannot be reached."""

    TIMEOUT_S = 60.0

    def __init__(self, keeper: Any) -> None:
        self._keeper = keeper

    def get(self, key: str) -> tuple[int, bytes] | None:
        """The last (step, state) that was put under a key, or None."""
        return self._ask(self._keeper.get.remote(key))

    def put(self, key: str, step: int, state: bytes) -> None:
        """Replace what was put under a key; durable when it returns."""
        self._ask(self._keeper.put.remote(key, step, state))

    def _ask(self, ref: Any) -> Any:
        import ray

        return ray.get(ref, timeout=self.TIMEOUT_S)


class RayCalls:
    """Ray as the worker pool sees it, each call made in Ray's thread.

    Ray reports the end of each call by itself (`ended`). `ray.wait` would look at every reference
    again each time: 20 ms for those of 10,000 actors.
    """

    link: WorkerLink = RayLink()

    def __init__(self) -> None:
        import ray

        self._ray = ray
        self._ended: queue.SimpleQueue[tuple[Any, Future[Any]]] = queue.SimpleQueue()
        self._classes: dict[type, Any] = {}  # registered once: Ray stores a class for each `remote`

    @cached_property
    def here(self) -> str:
        """The id of the driver's own node."""
        return RAY.ask(lambda: self._ray.get_runtime_context().get_node_id())

    def nodes(self) -> dict[str, Node]:
        """{id: node} of the nodes that are alive now."""
        return nodes()

    @bounded
    def draining(self) -> set[str]:
        """The ids of the nodes that are told to leave: Ray lets end what runs there."""
        return draining()

    def put(self, value: Any) -> Any:
        """A reference of an object that every node can fetch."""
        return RAY.ask(lambda: self._ray.put(value), PUT_S)

    def check(self) -> None:
        """Raises ClusterLost where Ray is lost."""
        RAY.check()

    @bounded
    def start(self, body: type, *args: Any, node: str, **options: Any) -> Any:
        """A new actor on that node, which Ray never starts again unless `options` say so; they are
        those of `ray.remote`."""
        if body not in self._classes:
            self._classes[body] = self._ray.remote(body)
        how = {"max_restarts": 0, "max_task_retries": 0, "scheduling_strategy": on_node(node)}
        return self._classes[body].options(**(how | options)).remote(*args)

    def keeper(self, folder: Path) -> Any:
        """An actor that keeps checkpoints in a folder of this machine."""
        again = {"max_restarts": -1, "max_task_retries": -1}
        return self.start(CheckpointFolder, str(folder), node=self.here, num_cpus=0, **again)

    @bounded
    def call(self, actor: Any, method: str, *args: Any) -> Any:
        """Call a method of an actor; its end will be among `ended` under the reference returned."""
        ref = getattr(actor, method).remote(*args)
        ref.future().add_done_callback(lambda future: self._ended.put((ref, future)))
        return ref

    def ended(self, timeout_s: float) -> list[tuple[Any, Future[Any]]]:
        """(reference, its finished future) of the calls that ended since this was asked last, after
        waiting at most `timeout_s` for the first."""
        found = []
        try:
            found.append(self._ended.get(timeout=timeout_s))
            while True:
                found.append(self._ended.get_nowait())
        except queue.Empty:
            return found

    @bounded
    def fetch(self, refs: list[Any]) -> None:
        """Wait a moment until these calls have ended and what they returned is on this machine: a
        large result comes after the notice that its worker has died."""
        self._ray.wait(refs, num_returns=len(refs), timeout=FETCH_S, fetch_local=True)

    @bounded
    def result_if_there(self, ref: Any) -> Any:
        """What a call returned, None where it has not ended or ended in an error."""
        try:
            return self._ray.get(ref, timeout=0)
        except Exception:
            return None

    def end_of(self, error: Exception) -> str | None:
        """How an actor died, None where it did not: 'killed', 'oom' or 'lost'."""
        return end_of(error)

    def crash_cause(self, worker: str) -> dict[str, Any]:
        """What a worker that ended itself had reported, once; {} where it had not."""
        return take_crash_cause(worker)

    @bounded
    def kill(self, actor: Any) -> None:
        """End an actor at once; one that Ray itself has ended or never made is fine."""
        from ray.exceptions import RaySystemError

        try:
            self._ray.kill(actor)
        except RaySystemError:  # "Actor creation cancelled"
            return

    def close(self) -> None:
        """Ray itself stays."""
