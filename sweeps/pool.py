"""Where do trials run? In long-lived Ray actors, or in this process for debugging."""

from __future__ import annotations

import math
import os
import socket
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from .trial import Limits, Result, Trial, canonical, failure

# (trial, data) -> Result; handed in by whoever knows datasets and models.
RunTrial = Callable[[Trial, Any], Result]


@dataclass
class Job:
    """A trial on its way to a worker."""

    trial: Trial
    data_key: str
    limits: Limits
    threads: int = 1
    attempt: int = 1


@dataclass(frozen=True)
class Outcome:
    """What became of a job. `death` is set where the worker died under it: 'killed' and 'oom' count
    as attempts, 'lost' (queued behind the job that died, or its node went away) does not."""

    job: Job
    result: Result | None
    death: str | None = None
    worker: str = ""


START_TIMEOUT_S = 300.0  # for a worker process to come up, imports of Ray included


class Pool(Protocol):
    def room(self, threads: int = 1) -> bool: ...

    def submit(self, job: Job) -> None: ...

    def poll(self, timeout_s: float) -> list[Outcome]: ...

    def running(self) -> int: ...

    def close(self) -> None: ...


# What libraries say, in one error class or another, when the system gives them no memory.
NO_MEMORY = ("bad_alloc", "bad allocation", "cannot allocate memory", "can't allocate memory")


def guarded(run_trial: RunTrial, trial: Trial, data: Any) -> Result:
    """Run a trial; whatever it raises becomes a failure with a cause."""
    try:
        return checked(run_trial(trial, data))
    except MemoryError as error:
        return failure("oom", f"MemoryError: {error}" if str(error) else "MemoryError")
    except (Exception, SystemExit) as error:  # a trial's failure is data, never the sweep's end
        import traceback

        text = str(error).strip().splitlines()
        message = f"{type(error).__name__}: {text[0][:500] if text else '(no message)'}"
        cause = "gpu_oom" if type(error).__name__ == "OutOfMemoryError" else "error"
        if any(words in message.lower() for words in NO_MEMORY):
            cause = "oom"
        return failure(cause, message, log=traceback.format_exc()[-4000:])


def checked(result: Result) -> Result:
    """The same result where the ledger can hold it. A score that is NaN or infinite is a failure;
    what else cannot be stored raises TypeError or ValueError."""
    import numpy as np

    if not isinstance(result, Result):
        raise TypeError(f"a trial ends in a Result, not in {type(result).__name__}")
    for part, scores in (("val", result.val), ("test", result.test)):
        for name, value in scores.items():
            if value is not None and not math.isfinite(value):
                return failure("nonfinite", f"{name} on {part} is {value}")
    canonical([dict(part) for part in (result.val, result.test, result.costs, result.info)])
    for part, array in result.predictions.items():
        if np.asarray(array).dtype.kind not in "biuf":
            raise TypeError(f"predictions on {part} are no numbers: {np.asarray(array).dtype}")
    return result


class InProcess:
    """One trial at a time in the calling process: for a debugger. No limit can be enforced here."""

    def __init__(self, run_trial: RunTrial, load: Callable[[str], Any]) -> None:
        self._run_trial = run_trial
        self._load = load
        self._queue: deque[Job] = deque()

    def room(self, threads: int = 1) -> bool:
        return not self._queue

    def submit(self, job: Job) -> None:
        self._queue.append(job)

    def poll(self, timeout_s: float) -> list[Outcome]:
        if not self._queue:
            return []
        job = self._queue.popleft()
        result = guarded(self._run_trial, job.trial, self._load(job.data_key))
        return [Outcome(job, result, worker="in-process")]

    def running(self) -> int:
        return len(self._queue)

    def close(self) -> None:
        self._queue.clear()


# ---------------------------------------------------------------------- inside a worker


class TrialWorker:
    """The body of a Ray actor: runs one trial at a time, with its data cached between calls."""

    def __init__(self, run_trial: RunTrial, name: str, paths: list[str]) -> None:
        for path in reversed(paths):
            if path not in sys.path:
                sys.path.insert(0, path)
        self._run_trial = run_trial
        self._name = name
        self._data: dict[str, Any] = {}
        self._limit_mb = 0.0
        self._watching = False

    def ready(self) -> int:
        return os.getpid()

    def run(self, trial: Trial, data_key: str, data_ref: list[Any], limits: Limits) -> Result:
        self._guard_memory(limits.memory_mb)
        if data_key not in self._data:
            import ray

            if len(self._data) >= 64:
                self._data.pop(next(iter(self._data)))
            self._data[data_key] = ray.get(data_ref[0]) if data_ref else None
        return guarded(self._run_trial, trial, self._data[data_key])

    def _guard_memory(self, limit_mb: float) -> None:
        """Two nets: the kernel refuses data beyond the limit, and a thread ends the process when
        its resident memory passes it (libraries that map memory in other ways)."""
        if limit_mb == self._limit_mb:
            return
        self._limit_mb = limit_mb
        try:
            import resource

            limit = int((_data_mb() + limit_mb) * 2**20)
            resource.setrlimit(resource.RLIMIT_DATA, (limit, resource.RLIM_INFINITY))
        except (ImportError, ValueError, OSError):
            pass  # not every system has this limit; the thread below stands alone then
        if not self._watching:
            import threading

            self._watching = True
            threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        base_mb = _resident_mb()
        while True:
            time.sleep(0.1)
            if _resident_mb() > base_mb + 1.25 * self._limit_mb:
                _last_words(self._name, "oom")
                os._exit(137)


