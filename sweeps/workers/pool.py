"""The worker pool's interface, a pool in the calling process, and the guard around a trial."""

from __future__ import annotations

import math
import re
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from ..store.checkpoints import Checkpoints
from ..study import Needs
from ..trial import FAILED, Limits, Result, Trial, canonical, failure
from .interruption import Interrupted

# (trial, data) -> Result, and (trial, data, checkpoints) -> Result for a trial on a rung. It is
# passed in, because this room knows neither datasets nor models.
RunTrial = Callable[..., Result]

# What a pool noticed by itself: ("worker", "lost worker", "node", "lost node" or "warning",
# details).
News = tuple[str, Mapping[str, Any]]


@dataclass
class Job:
    """A trial on its way through a worker; `attempt` counts from 1."""

    trial: Trial
    data_key: str
    limits: Limits
    needs: Needs = field(default_factory=Needs)
    attempt: int = 1


@dataclass(frozen=True)
class JobOutcome:
    """How a job ended: with a result, or with the death of its worker.

    `death` is set where the worker died: 'killed' and 'oom' count as attempts, 'lost' (the job
    waited behind the one that died, its node went away, or a signal ended its worker) does not.
    `output` is what the trial printed before its worker died; `reason`, with 'oom', whose memory
    it was, where that was not the trial's own limit.
    """

    job: Job
    result: Result | None
    death: str | None = None
    worker: str = ""
    output: str = ""
    reason: str = ""


class ClusterLost(Exception):
    """The workers cannot be reached any more, or none can be used; the message says why. `ended`:
    the jobs whose results had come before that."""

    ended: list[JobOutcome]

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        self.ended = []


class WorkerPool(Protocol):
    """All workers of a sweep, as the engine sees them."""

    def room(self, needs: Needs) -> bool:
        """Whether a job with these needs can be submitted now."""
        ...

    def submit(self, job: Job) -> None:
        """Start or queue a job; only after `room` said yes."""
        ...

    def poll(self, timeout_s: float) -> list[JobOutcome]:
        """Jobs that have ended, after waiting at most so long for the first."""
        ...

    def running(self) -> int:
        """How many jobs were submitted and have not ended."""
        ...

    def workers(self) -> list[dict[str, Any]]:
        """The workers: name, host, threads, gpus, trial (or None), since_s, waiting."""
        ...

    def news(self) -> list[News]:
        """What the pool noticed since the last call."""
        ...

    def forget(self, data_key: str) -> None:
        """Free this data: no study needs it any more."""
        ...

    def keep_for_gpus(self, threads: int) -> None:
        """Keep so many CPUs free beside each GPU for trials that need one; 0: no such trial is
        left."""
        ...

    def close(self) -> None:
        """End all workers; what runs is lost."""
        ...


# Parts of the messages of libraries that get no memory, whatever the class of the error.
NO_GPU_MEMORY = re.compile("cudaErrorMemoryAllocation|cuda.{0,60}out of memory", re.I)
NO_MEMORY = ("bad_alloc", "bad allocation", "cannot allocate memory", "can't allocate memory")


def guarded(
    run_trial: RunTrial,
    trial: Trial,
    data: Any,
    checkpoints: Checkpoints | None = None,
    *,
    caught: tuple[type[BaseException], ...] = (Exception, SystemExit),
) -> Result:
    """Run a trial; what it raises becomes a failure with a cause, where it is one of `caught`.

    An interruption from outside is none of them: nothing is known of the trial then. A failure has
    the CPU seconds that it took.
    """
    began = time.process_time()
    result = _guarded(run_trial, trial, data, checkpoints, caught)
    if result.status != FAILED or "cpu_s" in result.costs:
        return result
    return replace(result, costs={**result.costs, "cpu_s": time.process_time() - began})


def _guarded(
    run_trial: RunTrial,
    trial: Trial,
    data: Any,
    checkpoints: Checkpoints | None,
    caught: tuple[type[BaseException], ...],
) -> Result:
    more = [] if trial.fidelity is None else [checkpoints]
    try:
        return checked(run_trial(trial, data, *more))
    except MemoryError as error:
        return failure("oom", f"MemoryError: {error}" if str(error) else "MemoryError")
    except Interrupted:
        raise
    except caught as error:  # a failed trial must not end the sweep
        import traceback

        text = str(error).strip().splitlines()
        message = f"{type(error).__name__}: {text[0][:500] if text else '(no message)'}"
        cause = "error"
        if type(error).__name__ == "OutOfMemoryError" or NO_GPU_MEMORY.search(str(error)):
            cause = "gpu_oom"
        elif any(words in message.lower() for words in NO_MEMORY):
            cause = "oom"
        return failure(cause, message, log=traceback.format_exc()[-4000:])


def checked(result: Result) -> Result:
    """The result, where the ledger can store it; a failure where a score is NaN or infinite.

    Raises TypeError or ValueError for anything else that cannot be stored.
    """
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


class InProcessPool:
    """Runs one trial at a time in the calling process, for a debugger. Limits are not enforced."""

    def __init__(
        self,
        run_trial: RunTrial,
        load: Callable[[str], Any],
        checkpoints: Checkpoints | None = None,
    ) -> None:
        self._run_trial = run_trial
        self._load = load
        self._checkpoints = checkpoints
        self._queue: deque[Job] = deque()

    def room(self, needs: Needs) -> bool:
        """Whether no job is queued."""
        return not self._queue

    def submit(self, job: Job) -> None:
        """Queue a job; `poll` runs it."""
        self._queue.append(job)

    def poll(self, timeout_s: float) -> list[JobOutcome]:
        """Run the queued job; `timeout_s` is not used."""
        if not self._queue:
            return []
        job = self._queue.popleft()
        data = self._load(job.data_key)
        result = guarded(self._run_trial, job.trial, data, self._checkpoints)
        return [JobOutcome(job, result, worker="in-process")]

    def running(self) -> int:
        """How many jobs are queued: 0 or 1."""
        return len(self._queue)

    def workers(self) -> list[dict[str, Any]]:
        """Always empty: there are no worker processes."""
        return []

    def news(self) -> list[News]:
        """Always empty."""
        return []

    def forget(self, data_key: str) -> None:
        """Does nothing: data are loaded for each job."""

    def keep_for_gpus(self, threads: int) -> None:
        """Does nothing: one job runs at a time."""

    def close(self) -> None:
        """Drop a queued job."""
        self._queue.clear()
