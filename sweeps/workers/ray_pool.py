"""Where do trials run? In long-lived Ray actors on the machines of a cluster, placed by us."""

from __future__ import annotations

import math
import os
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..study import Needs
from ..trial import failure
from .output_capture import tail_of
from .pool import ClusterLost, Job, News, Outcome, RunTrial
from .ray_cluster import Node, death_of, nodes, on_node, raylet_here
from .trial_actor import CheckpointKeeper, Common, Stranger, TrialWorker, output_file

START_TIMEOUT_S = 300.0  # for a worker process to come up, imports of Ray included
LOOK_S = 1.0  # between two looks at which nodes there are
FEWEST_MB = 1024.0  # memory that a worker is placed with, at least
MOST_ON_A_GPU = 8
FRUITLESS = 3  # workers in a row that ended while starting: their node is left out


def running(pid: int) -> bool:
    """Is there such a process, and not merely what is left of it?"""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@dataclass(frozen=True)
class Shape:
    """What an actor holds of its node for as long as it lives."""

    threads: int
    gpus: float
    memory_mb: float

    def serves(self, other: Shape) -> bool:
        return (
            self.threads == other.threads
            and self.gpus == other.gpus
            and self.memory_mb >= other.memory_mb
        )


@dataclass
class _Actor:
    name: str
    handle: Any
    shape: Shape
    node: Node
    queue: deque[tuple[Job, Any]] = field(default_factory=deque)  # head: running; then: waiting
    head_since: float = 0.0
    starting: Any = None  # resolves when the process is up; until then no trial's time runs
    worn: bool = False  # ends when its queue is empty
    pid: int = 0


