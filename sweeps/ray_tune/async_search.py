"""Asynchronous successive halving (ASHA) and population-based training (PBT) on Ray Tune.

Both decide by which reports have come in, so their tables are *not* reproducible to the byte, and
their trials are no pure functions: their ids hold the run that made them ("async" and "run" in the
fidelity), and no other sweep reuses them. The other guarantees of a sweep hold: one ledger row a
configuration, durable before any listener learns of it, failures with a cause, nothing lost and
nothing twice when the driver is killed.

ASHA (Li et al. 2018, arXiv:1810.05934): at every rung a configuration goes on if it is among the
best 1/eta of those that have reached it so far. A configuration that is stopped there gets a row of
the stage "rung<k>"; one that runs its whole schedule gets a row of the stage "tune".

PBT (Jaderberg et al. 2017, arXiv:1711.09846): all configurations run side by side; at every
boundary one of the worst quarter goes on from the state of one of the best, with its
hyperparameters perturbed. The rows are of the stage "tune"; `config` is what a trial ended with,
`info["history"]` lists the copies that its state went through. Its evaluation trains that last
configuration alone, from the start.

A configuration whose predictions are lost is searched again: ASHA decides on it with the losses of
the others in view, PBT trains it alone. What was decided on others stays.

A new driver goes on from the ledger and the run's own checkpoints. `Tuner.restore` is not used, for
two reasons: it unpickles files of the run's folder, which may come from somebody else, and it
forgets the losses on ASHA's rungs, which the ledger's rows hold.
"""

from __future__ import annotations

import contextlib
import json
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

from ...common.files import write_atomically
from ..events import Listener, StudyEnded, TrialEnded, TrialLost
from ..scheduling.attempts import Attempts
from ..scheduling.estimates import seconds_of
from ..scheduling.interface import SourceChanged, Stop, Tally
from ..scheduling.trial_records import Batch, TrialRecords, deaths_since
from ..store.checkpoints import CheckpointFolder
from ..store.ledger import Ledger, Record
from ..store.records import result_of
from ..study import Config, Slot, Study
from ..study_state import TUNE
from ..trial import DONE, FAILED, Result, Trial
from ..workers.pool import Job, JobOutcome, RunTrial
from ..workers.trial_actor import Common
from .trial_state import Curve, Track

RUNG_LOSSES = "rung_losses"  # what a row's info calls a configuration's [[step, loss], ...]


class Ended(NamedTuple):
    """How the search ended for one configuration: the stage, the loss (None: none), the curve."""

    stage: str
    config: Config
    loss: float | None
    curve: Curve


