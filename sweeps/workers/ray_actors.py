"""Actors that run trials: their start, the jobs in their queues, and their ends."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .crash_report import crash_cause, crash_output
from .placement import Shape
from .pool import Job, JobOutcome, News, RunTrial
from .ray_cluster import Node, on_node
from .trial_actor import CheckpointKeeper, Common, TrialWorker


@dataclass(eq=False)
class TrialActor:
    """One actor, and the jobs that were sent to it: the first runs, the others wait.

    starting: resolves when the process is up; None from then on. Until then no trial's time runs.
    head_since: when the first job began, or the actor's start, by the monotonic clock.
    worn: no further job is sent to it, and it ends when its queue is empty.
    """

    name: str
    handle: Any
    shape: Shape
    node: Node
    queue: deque[tuple[Job, Any]] = field(default_factory=deque)
    head_since: float = 0.0
    starting: Any = None
    worn: bool = False
    pid: int = 0

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
            "trial": trial and f"{trial.dataset}/{trial.fold}/{trial.model}",
            "since_s": round(time.monotonic() - self.head_since, 1) if trial else 0.0,
            "waiting": max(0, len(self.queue) - 1),
        }


class Launcher:
    """Starts actors, all with the same trial function, search paths and checks."""

    def __init__(self, run_trial: RunTrial, paths: list[str] | None, common: Common | None) -> None:
        import ray

        self._run_trial = ray.put(run_trial)
        self._paths = paths or []
        self._common = common
        self._expected = dict(common()) if common else {}
        self._prefix = os.urandom(4).hex()
        self._count = 0

    def start(self, shape: Shape, node: Node) -> TrialActor:
        """A new actor on that node; Ray never restarts it and never repeats a trial."""
        import ray

        self._count += 1
        name = f"{self._prefix}-{self._count}"
        remote: Any = ray.remote(TrialWorker)
        handle = remote.options(
            num_cpus=shape.threads,
            num_gpus=shape.gpus,
            memory=int(shape.memory_mb * 2**20),
            scheduling_strategy=on_node(node.id),
            max_restarts=0,
            max_task_retries=0,
            max_concurrency=1,
        ).remote(self._run_trial, name, self._paths, self._common, self._expected, shape.gpus)
        actor = TrialActor(name, handle, shape, node, starting=handle.ready.remote())
        actor.head_since = time.monotonic()
        return actor


class Sender:
    """Hands jobs to actors: data objects are put once, checkpoints are kept by one actor here."""

    def __init__(self, load: Callable[[str], Any], checkpoints: Path | None, here: str) -> None:
        self._load = load
        self._folder = checkpoints
        self._here = here  # the id of the driver's own node
        self._data: dict[str, Any] = {}
        self._keeper: Any = None

    def send(self, actor: TrialActor, job: Job) -> Any:
        """Queue a job on an actor; returns the reference of its result."""
        import ray

        if job.data_key and job.data_key not in self._data:
            self._data[job.data_key] = ray.put(self._load(job.data_key))
        data = [self._data[job.data_key]] if job.data_key else []
        keeper = self._checkpoint_keeper() if job.trial.fidelity is not None else None
        ref = actor.handle.run.remote(job.trial, job.data_key, data, job.limits, keeper)
        if not actor.queue and actor.starting is None:
            actor.head_since = time.monotonic()
        actor.queue.append((job, ref))
        return ref

    def _checkpoint_keeper(self) -> Any:
        """The actor that keeps checkpoints, on the driver's own machine."""
        import ray

        if self._keeper is None and self._folder is not None:
            remote: Any = ray.remote(CheckpointKeeper)
            self._keeper = remote.options(
                num_cpus=0,
                max_restarts=-1,
                max_task_retries=-1,
                scheduling_strategy=on_node(self._here),
            ).remote(str(self._folder))
        return self._keeper

    def forget(self, data_key: str) -> None:
        """Let go of a data object."""
        self._data.pop(data_key, None)

    def close(self, *, reachable: bool) -> None:
        """Let go of all data, and end the keeper where Ray can still be reached."""
        import ray

        if reachable and self._keeper is not None:
            ray.kill(self._keeper)
        self._data.clear()


class ActorGroup:
    """The actors that live now, and the job behind each reference that has not been collected.

    `news` gathers the deaths of workers for `WorkerPool.news`.
    """

    def __init__(self, here: str, news: list[News]) -> None:
        self.actors: list[TrialActor] = []
        self.refs: dict[Any, TrialActor] = {}
        self._here = here
        self._news = news

    def idle(self) -> list[TrialActor]:
        """Actors without a job."""
        return [actor for actor in self.actors if not actor.queue]

    def on(self, node_id: str) -> list[TrialActor]:
        """Actors on a node."""
        return [actor for actor in self.actors if actor.node.id == node_id]

    def take(self, actor: TrialActor, ref: Any) -> None:
        """Take a job that has ended out of its actor's queue."""
        self.refs.pop(ref, None)
        actor.queue = deque(item for item in actor.queue if item[1] != ref)
        actor.head_since = time.monotonic()

    def retire(self, actor: TrialActor) -> list[JobOutcome]:
        """End an actor; the jobs in its queue are lost, which counts as no attempt."""
        import ray

        ray.kill(actor.handle)
        self.actors.remove(actor)
        outcomes = []
        for job, ref in actor.queue:
            self.refs.pop(ref, None)
            outcomes.append(JobOutcome(job, None, death="lost", worker=actor.name))
        actor.queue.clear()
        return outcomes

    def worker_died(self, actor: TrialActor, death: str) -> list[JobOutcome]:
        """Remove an actor that died. Its first job ran and died with it; the others are lost.

        death: the cause as Ray's error has it; what the worker itself reported comes before it.
        """
        outcomes = []
        cause = crash_cause(actor.name) or death
        output = crash_output(actor.name, actor.node.id, self._here) if death != "lost" else ""
        about = {"worker": actor.name, "host": actor.node.host, "cause": cause}
        self._news.append(("lost worker", about))
        head = True
        for job, ref in actor.queue:
            self.refs.pop(ref, None)
            result = result_if_there(ref)
            if result is not None:
                outcomes.append(JobOutcome(job, result, worker=actor.name))
                continue
            what = "lost" if death == "lost" or not head else cause
            outcomes.append(JobOutcome(job, None, what, actor.name, output if head else ""))
            head = False
        actor.queue.clear()
        return outcomes + self.retire(actor)

    def close(self, *, reachable: bool) -> None:
        """End all actors, where Ray can still be reached."""
        import ray

        if reachable:
            for actor in self.actors:
                ray.kill(actor.handle)
        self.actors.clear()
        self.refs.clear()


def result_if_there(ref: Any) -> Any:
    """A result that arrived before its worker died, which counts; None where none did."""
    import ray

    try:
        return ray.get(ref, timeout=0)
    except Exception:
        return None
