"""Actors by the jobs that they have, and by when they are overdue: found without a look at all."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable

from .free_nodes import LeastFirst
from .placement import Shape


class FreeActors:
    """Actors (by number, in the order of their start) that can take another job.

    An actor takes `depth` jobs: one that runs and others that wait. Actors are kept by shape and by
    rank: how many jobs they have, and whether their process is up.
    """

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._ranks: dict[int, tuple[Shape, int | None]] = {}  # where each actor stands
        # {(threads, gpus): {memory: the actors of that shape}}: one with more memory serves the
        # jobs of those with less.
        self._shapes: dict[tuple[int, float], dict[float, _Shape]] = {}

    def put(self, number: int, shape: Shape, jobs: int, *, starting: bool, worn: bool) -> None:
        """Say what an actor has to do now; one that is `worn` gets no further job."""
        rank = None if worn or jobs >= self._depth else 2 * jobs + starting
        before = self._ranks.get(number)
        if before == (shape, rank):
            return
        group = self._shapes.setdefault((shape.threads, shape.gpus), {})
        alike = group.setdefault(shape.memory_mb, _Shape(2 * self._depth))
        if before is None:
            alike.count += 1
        elif before[1] is not None:
            alike.ranks[before[1]].discard(number)
        if rank is not None:
            alike.ranks[rank].add(number)
        self._ranks[number] = shape, rank

    def drop(self, number: int) -> None:
        """An actor has ended."""
        shape, rank = self._ranks.pop(number)
        group = self._shapes[shape.threads, shape.gpus]
        alike = group[shape.memory_mb]
        if rank is not None:
            alike.ranks[rank].discard(number)
        alike.count -= 1
        if not alike.count:
            del group[shape.memory_mb]

    def best(self, shape: Shape) -> int | None:
        """The actor that a job of this shape goes to: with the fewest jobs, one that is up before
        one that starts, the oldest of these. None where none can take it."""
        found: tuple[int, int] | None = None
        for memory, alike in self._shapes.get((shape.threads, shape.gpus), {}).items():
            if memory < shape.memory_mb:
                continue
            for rank, actors in enumerate(alike.ranks):
                if found is not None and rank > found[0]:
                    break
                first = actors.first()
                if first is not None:
                    found = (rank, first) if found is None else min(found, (rank, first))
                    break
        return found[1] if found else None


class _Shape:
    """The actors of one shape: how many there are, and by rank those that can take a job."""

    def __init__(self, n_ranks: int) -> None:
        self.count = 0
        self.ranks: list[LeastFirst[int]] = [LeastFirst() for _ in range(n_ranks)]


class Deadlines:
    """When each actor is overdue; only those are asked whose time may have come.

    A later deadline than the noted one is looked up when the noted one has passed: a trial that
    ends long before its time limit leaves nothing to do.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[float, int]] = []
        self._noted: dict[int, float] = {}

    def note(self, number: int, at: float) -> None:
        """An actor is overdue from `at` on, by the caller's clock."""
        if at < self._noted.get(number, math.inf):
            self._noted[number] = at
            heapq.heappush(self._heap, (at, number))

    def drop(self, number: int) -> None:
        """An actor has ended."""
        self._noted.pop(number, None)

    def passed(self, now: float, deadline: Callable[[int], float]) -> list[int]:
        """The actors whose deadline has passed, in the order of their start. `deadline(number)` is
        the one that counts now, infinity for none."""
        found = []
        while self._heap and self._heap[0][0] < now:
            at, number = heapq.heappop(self._heap)
            if self._noted.get(number) != at:
                continue
            del self._noted[number]
            true = deadline(number)
            if true < now:
                found.append(number)
            else:
                self.note(number, true)
        return sorted(found)
