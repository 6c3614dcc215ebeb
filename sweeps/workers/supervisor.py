"""Supervision of workers and nodes: starts, time limits, nodes that come, go or are refused."""

from __future__ import annotations

import os
import signal
from collections import Counter
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from ..events import News, NodeJoined, NodeLost, Warned, WorkerJoined
from ..machine.awake_clock import awake_s
from ..trial import failure
from .actors import START_TIMEOUT_S, ActorGroup, TrialActor
from .placement import Placement
from .pool import ClusterLost, JobOutcome
from .ray_calls import RayCalls
from .ray_cluster import Node
from .ray_start import stat_of, workers_below

LOOK_S = 1.0  # between two looks at which nodes there are
OVERDUE_S = 0.2  # and at which workers are overdue
STOPPED_S = 15.0  # for which a worker may be stopped
MAX_FAILED_STARTS = 3  # in a row; then their node is left out


class Supervisor:
    """Ends workers that are overdue, takes in those that have started, and keeps the list of nodes.

    What is noticed goes to `news`.
    """

    def __init__(
        self,
        calls: RayCalls,
        group: ActorGroup,
        placement: Placement,
        news: list[News],
    ) -> None:
        self._calls = calls
        self._group = group
        self._placement = placement
        self._news = news
        self._failed_starts: Counter[str] = Counter()  # in a row, by node
        self._stopped: dict[int, float] = {}  # process id: since when it was seen stopped (SIGSTOP)
        self._looked = self._timed = awake_s()

    def check(self) -> list[JobOutcome]:
        """One round: overdue workers, and about once a second the nodes."""
        self._calls.check()
        outcomes: list[JobOutcome] = []
        if awake_s() - self._timed > OVERDUE_S:
            self._timed = awake_s()
            outcomes = self._end_overdue()
        if awake_s() - self._looked > LOOK_S:
            outcomes.extend(self._check_nodes())
        return outcomes

    def failed_to_start(self, actor: TrialActor, error: Exception) -> list[JobOutcome]:
        """A worker ended before it was up, which no trial caused. Where its node is about to leave
        the cluster, no other is started there; one that stays is refused after several."""
        outcomes = self._group.worker_died(actor, "lost")
        node, known = actor.node, self._placement
        if node.id not in known.nodes or node.id in known.refused:
            return outcomes
        if node.id not in self._calls.nodes() or node.id in self._calls.draining():
            return outcomes + self._leaves(node)
        self._failed_starts[node.id] += 1
        if self._failed_starts[node.id] >= MAX_FAILED_STARTS:
            text = str(error).strip().splitlines()
            reason = f"no worker starts there: {text[0] if text else type(error).__name__}"
            outcomes.extend(self._refuse(node, reason))
        return outcomes

    def started(self, actor: TrialActor, future: Future[Any]) -> list[JobOutcome]:
        """A worker has come up, or has failed to: does it have what the driver's node has?"""
        try:
            found = future.result()
        except Exception as error:
            return self.failed_to_start(actor, error)
        self._group.is_up(actor, found["pid"])
        self._failed_starts.pop(actor.node.id, None)
        if actor.shape.gpus:
            self._placement.know_gpu(actor.node.id, found["gpu_mb"], found["context_mb"])
        if found["wrong"]:
            return self._refuse(actor.node, found["wrong"])
        self._news.append(WorkerJoined(actor.name, actor.node.host, found["pid"]))
        return []

    def _refuse(self, node: Node, reason: str) -> list[JobOutcome]:
        """Leave a node out, and end its actors. Raises ClusterLost where it was the last one."""
        self._placement.refused.add(node.id)
        if not any(other.cpus for other in self._placement.usable()):
            raise ClusterLost(f"no machine of the cluster can be used; {node.host}: {reason}")
        self._news.append(Warned(f"{node.host} is left out: {reason}"))
        outcomes: list[JobOutcome] = []
        for actor in self._group.on(node.id):
            outcomes.extend(self._group.retire(actor))
        return outcomes

    def _leaves(self, node: Node) -> list[JobOutcome]:
        """Send no more trials to a node that is about to leave the cluster. Trials that its actors
        already have may finish. If the machine comes back, it counts as a new node."""
        self._placement.refused.add(node.id)
        self._news.append(Warned(f"{node.host} leaves the cluster"))
        outcomes: list[JobOutcome] = []
        for actor in self._group.on(node.id):
            if actor.queue and actor.starting is None:
                self._group.wear(actor)
            else:
                outcomes.extend(self._group.retire(actor))
        return outcomes

    def _end_overdue(self) -> list[JobOutcome]:
        """End workers whose trial, or whose start, takes longer than its limit."""
        outcomes: list[JobOutcome] = []
        for actor in self._group.overdue(awake_s()):
            if actor.number not in self._group.actors:  # its node was refused a moment ago
                continue
            if actor.starting is not None and self._waits_for_a_gpu(actor):
                outcomes.extend(self._group.worker_died(actor, "lost"))
                for other in self._group.on(actor.node.id):
                    if other.shape.gpus and not other.queue:
                        outcomes.extend(self._group.retire(other))
                continue
            if actor.starting is not None:
                late = TimeoutError(f"not up after {START_TIMEOUT_S:g} s")
                outcomes.extend(self.failed_to_start(actor, late))
                continue
            job, ref = actor.queue[0]
            output = self._group.output_of(actor)
            actor.queue.popleft()
            self._group.refs.pop(ref, None)
            limits = job.limits
            message = f"ran for {limits.wall_s:g} s, ten times its limit of {limits.timeout_s:g} s"
            used = actor.cpu_s()  # before the worker is ended; unknown on another machine
            said = self._calls.crash_cause(actor.name)  # it may be about to end itself
            costs = said.get("costs") or ({} if used is None else {"cpu_s": used})
            message = said.get("message") or message
            result = failure("timeout", message, output=output, costs=costs)
            outcomes.append(JobOutcome(job, result, worker=actor.name))
            outcomes.extend(self._group.retire(actor))
        return outcomes

    def _waits_for_a_gpu(self, actor: TrialActor) -> bool:
        """Whether a worker that does not come up may wait for a share of a GPU: Ray may have put
        the others on other GPUs than was thought here, so that no room is left on any one."""
        return actor.shape.gpus > 0 and self._placement.holds_gpus(actor.node.id, but=actor)

    def _end_stopped(self) -> list[JobOutcome]:
        """End workers of this machine that somebody stopped: their trials run elsewhere."""
        here = self._group.on(self._calls.here)
        up = {actor.pid: actor for actor in here if actor.here}
        coming = workers_below() if any(actor.starting is not None for actor in here) else []
        now, before = awake_s(), self._stopped
        self._stopped = {
            pid: before.get(pid, now) for pid in {*up, *coming} if stat_of(pid)[0] == "T"
        }
        outcomes: list[JobOutcome] = []
        for pid in [pid for pid, since in self._stopped.items() if now - since > STOPPED_S]:
            message = f"the worker {pid} was stopped {STOPPED_S:g} s ago, and is ended"
            self._news.append(Warned(message))
            if pid in up:
                outcomes.extend(self._group.worker_died(up[pid], "lost"))
            else:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)  # Ray reports its start as failed
        return outcomes

    def _check_nodes(self) -> list[JobOutcome]:
        """Look which nodes there are; jobs on a node that is gone are lost."""
        self._looked = awake_s()
        before, found = self._placement.nodes, self._calls.nodes()
        self._placement.nodes = found
        for id in found.keys() - before.keys():
            node = found[id]
            self._news.append(NodeJoined(node.host, node.cpus, node.gpus))
        outcomes: list[JobOutcome] = []
        for id in before.keys() - found.keys():
            self._news.append(NodeLost(before[id].host))
            for actor in self._group.on(id):
                outcomes.extend(self._group.worker_died(actor, "lost"))
        outcomes.extend(self._end_stopped())
        for id in self._calls.draining() & found.keys() - self._placement.refused:
            outcomes.extend(self._leaves(found[id]))
        return outcomes
