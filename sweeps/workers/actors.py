"""Actors that run trials: their start, the jobs in their queues, and their ends."""

from __future__ import annotations

import itertools
import math
import os
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..events import News, WorkerLost
from ..machine.awake_clock import awake_s
from ..trial import failure
from .crash_report import CrashOutputs
from .placement import Placement, Shape
from .pool import ClusterLost, Job, JobOutcome, RunTrial
from .ray_calls import RayCalls
from .ray_cluster import Node
from .ray_start import cpu_s_of
from .trial_actor import Common, TrialWorker

DEPTH = 2  # jobs that an actor is given, the running one included
START_TIMEOUT_S = 300.0  # for a worker process to come up, imports of Ray included


@dataclass(eq=False)
class TrialActor:
    """One actor, and the jobs that were sent to it: the first runs, the others wait.

    number: counts the actors of a pool, in the order of their start.
    starting: resolves when the process is up; None from then on. Until then no trial's time runs.
    head_since: when the first job began, or the actor's start, by `awake_s`.
    head_cpu_s: CPU seconds that its process had used by then.
    worn: no further job is sent to it, and it ends when its queue is empty.
    here: whether it is up on the driver's own node, so that `pid` names a process of this machine.
    """

    name: str
    number: int
    handle: Any
    shape: Shape
    node: Node
    queue: deque[tuple[Job, Any]] = field(default_factory=deque)
    head_since: float = 0.0
    head_cpu_s: float = 0.0
    starting: Any = None
    worn: bool = False
    pid: int = 0
    here: bool = False

    def describe(self) -> dict[str, Any]:
        """The actor as an entry of `WorkerPool.workers`."""
        trial = self.queue[0][0].trial if self.queue else None
        return {
            "name": self.name,
            "host": self.node.host,
            "pid": self.pid,
            "threads": self.shape.threads,
            "gpus": round(self.shape.gpus, 3),
            "starting": self.starting is not None,
            "trial": trial and trial.place,
            "since_s": round(awake_s() - self.head_since, 1) if trial else 0.0,
            "waiting": max(0, len(self.queue) - 1),
        }

    def begins(self) -> None:
        """The first job of the queue begins now, if there is one."""
        self.head_since, self.head_cpu_s = awake_s(), self._cpu_s() or 0.0

    def cpu_s(self) -> float | None:
        """CPU seconds of the first job until now; None on another machine, or for a process that
        has ended."""
        used = self._cpu_s()
        return None if used is None else max(0.0, used - self.head_cpu_s)

    def _cpu_s(self) -> float | None:
        return cpu_s_of(self.pid) if self.here else None

    def let_go(self) -> None:
        """Drop what is Ray's: the handle and the references, when the actor has been ended."""
        self.handle = self.starting = None
        self.queue.clear()


class Launcher:
    """Starts actors, all with the same trial function, search paths and checks."""

    def __init__(
        self, calls: RayCalls, run_trial: RunTrial, paths: list[str] | None, common: Common | None
    ) -> None:
        self._calls = calls
        self._run_trial = calls.put(run_trial)
        self._paths = paths or []
        self._common = common
        self._expected = dict(common()) if common else {}
        self._prefix = os.urandom(4).hex()
        self._count = 0

    def start(self, shape: Shape, node: Node) -> TrialActor:
        """A new actor on that node; it is never restarted and never repeats a trial."""
        self._count += 1
        name = f"{self._prefix}-{self._count}"
        handle = self._calls.start(
            TrialWorker,
            self._calls.link,
            self._run_trial,
            name,
            self._paths,
            self._common,
            self._expected,
            shape.gpus,
            node=node.id,
            num_cpus=shape.threads,
            num_gpus=shape.gpus,
            memory=int(shape.memory_mb * 2**20),
            max_concurrency=1,
        )
        actor = TrialActor(name, self._count, handle, shape, node)
        actor.starting = self._calls.call(handle, "ready")
        actor.head_since = awake_s()
        return actor