def _resident_mb() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def _data_mb() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[5]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def _last_words(name: str, word: str) -> None:
    from ray.experimental import internal_kv

    internal_kv._internal_kv_put(f"tabsweep/{name}", word, overwrite=True)


# ---------------------------------------------------------------------- the driver's side


@dataclass
class _Actor:
    name: str
    handle: Any
    threads: int
    queue: deque[tuple[Job, Any]] = field(default_factory=deque)  # head: running; then: waiting
    head_since: float = 0.0
    starting: Any = None  # resolves when the process is up; until then no trial's time runs
    worn: bool = False  # ends when its queue is empty


class RayPool:
    """Long-lived actors on a Ray cluster, `depth` calls each: one running, the next one waiting.

    `slots` is the number of CPUs that trials may use in all. Actors of `threads` CPUs are made when
    the first trial of that shape comes and give way when another shape needs their CPUs. Ray itself
    never runs a fit again (`max_task_retries=0`). Data objects are put once, fetched once a node.
    """

    def __init__(
        self,
        run_trial: RunTrial,
        load: Callable[[str], Any],
        *,
        slots: int,
        depth: int = 2,
        grace_s: float = 5.0,
        paths: list[str] | None = None,
    ) -> None:
        import ray

        self._ray = ray
        self._run_trial = ray.put(run_trial)
        self._load = load
        self._slots = slots
        self._depth = depth
        self._grace_s = grace_s
        self._paths = paths or []
        self._actors: list[_Actor] = []
        self._refs: dict[Any, _Actor] = {}
        self._data: dict[str, Any] = {}
        self._count = 0
        self._prefix = f"{os.getpid()}-{time.time_ns()}"

    # ------------------------------------------------------------------ placing

    def warm(self, n: int) -> None:
        """Start actors of one thread before the first trial is there."""
        while len(self._actors) < n and self._used() < self._slots:
            self._start(1)

    def _used(self) -> int:
        return sum(actor.threads for actor in self._actors)

    def _start(self, threads: int) -> _Actor:
        self._count += 1
        name = f"{self._prefix}-{self._count}"
        remote: Any = self._ray.remote(TrialWorker)
        handle = remote.options(
            num_cpus=threads, max_restarts=0, max_task_retries=0, max_concurrency=1
        ).remote(self._run_trial, name, self._paths)
        actor = _Actor(name=name, handle=handle, threads=threads, starting=handle.ready.remote())
        actor.head_since = time.monotonic()
        self._actors.append(actor)
        return actor

    def _candidates(self, threads: int) -> list[_Actor]:
        return [
            actor
            for actor in self._actors
            if actor.threads == threads and len(actor.queue) < self._depth and not actor.worn
        ]

    def room(self, threads: int = 1) -> bool:
        threads = min(threads, self._slots)
        if self._candidates(threads) or self._used() + threads <= self._slots:
            return True
        if any(actor.threads == threads for actor in self._actors):
            return False
        idle = sum(actor.threads for actor in self._actors if not actor.queue)
        return idle + self._slots - self._used() >= threads

    def submit(self, job: Job) -> None:
        threads = min(job.threads, self._slots)
        if self._used() + threads <= self._slots and not any(
            not actor.queue for actor in self._candidates(threads)
        ):
            actor = self._start(threads)
        else:
            candidates = self._candidates(threads)
            if not candidates:
                self._make_way(threads)
                candidates = [self._start(threads)]
            actor = min(candidates, key=lambda a: len(a.queue))
        self._send(actor, job)

    def _make_way(self, threads: int) -> None:
        for actor in [a for a in self._actors if not a.queue]:
            if self._used() + threads <= self._slots:
                return
            self._actors.remove(actor)
            self._ray.kill(actor.handle)

    def _send(self, actor: _Actor, job: Job) -> None:
        if job.data_key and job.data_key not in self._data:
            self._data[job.data_key] = self._ray.put(self._load(job.data_key))
        data = [self._data[job.data_key]] if job.data_key else []
        ref = actor.handle.run.remote(job.trial, job.data_key, data, job.limits)
        if not actor.queue and actor.starting is None:
            actor.head_since = time.monotonic()
        actor.queue.append((job, ref))
        self._refs[ref] = actor

    def running(self) -> int:
        return sum(len(actor.queue) for actor in self._actors)

    # ------------------------------------------------------------------ results

    def poll(self, timeout_s: float) -> list[Outcome]:
        """Everything that has ended, waiting at most `timeout_s` for the first."""
        outcomes: list[Outcome] = []
        if self._refs:
            refs = list(self._refs)
            ready, _ = self._ray.wait(refs, num_returns=1, timeout=timeout_s)
            if ready and len(refs) > 1:
                ready, _ = self._ray.wait(refs, num_returns=len(refs), timeout=0)
            for ref in ready:
                if ref in self._refs:  # a death clears the refs of the whole actor
                    outcomes.extend(self._collect(ref))
        outcomes.extend(self._overdue())
        return outcomes

    def _collect(self, ref: Any) -> list[Outcome]:
        from ray.exceptions import OutOfMemoryError, RayActorError, RayError, RayTaskError

        actor = self._refs[ref]
        job = next(job for job, other in actor.queue if other == ref)
        try:
            result = self._ray.get(ref)
        except RayError as error:
            died = isinstance(error, RayActorError | OutOfMemoryError)
            if died and not isinstance(error, RayTaskError):
                return self._bury(actor, death_of(error))
            text = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            result = failure("error", f"the result could not be fetched: {text}")
        self._refs.pop(ref)
        actor.queue = deque(item for item in actor.queue if item[1] != ref)
        actor.head_since = time.monotonic()
        # What a long life gathered may be part of an allocation that failed: begin afresh.
        actor.worn = actor.worn or result.cause == "oom"
        if actor.worn and not actor.queue:
            self._retire(actor)
        return [Outcome(job, result, worker=actor.name)]

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
        for job, ref in actor.queue:
            self._refs.pop(ref, None)
            try:  # a result that was already delivered counts, whatever died afterwards
                result = self._ray.get(ref, timeout=0)
            except Exception:
                result = None
            if result is not None:
                outcomes.append(Outcome(job, result, worker=actor.name))
                continue
            cause = "lost" if death == "lost" or not head else (word or death)
            head = False
            outcomes.append(Outcome(job, None, death=cause, worker=actor.name))
        actor.queue.clear()
        return outcomes + self._retire(actor)

    def _last_words(self, actor: _Actor) -> str | None:
        from ray.experimental import internal_kv

        try:
            value = internal_kv._internal_kv_get(f"tabsweep/{actor.name}")
        except Exception:
            return None
        return value.decode() if value else None

    def _overdue(self) -> list[Outcome]:
        now = time.monotonic()
        outcomes: list[Outcome] = []
        for actor in list(self._actors):
            if not actor.queue:
                continue
            job, ref = actor.queue[0]
            if actor.starting is not None:
                if self._ray.wait([actor.starting], timeout=0)[0]:
                    actor.starting = None
                    actor.head_since = now
                elif now - actor.head_since < START_TIMEOUT_S:
                    continue
            if now - actor.head_since <= job.limits.timeout_s + self._grace_s:
                continue
            actor.queue.popleft()
            self._refs.pop(ref, None)
            result = failure("timeout", f"ran longer than {job.limits.timeout_s:g} s")
            outcomes.append(Outcome(job, result, worker=actor.name))
            outcomes.extend(self._retire(actor))
        return outcomes

    def forget(self, data_key: str) -> None:
        """No study needs this data any more: let the object store drop it."""
        self._data.pop(data_key, None)

    def close(self) -> None:
        for actor in self._actors:
            self._ray.kill(actor.handle)
        self._actors.clear()
        self._refs.clear()
        self._data.clear()


