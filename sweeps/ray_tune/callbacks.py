"""Ray Tune's callback in the driver: ledger rows, retries, time limits, an early end."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import ray
from ray import tune

from ..events import Beat
from ..machine.awake_clock import awake_s
from ..scheduling.heartbeat import BEAT_S
from ..study import Study
from ..trial import Result, failure
from ..workers.crash_report import CrashOutputs
from ..workers.pool import JobOutcome
from ..workers.ray_calls import RayCalls
from ..workers.ray_cluster import death_of
from ..workers.ray_private import take_crash_cause
from .async_search import Asynchronous
from .trainable import PAYLOAD

if TYPE_CHECKING:
    from ray.actor import ActorHandle
    from ray.tune.experiment import Trial

    Trials = list[Trial]

GRACE_S = 5.0  # added to what is left of a trial's time before its step is ended


class NotPickled:
    """Base of objects that Tune pickles into its folder, though nothing is ever read from there:
    they are pickled empty."""

    def __getstate__(self) -> dict[str, Any]:
        return {}


class LedgerCallback(NotPickled, tune.Callback, tune.Stopper):
    """Writes the ledger's rows while a Tuner runs, and ends trials that exceed their time limit;
    where the search ends early, it ends all of them.

    elapsed: {index: seconds that a trial has run in earlier Tuners}.
    error: the first exception that was raised here; Tune itself turns exceptions into text.
    """

    error: BaseException | None = None
    stopping = False

    def __init__(
        self, search: Asynchronous, study: Study, session: str, elapsed: Mapping[int, float]
    ) -> None:
        self.search, self.study, self.session = search, study, session
        self._ending: list[ActorHandle] = []
        self._since: dict[int, float] = {}  # when the step that runs now began
        self._elapsed = dict(elapsed)
        self._late: set[int] = set()
        self._leased: set[int] = set()
        self._calls = RayCalls()
        self._outputs = CrashOutputs(self._calls.here)
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

    def on_trial_start(self, iteration: int, trials: Trials, trial: Trial, **_: object) -> None:
        """Write the lease of a trial that starts for the first time in this Tuner."""
        index = int(str(trial))
        self._since[index] = awake_s()
        self._limit_deaths(trial)
        if index not in self._leased:
            self._leased.add(index)
            with self._own_errors():
                self.search.write_lease(self.study, index)

    def on_trial_result(
        self, iteration: int, trials: Trials, trial: Trial, result: dict[str, Any], **_: object
    ) -> None:
        """Write the row of a trial that has ended, and restart the clock of its next step."""
        index = int(str(trial))
        payload = result.pop(PAYLOAD, None)
        self._since[index] = awake_s()
        self._elapsed[index] = result["elapsed_s"]
        if result.get("done") and index not in self.search.ended[self.study.name]:
            outcome, track = payload
            with self._own_errors():
                self.search.write(self.study, track, outcome, self._name(index))

    def on_trial_recover(self, iteration: int, trials: Trials, trial: Trial, **_: object) -> None:
        """Count the death of a trial's process; another one goes on from its last boundary."""
        self._died(trial)
        self._limit_deaths(trial)

    def on_trial_error(self, iteration: int, trials: Trials, trial: Trial, **_: object) -> None:
        """Write the row of a failure. One that was lost with its machine, or has attempts left,
        gets none: another Tuner goes on with it."""
        self._died(trial)

    def _limit_deaths(self, trial: Trial) -> None:
        """Tell Tune whether it may start a trial again after its next death. Trouble around the
        trials is tried once more."""
        lease = self.search.lease(self.study, int(str(trial)))
        last = self.search.trouble or self.search.attempts.next_may_be_last(lease)
        trial.max_failures = trial.num_failures + (0 if last else 1)

    def _died(self, trial: Trial) -> None:
        index = int(str(trial))
        self._since.pop(index, None)
        if index in self.search.ended[self.study.name]:
            return
        with self._own_errors():
            job, output = self.search.job(self.study, index), ""
            result: Result | None = None
            cause = "killed" if index in self._late else self._cause(trial, index)
            if cause != "lost":
                output = self._output(trial, index)
            if index in self._late:
                late = f"ran longer than {job.limits.timeout_s:g} s"
                result = failure("timeout", late, output=output)
            outcome = JobOutcome(job, result, cause, self._name(index), output)
            self.search.judge(self.study, index, outcome)

    def _name(self, index: int) -> str:
        """The name of the worker that runs a trial."""
        return f"{self.session}-{index}"

    def _output(self, trial: Trial, index: int) -> str:
        """What a trial whose process died had printed, from the machine of its last report."""
        here, there = self._calls.here, self._calls.nodes()
        host = trial.run_metadata.last_result.get("hostname")
        on_host = [node.id for node in there.values() if node.host == host]
        place = here if here in on_host or not on_host else on_host[0]
        return self._outputs.take(self._name(index), place)

    def _cause(self, trial: Trial, index: int) -> str:
        """killed, oom or gpu_oom where the trial's process caused it; lost where its machine did,
        or the code of Tune or of this package around the trial."""
        from ray.exceptions import ActorDiedError, OutOfMemoryError, RayActorError

        error = _error_of(trial)
        failed_to_start = isinstance(error, ActorDiedError) and "its creation task" in str(error)
        if failed_to_start or not isinstance(error, RayActorError | OutOfMemoryError):
            self.search.trouble = (str(error).strip().splitlines() or [type(error).__name__])[-1]
            return "lost"
        return take_crash_cause(self._name(index)).get("cause") or death_of(error)

    # ------------------------------------------------------------------ the driver's clock

    def on_step_begin(self, iteration: int, trials: Trials, **_: object) -> None:
        """Look whether an early end was asked for; Tune then asks `stop_all`."""
        if not self.stopping and (self.search.stop.soon or self.search.stop.now):
            self.stopping = True  # all of them end in this step
            self._ending = [actor for t in trials if (actor := t.temporary_state.ray_actor)]

    def stop_all(self) -> bool:
        """Whether Tune is to end all trials now."""
        return self.stopping

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False  # no trial is to end alone

    def on_step_end(self, iteration: int, trials: Trials, **_: object) -> None:
        """End actors and overdue trials, and send a `Beat` every few seconds."""
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
                self.search.listener(self._workers(trials, now))

    def _end_overdue(self, trials: Trials, now: float) -> None:
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

    def _workers(self, trials: Trials, now: float) -> Beat:
        running = [trial for trial in trials if trial.status == trial.RUNNING]
        workers = []
        for trial in running:
            index = int(str(trial))
            lease, known = self.search.lease(self.study, index), trial.run_metadata.last_result
            workers.append(
                {
                    "name": self._name(index),
                    "host": known.get("hostname", ""),
                    "pid": known.get("pid", 0),
                    "threads": self.study.needs.threads,
                    "gpus": float(self.study.needs.gpu_mb > 0),
                    "starting": False,
                    "trial": lease.place,
                    "since_s": round(now - self._since.get(index, now), 1),
                    "waiting": 0,
                }
            )
        return Beat(workers, len(self.search.left(self.study)) - len(running))


def _error_of(trial: Trial) -> BaseException | None:
    """Why a trial failed last, from the file that Tune in this process has just written.

    `Trial.get_pickled_error` would look in the run's folder, which others may have written, and
    before Tune has copied that file there.
    """
    path = trial.pickled_error_file
    if path and os.path.exists(path):
        with open(path, "rb") as file:
            return ray.cloudpickle.load(file)
    return None
