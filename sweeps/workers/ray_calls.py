"""The calls to Ray that a worker pool makes: start and end actors, send trials, hear of ends."""

from __future__ import annotations

import queue
from concurrent.futures import Future
from functools import cached_property
from typing import Any

from .ray_cluster import Node, nodes
from .ray_private import draining
from .ray_thread import RAY, bounded

PUT_S = 120.0  # for an object to be stored, by a busy disk too
FETCH_S = 5.0  # how long results of a dead worker may be on their way


class RayCalls:
    """Ray as the worker pool sees it, each call made in Ray's thread.

    Ray reports the end of each call by itself (`ended`). `ray.wait` would look at every reference
    again each time: 20 ms for those of 10,000 actors.
    """

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

    @bounded
    def start(self, body: type, *args: Any, **options: Any) -> Any:
        """A new actor; `options` as in `ray.remote`."""
        if body not in self._classes:
            self._classes[body] = self._ray.remote(body)
        return self._classes[body].options(**options).remote(*args)

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

    @bounded
    def kill(self, actor: Any) -> None:
        """End an actor at once; one that Ray itself has ended or never made is fine."""
        from ray.exceptions import RaySystemError

        try:
            self._ray.kill(actor)
        except RaySystemError:  # "Actor creation cancelled"
            return
