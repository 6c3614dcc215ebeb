"""The pool of long-lived workers, actors of Ray or plain processes, placed by this module."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from ..events import News, WorkerLost
from ..study import Needs
from ..trial import DOUBTFUL, failure
from .actors import ActorGroup, Launcher, Sender, TrialActor
from .interruption import TrialInterrupted
from .placement import Placement, Shape
from .pool import ClusterLost, Job, JobOutcome, RunTrial, TrialRefused
from .ray_calls import RayCalls
from .ray_cluster import Node
from .supervisor import Supervisor
from .trial_actor import Common, IncompatibleWorker

SETTLE_S = 0.5  # from the death of a worker to that of its raylet, which had ended it


class ActorPool:
    """Long-lived actors, DEPTH calls each: one running, the next one waiting.

    `slots` is the number of CPUs that trials may use in all; None: all that the cluster has now.
    Nodes may come and go. An actor is made on a node with room when the first trial of its shape
    comes, and is ended when another shape needs its place. Ray itself never runs a fit again
    (`max_task_retries=0`). Data objects are put once, fetched once a node. `common` is what every
    node must have in common with the driver's; one that differs is left out, with a warning.
    `grace_s` is added to a trial's time limit before its worker is ended. A trial that comes back
    `most_losses` times without a result is a failure: only one that ends its own worker in the way
    of a scheduler gets there, and without a limit the sweep would never end. `calls`: to Ray by
    default, or to processes of this machine.
    """

    def __init__(
        self,
        run_trial: RunTrial,
        load: Callable[[str], Any],
        *,
        slots: int | None = None,
        grace_s: float = 5.0,
        most_losses: int = 20,
        paths: list[str] | None = None,
        common: Common | None = None,
        checkpoints: Path | None = None,
        calls: RayCalls | None = None,
    ) -> None:
        self._calls = calls or RayCalls()
        self._news: list[News] = []
        self._launcher = Launcher(self._calls, run_trial, paths, common)
        self._sender = Sender(self._calls, load, checkpoints)
        self._placement = Placement(self._calls.nodes(), slots)
        self._group = ActorGroup(self._calls, self._placement, grace_s=grace_s, news=self._news)
        self._supervisor = Supervisor(self._calls, self._group, self._placement, self._news)
        self._most_losses = most_losses
        self._losses: Counter[str] = Counter()  # {trial id: losses since its last result}

    # ------------------------------------------------------------------ room and jobs

    def keep_for_gpus(self, threads: int) -> None:
        """Keep so many CPUs free beside each idle GPU for trials that need one."""
        self._placement.reserve = threads

    def room(self, needs: Needs) -> bool:
        """Whether a job with these needs can be submitted now, ending idle actors if need be."""
        shape = self._placement.shape(needs)
        if shape is None:
            return False
        if self._group.free(shape) or self._placement.place(shape):
            return True
        return self._placement.place(shape, ending_idle=True) is not None

    def submit(self, job: Job) -> None:
        """Send a job to an actor that is free, a new one, or the one with the shortest queue."""
        shape = self._placement.shape(job.needs)
        assert shape is not None, "submit follows room"
        actor = self._group.free(shape)
        if actor is None or actor.queue:
            node = self._placement.place(shape)
            if node is None and actor is None:
                node = self._make_way(shape)
            if node is not None:
                actor = self._start(shape, node)
        assert actor is not None, "submit follows room"
        self._group.push(actor, job, self._sender.send(actor, job))

    def _start(self, shape: Shape, node: Node) -> TrialActor:
        actor = self._launcher.start(shape, node)
        self._group.add(actor)
        return actor

    def _make_way(self, shape: Shape) -> Node:
        """End idle actors until one of this shape fits somewhere: first those on the node that it
        would fit best, unless the limit on all CPUs is used up, then the oldest anywhere."""
        group, placement = self._group, self._placement
        node = placement.place(shape, ending_idle=True)
        assert node is not None, "submit follows room"
        if placement.cpus_left() >= 1:
            for actor in [actor for actor in group.on(node.id) if not actor.queue]:
                if placement.place(shape) is not None:
                    break
                group.retire(actor)
        while (found := placement.place(shape)) is None:
            oldest = group.first_idle()
            assert oldest is not None, "submit follows room"
            group.retire(oldest)
        return found

    def running(self) -> int:
        """How many jobs run or wait in the queue of an actor."""
        return len(self._group.refs)

    def workers(self) -> list[dict[str, Any]]:
        """The actors; `starting` until their process is up, `pid` from then on."""
        return [actor.describe() for actor in self._group.actors.values()]

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
        self._group.close()
        self._sender.close()
        self._calls.close()

    # ------------------------------------------------------------------ results

    def poll(self, timeout_s: float) -> list[JobOutcome]:
        """Everything that has ended, waiting at most `timeout_s` for the first. Raises ClusterLost
        where no node can be used, Ray is lost, or a worker refused a trial; it has the results that
        came."""
        outcomes: list[JobOutcome] = []
        ended: deque[tuple[Any, Future[Any]]] = deque()
        try:
            self._calls.check()
            ended.extend(self._calls.ended(timeout_s))
            while ended:
                outcomes.extend(self._take_in(*ended[0]))
                ended.popleft()
            return outcomes + self._supervisor.check()
        except ClusterLost as error:
            ended.extend(self._calls.ended(0.0))
            known = [one for one in outcomes if one.result is not None]
            error.ended = known + self._results(ended)
            raise

    def _take_in(self, ref: Any, future: Future[Any]) -> list[JobOutcome]:
        if ref in self._group.starting:
            return self._supervisor.started(self._group.starting[ref], future)
        # a death clears the refs of the whole actor
        return self._collect(ref, future) if ref in self._group.refs else []

    def _results(self, ended: Iterable[tuple[Any, Future[Any]]]) -> list[JobOutcome]:
        """The results among the calls that ended; errors say nothing where the cluster is lost."""
        found = []
        for ref, future in ended:
            actor = self._group.refs.get(ref)
            if actor is not None and future.exception() is None:
                job = next(job for job, other in actor.queue if other == ref)
                self._group.take(actor, ref)
                found.append(JobOutcome(job, future.result(), worker=actor.name))
        return found

    def _collect(self, ref: Any, future: Future[Any]) -> list[JobOutcome]:
        self._calls.check()  # no trial is to blame for what died with Ray
        actor = self._group.refs[ref]
        job = next(job for job, other in actor.queue if other == ref)
        try:
            result = future.result()
        except Exception as error:
            end = self._calls.end_of(error)
            if end == "killed":  # by a Ray that is about to end?
                time.sleep(SETTLE_S)
                self._calls.check()
            if end is not None:
                never_up = actor.starting is not None
                if never_up and self._calls.result_if_there(actor.starting) is None:
                    return self._supervisor.failed_to_start(actor, error)
                return self._group.worker_died(actor, end)
            return self._lost(actor, ref, job, error)
        self._group.take(actor, ref)
        self._losses.pop(job.trial.id, None)
        outcomes = [JobOutcome(job, result, worker=actor.name)]
        # Earlier trials of the process may be to blame: its next trials get another one. What waits
        # behind a spoilt GPU would fail there, and is run elsewhere.
        if result.cause in DOUBTFUL:
            self._group.wear(actor)
        if actor.worn and (not actor.queue or result.cause == "gpu_error"):
            outcomes += self._group.retire(actor)
        return outcomes

    def _lost(self, actor: TrialActor, ref: Any, job: Job, error: Exception) -> list[JobOutcome]:
        """Handle a trial that came back without a result: interrupted, not begun, or lost on the
        way. (An error of the trial itself is a result.)

        It runs again in another process. Only a trial that is lost again and again becomes a
        failure. Raises TrialRefused if the worker refused the trial, as any other worker would.
        """
        if isinstance(error, TrialRefused):
            raise TrialRefused(str(getattr(error, "cause", error))) from error
        self._group.take(actor, ref)
        lost = JobOutcome(job, None, death="lost", worker=actor.name)
        if isinstance(error, IncompatibleWorker):  # the supervisor is about to refuse the node
            return [lost]
        reason = reason_of(error)
        self._news.append(WorkerLost(actor.name, actor.node.host, reason))
        self._losses[job.trial.id] += 1
        if self._losses[job.trial.id] >= self._most_losses:
            n = self._losses.pop(job.trial.id)
            message = f"ended from outside {n} times in one sweep, at last by {reason}"
            lost = JobOutcome(job, failure("killed", message), worker=actor.name)
        self._group.wear(actor)
        if isinstance(error, TrialInterrupted) or not actor.queue:  # its process is about to end
            return [lost, *self._group.retire(actor)]
        return [lost]


def reason_of(error: Exception) -> str:
    """The name and the last line of an error that a call to an actor ended with."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[-1][:500] if text else '(no message)'}"
