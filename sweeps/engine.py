"""How do many studies share the workers, and what is written when?

One event loop for all studies. For every slot: a lease is written before dispatch; the result is in
the ledger, synced, before the sampler, the selection or anybody else learns of it. The order in
which trials finish decides nothing: samplers are told in index order, selection is by index.
"""

from __future__ import annotations

import heapq
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from .store.ledger import Ledger, Record
from .store.records import (
    latest_results,
    link_record,
    result_of,
    result_record,
    slot_places,
    study_record,
    utc_now,
)
from .study import Needs, Slot, Study
from .trial import DONE, FAILED, MAX_ATTEMPTS, Result, Trial, failure
from .workers.pool import Job, Outcome, Pool

BEAT_S = 2.0  # between two "beat" events
PATIENCE_S = 30.0  # without a running trial until somebody is told
SPARE = 1.25  # what a trial is given over the memory that one like it was seen to use

# Something that others want to hear of: ("result" | "reused" | "retry" | "study" | "beat" and what
# a pool has for news, details).
Listener = Callable[[str, Mapping[str, Any]], None]


class SourceChanged(Exception):
    """Finished slots have other trial ids now: code, data or versions changed since they ran."""

    def __init__(self, changed: list[str], known: Iterable[str]) -> None:
        # What follows a changed cell in a sequential study cannot be checked: it counts too.
        first = {(name, stage): index for name, stage, index in map(Slot.parse, reversed(changed))}
        parsed = (Slot.parse(key) for key in known)
        self.count = sum(
            index >= first.get((name, stage), index + 1) for name, stage, index in parsed
        )
        super().__init__(
            f"{self.count} finished cells of this run were computed by other code, data or library "
            f"versions (first: {changed[0]}). Go back to those, choose another --name, or pass "
            "--allow-code-change to run these cells again"
        )


@dataclass
class Stop:
    """How the loop is asked to end early: `soon` stops submitting, `now` does not wait either."""

    soon: bool = False
    now: bool = False


@dataclass(frozen=True)
class Reused:
    """A finished trial of another run: where it was found, and what else its record should say."""

    origin: str
    result: Result
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Tally:
    """What a call of `run` did, in slots."""

    ran: int = 0
    reused: int = 0
    done: int = 0
    failed: int = 0
    unsupported: int = 0
    fit_s: float = 0.0
    interrupted: bool = False


