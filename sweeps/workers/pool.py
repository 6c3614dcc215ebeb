"""What does the engine need of the workers? Room for a job, what ended, and who is there."""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..store.checkpoints import Checkpoints
from ..study import Needs
from ..trial import Limits, Result, Trial, canonical, failure

# (trial, data) -> Result, and (trial, data, checkpoints) -> Result for a trial on a rung; handed in
# by whoever knows datasets and models.
RunTrial = Callable[..., Result]

# Something that the pool noticed by itself: ("worker" | "lost worker" | "warning", details).
News = tuple[str, Mapping[str, Any]]


class ClusterLost(Exception):
    """The workers cannot be reached any more, or none may be used; the message says why."""


@dataclass
class Job:
    """A trial on its way to a worker."""

    trial: Trial
    data_key: str
    limits: Limits
    needs: Needs = field(default_factory=Needs)
    attempt: int = 1


@dataclass(frozen=True)
class Outcome:
    """What became of a job. `death` is set where the worker died under it: 'killed' and 'oom' count
    as attempts, 'lost' (queued behind the job that died, or its node went away) does not. `output`
    is what a trial printed before its worker died."""

    job: Job
    result: Result | None
    death: str | None = None
    worker: str = ""
    output: str = ""


class Pool(Protocol):
    def room(self, needs: Needs) -> bool: ...

    def submit(self, job: Job) -> None: ...

    def poll(self, timeout_s: float) -> list[Outcome]: ...

    def running(self) -> int: ...

    def workers(self) -> list[dict[str, Any]]:
        """Who is there: name, host, threads, gpus, trial (or None), since_s, waiting."""
        ...

    def news(self) -> list[News]:
        """What happened since the last call."""
        ...

    def forget(self, data_key: str) -> None:
        """No study needs this data any more."""
        ...

    def keep_for_gpus(self, threads: int) -> None:
        """CPUs that stay free beside each GPU for trials that need one; 0: none is left."""
        ...

    def close(self) -> None: ...


# What libraries say, in one error class or another, when the system gives them no memory.
NO_GPU_MEMORY = re.compile("cudaErrorMemoryAllocation|cuda.{0,60}out of memory", re.I)
NO_MEMORY = ("bad_alloc", "bad allocation", "cannot allocate memory", "can't allocate memory")


def guarded(
    run_trial: RunTrial, trial: Trial, data: Any, checkpoints: Checkpoints | None = None
) -> Result:
    """Run a trial; whatever it raises becomes a failure with a cause."""
    more = [] if trial.fidelity is None else [checkpoints]
    try:
        return checked(run_trial(trial, data, *more))
    except MemoryError as error:
        return failure("oom", f"MemoryError: {error}" if str(error) else "MemoryError")
    except (Exception, SystemExit) as error:  # a trial's failure is data, never the sweep's end
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
        return not self._queue

    def submit(self, job: Job) -> None:
        self._queue.append(job)

    def poll(self, timeout_s: float) -> list[Outcome]:
        if not self._queue:
            return []
        job = self._queue.popleft()
        data = self._load(job.data_key)
        result = guarded(self._run_trial, job.trial, data, self._checkpoints)
        return [Outcome(job, result, worker="in-process")]

    def running(self) -> int:
        return len(self._queue)

    def workers(self) -> list[dict[str, Any]]:
        return []

    def news(self) -> list[News]:
        return []

    def forget(self, data_key: str) -> None:
        pass

    def keep_for_gpus(self, threads: int) -> None:
        pass

    def close(self) -> None:
        self._queue.clear()