class RayPool:
    """Long-lived actors on a Ray cluster, `depth` calls each: one running, the next one waiting.

    `slots` is the number of CPUs that trials may use in all; None: all that the cluster has now.
    Nodes may come and go. An actor is made on a node with room when the first trial of its shape
    comes, and gives way when another shape needs its place. Ray itself never runs a fit again
    (`max_task_retries=0`). Data objects are put once, fetched once a node. `common` is what every
    node must have in common with the driver's; one that differs is left out, with a warning.
    """

    def __init__(
        self,
        run_trial: RunTrial,
        load: Callable[[str], Any],
        *,
        slots: int | None = None,
        depth: int = 2,
        grace_s: float = 5.0,
        paths: list[str] | None = None,
        common: Common | None = None,
        checkpoints: Path | None = None,
    ) -> None:
        import ray

        self._ray = ray
        self._run_trial = ray.put(run_trial)
        self._load = load
        self._slots = slots
        self._depth = depth
        self._grace_s = grace_s
        self._paths = paths or []
        self._common = common
        self._expected = dict(common()) if common else {}
        self._folder = checkpoints
        self._keeper: Any = None
        self._actors: list[_Actor] = []
        self._refs: dict[Any, _Actor] = {}
        self._data: dict[str, Any] = {}
        self._news: list[News] = []
        self._refused: dict[str, str] = {}  # node: why
        self._fruitless: Counter[str] = Counter()
        self._gpu_mb: dict[str, float] = {}
        self._reserve = 0
        self._lost = False
        self._count = 0
        self._prefix = os.urandom(4).hex()
        self._here = ray.get_runtime_context().get_node_id()
        self._raylet = raylet_here()
        self._nodes = nodes()
        self._looked = time.monotonic()

    # ------------------------------------------------------------------ what there is

    def _usable(self) -> list[Node]:
        return [node for node in self._nodes.values() if node.id not in self._refused]

    def _left(self) -> float:
        """CPUs that the limit on all of them leaves."""
        used = sum(actor.shape.threads for actor in self._actors)
        return math.inf if self._slots is None else self._slots - used

    def _shape(self, needs: Needs) -> Shape | None:
        """The shape of a job's actor, no larger than the best node; None: no node will do."""
        found = [n for n in self._usable() if n.cpus and (n.gpus or not needs.gpu_mb)]
        if not found:
            return None
        threads = needs.threads if self._slots is None else min(needs.threads, self._slots)
        memory = 2.0 ** math.ceil(math.log2(max(FEWEST_MB, needs.memory_mb)))
        # What no node has is cut down to what the best one has.
        best = max(found, key=lambda n: (min(n.cpus, threads), min(n.memory_mb, memory)))
        threads, memory = min(threads, best.cpus), min(memory, best.memory_mb)
        gpus = 0.0
        if needs.gpu_mb:
            smallest = min((self._gpu_mb.get(node.id, 0.0) for node in found), default=0.0)
            fit = int(smallest // needs.gpu_mb)
            gpus = 1.0 if fit < 2 else 1.0 / min(fit, MOST_ON_A_GPU)
        return Shape(max(1, threads), gpus, memory)

    def _place(self, shape: Shape, freed: list[_Actor] | None = None) -> Node | None:
        """The node with most room for an actor of this shape, were those actors gone; a trial
        without a GPU goes where there is none, if it can, and leaves CPUs beside idle GPUs."""
        gone = freed or []
        held: dict[str, list[float]] = defaultdict(lambda: [0, 0.0, 0.0])
        for sign, actors in ((1, self._actors), (-1, gone)):
            for actor in actors:
                there = held[actor.node.id]
                there[0] += sign * actor.shape.threads
                there[1] += sign * actor.shape.gpus
                there[2] += sign * actor.shape.memory_mb
        if self._left() + sum(actor.shape.threads for actor in gone) < shape.threads:
            return None
        found = []
        for node in self._usable():
            threads, gpus, memory = (
                offered - taken
                for offered, taken in zip(
                    (node.cpus, node.gpus, node.memory_mb), held[node.id], strict=True
                )
            )
            if not shape.gpus:
                threads -= math.ceil(gpus) * self._reserve
            fits = threads >= shape.threads and memory >= shape.memory_mb
            if fits and gpus >= shape.gpus - 1e-9:
                found.append((node.gpus > 0 and not shape.gpus, -threads, node.id))
        return self._nodes[min(found)[2]] if found else None

    def keep_for_gpus(self, threads: int) -> None:
        self._reserve = threads

    # ------------------------------------------------------------------ placing

    def warm(self, most: int) -> None:
        """Start an actor of one thread for every CPU, at most so many, before a trial is there."""
        shape = self._shape(Needs())
        while shape and len(self._actors) < most and (node := self._place(shape)) is not None:
            self._start(shape, node)

    def _start(self, shape: Shape, node: Node) -> _Actor:
        self._count += 1
        name = f"{self._prefix}-{self._count}"
        remote: Any = self._ray.remote(TrialWorker)
        handle = remote.options(
            num_cpus=shape.threads,
            num_gpus=shape.gpus,
            memory=int(shape.memory_mb * 2**20),
            scheduling_strategy=on_node(node.id),
            max_restarts=0,
            max_task_retries=0,
            max_concurrency=1,
        ).remote(self._run_trial, name, self._paths, self._common, self._expected, shape.gpus > 0)
        actor = _Actor(name, handle, shape, node, starting=handle.ready.remote())
        actor.head_since = time.monotonic()
        self._actors.append(actor)
        return actor

    def _candidates(self, shape: Shape) -> list[_Actor]:
        return [
            actor
            for actor in self._actors
            if actor.shape.serves(shape) and len(actor.queue) < self._depth and not actor.worn
        ]

    def _idle(self) -> list[_Actor]:
        return [actor for actor in self._actors if not actor.queue]

    def room(self, needs: Needs) -> bool:
        shape = self._shape(needs)
        if shape is None:
            return False
        if self._candidates(shape) or self._place(shape):
            return True
        if any(actor.shape.serves(shape) for actor in self._actors):
            return False
        return self._place(shape, self._idle()) is not None

    def submit(self, job: Job) -> None:
        shape = self._shape(job.needs)
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
        self._send(actor, job)

    def _make_way(self, shape: Shape) -> Node:
        """End idle actors until one of this shape fits somewhere."""
        node = self._place(shape, self._idle())
        assert node is not None, "submit follows room"
        for actor in [a for a in self._idle() if a.node.id == node.id or self._left() < 1]:
            if self._place(shape) is not None:
                break
            self._retire(actor)
        for actor in self._idle():  # the limit on all CPUs may be used up elsewhere
            if self._place(shape) is not None:
                break
            self._retire(actor)
        found = self._place(shape)
        assert found is not None
        return found

    def _send(self, actor: _Actor, job: Job) -> None:
        if job.data_key and job.data_key not in self._data:
            self._data[job.data_key] = self._ray.put(self._load(job.data_key))
        data = [self._data[job.data_key]] if job.data_key else []
        keeper = self._keep_checkpoints() if job.trial.fidelity is not None else None
        ref = actor.handle.run.remote(job.trial, job.data_key, data, job.limits, keeper)
        if not actor.queue and actor.starting is None:
            actor.head_since = time.monotonic()
        actor.queue.append((job, ref))
        self._refs[ref] = actor

    def _keep_checkpoints(self) -> Any:
        """The actor that keeps checkpoints, on the driver's own machine."""
        if self._keeper is None and self._folder is not None:
            remote: Any = self._ray.remote(CheckpointKeeper)
            self._keeper = remote.options(
                num_cpus=0,
                max_restarts=-1,
                max_task_retries=-1,
                scheduling_strategy=on_node(self._here),
            ).remote(str(self._folder))
        return self._keeper

    def running(self) -> int:
        return sum(len(actor.queue) for actor in self._actors)

    def workers(self) -> list[dict[str, Any]]:
        now = time.monotonic()
        found = []
        for actor in self._actors:
            trial = actor.queue[0][0].trial if actor.queue else None
            found.append(
                {
                    "name": actor.name,
                    "host": actor.node.host,
                    "pid": actor.pid,
                    "threads": actor.shape.threads,
                    "gpus": round(actor.shape.gpus, 3),
                    "starting": actor.starting is not None,
                    "trial": trial and f"{trial.dataset}/{trial.fold}/{trial.model}",
                    "since_s": round(now - actor.head_since, 1) if trial else 0.0,
                    "waiting": max(0, len(actor.queue) - 1),
                }
            )
        return found

    def news(self) -> list[News]:
        found, self._news = self._news, []
        return found

    # ------------------------------------------------------------------ results

    def poll(self, timeout_s: float) -> list[Outcome]:
        """Everything that has ended, waiting at most `timeout_s` for the first. Raises ClusterLost
        where no node may be used, or Ray on this machine is gone."""
        self._check_raylet()
        outcomes: list[Outcome] = []
        if self._refs:
            refs = list(self._refs)
            ready, _ = self._ray.wait(refs, num_returns=1, timeout=timeout_s)
            if ready and len(refs) > 1:
                ready, _ = self._ray.wait(refs, num_returns=len(refs), timeout=0)
            for ref in ready:
                if ref in self._refs:  # a death clears the refs of the whole actor
                    outcomes.extend(self._collect(ref))
        else:
            time.sleep(timeout_s)
        outcomes.extend(self._welcome())
        outcomes.extend(self._overdue())
        if time.monotonic() - self._looked > LOOK_S:
            outcomes.extend(self._look())
        return outcomes

    def _check_raylet(self) -> None:
        """Ray ends a driver whose raylet is gone some seconds later, without a word: be faster.
        What died with it is no trial's doing, so this comes before any burial."""
        if self._raylet is not None and not running(self._raylet):
            self._lost = True
            raise ClusterLost("Ray on this machine has died")

    def _look(self) -> list[Outcome]:
        """Which nodes are there now? What ran on one that is gone is lost."""
        self._looked = time.monotonic()
        before, self._nodes = self._nodes, nodes()
        for id in self._nodes.keys() - before.keys():
            node = self._nodes[id]
            self._news.append(("node", {"host": node.host, "cpus": node.cpus, "gpus": node.gpus}))
        outcomes = []
        for id in before.keys() - self._nodes.keys():
            self._news.append(("lost node", {"host": before[id].host}))
            for actor in [a for a in self._actors if a.node.id == id]:
                outcomes.extend(self._bury(actor, "lost"))
        return outcomes

    def _welcome(self) -> list[Outcome]:
        """Workers that have come up: are they what they should be?"""
        starting = {actor.starting: actor for actor in self._actors if actor.starting is not None}
        if not starting:
            return []
        from ray.exceptions import RayError

        refs = list(starting)
        outcomes: list[Outcome] = []
        for ref in self._ray.wait(refs, num_returns=len(refs), timeout=0)[0]:
            actor = starting[ref]
            if actor not in self._actors:  # its node was refused a moment ago
                continue
            try:
                found = self._ray.get(ref)
            except RayError as error:
                outcomes.extend(self._stillborn(actor, error))
                continue
            actor.starting, actor.pid = None, found["pid"]
            actor.head_since = time.monotonic()
            self._fruitless.pop(actor.node.id, None)
            if actor.shape.gpus:
                self._gpu_mb[actor.node.id] = found["gpu_mb"]
            if found["wrong"]:
                outcomes.extend(self._refuse(actor.node, found["wrong"]))
            else:
                about = {"worker": actor.name, "host": actor.node.host, "pid": actor.pid}
                self._news.append(("worker", about))
        return outcomes

    def _stillborn(self, actor: _Actor, error: Exception) -> list[Outcome]:
        """A worker ended before it was up: no trial's doing."""
        outcomes = self._bury(actor, "lost")
        if actor.node.id in self._nodes:
            self._fruitless[actor.node.id] += 1
            if self._fruitless[actor.node.id] >= FRUITLESS:
                text = str(error).strip().splitlines()
                reason = f"no worker comes up there: {text[0] if text else type(error).__name__}"
                outcomes.extend(self._refuse(actor.node, reason))
        return outcomes

    def _refuse(self, node: Node, reason: str) -> list[Outcome]:
        self._refused[node.id] = reason
        if not any(other.cpus for other in self._usable()):
            raise ClusterLost(f"no machine of the cluster can be used; {node.host}: {reason}")
        self._news.append(("warning", {"message": f"{node.host} is left out: {reason}"}))
        outcomes: list[Outcome] = []
        for actor in [a for a in self._actors if a.node.id == node.id]:
            outcomes.extend(self._retire(actor))
        return outcomes

    def _collect(self, ref: Any) -> list[Outcome]:
        self._check_raylet()
        from ray.exceptions import (
            ActorUnschedulableError,
            ObjectLostError,
            OutOfMemoryError,
            RayActorError,
            RayError,
            RayTaskError,
        )

        actor = self._refs[ref]
        job = next(job for job, other in actor.queue if other == ref)
        try:
            result = self._ray.get(ref)
        except RayError as error:
            gone = RayActorError | OutOfMemoryError | ActorUnschedulableError
            if isinstance(error, gone) and not isinstance(error, RayTaskError):
                if actor.starting is not None and self._delivered(actor.starting) is None:
                    return self._stillborn(actor, error)
                return self._bury(actor, death_of(error))
            # It ended, and its machine died with it; or it was never begun.
            if isinstance(error, ObjectLostError | Stranger):
                self._take(actor, ref)
                return [Outcome(job, None, death="lost", worker=actor.name)]
            text = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            result = failure("error", f"the result could not be fetched: {text}")
        self._take(actor, ref)
        # What a long life gathered may be part of an allocation that failed: begin afresh.
        actor.worn = actor.worn or result.cause in ("oom", "gpu_oom")
        if actor.worn and not actor.queue:
            self._retire(actor)
        return [Outcome(job, result, worker=actor.name)]

    def _take(self, actor: _Actor, ref: Any) -> None:
        self._refs.pop(ref, None)
        actor.queue = deque(item for item in actor.queue if item[1] != ref)
        actor.head_since = time.monotonic()

    def _retire(self, actor: _Actor) -> list[Outcome]:
        """End an actor; what waits in its queue is merely lost."""
        self._ray.kill(actor.handle)
        self._actors.remove(actor)
        outcomes = []
        for job, ref in actor.queue:
            self._refs.pop(ref, None)
            outcomes.append(Outcome(job, None, death="lost", worker=actor.name))
        actor.queue.clear()
        return outcomes

    def _bury(self, actor: _Actor, death: str) -> list[Outcome]:
        """An actor died: its head was running, the rest was waiting and is merely lost."""
        outcomes = []
        head = True
        word = self._last_words(actor)
        output = self._last_output(actor) if death != "lost" else ""
        about = {"worker": actor.name, "host": actor.node.host, "cause": word or death}
        self._news.append(("lost worker", about))
        for job, ref in actor.queue:
            self._refs.pop(ref, None)
            result = self._delivered(ref)
            if result is not None:
                outcomes.append(Outcome(job, result, worker=actor.name))
                continue
            cause = "lost" if death == "lost" or not head else (word or death)
            outcomes.append(Outcome(job, None, cause, actor.name, output if head else ""))
            head = False
        actor.queue.clear()
        return outcomes + self._retire(actor)

    def _delivered(self, ref: Any) -> Any:
        """What came before its worker died counts, whatever happened afterwards; else None."""
        try:
            return self._ray.get(ref, timeout=0)
        except Exception:
            return None

    def _last_words(self, actor: _Actor) -> str | None:
        from ray.experimental import internal_kv

        try:
            value = internal_kv._internal_kv_get(f"tabsweep/{actor.name}")
        except Exception:
            return None
        return value.decode() if value else None

    def _last_output(self, actor: _Actor) -> str:
        """What the trial had printed, from the file that its worker left on its machine."""
        path = output_file(actor.name)
        try:
            if actor.node.id == self._here:
                return tail_of(path)
            remote: Any = self._ray.remote(tail_of)
            there = remote.options(
                num_cpus=0, max_retries=0, scheduling_strategy=on_node(actor.node.id)
            )
            return self._ray.get(there.remote(path), timeout=5.0)
        except Exception:  # the words of the dead are nice to have
            return ""

    def _overdue(self) -> list[Outcome]:
        now = time.monotonic()
        outcomes: list[Outcome] = []
        for actor in list(self._actors):
            if actor not in self._actors:  # its node was refused a moment ago
                continue
            if actor.starting is not None:
                if now - actor.head_since > START_TIMEOUT_S:
                    late = TimeoutError(f"not up after {START_TIMEOUT_S:g} s")
                    outcomes.extend(self._stillborn(actor, late))
                continue
            if not actor.queue:
                continue
            job, ref = actor.queue[0]
            if now - actor.head_since <= job.limits.timeout_s + self._grace_s:
                continue
            output = self._last_output(actor)
            actor.queue.popleft()
            self._refs.pop(ref, None)
            message = f"ran longer than {job.limits.timeout_s:g} s"
            result = failure("timeout", message, output=output)
            outcomes.append(Outcome(job, result, worker=actor.name))
            outcomes.extend(self._retire(actor))
        return outcomes

    def forget(self, data_key: str) -> None:
        self._data.pop(data_key, None)

    def close(self) -> None:
        if not self._lost:  # else there is nobody to ask
            for actor in self._actors:
                self._ray.kill(actor.handle)
            if self._keeper is not None:
                self._ray.kill(self._keeper)
        self._actors.clear()
        self._refs.clear()
        self._data.clear()