class Engine:
    """Runs studies to their end on a pool, through the ledger. One use: `run`."""

    def __init__(
        self,
        studies: Iterable[Study],
        *,
        ledger: Ledger,
        pool: Callable[[], Pool],
        reuse: Callable[[Trial], Reused | None] = lambda trial: None,
        retry: Callable[[Record], bool] = lambda record: False,
        allow_code_change: bool = False,
        listener: Listener = lambda event, details: None,
        stop: Stop | None = None,
        grace_s: float = 30.0,
        still_owner: Callable[[], None] = lambda: None,
    ) -> None:
        self.studies = {study.name: study for study in studies}
        self.ledger = ledger
        self._make_pool = pool
        self._pool: Pool | None = None
        self._reuse = reuse
        self._listener = listener
        self._stop = stop or Stop()
        self._grace_s = grace_s
        self._still_owner = still_owner  # raises where the run's folder is another's by now
        self._allow_code_change = allow_code_change
        self._results = latest_results(ledger)
        self._deaths: dict[str, Counter[str]] = defaultdict(Counter)
        for at in ledger.positions("death"):
            record = ledger.at(at)
            if at > self._results.get(record["id"], -1):  # a terminal state closes the count
                self._deaths[record["id"]][record["cause"]] += 1
        self._retried = {
            id
            for id, at in self._results.items()
            if ledger.head(at).status == FAILED and retry(ledger.at(at))
        }
        for id in self._retried:
            del self._results[id]
        self._slots = slot_places(ledger)
        self._flight: dict[str, list[Slot]] = {}
        self._backlog: list[tuple[Study, Slot, Trial]] = []
        self._ready: dict[bool, list[tuple[float, str]]] = {True: [], False: []}  # with a GPU?
        self._queued: set[str] = set()
        self._unfinished: Counter[str] = Counter()  # studies of each dataset
        self._on_gpus: set[str] = set()  # unfinished studies that need one
        self._alone: set[str] = set()  # trials that ran out of a shared GPU's memory
        self._memory: dict[tuple[str, str], Needs] = {}  # seen, of a (dataset, model)
        self._beat = 0.0
        self._worked = time.monotonic()  # when a trial ran last; a complaint moves it on
        self._replayed = False
        self._seconds: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        self.tally = Tally()

    def _result(self, id: str) -> Result:
        return result_of(self.ledger.at(self._results[id]))

    # ------------------------------------------------------------------ the loop

    def replay(self) -> None:
        """Bring every study to where the ledger says it is, without running anything.

        Raises SourceChanged where finished slots have other ids now and this was not allowed. `run`
        does it; a caller that wants the refusal before it writes anything does it earlier.
        """
        if self._replayed:
            return
        self._replayed = True
        self._replay(self.studies.values())

    def admit(self, studies: Iterable[Study]) -> None:
        """Take over studies whose search ended elsewhere (`Study.settle`), before `run`."""
        for study in studies:
            self.studies[study.name] = study
            self._replay([study])

    def _replay(self, studies: Iterable[Study]) -> None:
        changed: list[str] = []
        last: dict[tuple[str, str], int] = {}
        for key in self._slots:
            name, stage, index = Slot.parse(key)
            last[name, stage] = max(index, last.get((name, stage), -1))
        for study in studies:
            newest: list[float] = []  # up to each index: where the ledger's last word on it stands
            while (slot := study.next_slot()) is not None:
                if slot.index > last.get((study.name, slot.stage), -1):
                    break
                place = self._slots.get(slot.key)
                lowest = slot.stage == study.stages[0]
                if place is not None and lowest and not study.sampler.history_free:
                    learnt = slot.index - study.lag
                    if learnt >= 0 and newest[learnt] > place[1]:
                        place = None  # suggested before a retried or changed cell ended: ask again
                record = self.ledger.at(place[1]) if place else None
                config = record["config"] if record else None
                trial = study.open(slot, config)
                if place and place[0] != trial.id and place[0] not in self._retried:
                    if config == dict(trial.config):  # an evaluation may have another by now
                        changed.append(slot.key)
                at = float("inf")
                if trial.id not in self._results:
                    self._backlog.append((study, slot, trial))
                elif place and place[0] == trial.id:
                    at = max(place[1], self._results[trial.id])
                else:  # this slot's cell has run, for another slot
                    self.ledger.append([link_record(slot, trial)], sync=False)
                    at = len(self.ledger) - 1
                if lowest:
                    newest.append(max(at, newest[-1] if newest else -1))
                if trial.id in self._results:
                    known = self._results[trial.id]
                    if record is None or place is None or place[1] != known:
                        record = self.ledger.at(known)
                    study.close(slot, result_of(record))
        if changed and not self._allow_code_change:
            raise SourceChanged(changed, self._slots)

    def run(self) -> Tally:
        """Run every study to its end. Returns early, with `interrupted`, when asked to stop."""
        self.replay()
        for study in self.studies.values():
            self._push(study)
            if not study.finished:
                self._unfinished[study.data_key] += 1
                if study.needs.gpu_mb:
                    self._on_gpus.add(study.name)
        stopping_since: float | None = None
        try:
            while not self._stop.now:
                self._still_owner()
                if self._stop.soon and stopping_since is None:
                    stopping_since = time.monotonic()
                if stopping_since is None:
                    self._fill()
                waiting = self._pool is not None and self._pool.running() > 0
                if stopping_since is not None:
                    if not waiting or time.monotonic() - stopping_since > self._grace_s:
                        break
                elif not waiting and not any(self._ready.values()) and not self._backlog:
                    break
                if self._pool is not None:
                    outcomes = self._pool.poll(0.2)
                    for event, details in self._pool.news():
                        self._listener(event, details)
                    self._absorb(outcomes)
                    self._tell_who_works()
        finally:
            if self._pool is not None:
                self._pool.close()
        self.tally.interrupted = any(not study.finished for study in self.studies.values())
        return self.tally

    def _tell_who_works(self) -> None:
        assert self._pool is not None
        now = time.monotonic()
        queued = len(self._backlog) + sum(map(len, self._ready.values()))
        if self._pool.running() or not queued:
            self._worked = now
        elif now - self._worked > PATIENCE_S:
            self._worked = now + 10 * PATIENCE_S
            self._listener(
                "warning",
                {"message": f"{queued} studies wait: no machine has room for any of their trials"},
            )
        if now - self._beat > BEAT_S:
            self._beat = now
            self._listener("beat", {"workers": self._pool.workers(), "queued": queued})

    def _push(self, study: Study) -> None:
        if study.name not in self._queued and study.next_slot() is not None:
            self._queued.add(study.name)
            ready = self._ready[study.needs.gpu_mb > 0]
            heapq.heappush(ready, (-self._remaining(study), study.name))

    def _remaining(self, study: Study) -> float:
        """Expected seconds left in a study: longest first keeps the end of a sweep short."""
        total, weight = self._seconds[study.meta.get("model", "")]
        rate = total / weight if weight else 1.0
        return rate * study.weight * max(1, study.n_slots - study.n_done)

    def _needs(self, study: Study, trial: Trial) -> Needs:
        """What a trial is given: what was declared, or more where one like it used more."""
        seen = self._memory.get((trial.dataset, trial.model), study.needs)
        gpu_mb = seen.gpu_mb if trial.id not in self._alone else float("inf")
        return replace(study.needs, memory_mb=seen.memory_mb, gpu_mb=gpu_mb)

    def _fill(self) -> None:
        """Send off what the workers have room for. Whoever waits for a GPU keeps nobody waiting who
        needs none, and the other way round."""
        full: set[bool] = set()
        backlog, self._backlog = self._backlog, []
        for study, slot, trial in backlog:
            kind = study.needs.gpu_mb > 0
            if kind in full or not self._settle(study, slot, trial):
                full.add(kind)
                self._backlog.append((study, slot, trial))
        for kind in self._ready.keys() - full:
            self._fill_kind(self._ready[kind])

    def _fill_kind(self, ready: list[tuple[float, str]]) -> None:
        while ready:
            study = self.studies[ready[0][1]]
            following = study.next_slot()
            if following is not None and self._pool is not None:
                if not self._pool.room(study.needs):
                    return
            self._queued.discard(heapq.heappop(ready)[1])
            if following is None:
                continue
            trial = study.open(following)
            if not self._settle(study, following, trial):
                self._backlog.append((study, following, trial))
                return
            self._push(study)

    def _settle(self, study: Study, slot: Slot, trial: Trial) -> bool:
        """Answer a slot from what is known, or send its trial off; False: no worker is free."""
        if trial.id in self._results:
            if self._slots.get(slot.key, ("", 0))[0] != trial.id:
                self.ledger.append([link_record(slot, trial)])
            self._close(study, slot, trial, self._result(trial.id), reused=True)
            return True
        if trial.id in self._flight:
            self._flight[trial.id].append(slot)
            return True
        if self._from_elsewhere(study, slot, trial):
            return True
        if self._pool is None:
            self._pool = self._make_pool()
            self._spare_cpus()
        if not self._pool.room(self._needs(study, trial)):
            return False
        self._dispatch(study, slot, trial)
        return True

    def _dispatch(self, study: Study, slot: Slot, trial: Trial) -> None:
        assert self._pool is not None
        attempt = self._deaths[trial.id].total() + 1
        lease = {
            "kind": "lease",
            "id": trial.id,
            "study": slot.study,
            "stage": slot.stage,
            "index": slot.index,
            "attempt": attempt,
            "config": dict(trial.config),
            "time": utc_now(),
        }
        self.ledger.append([lease], sync=False)
        self._flight.setdefault(trial.id, []).append(slot)
        self._pool.submit(
            Job(
                trial=trial,
                data_key=study.data_key,
                limits=study.limits,
                needs=self._needs(study, trial),
                attempt=attempt,
            )
        )

    def _from_elsewhere(self, study: Study, slot: Slot, trial: Trial) -> bool:
        """Copy a finished trial of another run, as whoever looks after those runs vouches for."""
        found = self._reuse(trial) if trial.id not in self._retried else None
        if found is None:
            return False
        where = self.ledger.put_predictions(found.result.predictions)
        self.ledger.sync_predictions()
        record = result_record(
            slot, trial, found.result, predictions=where, origin=found.origin, **found.more
        )
        self.ledger.append([record])
        self._results[trial.id] = len(self.ledger) - 1
        self._close(study, slot, trial, found.result, reused=True)
        return True

    # ------------------------------------------------------------------ results

    def _absorb(self, outcomes: list[Outcome]) -> None:
        """Write what ended, in one sync, and only then act on it."""
        if not outcomes:
            return
        self._still_owner()
        records: list[Record] = []
        ended: list[tuple[Outcome, Result, list[Slot]]] = []
        again: list[Job] = []
        wrote_predictions = False
        for outcome in outcomes:
            trial, job = outcome.job.trial, outcome.job
            result, death, output = outcome.result, outcome.death or "lost", outcome.output
            deaths = self._deaths[trial.id]
            if result is not None and result.cause in ("oom", "gpu_oom"):
                # The first time it may have been a neighbour's doing: once more, then it stands.
                if deaths[result.cause] + 1 < MAX_ATTEMPTS[result.cause]:
                    death, output, result = result.cause, output or result.output, None
                    if death == "gpu_oom":
                        self._alone.add(trial.id)
            if result is None:
                if death == "lost":
                    again.append(job)
                    continue
                deaths[death] += 1
                records.append({"kind": "death", "id": trial.id, "cause": death, "time": utc_now()})
                if deaths[death] < MAX_ATTEMPTS[death]:
                    again.append(job)
                    self._listener(
                        "retry",
                        {
                            "trial": trial,
                            "cause": death,
                            "attempt": job.attempt,
                            "worker": outcome.worker,
                            "output": output,
                        },
                    )
                    continue
                result = failure(
                    death,
                    f"the worker used more than {job.limits.memory_mb:g} MB, {deaths[death]} times"
                    if death == "oom"
                    else f"the worker process died {deaths[death]} times under this trial",
                    output=outcome.output,
                )
            where = {}
            if result.predictions:
                where = self.ledger.put_predictions(result.predictions)
                wrote_predictions = True
            slots = self._flight.pop(trial.id)
            records.append(
                result_record(
                    slots[0],
                    trial,
                    result,
                    predictions=where,
                    attempt=job.attempt,
                    limits=job.limits.to_data(),
                    worker=outcome.worker,
                )
            )
            records.extend(link_record(slot, trial) for slot in slots[1:])
            ended.append((outcome, result, slots))
        if wrote_predictions:
            self.ledger.sync_predictions()
        position = len(self.ledger)
        self.ledger.append(records)
        for offset, record in enumerate(records):
            if record["kind"] == "result":
                self._results[record["id"]] = position + offset
        for outcome, result, slots in ended:
            trial = outcome.job.trial
            about = {"attempt": outcome.job.attempt, "worker": outcome.worker}
            self._deaths.pop(trial.id, None)
            self._alone.discard(trial.id)
            self._learn(trial, result, self.studies[slots[0].study])
            for position, slot in enumerate(slots):
                study = self.studies[slot.study]
                self._close(study, slot, trial, result, reused=position > 0, **about)
        for job in again:
            slots = self._flight.pop(job.trial.id)
            for position, slot in enumerate(slots):
                study = self.studies[slot.study]
                if position == 0:
                    self._backlog.insert(0, (study, slot, job.trial))
                else:
                    self._backlog.append((study, slot, job.trial))

    def _learn(self, trial: Trial, result: Result, study: Study) -> None:
        seconds = result.costs.get("fit_s", 0.0) + result.costs.get("predict_s", 0.0)
        if seconds and study.weight:
            self._seconds[trial.model][0] += seconds
            self._seconds[trial.model][1] += study.weight
        self.tally.fit_s += seconds
        ram, vram = (SPARE * result.costs.get(f"peak_{kind}_mb", 0.0) for kind in ("ram", "vram"))
        seen = self._memory.get((trial.dataset, trial.model), study.needs)
        # The declared need of a GPU is a guess: the first that is measured replaces it.
        guessed = seen.gpu_mb == study.needs.gpu_mb
        gpu_mb = vram if vram and guessed else max(vram, seen.gpu_mb)
        if study.needs.gpu_mb == 0.0:
            gpu_mb = 0.0
        self._memory[trial.dataset, trial.model] = replace(
            seen, memory_mb=max(ram, seen.memory_mb), gpu_mb=gpu_mb
        )

    def _close(
        self,
        study: Study,
        slot: Slot,
        trial: Trial,
        result: Result,
        *,
        reused: bool,
        **about: Any,
    ) -> None:
        study.close(slot, result)
        self.tally.reused += reused
        self.tally.ran += not reused
        self.tally.done += result.status == DONE
        self.tally.failed += result.status == FAILED
        self.tally.unsupported += result.status not in (DONE, FAILED)
        self._listener(
            "reused" if reused else "result",
            {"study": study, "slot": slot, "trial": trial, "result": result, **about},
        )
        if study.finished:
            self.ledger.append([study_record(study)], sync=False)
            self._listener("study", {"study": study})
            self._on_gpus.discard(study.name)
            self._unfinished[study.data_key] -= 1
            if self._pool is not None:
                self._spare_cpus()
                if not self._unfinished[study.data_key]:
                    self._pool.forget(study.data_key)
        else:
            self._push(study)

    def _spare_cpus(self) -> None:
        """As long as trials with a GPU are to come, CPUs beside the GPUs wait for them."""
        assert self._pool is not None
        threads = [self.studies[name].needs.threads for name in self._on_gpus]
        self._pool.keep_for_gpus(max(threads, default=0))
