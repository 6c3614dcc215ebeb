"""A cluster that does not exist: workers in this process, under a driver that is real.

The simulated time is the CPU time of this process, and jumps to the next end of a trial where the
driver has nothing to do. So a busy machine changes no figure, and what the driver does in the
meantime takes its time as it would on a real cluster.
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from tabsweep.sweeps.trial import Trial
from tabsweep.sweeps.workers.pool import RunTrial
from tabsweep.sweeps.workers.ray_calls import RayCalls
from tabsweep.sweeps.workers.ray_cluster import Node

GPU_MB = 80_000.0


@dataclass(eq=False)
class Actor:
    """A simulated worker: it does one call after the other."""

    number: int
    free_at: float = 0.0


def node_of(number: int, cpus: int, gpus: int) -> Node:
    """A node with 4 GB a CPU; ids are long hexadecimal numbers, as Ray's."""
    return Node(f"{number:056x}", f"host{number:05}", cpus, gpus, 4096.0 * cpus)


def homogeneous(n_workers: int) -> dict[str, Node]:
    """Nodes of 16 CPUs, with so many in all."""
    sizes = [min(16, n_workers - first) for first in range(0, n_workers, 16)]
    return {f"{i:056x}": node_of(i, cpus, 0) for i, cpus in enumerate(sizes)}


def mixed(n_workers: int) -> dict[str, Node]:
    """Nodes of three sizes, every third one with two GPUs, for about so many workers of shapes that
    differ."""
    found: dict[str, Node] = {}
    cpus = i = 0
    while cpus < 2 * n_workers:
        size, gpus = ((16, 2), (8, 0), (32, 0))[i % 3]
        found[f"{i:056x}"] = node_of(i, size, gpus)
        cpus, i = cpus + size, i + 1
    return found


class SimulatedRay(RayCalls):
    """Ray's calls, answered in this process. A trial takes half to one and a half times `trial_s`
    of simulated time; every actor is up at once."""

    def __init__(self, nodes: dict[str, Node], run_trial: RunTrial, trial_s: float) -> None:
        self._nodes = nodes
        self._run_trial = run_trial
        self._trial_s = trial_s
        self._numbers = itertools.count()
        self._pending: list[tuple[float, int, Future[Any], Callable[[], Any]]] = []
        self._skipped = 0.0
        self.n_started = 0

    def clock(self) -> float:
        """Simulated seconds."""
        return time.process_time() + self._skipped

    @property
    def here(self) -> str:
        """The first node."""
        return next(iter(self._nodes))

    def nodes(self) -> dict[str, Node]:
        """{id: node}; no node comes or goes."""
        return dict(self._nodes)

    def draining(self) -> set[str]:
        """None is told to leave."""
        return set()

    def put(self, value: Any) -> Any:
        """The value itself."""
        return value

    def start(self, body: type, *args: Any, **options: Any) -> Actor:
        """A new actor, up at once."""
        self.n_started += 1
        return Actor(next(self._numbers))

    def call(self, actor: Actor, method: str, *args: Any) -> int:
        """Queue a call behind the earlier ones of its actor."""
        number, future = next(self._numbers), Future[Any]()
        if method == "ready":
            ready = {"pid": actor.number, "wrong": "", "gpu_mb": GPU_MB, "context_mb": 0.0}
            heapq.heappush(self._pending, (self.clock(), number, future, lambda: ready))
            return number
        trial: Trial = args[0]
        share = 0.5 + int(trial.id[8:16], 16) / 2**32
        actor.free_at = max(actor.free_at, self.clock()) + share * self._trial_s
        answer = self._run_trial
        heapq.heappush(self._pending, (actor.free_at, number, future, lambda: answer(trial, None)))
        return number

    def ended(self, timeout_s: float) -> list[tuple[Any, Future[Any]]]:
        """The calls that have ended by now; waiting moves the clock on."""
        now = self.clock()
        if not self._pending or self._pending[0][0] > now:
            next_end = self._pending[0][0] if self._pending else now + timeout_s
            self._skipped += min(timeout_s, next_end - now)
            now = self.clock()
        found = []
        while self._pending and self._pending[0][0] <= now:
            _, number, future, answer = heapq.heappop(self._pending)
            future.set_result(answer())
            found.append((number, future))
        return found

    def result_if_there(self, ref: Any) -> None:
        """No worker dies, so nobody asks."""

    def process(self, pid: int) -> None:
        """No actor has a process of its own."""

    def kill(self, actor: Actor) -> None:
        """Nothing is left of it."""