@dataclass
class Asynchronous:
    """Searches of studies with a schedule (`Study.halving`) and a sampler that uses no history, as
    the ledger and checkpoints have them.

    `replay` reads what the ledger knows and refuses what does not fit; `tuner.run` does the rest.
    Each study whose search has ended is settled (`Study.settle`): an engine runs its evaluation
    seeds. `slots` is the number of CPUs that trials may use (None: all); PBT keeps to it on a local
    Ray only. The other parameters are as for `Engine` and `ActorPool`.

    studies: {name: study}. how: "asha" or "pbt".
    tally: counts what this search did.
    ended: {study: {index: how the search ended for that configuration}}.
    trouble: what kept trials of this Tuner from going on, where no trial caused it.
    """

    studies: Mapping[str, Study]
    how: str
    _: KW_ONLY
    ledger: Ledger
    checkpoints: CheckpointFolder
    run_trial: RunTrial
    load: Callable[[str], Any]
    slots: int | None = None
    paths: Iterable[str] = ()
    common: Common | None = None
    retry: Callable[[Record], bool] = lambda record: False
    lost: Collection[str] = ()
    allow_code_change: bool = False
    listener: Listener = lambda event: None
    stop: Stop = field(default_factory=Stop)
    tally: Tally = field(default_factory=Tally)
    still_owner: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        self.folder = self.ledger.run / "tune"
        self.trouble = ""
        self.ended: dict[str, dict[int, Ended]] = defaultdict(dict)
        self.attempts = Attempts(defaultdict(Counter))
        self._trials = TrialRecords(self.ledger, self.retry, self.lost)
        self._stale: dict[tuple[str, int], str] = {}  # stages of rows that count no more
        self._leases: dict[tuple[str, int], Trial] = {}
        self._replayed = False

    def left(self, study: Study) -> list[int]:
        """The configurations that have no row yet."""
        return [i for i in range(study.n_trials) if i not in self.ended[study.name]]

    @property
    def finished(self) -> bool:
        """Whether every configuration of every study has a row."""
        return not any(map(self.left, self.studies.values()))

    @cached_property
    def run_id(self) -> str:
        """A name for this run that no other run has; made once and kept in its folder."""
        path = self.folder / "run.json"
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            return str(json.loads(path.read_bytes())["run"])
        self.folder.mkdir(parents=True, exist_ok=True)
        run = uuid.uuid4().hex
        write_atomically(path, json.dumps({"run": run}).encode())
        return run

    # ------------------------------------------------------------------ what is known

    def lease(self, study: Study, index: int) -> Trial:
        """The trial of a configuration's whole schedule. Its chain names the configuration's
        checkpoints, its id the deaths of its workers."""
        key = study.name, index
        if key not in self._leases:
            config = study.sampler.ask(index)
            mark = {"async": self.how, "run": self.run_id, "index": index}
            fidelity = {**study.fidelities(config)[-1], **mark}
            self._leases[key] = study.make_trial(config, study.seed, fidelity)
        return self._leases[key]

    def track(self, study: Study, index: int) -> Track:
        """The state of a configuration: from its last checkpoint, or from the start."""
        lease = self.lease(study, index)
        with contextlib.suppress(ValueError):
            return Track.kept(self.checkpoints, lease) or Track.start(lease)
        return Track.start(lease)

    def replay(self) -> None:
        """Read the ledger, and settle the studies whose search has ended; nothing is written.

        Raises SourceChanged where configurations that ended have other ids now and this is not
        allowed.
        """
        if self._replayed:
            return
        self._replayed = True
        last: dict[tuple[str, int], int] = {}
        for at in self.ledger.positions("result"):
            record = self.ledger.at(at)
            how = (record["fidelity"] or {}).get("async")
            if record["study"] in self.studies and how == self.how:
                last[record["study"], record["index"]] = at
        changed = []
        for (name, index), at in sorted(last.items()):
            record, study = self.ledger.at(at), self.studies[name]
            trial = study.make_trial(record["config"], record["seed"], record["fidelity"])
            if trial.id != record["id"]:
                changed.append(Slot(name, record["stage"], index))
            if trial.id != record["id"] or not self._trials.ended(trial):
                self._stale[name, index] = record["stage"]
            else:
                self._note(study, record["stage"], index, record["config"], result_of(record))
        if changed and not self.allow_code_change:
            raise SourceChanged(changed, changed)
        for study in self.studies.values():
            if not self.left(study):
                self.settle(study)
        ends = {self.lease(self.studies[name], i).id: last[name, i] for name, i in self._stale}
        self.attempts = Attempts(deaths_since(ends, self.ledger))

    def _note(self, study: Study, stage: str, index: int, config: Config, result: Result) -> None:
        curve = [(int(step), loss) for step, loss in result.info.get(RUNG_LOSSES, ())]
        self.ended[study.name][index] = Ended(stage, config, study.loss(result), curve)

    def settle(self, study: Study) -> None:
        """Tell a study how its search ended, so that an engine can run its evaluation."""
        study.settle({index: ended[:3] for index, ended in sorted(self.ended[study.name].items())})

    # ------------------------------------------------------------------ what is written

    def write_lease(self, study: Study, index: int) -> None:
        """Record that a configuration is about to run; not synced."""
        lease, slot = self.lease(study, index), Slot(study.name, TUNE, index)
        self._trials.write_lease(slot, lease, self.attempts.number(lease))

    def job(self, study: Study, index: int) -> Job:
        """A configuration's schedule, as one job of an engine."""
        lease = self.lease(study, index)
        attempt = self.attempts.number(lease)
        return Job(lease, study.data_key, study.limits, study.needs, attempt)

    def judge(self, study: Study, index: int, outcome: JobOutcome) -> None:
        """Take in the death of a trial's process. A death that counts is recorded. After the last
        attempt the configuration gets its row in the ledger."""
        trial, worker, verdict = outcome.job.trial, outcome.worker, self.attempts.judge(outcome)
        if verdict.death is not None:
            batch = Batch(self._trials)
            batch.death(trial, verdict.death)
            batch.write()
        if verdict.result is not None:
            self.write(study, self.track(study, index), verdict.result, worker)
        elif verdict.death is not None:
            attempt = outcome.job.attempt
            self.listener(TrialLost(trial, verdict.death, attempt, worker, verdict.output))

    def write(self, study: Study, track: Track, result: Result, worker: str) -> None:
        """Write a configuration's row; the listener learns of it once it is durable."""
        lease, index = self.lease(study, track.index), track.index
        rung = self._rung(study, track, result)
        slot = Slot(study.name, study.stages[rung], index)
        trial = track.trial(lease, study.fidelities(track.config)[rung]["stop"])
        info = {**result.info, RUNG_LOSSES: track.curve}
        if self.how == "pbt":
            info["history"] = track.history
        result = replace(result, info=info, costs=track.costs or result.costs)
        self.still_owner()
        attempt, limits = self.attempts.number(lease), study.limits.to_data()
        # A retry may end on another rung: the old row's slot is linked to this trial.
        stages = dict.fromkeys([slot.stage, self._stale.pop((study.name, index), slot.stage)])
        batch = Batch(self._trials)
        batch.result(
            [Slot(study.name, stage, index) for stage in stages],
            trial,
            result,
            attempt=attempt,
            limits=limits,
            worker=worker,
        )
        batch.write()
        self.attempts.close(lease)
        self._note(study, slot.stage, index, track.config, result)
        self.tally.add(result, reused=False)
        self.tally.fit_s += seconds_of(result)
        self.listener(TrialEnded(study, slot, trial, result, attempt, worker))
        if result.status == FAILED:  # a retry goes on there, with all of its time
            kept = replace(self.track(study, index), elapsed_s=0.0)
            self.checkpoints.put(lease.chain, kept.step, kept.pack())
        else:
            self.checkpoints.drop(lease.chain)

    def _rung(self, study: Study, track: Track, result: Result) -> int:
        """The rung on which a configuration ended; a failure of ASHA: the one it was on the way
        to."""
        stops = [rung["stop"] for rung in study.fidelities(track.config)]
        top = len(stops) - 1
        if self.how != "asha":
            return top
        if result.status == DONE:
            return top if track.step == track.length else stops.index(track.step)
        return min(sum(stop <= track.step for stop in stops), top)

    def end(self, study: Study) -> None:
        """Settle a study; one without an evaluation, which an engine would end, ends with it."""
        self.settle(study)
        if study.finished:
            self._trials.write_end(study)
            self.listener(StudyEnded(study))
