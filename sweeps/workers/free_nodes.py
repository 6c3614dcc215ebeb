"""Nodes by the room that they have left, so that a place is found without a look at all of them."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

TOLERANCE = 1e-9  # of shares of a GPU, which are added and subtracted


class Comparable(Protocol):
    """Keys that have an order."""

    def __lt__(self, other: Any, /) -> bool:
        """Whether this one comes first."""
        ...


K = TypeVar("K", bound=Comparable)


class LeastFirst(Generic[K]):
    """A set whose least member is found at once.

    A heap with deletions that are made up for when a deleted key comes to its top. A key is in the
    heap at most once, and the heap is made anew where most of it has been deleted.
    """

    def __init__(self) -> None:
        self._members: set[K] = set()
        self._heap: list[K] = []
        self._in_heap: set[K] = set()

    def __len__(self) -> int:
        return len(self._members)

    def add(self, key: K) -> None:
        """Add a key."""
        self._members.add(key)
        if key not in self._in_heap:
            self._in_heap.add(key)
            heapq.heappush(self._heap, key)

    def discard(self, key: K) -> None:
        """Remove a key, if it is there."""
        self._members.discard(key)
        if len(self._heap) > 2 * len(self._members) + 64:
            self._heap = sorted(self._members)
            self._in_heap = set(self._members)

    def first(self) -> K | None:
        """The least key, None where there is none."""
        while self._heap and self._heap[0] not in self._members:
            self._in_heap.discard(heapq.heappop(self._heap))
        return self._heap[0] if self._heap else None

    def in_order(self) -> Iterator[K]:
        """All keys, least first; the first costs little, the second a sort."""
        first = self.first()
        if first is not None:
            yield first
            yield from sorted(self._members - {first})


@dataclass(frozen=True)
class Room:
    """What a node has left; `gpu_node` says whether it has GPUs at all, free or not. `share` is the
    most that is left of one GPU, as a worker gets no parts of two."""

    gpu_node: bool
    threads: int
    gpus: float
    share: float
    memory_mb: float

    @property
    def idle_gpus(self) -> int:
        """GPUs of which some share is free."""
        return math.ceil(self.gpus - TOLERANCE)


# Nodes are kept together that are alike as places: (has GPUs, CPUs, idle GPUs, the largest share of
# one, memory). Memory is kept by powers of two, as workers ask for it, so that a look into a group
# seldom goes past its first node.
Group = tuple[bool, int, int, float, int]


class FreeNodes:
    """Nodes by their room, for workers with a GPU and for workers without one.

    `reserve` CPUs beside each idle GPU count as taken for workers without one.
    """

    def __init__(self, reserve: int = 0) -> None:
        self._reserve = reserve
        self.idle_gpus = 0  # of all nodes
        self._rooms: dict[str, Room] = {}
        self._groups: dict[Group, LeastFirst[str]] = {}
        # The groups in the order of preference, for workers without and with a GPU; None: to be
        # sorted again.
        self._orders: tuple[list[Group], list[Group]] | None = None

    def put(self, node: str, room: Room) -> None:
        """Set the room of a node."""
        before = self._rooms.get(node)
        if before == room:
            return
        self.drop(node)
        self._rooms[node] = room
        self.idle_gpus += room.idle_gpus
        group = group_of(room)
        if group not in self._groups:
            self._groups[group] = LeastFirst()
            self._orders = None
        self._groups[group].add(node)

    def drop(self, node: str) -> None:
        """Leave a node out."""
        room = self._rooms.pop(node, None)
        if room is None:
            return
        self.idle_gpus -= room.idle_gpus
        group = group_of(room)
        self._groups[group].discard(node)
        if not self._groups[group]:
            del self._groups[group]
            self._orders = None

    def best(self, threads: int, gpus: float, memory_mb: float) -> str | None:
        """The node for a worker: with most CPUs left among those where it fits, ties to the first
        by id; without GPUs, if it needs none. None where it fits nowhere."""
        if self._orders is None:
            self._orders = (
                sorted(self._groups, key=lambda group: (group[0], -self._threads(group, 0.0))),
                sorted((group for group in self._groups if group[0]), key=lambda group: -group[1]),
            )
        found: tuple[bool, int, str] | None = None
        for group in self._orders[gpus > 0]:
            left = self._threads(group, gpus)
            if found is not None and (group[0] and not gpus, -left) > found[:2]:
                break
            if left < threads or group[4] < memory_class(memory_mb) or group[3] < gpus - 1e-6:
                continue
            for node in self._groups[group].in_order():
                room = self._rooms[node]
                if room.memory_mb >= memory_mb and room.share >= gpus - TOLERANCE:
                    place = (group[0] and not gpus, -left, node)
                    found = place if found is None else min(found, place)
                    break
        return found[2] if found else None

    def _threads(self, group: Group, gpus: float) -> int:
        """CPUs that the nodes of a group have for a worker with so much of a GPU."""
        return group[1] if gpus else group[1] - group[2] * self._reserve


def group_of(room: Room) -> Group:
    """The group of a node with this room."""
    memory = memory_class(room.memory_mb)
    return room.gpu_node, room.threads, room.idle_gpus, round(room.share, 6), memory


def memory_class(memory_mb: float) -> int:
    """A number that is not lower for more memory, and differs at each power of two."""
    return int(max(0.0, memory_mb)).bit_length()
