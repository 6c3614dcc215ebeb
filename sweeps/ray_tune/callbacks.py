"""What does Ray Tune tell the driver, and what may it do there? Rows written, clocks watched."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import ray
from ray import tune

from ..engine import BEAT_S
from ..store.records import utc_now
from ..study import TUNE, Study
from ..trial import MAX_ATTEMPTS, Result, failure
from ..workers.output_capture import tail_of
from ..workers.ray_cluster import death_of
from ..workers.trial_actor import output_file
from .trainable import PAYLOAD

if TYPE_CHECKING:
    from .async_search import Asynchronous

GRACE_S = 5.0  # that a step may run over what is left of its trial's time


class NotKept:
    """Something that lives in this driver alone. Tune pickles what it is given into its folder,
    from which nothing is ever read."""

    def __getstate__(self) -> dict[str, Any]:
        return {}


class Book(NotKept, tune.Callback):
    """Writes the ledger's rows while a Tuner runs, and ends what overran its time."""

    def __init__(self, search: Asynchronous, study: Study, session: str) -> None:
        self.search, self.study, self.session = search, study, session
        self.error: BaseException | None = None
        self.stopping = False
        self._ending: list[Any] = []
        self._since: dict[int, float] = {}  # when the step that runs now began
        self._elapsed: dict[int, float] = {}
        self._late: set[int] = set()
        self._leased: set[int] = set()
        self._beat = self._looked = 0.0

    @contextlib.contextmanager
    def _own_errors(self) -> Iterator[None]:
        """Tune turns an exception into text: the first of ours is kept."""
        try:
            yield
        except BaseException as error:
            self.error = self.error or error
            raise

    # ------------------------------------------------------------------ a trial's life

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        index = int(str(trial))
        self._since[index] = time.monotonic()
        if index in self._leased:
            return
        self._leased.add(index)
        lease = self.search.lease(self.study, index)
        deaths = self.search.deaths[lease.id]
        trial.max_failures = min(
            most - 1 - deaths[cause]
            for cause, most in MAX_ATTEMPTS.items()
            if cause == "killed" or deaths[cause]
        )
        self._elapsed[index] = self.search.track(self.study, index).elapsed_s
        with self._own_errors():
            self.search.ledger.append(
                [
                    {
                        "kind": "lease",
                        "id": lease.id,
                        "study": self.study.name,
                        "stage": TUNE,
                        "index": index,
                        "attempt": deaths.total() + 1,
                        "config": dict(lease.config),
                        "time": utc_now(),
                    }
                ],
                sync=False,
            )

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        index = int(str(trial))
        payload = result.pop(PAYLOAD, None)
        self._since[index] = time.monotonic()
        self._elapsed[index] = result["elapsed_s"]
        if result.get("done") and index not in self.search.ended[self.study.name]:
            outcome, track = payload
            with self._own_errors():
                self.search.write(self.study, track, outcome, f"{self.session}-{index}")

    def on_trial_recover(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """A trial's process died, and another one goes on from its last boundary."""
        index = int(str(trial))
        self._since.pop(index, None)
        cause = self._cause(trial, index)
        if cause == "lost":  # no attempt; what comes from around the trials is tried once more
            again = trial.max_failures + 1
            trial.max_failures = trial.num_failures if self.search.trouble else again
            return
        lease = self.search.lease(self.study, index)
        deaths = self._count(lease.id, cause)
        if deaths + 1 >= MAX_ATTEMPTS[cause]:
            trial.max_failures = trial.num_failures  # the next one is the last
        name = f"{self.session}-{index}"
        about = {"trial": lease, "cause": cause, "attempt": deaths, "worker": name}
        self.search.listener("retry", {**about, "output": tail_of(output_file(name))})

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        index = int(str(trial))
        self._since.pop(index, None)
        if index in self.search.ended[self.study.name]:
            return
        cause = "killed" if index in self._late else self._cause(trial, index)
        if cause == "lost":  # with its machine: another Tuner takes it up
            return
        with self._own_errors():
            result = self._failure(trial, index, cause)
            track = self.search.track(self.study, index)
            self.search.write(self.study, track, result, f"{self.session}-{index}")

    def _failure(self, trial: Any, index: int, cause: str) -> Result:
        output = tail_of(output_file(f"{self.session}-{index}"))
        limits = self.study.limits
        if index in self._late:
            late = f"ran longer than {limits.timeout_s:g} s"
            return failure("timeout", late, output=output)
        deaths = self._count(self.search.lease(self.study, index).id, cause)
        message = (
            f"the worker used more than {limits.memory_mb:g} MB, {deaths} times"
            if cause == "oom"
            else f"the worker process died {deaths} times under this trial"
        )
        return failure(cause, message, output=output)

    def _count(self, id: str, cause: str) -> int:
        self.search.deaths[id][cause] += 1
        death = {"kind": "death", "id": id, "cause": cause, "time": utc_now()}
        with self._own_errors():
            self.search.ledger.append([death])
        return self.search.deaths[id][cause]

    def _cause(self, trial: Any, index: int) -> str:
        """killed, oom or gpu_oom: a trial's own doing. Else lost: that of its machine, or of what
        Tune and we do around it."""
        from ray.exceptions import ActorDiedError, OutOfMemoryError, RayActorError
        from ray.experimental import internal_kv

        error = _error_of(trial)
        unborn = isinstance(error, ActorDiedError) and "its creation task" in str(error)
        if unborn or not isinstance(error, RayActorError | OutOfMemoryError):
            self.search.trouble = (str(error).strip().splitlines() or [type(error).__name__])[-1]
            return "lost"
        with contextlib.suppress(Exception):
            name = f"tabsweep/{self.session}-{index}"
            word = internal_kv._internal_kv_get(name)
            internal_kv._internal_kv_del(name)
            if word:
                return word.decode()
        return death_of(error)

    # ------------------------------------------------------------------ the driver's clock

    def on_step_begin(self, iteration: int, trials: list[Any], **info: Any) -> None:
        if not self.stopping and (self.search.stop.soon or self.search.stop.now):
            self.stopping = True  # the stopper ends all of them in this step
            self._ending = [actor for t in trials if (actor := t.temporary_state.ray_actor)]

    def on_step_end(self, iteration: int, trials: list[Any], **info: Any) -> None:
        for actor in self._ending:  # their states are kept: nobody waits for a long step's end
            ray.kill(actor)
        self._ending = []
        now = time.monotonic()
        if now - self._looked > 0.5 and not self.stopping:
            self._looked = now
            self._end_overdue(trials, now)
        if now - self._beat > BEAT_S:
            self._beat = now
            with self._own_errors():
                self.search.listener("beat", self._who_works(trials, now))

    def _end_overdue(self, trials: list[Any], now: float) -> None:
        timeout_s = self.study.limits.timeout_s
        for trial in trials:
            index = int(str(trial))
            if trial.status != trial.RUNNING or index not in self._since or index in self._late:
                continue
            left = max(0.0, timeout_s - self._elapsed.get(index, 0.0))
            actor = trial.temporary_state.ray_actor
            if actor is not None and now - self._since[index] > left + GRACE_S:
                self._late.add(index)
                trial.max_failures = 0
                ray.kill(actor)

    def _who_works(self, trials: list[Any], now: float) -> dict[str, Any]:
        running = [trial for trial in trials if trial.status == trial.RUNNING]
        lease = self.search.lease
        found = []
        for trial in running:
            index = int(str(trial))
            named, known = lease(self.study, index), trial.run_metadata.last_result
            found.append(
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
        return {"workers": found, "queued": len(self.search.left(self.study)) - len(running)}


def _error_of(trial: Any) -> BaseException | None:
    """Why a trial failed last, from the file that Tune in this process has just written."""
    path = trial.pickled_error_file
    if path and os.path.exists(path):
        with open(path, "rb") as file:
            return ray.cloudpickle.load(file)
    return None


class Stopper(NotKept, tune.Stopper):
    """Ends every trial of a Tuner once the book says so."""

    _book: Book | None = None

    def __init__(self, book: Book) -> None:
        self._book = book

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False

    def stop_all(self) -> bool:
        return self._book is not None and self._book.stopping
