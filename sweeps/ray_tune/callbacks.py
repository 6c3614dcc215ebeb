"""Callbacks of Ray Tune in the driver: ledger rows, retries, time limits, an early end."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import ray
from ray import tune

from ..scheduling.attempts import said_of
from ..scheduling.heartbeat import BEAT_S
from ..scheduling.interface import Stop
from ..study import Study
from ..trial import MAX_ATTEMPTS, Result, Trial, failure
from ..workers.awake_clock import awake_s
from ..workers.crash_report import CrashOutputs
from ..workers.ray_calls import RayCalls
from ..workers.ray_cluster import death_of
from ..workers.ray_private import take_crash_cause
from .search_records import SearchRecords
from .trainable import PAYLOAD

GRACE_S = 5.0  # added to what is left of a trial's time before its step is ended


class NotPickled:
    """Base of objects that Tune pickles into its folder, though nothing is ever read from there:
    they are pickled empty."""

    def __getstate__(self) -> dict[str, Any]:
        return {}


class LedgerCallback(NotPickled, tune.Callback):
    """Writes the ledger's rows while a Tuner runs, and ends trials that exceed their time limit.

    error: the first exception that was raised here; Tune itself turns exceptions into text.
    stopping: whether all trials are to be ended (see `Stopper`).
    """

    def __init__(self, records: SearchRecords, stop: Stop, study: Study, session: str) -> None:
        self.records, self.study, self.session = records, study, session
        self._stop = stop
        self.error: BaseException | None = None
        self.stopping = False
        self._ending: list[Any] = []
        self._since: dict[int, float] = {}  # when the step that runs now began
        self._elapsed: dict[int, float] = {}
        self._late: set[int] = set()
        self._leased: set[int] = set()
        self._calls = RayCalls()
        self._outputs = CrashOutputs(self._calls.here())
        self._beat = self._looked = 0.0

    @contextlib.contextmanager
    def _own_errors(self) -> Iterator[None]:
        """Keep the first exception that is raised here: Tune turns it into text."""
        try:
            yield
        except BaseException as error:
            self.error = self.error or error
            raise

    # ------------------------------------------------------------------ a trial's life

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Write the lease of a trial that starts for the first time in this Tuner, and limit the
        number of its deaths."""
        index = int(str(trial))
        self._since[index] = awake_s()
        if index in self._leased:
            return
        self._leased.add(index)
        lease = self.records.lease(self.study, index)
        deaths = self.records.deaths[lease.id]
        trial.max_failures = min(
            most - 1 - deaths[cause]
            for cause, most in MAX_ATTEMPTS.items()
            if cause == "killed" or deaths[cause]
        )
        self._elapsed[index] = self.records.track(self.study, index).elapsed_s
        with self._own_errors():
            self.records.write_lease(self.study, index)

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        """Write the row of a trial that has ended, and restart the clock of its next step."""
        index = int(str(trial))
        payload = result.pop(PAYLOAD, None)
        self._since[index] = awake_s()
        self._elapsed[index] = result["elapsed_s"]
        if result.get("done") and index not in self.records.ended[self.study.name]:
            outcome, track = payload
            with self._own_errors():
                self.records.write(self.study, track, outcome, f"{self.session}-{index}")

    def on_trial_recover(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Count the death of a trial's process; another one goes on from its last boundary."""
        index = int(str(trial))
        self._since.pop(index, None)
        cause = self._cause(trial, index)
        if cause == "lost":  # counts as no attempt; trouble around the trials is tried once more
            again = trial.max_failures + 1
            trial.max_failures = trial.num_failures if self.records.trouble else again
            return
        lease = self.records.lease(self.study, index)
        deaths = self._count(lease, cause)
        if deaths + 1 >= MAX_ATTEMPTS[cause]:
            trial.max_failures = trial.num_failures  # the next one is the last
        name = f"{self.session}-{index}"
        about = {"trial": lease, "cause": cause, "attempt": deaths, "worker": name}
        self.records.listener("retry", {**about, "output": self._output(trial, index)})

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Write the row of a failure; a trial that was lost with its machine gets none."""
        index = int(str(trial))
        self._since.pop(index, None)
        if index in self.records.ended[self.study.name]:
            return
        cause = "killed" if index in self._late else self._cause(trial, index)
        if cause == "lost":  # with its machine: another Tuner goes on with it
            return
        with self._own_errors():
            result = self._failure(trial, index, cause)
            track = self.records.track(self.study, index)
            self.records.write(self.study, track, result, f"{self.session}-{index}")

    def _failure(self, trial: Any, index: int, cause: str) -> Result:
        output = self._output(trial, index)
        limits = self.study.limits
        if index in self._late:
            late = f"ran longer than {limits.timeout_s:g} s"
            return failure("timeout", late, output=output)
        deaths = self._count(self.records.lease(self.study, index), cause)
        return failure(cause, said_of(cause, deaths, limits), output=output)

    def _output(self, trial: Any, index: int) -> str:
        """What a trial whose process died had printed, from the machine of its last report."""
        here, there = self._calls.here(), self._calls.nodes()
        host = trial.run_metadata.last_result.get("hostname")
        on_host = [node.id for node in there.values() if node.host == host]
        place = here if here in on_host or not on_host else on_host[0]
        return self._outputs.take(f"{self.session}-{index}", place)

    def _count(self, lease: Trial, cause: str) -> int:
        with self._own_errors():
            return self.records.write_death(lease, cause)

    def _cause(self, trial: Any, index: int) -> str:
        """killed, oom or gpu_oom where the trial's process caused it; lost where its machine did,
        or the code of Tune or of this package around the trial."""
        from ray.exceptions import ActorDiedError, OutOfMemoryError, RayActorError

        error = _error_of(trial)
        failed_to_start = isinstance(error, ActorDiedError) and "its creation task" in str(error)
        if failed_to_start or not isinstance(error, RayActorError | OutOfMemoryError):
            self.records.trouble = (str(error).strip().splitlines() or [type(error).__name__])[-1]
            return "lost"
        return take_crash_cause(f"{self.session}-{index}").get("cause") or death_of(error)

    # ------------------------------------------------------------------ the driver's clock

    def on_step_begin(self, iteration: int, trials: list[Any], **info: Any) -> None:
        """Look whether an early end was asked for; Tune then asks the `Stopper`."""
        if not self.stopping and (self._stop.soon or self._stop.now):
            self.stopping = True  # `Stopper` ends all of them in this step
            self._ending = [actor for t in trials if (actor := t.temporary_state.ray_actor)]

    def on_step_end(self, iteration: int, trials: list[Any], **info: Any) -> None:
        """End actors and overdue trials, and send a "beat" event every few seconds."""
        for actor in self._ending:  # their states are stored: no need to wait for a long step
            self._calls.kill(actor)
        self._ending = []
        now = awake_s()
        if now - self._looked > 0.5 and not self.stopping:
            self._looked = now
            self._end_overdue(trials, now)
        if now - self._beat > BEAT_S:
            self._beat = now
            with self._own_errors():
                self.records.listener("beat", self._workers(trials, now))

    def _end_overdue(self, trials: list[Any], now: float) -> None:
        timeout_s = self.study.limits.wall_s
        for trial in trials:
            index = int(str(trial))
            if trial.status != trial.RUNNING or index not in self._since or index in self._late:
                continue
            left = max(0.0, timeout_s - self._elapsed.get(index, 0.0))
            actor = trial.temporary_state.ray_actor
            if actor is not None and now - self._since[index] > left + GRACE_S:
                self._late.add(index)
                trial.max_failures = 0
                self._calls.kill(actor)

    def _workers(self, trials: list[Any], now: float) -> dict[str, Any]:
        running = [trial for trial in trials if trial.status == trial.RUNNING]
        lease = self.records.lease
        workers = []
        for trial in running:
            index = int(str(trial))
            named, known = lease(self.study, index), trial.run_metadata.last_result
            workers.append(
                {
                    "name": f"{self.session}-{index}",
                    "host": known.get("hostname", ""),
                    "pid": known.get("pid", 0),
                    "threads": self.study.needs.threads,
                    "gpus": float(self.study.needs.gpu_mb > 0),
                    "starting": False,
                    "trial": f"{named.dataset}/{named.fold}/{named.model}",
                    "since_s": round(now - self._since.get(index, now), 1),
                    "waiting": 0,
                }
            )
        return {"workers": workers, "queued": len(self.records.left(self.study)) - len(running)}


def _error_of(trial: Any) -> BaseException | None:
    """Why a trial failed last, from the file that Tune in this process has just written."""
    path = trial.pickled_error_file
    if path and os.path.exists(path):
        with open(path, "rb") as file:
            return ray.cloudpickle.load(file)
    return None


class Stopper(NotPickled, tune.Stopper):
    """Ends every trial of a Tuner once its callback is `stopping`."""

    _callback: LedgerCallback | None = None

    def __init__(self, callback: LedgerCallback) -> None:
        self._callback = callback

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False

    def stop_all(self) -> bool:
        """Whether Tune is to end all trials now."""
        return self._callback is not None and self._callback.stopping
