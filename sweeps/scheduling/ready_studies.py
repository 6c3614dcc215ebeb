"""Queues of studies with a slot to open and of open slots, and what unfinished studies need."""

from __future__ import annotations

import heapq
from collections import Counter, deque

from ..study import Slot, Study
from ..trial import Trial
from .estimates import Estimates

Waiting = tuple[Study, Slot, Trial]  # an open slot and the trial that fills it


class ReadyStudies:
    """Studies with a next slot, in two queues (with a GPU, without), longest remaining work first.

    Starting the longest first keeps the end of a sweep short. Two queues, so that trials that wait
    for a GPU do not hold up trials that need none, and the other way round.
    """

    def __init__(self, estimates: Estimates) -> None:
        self._estimates = estimates
        self._heaps: dict[bool, list[tuple[float, str]]] = {True: [], False: []}  # with a GPU?
        self._queued: set[str] = set()

    def __len__(self) -> int:
        return sum(map(len, self._heaps.values()))

    def push(self, study: Study) -> None:
        """Queue a study; nothing happens where it is queued already or has no next slot."""
        if study.name not in self._queued and study.next_slot() is not None:
            self._queued.add(study.name)
            heap = self._heaps[uses_gpu(study)]
            heapq.heappush(heap, (-self._estimates.remaining_s(study), study.name))

    def first(self, with_gpu: bool) -> str | None:
        """The name of the first study of a queue, None where it is empty."""
        heap = self._heaps[with_gpu]
        return heap[0][1] if heap else None

    def pop(self, with_gpu: bool) -> None:
        """Take the first study out of a queue."""
        self._queued.discard(heapq.heappop(self._heaps[with_gpu])[1])


class Backlog:
    """Slots that were opened and whose trials wait for a worker, in two queues as `ReadyStudies`,
    what has waited longest first."""

    def __init__(self) -> None:
        self._queues: dict[bool, deque[Waiting]] = {True: deque(), False: deque()}  # with a GPU?

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def add(self, waiting: Waiting, *, first: bool = False) -> None:
        """Queue a slot, before all others where it comes `first`."""
        queue = self._queues[uses_gpu(waiting[0])]
        (queue.appendleft if first else queue.append)(waiting)

    def first(self, with_gpu: bool) -> Waiting | None:
        """The first slot of a queue, None where it is empty."""
        queue = self._queues[with_gpu]
        return queue[0] if queue else None

    def pop(self, with_gpu: bool) -> None:
        """Take the first slot out of a queue."""
        self._queues[with_gpu].popleft()


class UnfinishedStudies:
    """Studies that have not ended, counted by dataset, and which of them need a GPU."""

    def __init__(self) -> None:
        self._by_data: Counter[str] = Counter()
        self._on_gpus: dict[str, int] = {}  # {study: threads of its trials}

    def add(self, study: Study) -> None:
        """Count a study that is about to run."""
        self._by_data[study.data_key] += 1
        if uses_gpu(study):
            self._on_gpus[study.name] = study.needs.threads

    def remove(self, study: Study) -> None:
        """Count a study out that has ended."""
        self._on_gpus.pop(study.name, None)
        self._by_data[study.data_key] -= 1

    def needs_data(self, data_key: str) -> bool:
        """Whether an unfinished study works on this data."""
        return bool(self._by_data[data_key])

    def threads_beside_gpus(self) -> int:
        """CPUs that a trial with a GPU needs at most; 0 where no such trial is to come."""
        return max(self._on_gpus.values(), default=0)


def uses_gpu(study: Study) -> bool:
    """Whether the trials of a study need a GPU."""
    return study.needs.gpu_mb > 0
