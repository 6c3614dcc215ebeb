"""State of an asynchronous search: what the ledger and the checkpoints say of it, and new rows."""

from __future__ import annotations

import contextlib
import json
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from ...common.files import write_atomically
from ..scheduling.estimates import seconds_of
from ..scheduling.interface import Listener, SourceChanged, Stop, Tally
from ..scheduling.trial_records import Batch, TrialRecords
from ..store.checkpoints import CheckpointFolder
from ..store.ledger import Ledger, Record
from ..store.records import result_of
from ..study import Config, Slot, Study
from ..study_state import TUNE
from ..trial import DONE, FAILED, Result, Trial
from ..workers.pool import RunTrial
from ..workers.trial_actor import Common
from .trial_state import Curve, Track

RUNG_LOSSES = "rung_losses"  # what a row's info calls a configuration's [[step, loss], ...]


@dataclass(frozen=True)
class Ended:
    """How the search ended for one configuration: the stage, the loss (None: none), the curve."""

    stage: str
    config: Config
    loss: float | None
    curve: Curve


def rung_losses(info: Mapping[str, Any]) -> Curve:
    """[(step, validation loss), ...]: the losses of a configuration that the search looked at, from
    the info of its row."""
    return [(int(step), loss) for step, loss in info.get(RUNG_LOSSES, ())]


@dataclass(frozen=True)
class Settings:
    """What every Tuner of a search is made with; the parameters are as for `Asynchronous`.

    data: references of data that were put into Ray, by key.
    """

    run_trial: RunTrial
    load: Callable[[str], Any]
    slots: int | None
    paths: list[str]
    common: Common | None
    stop: Stop
    data: dict[str, Any] = field(default_factory=dict)