class Sender:
    """Hands jobs to actors: data objects are put once, checkpoints are kept by one actor here."""

    def __init__(
        self, calls: RayCalls, load: Callable[[str], Any], checkpoints: Path | None
    ) -> None:
        self._calls = calls
        self._load = load
        self._folder = checkpoints
        self._data: dict[str, Any] = {}
        self._keeper: Any = None

    def send(self, actor: TrialActor, job: Job) -> Any:
        """Call an actor with a job; returns the reference of its result."""
        keeper = self.keeper() if job.trial.fidelity is not None else None
        arguments = job.trial, job.data_key, self.data(job.data_key), job.limits, keeper
        return self._calls.call(actor.handle, "run", *arguments)

    def data(self, data_key: str) -> list[Any]:
        """[a reference of the data], or [] without data."""
        if data_key and data_key not in self._data:
            self._data[data_key] = self._calls.put(self._load(data_key))
        return [self._data[data_key]] if data_key else []

    def keeper(self) -> Any:
        """What keeps checkpoints in a folder of this machine, None without a folder."""
        if self._keeper is None and self._folder is not None:
            self._keeper = self._calls.keeper(self._folder)
        return self._keeper

    def forget(self, data_key: str) -> None:
        """Let go of a data object."""
        self._data.pop(data_key, None)

    def close(self) -> None:
        """Let go of all data, and end the keeper."""
        if self._keeper is not None:
            with suppress(ClusterLost):
                self._calls.kill(self._keeper)
        self._keeper = None
        self._data.clear()


