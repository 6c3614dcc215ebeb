"""Placement: what a worker holds of its node, and which node has room for another worker."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from ..study import Needs
from .ray_cluster import Node

TOLERANCE = 1e-9  # of shares of a GPU, which are added and subtracted
FEWEST_MB = 1024.0  # memory that a worker is placed with, at least
MOST_ON_A_GPU = 8  # workers that share one GPU


@dataclass(frozen=True)
class Shape:
    """CPUs, memory and GPUs that a worker occupies on its node while it lives. `gpus` may be a
    fraction. outside: as in `Needs`."""

    threads: int
    gpus: float
    memory_mb: float
    outside: str = ""


@dataclass(frozen=True)
class Room:
    """What a node has left. idle_gpus: GPUs of which some share is free. share: the most that is
    left of one GPU, as a worker gets no parts of two."""

    threads: int
    memory_mb: float
    idle_gpus: int
    share: float

    def holds(self, shape: Shape) -> bool:
        """Whether one more worker fits in."""
        return (
            self.threads >= shape.threads
            and self.memory_mb >= shape.memory_mb
            and self.share >= shape.gpus - TOLERANCE
        )


class Placed(Protocol):
    """A worker that holds a shape of a node."""

    shape: Shape
    node: Node


class Placement:
    """The nodes of a cluster, the workers on them, and the rules by which workers get a place.

    nodes: {id: node}, replaced whenever the cluster is looked at.
    limit: CPUs that all workers may hold together; None: no limit but the nodes'.
    The room of a node is added up again where a worker came, went or changed its state.
    """

    def __init__(self, nodes: Mapping[str, Node], limit: int | None = None) -> None:
        self.limit = limit
        self.reserve = 0
        self.refused: set[str] = set()  # ids of nodes that are not used any more
        self._nodes = dict(nodes)
        self._gpu_mb: dict[str, float] = {}
        self._context_mb: dict[str, float] = {}
        self._idle: dict[str, dict[Placed, bool]] = defaultdict(dict)  # the workers of each node
        self._gpu: dict[Placed, int] = {}  # the GPU of its node that a worker holds a share of
        self._threads = {False: 0, True: 0}  # held by workers with a job, and by idle ones
        # As it is, and as it would be if all idle workers ended, by node.
        self._rooms: dict[bool, dict[str, Room]] = {False: {}, True: {}}

    # ------------------------------------------------------------------ nodes

    @property
    def nodes(self) -> dict[str, Node]:
        """{id: node}."""
        return self._nodes

    @nodes.setter
    def nodes(self, nodes: Mapping[str, Node]) -> None:
        if nodes != self._nodes:
            self._nodes = dict(nodes)
            for rooms in self._rooms.values():
                rooms.clear()

    def usable(self) -> list[Node]:
        """The nodes that are not refused."""
        return [node for node in self._nodes.values() if node.id not in self.refused]

    def know_gpu(self, node: str, memory_mb: float, context_mb: float = 0.0) -> None:
        """Take in what a worker of that node measured when it came up (`hold_to_share`): the free
        memory of its GPU and the size of its CUDA context. The first worker finds most memory free:
        all that other programs leave."""
        self._gpu_mb[node] = max(memory_mb, self._gpu_mb.get(node, 0.0))
        self._context_mb[node] = min(context_mb, self._context_mb.get(node, context_mb))

    # ------------------------------------------------------------------ workers

    def add(self, worker: Placed) -> None:
        """A worker without a job holds its shape from now on. Its share of a GPU is on the one with
        the least room that has enough for it, as Ray chooses, too."""
        if worker.shape.gpus:
            rests = self._rests(worker.node, self._idle[worker.node.id])
            fits = [rest for rest in rests if rest >= worker.shape.gpus - TOLERANCE]
            self._gpu[worker] = rests.index(min(fits) if fits else max(rests))
        self._idle[worker.node.id][worker] = True
        self._threads[True] += worker.shape.threads
        self._touch(worker.node.id)

    def remove(self, worker: Placed) -> None:
        """A worker has ended."""
        idle = self._idle[worker.node.id].pop(worker)
        self._threads[idle] -= worker.shape.threads
        self._gpu.pop(worker, None)
        self._touch(worker.node.id)

    def mark(self, worker: Placed, *, idle: bool) -> None:
        """Say whether a worker has no job."""
        there = self._idle[worker.node.id]
        if there[worker] is idle:
            return
        there[worker] = idle
        self._threads[idle] += worker.shape.threads
        self._threads[not idle] -= worker.shape.threads
        self._rooms[True].pop(worker.node.id, None)

    def _touch(self, node: str) -> None:
        for rooms in self._rooms.values():
            rooms.pop(node, None)

    def gpu_of(self, worker: Placed) -> int | None:
        """The number of the GPU on its node that a worker holds a share of; None without one."""
        return self._gpu.get(worker)

    def holds_gpus(self, node: str, *, but: Placed) -> bool:
        """Whether another worker than `but` holds a share of a GPU of that node."""
        return any(other in self._gpu for other in self._idle[node] if other is not but)

    def cpus_left(self, *, ending_idle: bool = False) -> float:
        """CPUs that the limit on all workers leaves; infinity without a limit."""
        used = self._threads[False] + (0 if ending_idle else self._threads[True])
        return math.inf if self.limit is None else self.limit - used

    # ------------------------------------------------------------------ shapes and places

    def shape(self, needs: Needs) -> Shape | None:
        """The shape of the worker for these needs; None where no node can run it at all.

        What no node has is cut down to what the best one has.
        """
        threads = needs.threads if self.limit is None else min(needs.threads, self.limit)
        memory = 2.0 ** math.ceil(math.log2(max(FEWEST_MB, needs.memory_mb)))
        found = [n for n in self.usable() if n.cpus and (n.gpus or not needs.gpu_mb)]
        if not found:
            return None
        best = max(found, key=lambda n: (min(n.cpus, threads), min(n.memory_mb, memory)))
        threads, memory = min(threads, best.cpus), min(memory, best.memory_mb)
        gpus = 0.0
        if needs.gpu_mb:
            smallest = min((self._gpu_mb.get(node.id, 0.0) for node in found), default=0.0)
            context = max((self._context_mb.get(node.id, 0.0) for node in found), default=0.0)
            fit = int(smallest // (needs.gpu_mb + context))
            gpus = 1.0 if fit < 2 else 1.0 / min(fit, MOST_ON_A_GPU)
        return Shape(max(1, threads), gpus, memory, needs.outside)

    def place(self, shape: Shape, *, ending_idle: bool = False) -> Node | None:
        """The node with most room for one more worker; None where it fits nowhere.

        ending_idle: as if all workers without a job had ended.

        A worker without a GPU goes to a node without GPUs, if it can, and leaves the reserved CPUs
        beside idle GPUs free; of the limit on all workers, at most half is so reserved.
        """
        left = self.cpus_left(ending_idle=ending_idle)
        if left < shape.threads:
            return None
        rooms = {node.id: self._room(node, ending_idle=ending_idle) for node in self.usable()}
        reserve = 0 if shape.gpus else self.reserve
        if self.limit is not None and reserve:
            idle_gpus = sum(room.idle_gpus for room in rooms.values())
            if left - min(reserve * idle_gpus, self.limit // 2) < shape.threads:
                return None
        threads = {id: room.threads - reserve * room.idle_gpus for id, room in rooms.items()}
        fits = [
            id for id, room in rooms.items() if room.holds(shape) and threads[id] >= shape.threads
        ]
        if not fits:
            return None
        nodes, with_gpu = self._nodes, shape.gpus > 0
        return nodes[
            min(fits, key=lambda id: (nodes[id].gpus > 0 and not with_gpu, -threads[id], id))
        ]

    def _room(self, node: Node, *, ending_idle: bool) -> Room:
        """What a node has left. Added up afresh: sums that are only kept up to date would drift."""
        rooms = self._rooms[ending_idle]
        if node.id not in rooms:
            there = [w for w, idle in self._idle[node.id].items() if not (idle and ending_idle)]
            rests = self._rests(node, there)
            rooms[node.id] = Room(
                node.cpus - sum(worker.shape.threads for worker in there),
                node.memory_mb - sum(worker.shape.memory_mb for worker in there),
                math.ceil(sum(rests) - TOLERANCE),
                max(rests, default=0.0),
            )
        return rooms[node.id]

    def _rests(self, node: Node, workers: Iterable[Placed]) -> list[float]:
        """What these workers leave of each GPU of the node."""
        rests = [1.0] * node.gpus
        for worker in workers:
            gpu = self.gpu_of(worker)
            if gpu is not None and gpu < len(rests):
                rests[gpu] -= worker.shape.gpus
        return rests
