"""Placement: what a worker holds of its node, and which node has room for another worker."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ..study import Needs
from .ray_cluster import Node

FEWEST_MB = 1024.0  # memory that a worker is placed with, at least
MOST_ON_A_GPU = 8  # workers that share one GPU


@dataclass(frozen=True)
class Shape:
    """What a worker holds of its node for as long as it lives; `gpus` may be a fraction."""

    threads: int
    gpus: float
    memory_mb: float

    def serves(self, other: Shape) -> bool:
        """Whether a worker of this shape can run the jobs of the other."""
        return (
            self.threads == other.threads
            and self.gpus == other.gpus
            and self.memory_mb >= other.memory_mb
        )


class Placed(Protocol):
    """A worker that holds a shape of a node."""

    @property
    def shape(self) -> Shape:
        """What the worker holds."""
        ...

    @property
    def node(self) -> Node:
        """Where it holds that."""
        ...


class Placement:
    """The nodes of a cluster and the rules by which workers get a place on them.

    nodes: {id: node}, replaced whenever the cluster is looked at.
    limit: CPUs that all workers may hold together; None: no limit but the nodes'.
    refused: {id of a node that is not used: the reason}.
    gpu_mb: memory of a GPU by node id, as far as a worker has reported it.
    reserve: CPUs that stay free beside each idle GPU for trials that need one.
    """

    def __init__(self, nodes: dict[str, Node], limit: int | None = None) -> None:
        self.nodes = nodes
        self.limit = limit
        self.refused: dict[str, str] = {}
        self.gpu_mb: dict[str, float] = {}
        self.reserve = 0

    def usable(self) -> list[Node]:
        """The nodes that are not refused."""
        return [node for node in self.nodes.values() if node.id not in self.refused]

    def cpus_left(self, workers: Iterable[Placed]) -> float:
        """CPUs that the limit on all workers leaves; infinity without a limit."""
        used = sum(worker.shape.threads for worker in workers)
        return math.inf if self.limit is None else self.limit - used

    def shape(self, needs: Needs) -> Shape | None:
        """The shape of the worker for these needs; None where no node can run it at all.

        What no node has is cut down to what the best one has.
        """
        found = [n for n in self.usable() if n.cpus and (n.gpus or not needs.gpu_mb)]
        if not found:
            return None
        threads = needs.threads if self.limit is None else min(needs.threads, self.limit)
        memory = 2.0 ** math.ceil(math.log2(max(FEWEST_MB, needs.memory_mb)))
        best = max(found, key=lambda n: (min(n.cpus, threads), min(n.memory_mb, memory)))
        threads, memory = min(threads, best.cpus), min(memory, best.memory_mb)
        gpus = 0.0
        if needs.gpu_mb:
            smallest = min((self.gpu_mb.get(node.id, 0.0) for node in found), default=0.0)
            fit = int(smallest // needs.gpu_mb)
            gpus = 1.0 if fit < 2 else 1.0 / min(fit, MOST_ON_A_GPU)
        return Shape(max(1, threads), gpus, memory)

    def place(
        self, shape: Shape, workers: Sequence[Placed], gone: Sequence[Placed] = ()
    ) -> Node | None:
        """The node with most room for one more worker; None where it fits nowhere.

        workers: those that hold room now; gone: those of them that are to be ended first.

        A worker without a GPU goes to a node without GPUs, if it can, and leaves the reserved CPUs
        beside idle GPUs free.
        """
        held: dict[str, list[float]] = defaultdict(lambda: [0, 0.0, 0.0])
        for sign, some in ((1, workers), (-1, gone)):
            for worker in some:
                there = held[worker.node.id]
                there[0] += sign * worker.shape.threads
                there[1] += sign * worker.shape.gpus
                there[2] += sign * worker.shape.memory_mb
        freed = sum(worker.shape.threads for worker in gone)
        if self.cpus_left(workers) + freed < shape.threads:
            return None
        found = []
        for node in self.usable():
            threads, gpus, memory = (
                offered - taken
                for offered, taken in zip(
                    (node.cpus, node.gpus, node.memory_mb), held[node.id], strict=True
                )
            )
            if not shape.gpus:
                threads -= math.ceil(gpus) * self.reserve
            fits = threads >= shape.threads and memory >= shape.memory_mb
            if fits and gpus >= shape.gpus - 1e-9:
                found.append((node.gpus > 0 and not shape.gpus, -threads, node.id))
        return self.nodes[min(found)[2]] if found else None