class ActorGroup:
    """The actors that live now, and the actor of each call that has not ended.

    grace_s: added to a trial's time limit before its actor is overdue.
    placement: is told who holds which room.
    news: gathers the deaths of workers for `WorkerPool.news`.
    starting: {reference: the actor that is up when it resolves}.
    """

    def __init__(
        self,
        calls: RayCalls,
        placement: Placement,
        *,
        grace_s: float,
        news: list[News],
    ) -> None:
        self.actors: dict[int, TrialActor] = {}  # by number
        self.refs: dict[Any, TrialActor] = {}
        self.starting: dict[Any, TrialActor] = {}
        self._calls = calls
        self._placement = placement
        self._grace_s = grace_s
        self._news = news
        self._outputs = CrashOutputs(calls.here)
        # Of each shape, those that can take another job, by rank: how many jobs they have, and
        # whether their process is up. Within a rank, the first has waited longest.
        self._open: dict[Shape, list[dict[int, TrialActor]]] = {}

    # ------------------------------------------------------------------ who is there

    def add(self, actor: TrialActor) -> None:
        """Take in an actor that was started."""
        self.actors[actor.number] = actor
        self._placement.add(actor)
        if actor.starting is not None:
            self.starting[actor.starting] = actor
        self._changed(actor)

    def is_up(self, actor: TrialActor, pid: int) -> None:
        """The process of an actor has come up, so that its first trial begins."""
        self.starting.pop(actor.starting, None)
        actor.starting, actor.pid = None, pid
        actor.here = actor.node.id == self._calls.here
        actor.begins()
        self._changed(actor)

    def free(self, shape: Shape) -> TrialActor | None:
        """The actor for the next job of this shape, or None: the one with the fewest jobs, running
        ones before starting ones. An actor with more memory than needed will do."""
        found = [
            (rank, number)
            for other, ranks in self._open.items()
            if replace(other, memory_mb=shape.memory_mb) == shape
            and other.memory_mb >= shape.memory_mb
            for rank, actors in enumerate(ranks)
            for number in itertools.islice(actors, 1)
        ]
        return self.actors[min(found)[1]] if found else None

    def first_idle(self) -> TrialActor | None:
        """The oldest actor without a job."""
        return next((actor for actor in self.actors.values() if not actor.queue), None)

    def on(self, node_id: str) -> list[TrialActor]:
        """The actors on a node, oldest first."""
        return [actor for actor in self.actors.values() if actor.node.id == node_id]

    def overdue(self, now: float) -> list[TrialActor]:
        """Actors whose start or whose trial takes longer than its limit, oldest first."""
        return [actor for actor in self.actors.values() if self._deadline(actor) < now]

    def _deadline(self, actor: TrialActor) -> float:
        if actor.starting is not None:
            return actor.head_since + START_TIMEOUT_S
        if not actor.queue:
            return math.inf
        return actor.head_since + actor.queue[0][0].limits.wall_s + self._grace_s

    def _changed(self, actor: TrialActor) -> None:
        """Bring what is derived from an actor up to its state."""
        self._close_to_jobs(actor)
        jobs = len(actor.queue)
        if jobs < DEPTH and not actor.worn:
            ranks = self._open.setdefault(actor.shape, [{} for _ in range(2 * DEPTH)])
            ranks[2 * jobs + (actor.starting is not None)][actor.number] = actor
        self._placement.mark(actor, idle=not jobs)

    def _close_to_jobs(self, actor: TrialActor) -> None:
        for actors in self._open.get(actor.shape, ()):
            actors.pop(actor.number, None)

    # ------------------------------------------------------------------ jobs

    def push(self, actor: TrialActor, job: Job, ref: Any) -> None:
        """A job was sent to an actor; `ref` is the reference of its result."""
        if not actor.queue and actor.starting is None:
            actor.begins()
        actor.queue.append((job, ref))
        self.refs[ref] = actor
        self._changed(actor)

    def take(self, actor: TrialActor, ref: Any) -> None:
        """Take a job that has ended out of its actor's queue."""
        self.refs.pop(ref, None)
        actor.queue = deque(item for item in actor.queue if item[1] != ref)
        actor.begins()
        self._changed(actor)

    def wear(self, actor: TrialActor) -> None:
        """Send an actor no further job."""
        actor.worn = True
        self._changed(actor)

    # ------------------------------------------------------------------ ends

    def retire(self, actor: TrialActor) -> list[JobOutcome]:
        """End an actor; the jobs in its queue are lost, which counts as no attempt."""
        self._calls.kill(actor.handle)
        del self.actors[actor.number]
        self.starting.pop(actor.starting, None)
        self._close_to_jobs(actor)
        self._placement.remove(actor)
        outcomes = []
        for job, ref in actor.queue:
            self.refs.pop(ref, None)
            outcomes.append(JobOutcome(job, None, death="lost", worker=actor.name))
        actor.let_go()
        return outcomes

    def output_of(self, actor: TrialActor) -> str:
        """What the trial of an actor that died, or is about to be ended, has printed."""
        return self._outputs.take(actor.name, actor.node.id)

    def worker_died(self, actor: TrialActor, death: str) -> list[JobOutcome]:
        """Remove an actor that died. Its first job ran and died with it; the others are lost.

        death: the cause as Ray's error has it; what the worker itself reported comes before it.
        """
        outcomes = []
        reported = self._calls.crash_cause(actor.name)
        cause = reported.get("cause") or death
        # Its own limit is watched in the worker, which reports it; that of the machine by Ray.
        short = f"memory ran out on {actor.node.host}, and Ray ended the worker"
        reason = reported.get("reason") or (short if death == "oom" and not reported else "")
        output = self.output_of(actor) if death != "lost" else ""
        self._news.append(WorkerLost(actor.name, actor.node.host, cause))
        head = True
        if death != "lost":  # else nobody is blamed, and the results went with their machine
            self._calls.fetch([ref for _, ref in actor.queue])
        for job, ref in actor.queue:
            self.refs.pop(ref, None)
            result = self._calls.result_if_there(ref)
            if result is not None:
                outcomes.append(JobOutcome(job, result, worker=actor.name))
                continue
            if head and cause == "timeout":
                result = failure(cause, reported["message"], output=output, costs=reported["costs"])
                outcomes.append(JobOutcome(job, result, worker=actor.name))
                head = False
                continue
            what = "lost" if death == "lost" or not head else cause
            given = (output, reason) if head else ("", "")
            outcomes.append(JobOutcome(job, None, what, actor.name, *given))
            head = False
        actor.queue.clear()
        return outcomes + self.retire(actor)

    def close(self) -> None:
        """End all actors, and let go of all that is Ray's, which must not outlive the session.

        Where Ray is lost, they end by themselves.
        """
        with suppress(ClusterLost):
            for actor in self.actors.values():
                self._calls.kill(actor.handle)
        for actor in self.actors.values():
            actor.let_go()
        self.actors.clear()
        self.refs.clear()
        self.starting.clear()
