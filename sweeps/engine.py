"""The engine: one event loop that runs many studies on one worker pool.

For every slot: a lease is written before dispatch; the result is in the ledger, synced, before the
sampler, the selection or a listener learns of it. The order in which trials finish decides nothing:
samplers are told in index order, and the best configuration is chosen by loss and index.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

from .events import Listener, StudyEnded, TrialEnded, TrialLost
from .scheduling.attempts import Attempts, Verdict
from .scheduling.estimates import Estimates, seconds_of
from .scheduling.heartbeat import Heartbeat
from .scheduling.interface import Reused, SourceChanged, Stop, Tally
from .scheduling.known_results import KnownResults
from .scheduling.ready_studies import Backlog, ReadyStudies, UnfinishedStudies
from .scheduling.replay import replay
from .scheduling.trial_records import Batch, TrialRecords
from .store.ledger import Ledger, Record
from .study import Slot, Study
from .trial import Result, Trial
from .workers.pool import ClusterLost, Job, JobOutcome, WorkerPool

__all__ = ["Engine", "Reused", "SourceChanged", "Stop", "Tally"]

POLL_S = 0.2  # of each round of the loop: the longest wait for a trial to end, and to fill slots


class Engine:
    """Runs studies to their end on a worker pool, through the ledger. One use: `run`.

    pool: makes the worker pool, when the first trial has to be run.
    reuse: a finished trial of another run that answers this one, or None.
    retry: whether a failed trial, given its record, is to run again.
    lost: ids of finished trials that run again, because their predictions are gone or damaged.
    stop: a request to end early, looked at in every round; `grace_s` is how long `Stop.soon` waits
        for trials that are running.
    still_owner: raises where another process owns the run folder by now.
    """

    def __init__(
        self,
        studies: Iterable[Study],
        *,
        ledger: Ledger,
        pool: Callable[[], WorkerPool],
        reuse: Callable[[Trial], Reused | None] = lambda trial: None,
        retry: Callable[[Record], bool] = lambda record: False,
        lost: Collection[str] = (),
        allow_code_change: bool = False,
        listener: Listener = lambda event: None,
        stop: Stop | None = None,
        grace_s: float = 30.0,
        still_owner: Callable[[], None] = lambda: None,
    ) -> None:
        self.studies = {study.name: study for study in studies}
        self.tally = Tally()
        self._make_pool = pool
        self._pool: WorkerPool | None = None
        self._allow_code_change = allow_code_change
        self._listener = listener
        self._stop = stop or Stop()
        self._grace_s = grace_s
        self._still_owner = still_owner
        self._records = TrialRecords(ledger, retry, lost)
        self._known = KnownResults(self._records, reuse)
        self._attempts = Attempts(self._records.deaths)
        self._estimates = Estimates()
        self._ready = ReadyStudies(self._estimates)
        self._unfinished = UnfinishedStudies()
        self._heartbeat = Heartbeat(listener)
        self._in_flight: dict[str, list[Slot]] = {}  # {id of a running trial: its slots}
        self._backlog = Backlog()
        self._replayed = False

    # ------------------------------------------------------------------ the loop

    def replay(self) -> None:
        """Bring every study to where the ledger says it is, without running anything.

        Raises SourceChanged, and writes nothing, where finished slots would run again as they have
        other ids now and this was not allowed. `run` does it; a caller that wants the refusal
        before it writes anything does it earlier.
        """
        if not self._replayed:
            self._replayed = True
            self._replay(self.studies.values())

    def admit(self, studies: Iterable[Study]) -> None:
        """Take over studies whose search ended elsewhere (`Study.settle`), before `run`."""
        admitted = {study.name: study for study in studies}
        self.studies.update(admitted)
        self._replay(admitted.values())

    def _replay(self, studies: Iterable[Study]) -> None:
        allowed = self._allow_code_change
        for waiting in replay(studies, self._records, allow_code_change=allowed):
            self._backlog.add(waiting)

    def run(self) -> Tally:
        """Run every study to its end. Returns early, with `interrupted`, when asked to stop."""
        self.replay()
        for study in self.studies.values():
            self._ready.push(study)
            if not study.finished:
                self._unfinished.add(study)
        self._records.write_missing_ends(s for s in self.studies.values() if s.finished)
        stopping_since: float | None = None
        try:
            while not self._stop.now:
                self._still_owner()
                if self._stop.soon and stopping_since is None:
                    stopping_since = time.monotonic()
                more = stopping_since is None and self._fill()
                running = self._pool is not None and self._pool.running() > 0
                if stopping_since is not None:
                    if not running or time.monotonic() - stopping_since > self._grace_s:
                        break
                elif not running and not self._ready and not self._backlog:
                    break
                if self._pool is not None:
                    self._hear(0.0 if more else POLL_S)
        except ClusterLost:
            if not self._stop.soon:  # else it was ended with this driver
                raise
        finally:
            if self._pool is not None:
                self._pool.close()
        self.tally.interrupted |= any(not study.finished for study in self.studies.values())
        return self.tally

    def _hear(self, timeout_s: float) -> None:
        """Take in what the workers did. Raises ClusterLost, after what had come before that."""
        assert self._pool is not None
        try:
            outcomes = self._pool.poll(timeout_s)
        except ClusterLost as error:
            self._absorb(error.ended)
            raise
        for event in self._pool.news():
            self._listener(event)
        self._absorb(outcomes)
        queued = len(self._backlog) + len(self._ready)
        self._heartbeat.beat(self._pool, queued, ended=len(outcomes))

    # ------------------------------------------------------------------ dispatch

    def _fill(self) -> bool:
        """Send off what the workers have room for, first what has waited longest. Trials that need
        a GPU and trials that need none do not wait for each other.

        Whoever asks for a stop does not wait until thousands of trials are sent or copied: True
        where there is more to do at once.
        """
        cut = False
        for with_gpu in (False, True):
            until = time.monotonic() + POLL_S
            if self._send_backlog(with_gpu, until):
                self._open_slots(with_gpu, until)
            cut = cut or time.monotonic() > until
        return self._close_known() or cut

    def _goes_on(self, until: float) -> bool:
        return not (self._stop.soon or self._stop.now or time.monotonic() > until)

    def _send_backlog(self, with_gpu: bool, until: float) -> bool:
        """False where trials stay behind."""
        while (waiting := self._backlog.first(with_gpu)) is not None:
            if not self._settle(*waiting):
                return False
            self._backlog.pop(with_gpu)
            if not self._goes_on(until):
                return False
        return True

    def _open_slots(self, with_gpu: bool, until: float) -> None:
        while (name := self._ready.first(with_gpu)) is not None:
            study = self.studies[name]
            slot = study.next_slot()
            if slot is not None and self._pool is not None and not self._pool.room(study.needs):
                return
            self._ready.pop(with_gpu)
            if slot is None:
                continue
            trial = study.open(slot)
            if not self._settle(study, slot, trial):
                self._backlog.add((study, slot, trial))
                return
            self._ready.push(study)
            if not self._goes_on(until):
                return

    def _settle(self, study: Study, slot: Slot, trial: Trial) -> bool:
        """Fill a slot from what is known, or send its trial off; False: no worker is free."""
        if trial.id in self._in_flight:
            self._in_flight[trial.id].append(slot)
            return True
        if self._known.find(study, slot, trial):
            return True
        if self._pool is None:
            self._close_known()  # a start of Ray takes its time
            self._pool = self._make_pool()
            self._keep_cpus_for_gpus()
        needs = self._estimates.needs(study, trial, own_gpu=self._attempts.needs_own_gpu(trial))
        if not self._pool.room(needs):
            return False
        attempt, limits = self._attempts.number(trial), self._estimates.limits(study, trial)
        self._records.write_lease(slot, trial, attempt)
        self._in_flight.setdefault(trial.id, []).append(slot)
        self._pool.submit(Job(trial, study.data_key, limits, needs, attempt))
        return True

    def _close_known(self) -> bool:
        """Close the slots whose results were known; False where there was none."""
        found = self._known.write()
        for study, slot, trial, result in found:
            self._close(study, slot, trial, result, reused=True)
        return bool(found)

    # ------------------------------------------------------------------ results

    def _absorb(self, outcomes: Sequence[JobOutcome]) -> None:
        """Write what ended, in one sync, and only then act on it."""
        if not outcomes:
            return
        self._still_owner()
        batch = Batch(self._records)
        ended: list[tuple[JobOutcome, Result, list[Slot]]] = []
        again: list[tuple[JobOutcome, Verdict]] = []
        for outcome in outcomes:
            job, trial = outcome.job, outcome.job.trial
            if outcome.death == "killed" and self._stop.soon:
                # Whoever told the driver to end has probably told its workers, too.
                outcome = replace(outcome, death="lost")
            verdict = self._attempts.judge(outcome)
            if verdict.death is not None:
                batch.death(trial, verdict.death)
            if verdict.result is None:
                again.append((outcome, verdict))
                continue
            slots = self._in_flight.pop(trial.id)
            batch.result(
                slots,
                trial,
                verdict.result,
                attempt=job.attempt,
                limits=job.limits.to_data(),
                worker=outcome.worker,
            )
            ended.append((outcome, verdict.result, slots))
        batch.write()
        for outcome, result, slots in ended:
            self._finish(outcome, result, slots)
        for outcome, verdict in again:
            self._run_again(outcome, verdict)

    def _finish(self, outcome: JobOutcome, result: Result, slots: list[Slot]) -> None:
        trial = outcome.job.trial
        self._attempts.close(trial)
        self._estimates.observe(trial, result, self.studies[slots[0].study])
        self.tally.fit_s += seconds_of(result)
        about = {"attempt": outcome.job.attempt, "worker": outcome.worker}
        for position, slot in enumerate(slots):
            study = self.studies[slot.study]
            self._close(study, slot, trial, result, reused=position > 0, **about)

    def _run_again(self, outcome: JobOutcome, verdict: Verdict) -> None:
        """Run a trial again before any new one; the other slots that it fills wait behind."""
        trial = outcome.job.trial
        if verdict.death is not None:
            attempt, worker = outcome.job.attempt, outcome.worker
            self._listener(TrialLost(trial, verdict.death, attempt, worker, verdict.output))
        for position, slot in enumerate(self._in_flight.pop(trial.id)):
            waiting = (self.studies[slot.study], slot, trial)
            self._backlog.add(waiting, first=position == 0)

    def _close(
        self, study: Study, slot: Slot, trial: Trial, result: Result, *, reused: bool, **about: Any
    ) -> None:
        study.close(slot, result)
        self.tally.add(result, reused=reused)
        self._listener(TrialEnded(study, slot, trial, result, reused=reused, **about))
        if not study.finished:
            self._ready.push(study)
            return
        self._records.write_end(study)
        self._listener(StudyEnded(study))
        self._unfinished.remove(study)
        if self._pool is not None:
            self._keep_cpus_for_gpus()
            if not self._unfinished.needs_data(study.data_key):
                self._pool.forget(study.data_key)

    def _keep_cpus_for_gpus(self) -> None:
        """As long as trials with a GPU are to come, CPUs beside the GPUs are kept for them."""
        assert self._pool is not None
        self._pool.keep_for_gpus(self._unfinished.threads_beside_gpus())