class SearchRecords:
    """Which configurations of which studies have a row, where the others stand, and new rows.

    ended: {study: {index: how the search ended for that configuration}}.
    deaths: {id of a lease: deaths of workers by cause, since the configuration's last row}.
    trouble: what kept trials of the current study from going on, where no trial caused it.
    """

    def __init__(
        self,
        studies: Mapping[str, Study],
        how: str,
        *,
        ledger: Ledger,
        checkpoints: CheckpointFolder,
        retry: Callable[[Record], bool],
        lost: Collection[str] = (),
        listener: Listener,
        still_owner: Callable[[], None],
    ) -> None:
        self.studies, self.how = studies, how
        self.ledger, self.checkpoints, self.listener = ledger, checkpoints, listener
        self.folder = ledger.run / "tune"
        self.tally = Tally()
        self.trouble = ""
        self.ended: dict[str, dict[int, Ended]] = defaultdict(dict)
        self.deaths: dict[str, Counter[str]] = defaultdict(Counter)
        self._trials, self._still_owner = TrialRecords(ledger, retry, lost), still_owner
        self._stale: dict[tuple[str, int], set[str]] = defaultdict(set)  # stages of old rows
        self._leases: dict[tuple[str, int], Trial] = {}

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
            self._leases[key] = self._trial(study, index, config, study.fidelities(config)[-1])
        return self._leases[key]

    def _trial(
        self, study: Study, index: int, config: Config, fidelity: Mapping[str, Any]
    ) -> Trial:
        mark = {"async": self.how, "run": self.run_id, "index": index}
        return study.make_trial(config, study.seed, {**fidelity, **mark})

    def track(self, study: Study, index: int) -> Track:
        """The state of a configuration: from its last checkpoint, or from the start."""
        lease = self.lease(study, index)
        with contextlib.suppress(ValueError):
            kept = self.checkpoints.get(lease.chain)
            if kept is not None:
                return Track.unpack(kept[1])
        fidelity = lease.fidelity or {}
        return Track(index, dict(lease.config), fidelity["length"], fidelity["every"])

    def replay(self, *, allow_code_change: bool) -> None:
        """Read the ledger, and settle the studies whose search has ended; nothing is written.

        Raises SourceChanged where configurations that ended have other ids now and this is not
        allowed.
        """
        last: dict[tuple[str, int], int] = {}
        for at in self.ledger.positions("result"):
            record = self.ledger.at(at)
            if record["study"] in self.studies and async_method(record) == self.how:
                last[record["study"], record["index"]] = at
        changed = []
        for (name, index), at in sorted(last.items()):
            record, study = self.ledger.at(at), self.studies[name]
            trial = study.make_trial(record["config"], record["seed"], record["fidelity"])
            if trial.id != record["id"]:
                changed.append(Slot(name, record["stage"], index).key)
            if trial.id != record["id"] or not self._trials.ended(trial):
                self._stale[name, index].add(record["stage"])
            else:
                result = result_of(record)
                loss, curve = study.loss(result), rung_losses(result.info)
                self.ended[name][index] = Ended(record["stage"], record["config"], loss, curve)
        if changed and not allow_code_change:
            raise SourceChanged(changed, changed)
        for study in self.studies.values():
            if not self.left(study):
                self.settle(study)
        if not self.finished:
            self._count_deaths(last)

    def _count_deaths(self, last: Mapping[tuple[str, int], int]) -> None:
        left = {
            self.lease(study, index).id: last.get((study.name, index), -1)
            for study in self.studies.values()
            for index in self.left(study)
        }
        for at in self.ledger.positions("death"):
            record = self.ledger.at(at)
            if at > left.get(record["id"], at):  # a row closes the count
                self.deaths[record["id"]][record["cause"]] += 1

    def settle(self, study: Study) -> None:
        """Tell a study how its search ended, so that an engine can run its evaluation."""
        ended = self.ended[study.name]
        study.settle({i: (e.stage, e.config, e.loss) for i, e in sorted(ended.items())})

    # ------------------------------------------------------------------ what is written

    def write_lease(self, study: Study, index: int) -> None:
        """Record that a configuration is about to run; not synced."""
        lease, slot = self.lease(study, index), Slot(study.name, TUNE, index)
        self._trials.write_lease(slot, lease, self._attempt(lease))

    def _attempt(self, lease: Trial) -> int:
        return self.deaths[lease.id].total() + 1

    def write_death(self, lease: Trial, cause: str) -> int:
        """Record a death of a lease's worker; returns how many of its deaths had this cause."""
        self.deaths[lease.id][cause] += 1
        batch = Batch(self._trials)
        batch.death(lease, cause)
        batch.write()
        return self.deaths[lease.id][cause]

    def write(self, study: Study, track: Track, result: Result, worker: str) -> None:
        """Write a configuration's row; the listener learns of it once it is durable."""
        rung = self._rung(study, track, result)
        slot = Slot(study.name, study.stages[rung], track.index)
        stop = study.fidelities(track.config)[rung]["stop"]
        fidelity = {"length": track.length, "stop": stop, "every": track.every}
        trial = self._trial(study, track.index, track.config, fidelity)
        info = {**result.info, RUNG_LOSSES: track.curve}
        if self.how == "pbt":
            info["history"] = track.history
        result = replace(result, info=info, costs=track.costs or result.costs)
        self._still_owner()
        lease = self.lease(study, track.index)
        attempt, limits = self._attempt(lease), study.limits.to_data()
        # A retry may end on another rung: the old row's slot is linked to this trial.
        stale = self._stale.pop((study.name, track.index), set()) - {slot.stage}
        slots = [slot, *(Slot(study.name, stage, track.index) for stage in sorted(stale))]
        batch = Batch(self._trials)
        batch.result(slots, trial, result, attempt=attempt, limits=limits, worker=worker)
        batch.write()
        loss = study.loss(result)
        self.ended[study.name][track.index] = Ended(slot.stage, track.config, loss, track.curve)
        self.tally.add(result, reused=False)
        self.tally.fit_s += seconds_of(result)
        about = {"trial": trial, "attempt": attempt, "worker": worker}
        self.listener("result", {"study": study, "slot": slot, "result": result, **about})
        if result.status == FAILED:  # a retry goes on there, with all of its time
            kept = replace(self.track(study, track.index), elapsed_s=0.0)
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


def studies_by_name(studies: Iterable[Study]) -> dict[str, Study]:
    """{name: study}. Raises ValueError for a study that no asynchronous search can run."""
    by_name = {study.name: study for study in studies}
    for study in by_name.values():
        if study.halving is None or not study.sampler.history_free:
            raise ValueError(
                f"{study.name}: an asynchronous search needs rungs and a sampler that uses no "
                "history (random or grid)"
            )
    return by_name


def async_method(record: Record) -> str | None:
    """The asynchronous search that a result's record comes from, None for another result."""
    return (record["fidelity"] or {}).get("async")
