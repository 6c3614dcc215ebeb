"""The worker pool's interface, a pool in the calling process, and the guard around a trial."""

from __future__ import annotations

import copy
import math
import os
import re
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from ...common.errors import ENVIRONMENT, Error
from ..events import News
from ..machine.process_tree import tree_cpu_s
from ..store.checkpoints import Checkpoints
from ..study import Needs
from ..trial import FAILED, Limits, Result, Trial, canonical, failure
from .interruption import Interrupted, keyboard_interrupts

# (trial, data) -> Result, and (trial, data, checkpoints) -> Result for a trial on a rung. It is
# passed in, because this room knows neither datasets nor models.
RunTrial = Callable[..., Result]


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

    `death` is set if the worker died. 'killed' and 'oom' count as attempts. 'lost' does not: the
    job waited behind the one that died, its node went away, or a signal ended its worker. `output`
    is what the trial printed before. `reason`, only with 'oom', says whose memory ran out if it was
    not the trial's own limit.
    """

    job: Job
    result: Result | None
    death: str | None = None
    worker: str = ""
    output: str = ""
    reason: str = ""


class ClusterLost(Error):
    """The workers cannot be reached any more, or none can be used; the message says why. `ended`:
    the jobs whose results had come before that."""

    id = "BENCH-E021"
    exit_code = ENVIRONMENT

    ended: Sequence[JobOutcome] = ()


class TrialRefused(ClusterLost):
    """What a trial function raises where its process would compute something else than the trial's
    id says. That is no failure of the trial: nothing is recorded, and the sweep ends with it."""


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

    def close(self) -> None:
        """End all workers; what runs is lost."""
        ...

    # What a pool without processes of its own has nothing to do for.

    def workers(self) -> list[dict[str, Any]]:
        """The workers: name, host, threads, gpus, trial (or None), since_s, waiting."""
        return []

    def news(self) -> list[News]:
        """What the pool noticed since the last call."""
        return []

    def forget(self, data_key: str) -> None:
        """Free this data: no study needs it any more."""
        return

    def keep_for_gpus(self, threads: int) -> None:
        """Keep so many CPUs free beside each GPU for trials that need one; 0: no such trial is
        left."""
        return


# Parts of the messages of libraries, whatever the class of the error: no memory on the GPU (CUDA's
# own words, those of its libraries, OpenCL's, which LightGBM has, XGBoost's, and CatBoost's) ...
NO_GPU_MEMORY = re.compile(
    r"cudaErrorMemoryAllocation|cuda.{0,80}(out of|not enough) memory"
    r"|\bCU[A-Z]+_[A-Z_]*ALLOC(ATION)?_FAILED"
    r"|CL_MEM_OBJECT_ALLOCATION_FAILURE|Memory Object Allocation Failure"
    r"|Memory allocation error on worker",
    re.I,
)
# ... an error after which every call of the process to its GPU fails (`cudaGetErrorString`) ...
GPU_UNUSABLE = re.compile(
    r"cuda.{0,200}(illegal (memory access|instruction)|device-side assert|misaligned address"
    r"|invalid program counter|unspecified launch failure|hardware stack error"
    r"|the launch timed out|on global/shared address space|uncorrectable ECC error)",
    re.I | re.S,
)
# ... and no memory on the machine.
NO_MEMORY = ("bad_alloc", "bad allocation", "cannot allocate memory", "can't allocate memory")


def guarded(
    run_trial: RunTrial,
    trial: Trial,
    data: Any,
    checkpoints: Checkpoints | None = None,
    *,
    passed: tuple[type[BaseException], ...] = (KeyboardInterrupt, GeneratorExit),
) -> Result:
    """Run a trial; what it raises becomes a failure with a cause, unless it is one of `passed`, an
    interruption from outside or TrialRefused: nothing is known of the trial then.

    The trial's code gets a copy of the trial, and no process that it forks comes back from here. A
    failure has the CPU seconds that it took.
    """
    began = tree_cpu_s()
    result = _guarded(run_trial, trial, data, checkpoints, passed)
    if result.status != FAILED or "cpu_s" in result.costs:
        return result
    return replace(result, costs={**result.costs, "cpu_s": tree_cpu_s() - began})


def _guarded(
    run_trial: RunTrial,
    trial: Trial,
    data: Any,
    checkpoints: Checkpoints | None,
    passed: tuple[type[BaseException], ...],
) -> Result:
    more = [] if trial.fidelity is None else [checkpoints]
    through: tuple[type[BaseException], ...] = (Interrupted, TrialRefused, *passed)
    try:
        return checked(_run_in_one_process(run_trial, copy.deepcopy(trial), data, *more))
    except MemoryError as error:
        text = text_of(error)
        return failure("oom", f"MemoryError: {text}" if text else "MemoryError")
    except through:
        raise
    except BaseException as error:  # a failed trial must not end the sweep
        import traceback

        text = text_of(error)
        message = f"{type(error).__name__}: {first_line(text)[:500] or '(no message)'}"
        cause = _cause_of(type(error).__name__, text)
        return failure(cause, message, log=traceback.format_exc()[-4000:])


def _cause_of(kind: str, text: str) -> str:
    """The cause of a failure, from the name of an error's class and its message."""
    if kind == "OutOfMemoryError" or NO_GPU_MEMORY.search(text):
        return "gpu_oom"
    if kind == "AcceleratorError" or GPU_UNUSABLE.search(text):
        return "gpu_error"
    first = first_line(text)[:500].lower()
    return "oom" if any(words in first for words in NO_MEMORY) else "error"


def _run_in_one_process(run_trial: RunTrial, *args: Any) -> Result:
    """The trial's result. A process that the trial forked ends here instead of going on as a second
    driver or worker; what its parent has not yet written is not written by it."""
    process = os.getpid()
    code = 0
    try:
        return run_trial(*args)
    except BaseException as error:
        code = 1
        if isinstance(error, SystemExit) and isinstance(error.code, int | None):
            code = (error.code or 0) & 255
        raise
    finally:
        if os.getpid() != process:
            os._exit(code)


def text_of(error: BaseException) -> str:
    """`str(error)`; "" where the class's own `__str__` fails."""
    try:
        return str(error)
    except Exception:
        return ""


def first_line(text: str) -> str:
    """The first line of a text that is not empty, "" where there is none."""
    lines = text.strip().splitlines()
    return lines[0] if lines else ""


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


class InProcessPool(WorkerPool):
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
        """Run the queued job; `timeout_s` is not used. KeyboardInterrupt where one was raised in
        the trial, whatever its code made of it: a fit that was cut short is no result."""
        if not self._queue:
            return []
        job = self._queue.popleft()
        data = self._load(job.data_key)
        with keyboard_interrupts():
            result = guarded(self._run_trial, job.trial, data, self._checkpoints)
        return [JobOutcome(job, result, worker="in-process")]

    def running(self) -> int:
        """How many jobs are queued: 0 or 1."""
        return len(self._queue)

    def close(self) -> None:
        """Drop a queued job."""
        self._queue.clear()
