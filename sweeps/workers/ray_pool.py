"""The worker pool on a Ray cluster: long-lived actors, placed by this module, not by Ray."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..study import Needs
from ..trial import failure
from .interruption import TrialInterrupted
from .placement import Placement, Shape
from .pool import Job, JobOutcome, News, RunTrial
from .ray_actors import ActorGroup, Launcher, Sender, TrialActor, result_if_there
from .ray_cluster import Node, end_of, nodes
from .supervisor import Supervisor
from .trial_actor import Common, IncompatibleWorker

# How long the result of a trial that has ended may be waited for in one go. Where Ray has died it
# never comes, and Ray ends the driver without a word while it waits.
FETCH_S = 2.0


class RayWorkerPool:
    """Long-lived actors on a Ray cluster, `depth` calls each: one running, the next one waiting.

    `slots` is the number of CPUs that trials may use in all; None: all that the cluster has now.
    Nodes may come and go. An actor is made on a node with room when the first trial of its shape
    comes, and is ended when another shape needs its place. Ray itself never runs a fit again
    (`max_task_retries=0`). Data objects are put once, fetched once a node. `common` is what every
    node must have in common with the driver's; one that differs is left out, with a warning.
    `grace_s` is added to a trial's time limit before its worker is ended. A trial that comes back
    `most_losses` times without a result is a failure: only one that ends its own worker in the way
    of a scheduler gets there, and without a limit the sweep would never end.
    """

    def __init__(
        self,
        run_trial: RunTrial,
        load: Callable[[str], Any],
        *,
        slots: int | None = None,
        depth: int = 2,
        grace_s: float = 5.0,
        most_losses: int = 20,
        paths: list[str] | None = None,
        common: Common | None = None,
        checkpoints: Path | None = None,
    ) -> None:
        import ray

        self._ray = ray
        self._depth = depth
        here = ray.get_runtime_context().get_node_id()
        self._news: list[News] = []
        self._group = ActorGroup(here, self._news)
        self._launcher = Launcher(run_trial, paths, common)
        self._sender = Sender(load, checkpoints, here)
        self._placement = Placement(nodes(), slots)
        self._supervisor = Supervisor(self._group, self._placement, self._news, here, grace_s)
        self._most_losses = most_losses
        self._losses: Counter[str] = Counter()  # {trial id: losses since its last result}

    # ------------------------------------------------------------------ room and jobs

    def keep_for_gpus(self, threads: int) -> None:
        """Keep so many CPUs free beside each idle GPU for trials that need one."""
        self._placement.reserve = threads

    def warm(self, most: int) -> None:
        """Start an actor of one thread for every CPU, `most` at most, before trials come."""
        shape = self._placement.shape(Needs())
        while shape and len(self._group.actors) < most:
            node = self._place(shape)
            if node is None:
                return
            self._start(shape, node)

    def room(self, needs: Needs) -> bool:
        """Whether a job with these needs can be submitted now, ending idle actors if need be."""
        shape = self._placement.shape(needs)
        if shape is None:
            return False
        if self._candidates(shape) or self._place(shape):
            return True
        if any(actor.shape.serves(shape) for actor in self._group.actors):
            return False
        return self._place(shape, self._group.idle()) is not None

    def submit(self, job: Job) -> None:
        """Send a job to an actor that is free, a new one, or the one with the shortest queue."""
        shape = self._placement.shape(job.needs)
        assert shape is not None, "submit follows room"
        candidates = self._candidates(shape)
        node = None
        if all(actor.queue for actor in candidates):
            node = self._place(shape)
            if node is None and not candidates:
                node = self._make_way(shape)
        if node is not None:
            actor = self._start(shape, node)
        else:
            actor = min(candidates, key=lambda a: (len(a.queue), a.starting is not None))
        self._group.refs[self._sender.send(actor, job)] = actor

    def _place(self, shape: Shape, gone: list[TrialActor] | None = None) -> Node | None:
        return self._placement.place(shape, self._group.actors, gone or [])

    def _start(self, shape: Shape, node: Node) -> TrialActor:
        actor = self._launcher.start(shape, node)
        self._group.actors.append(actor)
        return actor

    def _candidates(self, shape: Shape) -> list[TrialActor]:
        return [
            actor
            for actor in self._group.actors
            if actor.shape.serves(shape) and len(actor.queue) < self._depth and not actor.worn
        ]

    def _make_way(self, shape: Shape) -> Node:
        """End idle actors until one of this shape fits somewhere."""
        group, placement = self._group, self._placement
        node = self._place(shape, group.idle())
        assert node is not None, "submit follows room"
        for actor in [
            a for a in group.idle() if a.node.id == node.id or placement.cpus_left(group.actors) < 1
        ]:
            if self._place(shape) is not None:
                break
            group.retire(actor)
        for actor in group.idle():  # the limit on all CPUs may be used up elsewhere
            if self._place(shape) is not None:
                break
            group.retire(actor)
        found = self._place(shape)
        assert found is not None
        return found

    def running(self) -> int:
        """How many jobs run or wait in the queue of an actor."""
        return sum(len(actor.queue) for actor in self._group.actors)

    def workers(self) -> list[dict[str, Any]]:
        """The actors; `starting` until their process is up, `pid` from then on."""
        return [actor.describe() for actor in self._group.actors]

    def news(self) -> list[News]:
        """Workers and nodes that came or went, and warnings, since the last call."""
        found = list(self._news)
        self._news.clear()
        return found

    def forget(self, data_key: str) -> None:
        """Let go of a data object: no study needs it any more."""
        self._sender.forget(data_key)

    def close(self) -> None:
        """End all actors."""
        self._group.close(reachable=not self._supervisor.ray_lost)
        self._sender.close(reachable=not self._supervisor.ray_lost)

    # ------------------------------------------------------------------ results

    def poll(self, timeout_s: float) -> list[JobOutcome]:
        """Everything that has ended, waiting at most `timeout_s` for the first. Raises ClusterLost
        where no node can be used, or Ray on this machine is gone."""
        self._supervisor.check_ray()
        outcomes: list[JobOutcome] = []
        if self._group.refs:
            refs = list(self._group.refs)
            ready, _ = self._ray.wait(refs, num_returns=1, timeout=timeout_s)
            if ready and len(refs) > 1:
                ready, _ = self._ray.wait(refs, num_returns=len(refs), timeout=0)
            for ref in ready:
                if ref in self._group.refs:  # a death clears the refs of the whole actor
                    outcomes.extend(self._collect(ref))
        else:
            time.sleep(timeout_s)
        return outcomes + self._supervisor.check()

    def _collect(self, ref: Any) -> list[JobOutcome]:
        self._supervisor.check_ray()
        from ray.exceptions import GetTimeoutError, RayError, RayTaskError

        actor = self._group.refs[ref]
        job = next(job for job, other in actor.queue if other == ref)
        try:
            result = self._ray.get(ref, timeout=FETCH_S)
        except RayError as error:
            if isinstance(error, GetTimeoutError) and not isinstance(error, RayTaskError):
                return []  # it is on its way, or was lost with Ray: the next look tells
            end = end_of(error)
            if end is not None:
                if actor.starting is not None and result_if_there(actor.starting) is None:
                    return self._supervisor.failed_to_start(actor, error)
                return self._group.worker_died(actor, end)
            return self._lost(actor, ref, job, error)
        self._group.take(actor, ref)
        self._losses.pop(job.trial.id, None)
        # Memory that the process gathered in earlier trials may have made an allocation fail: the
        # next trial gets a fresh process.
        actor.worn = actor.worn or result.cause in ("oom", "gpu_oom")
        if actor.worn and not actor.queue:
            self._group.retire(actor)
        return [JobOutcome(job, result, worker=actor.name)]

    def _lost(self, actor: TrialActor, ref: Any, job: Job, error: Exception) -> list[JobOutcome]:
        """A trial without a result, which is not the trial's doing: its own errors are results.

        It was interrupted, not begun, or its result was lost on the way. It runs again, in another
        process; only one that comes back without a result again and again is a failure.
        """
        self._group.take(actor, ref)
        lost = JobOutcome(job, None, death="lost", worker=actor.name)
        if isinstance(error, IncompatibleWorker):  # the supervisor is about to refuse the node
            return [lost]
        reason = reason_of(error)
        about = {"worker": actor.name, "host": actor.node.host, "cause": reason}
        self._news.append(("lost worker", about))
        self._losses[job.trial.id] += 1
        if self._losses[job.trial.id] >= self._most_losses:
            n = self._losses.pop(job.trial.id)
            message = f"ended from outside {n} times in one sweep, at last by {reason}"
            lost = JobOutcome(job, failure("killed", message), worker=actor.name)
        actor.worn = True
        if isinstance(error, TrialInterrupted) or not actor.queue:  # its process is about to end
            return [lost, *self._group.retire(actor)]
        return [lost]


def reason_of(error: Exception) -> str:
    """The name and the last line of an error that a call to an actor ended with."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[-1][:500] if text else '(no message)'}"