def death_of(error: Exception) -> str:
    """How an actor died, from Ray's error: 'killed', 'oom', or 'lost' with its node or its network.

    Ray's text on a worker's own death speaks of nodes too, hence the whole phrases.
    """
    from ray.exceptions import ActorUnavailableError, OutOfMemoryError

    text = str(error).lower()
    if isinstance(error, ActorUnavailableError) or getattr(error, "preempted", False):
        return "lost"
    if "its node has died" in text:
        return "lost"
    if isinstance(error, OutOfMemoryError) or "due to the node running low on memory" in text:
        return "oom"
    return "killed"


def check_address(address: str) -> None:
    """Raises ConnectionError where nobody answers at host:port: Ray itself would ask for ever."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), timeout=10.0).close()
    except (OSError, OverflowError) as error:
        raise ConnectionError(
            f"no Ray cluster answers at {address} ({error}): start one with `ray start --head`, or "
            "leave --address out"
        ) from None


def start_ray(*, slots: int, address: str = "local", quiet: bool = True) -> None:
    """Start Ray on this machine (or join the cluster at `address`) with the product's settings."""
    # Trials set their own thread counts; these keep the libraries' pools from starting wider.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    os.environ.setdefault("RAY_worker_niceness", "0")
    # A trial's own processes end with its worker; Ray's default, but not in every version.
    os.environ.setdefault("RAY_process_group_cleanup_enabled", "1")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    import logging

    check_address(address)
    import ray

    options: dict[str, Any] = {"address": address, "log_to_driver": False}
    if quiet:
        options["logging_level"] = logging.ERROR
    if address == "local":
        options |= {
            "num_cpus": slots,
            "num_gpus": 0,
            "include_dashboard": False,
            "object_store_memory": 512 * 2**20,
        }
    ray.init(**options)
