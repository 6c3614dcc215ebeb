"""An interruption is never a failure: signals, lost results and cancelled calls on real workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cloudpickle
import pytest
import ray
from engine_cases import study_of
from ray.exceptions import RayError, RayTaskError
from tabsweep.sweeps.engine import Engine
from tabsweep.sweeps.scheduling.attempts import Attempts
from tabsweep.sweeps.store.ledger import Ledger
from tabsweep.sweeps.study import Study
from tabsweep.sweeps.trial import DONE, FAILED, Limits, Result, Trial
from tabsweep.sweeps.workers.actor_pool import ActorPool
from tabsweep.sweeps.workers.pool import Job, JobOutcome, TrialRefused
from tabsweep.sweeps.workers.process_calls import ProcessCalls
from tabsweep.sweeps.workers.ray_cluster import end_of, start_ray, stop_ray

pytestmark = pytest.mark.xdist_group("ray-faults")

LOSSES = 3  # after so many a trial without a result is a failure
ENDED_BY_A_SIGNAL = ("interrupted", "swallows", "replaces the handler")


def trial_of_a_kind(trial: Trial, data: Any) -> Result:
    """Does what its dataset says; what is told to end by another process is so in its first run."""
    log = Path(trial.identity["log"])
    first = trial.dataset not in log.read_text()
    with open(log, "a") as file:
        file.write(f"{trial.dataset},{os.getpid()}\n")
    if trial.dataset in ENDED_BY_A_SIGNAL and first:
        if trial.dataset == "replaces the handler":
            signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))
        subprocess.Popen(["sh", "-c", f"sleep 0.2; kill -TERM {os.getpid()}"])
        if trial.dataset == "swallows":
            try:
                time.sleep(60)
            except BaseException:  # as some libraries have it
                return Result(status=DONE, val={"loss": -1.0})
        time.sleep(60)
    match trial.dataset:
        case "raises KeyboardInterrupt":
            raise KeyboardInterrupt
        case "exits":
            sys.exit(3)
        case "refused":
            raise TrialRefused("other source")
        case "ends its own worker":
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(60)
    return Result(status=DONE, val={"loss": 1.0})


class Unreadable(Limits):
    """Limits that cannot be read in a worker: an error in the code around a trial."""

    def __reduce__(self) -> Any:
        return os.listdir, ("/no/such/folder",)


def study(name: str, log: Path) -> Study:
    kind = Unreadable if name == "unreadable limits" else Limits
    trial = Trial(name, 0, "m", {}, 0, {"log": str(log), "name": name})
    return study_of(trial, kind(timeout_s=60.0, memory_mb=500.0))


@pytest.fixture(scope="module", params=["ray", "none"])
def swept(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """On Ray, and in processes without it."""
    folder = tmp_path_factory.mktemp("interruptions")
    log = folder / "log"
    log.touch()
    own = ("raises KeyboardInterrupt", "exits", "ends its own worker", "unreadable limits")
    names = [*ENDED_BY_A_SIGNAL, *own, *(f"good {i}" for i in range(4))]
    with_ray = request.param == "ray"
    start_ray(slots=2) if with_ray else None
    for pickler in (ray.cloudpickle, cloudpickle):
        pickler.register_pickle_by_value(sys.modules[__name__])
    ledger = Ledger(folder / "run", write=True)

    def pool(**more: Any) -> ActorPool:
        calls = None if with_ray else ProcessCalls(2)
        return ActorPool(trial_of_a_kind, lambda key: None, calls=calls, **more)

    try:
        made = [study(name, log) for name in names]
        Engine(
            made,
            ledger=ledger,
            pool=lambda: pool(most_losses=LOSSES),
        ).run()
        yield SimpleNamespace(
            pool=pool,
            records={record["dataset"]: record for record in ledger.records("result")},
            deaths=list(ledger.records("death")),
            starts=Counter(line.partition(",")[0] for line in log.read_text().splitlines()),
        )
    finally:
        ledger.close()
        for pickler in (ray.cloudpickle, cloudpickle):
            pickler.unregister_pickle_by_value(sys.modules[__name__])
        stop_ray() if with_ray else None


@pytest.mark.fault(36)
def test_a_trial_whose_worker_is_told_to_end_runs_again_and_nothing_is_recorded(swept) -> None:
    for name in ENDED_BY_A_SIGNAL:
        record = swept.records[name]
        assert swept.starts[name] == 2, name
        assert (record["status"], record["val"], record["attempt"]) == (DONE, {"loss": 1.0}, 1)
    assert swept.deaths == []
    assert all(swept.records[f"good {i}"]["status"] == DONE for i in range(4))


@pytest.mark.fault(36)
def test_what_a_trial_raises_without_a_signal_is_its_own_failure(swept) -> None:
    for name, message in (("raises KeyboardInterrupt", "KeyboardInterrupt"), ("exits", "SystemEx")):
        record = swept.records[name]
        assert (record["status"], record["cause"], swept.starts[name]) == (FAILED, "error", 1)
        assert record["message"].startswith(message)


def test_a_trial_that_a_worker_refuses_ends_the_sweep_and_is_no_failure(swept, tmp_path) -> None:
    log = tmp_path / "log"
    log.touch()
    ledger = Ledger(tmp_path / "run", write=True)
    with pytest.raises(TrialRefused, match="^other source$"):
        Engine([study("refused", log)], ledger=ledger, pool=swept.pool).run()
    assert not [*ledger.records("result"), *ledger.records("death")]
    ledger.close()


@pytest.mark.fault(36)
def test_a_trial_that_ends_its_own_worker_for_ever_is_a_failure_at_last(swept) -> None:
    record = swept.records["ends its own worker"]
    assert (record["status"], record["cause"]) == (FAILED, "killed")
    assert swept.starts["ends its own worker"] == LOSSES and "SIGTERM" in record["message"]
    around = swept.records["unreadable limits"]
    assert (around["status"], around["cause"]) == (FAILED, "killed")
    assert "/no/such/folder" in around["message"] and not swept.starts["unreadable limits"]


BLOCKED = """
import os, signal, time
from tabsweep.sweeps.workers.interruption import SignalWatch, TrialInterrupted

signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # as deploy/slurm.sh starts Ray
watch = SignalWatch()
with watch.trial():
    os.kill(os.getpid(), signal.SIGTERM)
    print("goes on")
watch.check()
print("a result counts")
try:
    watch.check(failed=True)
except TrialInterrupted as error:
    print(error, flush=True)
time.sleep(60)
"""


@pytest.mark.fault(36)
def test_a_blocked_sigterm_lets_a_trial_end_and_makes_a_failure_beside_it_a_loss() -> None:
    """The signal may have ended a process that the trial had started. The worker then ends."""
    run = [sys.executable, "-c", BLOCKED]
    done = subprocess.run(run, capture_output=True, text=True, timeout=60)
    assert done.returncode == -signal.SIGKILL, done.stderr
    told = ["goes on", "a result counts", "the worker received SIGTERM"]
    assert done.stdout.splitlines() == told


# ---------------------------------------------------------------------- every exception


def every(cls: type[Exception], module: str) -> list[Exception]:
    """An error of each class of a module that was derived from this one, with a text."""
    found, classes = [], [cls]
    while classes:
        one = classes.pop()
        classes += one.__subclasses__()
        if one.__module__ == module and not issubclass(one, BaseExceptionGroup):
            plain = {"__init__": lambda self: None, "__str__": lambda self: "what happened"}
            found.append(type(one.__name__, (one,), plain)())
    return found


def recorded(error: Exception) -> Result | None:
    """What the ledger gets at once for a call to a worker that ended in this error."""
    job = Job(Trial("d", 0, "m", {}, 0, {}), "d", Limits())
    deaths = defaultdict(Counter, {job.trial.id: Counter()})
    death = end_of(error) or "lost"
    return Attempts(deaths).judge(JobOutcome(job, None, death=death)).result


@pytest.mark.fault(36)
def test_no_error_of_ray_or_of_code_around_a_trial_is_recorded_as_its_failure() -> None:
    """Errors of a trial's own code are results and never come as an exception."""
    by_ray = every(RayError, "ray.exceptions")
    assert len(by_ray) > 35
    assert not [error for error in by_ray if recorded(error) is not None]
    around = [*by_ray, *every(Exception, "builtins"), *every(Exception, "tabsweep.sweeps.trial")]
    wrapped = [
        RayTaskError("run", "a traceback", error).as_instanceof_cause()
        for error in around
        if not isinstance(error, RayTaskError)
    ]
    assert len(wrapped) > 90
    assert {end_of(error) for error in wrapped} == {None}  # the worker lives: no death to count
    deaths = {type(error).__name__ for error in by_ray if end_of(error) not in (None, "lost")}
    assert deaths == {
        "ActorDiedError", "RayActorError", "OutOfMemoryError", "WorkerCrashedError",
    }  # fmt: skip
