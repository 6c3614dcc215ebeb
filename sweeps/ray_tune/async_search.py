"""How are few long trials tuned when nobody waits for a rung's last? ASHA and PBT, by Ray Tune.

Both decide by who is there when a report comes in, so their tables are *not* reproducible to the
byte, and a cell of theirs is no pure function: its id holds the run that made it ("async" and "run"
in its fidelity), and no other sweep reuses it. What else a sweep promises holds: one ledger row a
configuration, durable before anybody hears of it, failures with a cause, nothing lost and nothing
twice when the driver is killed.

ASHA (Li et al. 2018, arXiv:1810.05934): at every rung a configuration goes on if it is among the
best 1/eta of those that came so far. One that is stopped there has a row of the stage "rung<k>",
one that ran its whole schedule a row of the stage "tune".

PBT (Jaderberg et al. 2017, arXiv:1711.09846): all configurations run side by side; at every
boundary one of the worst quarter goes on from the state of one of the best, with its
hyperparameters perturbed. The rows are of the stage "tune"; `config` is what a trial ended with,
`info["history"]` what was done to its state. Its evaluation trains that last configuration alone,
from the start.

A new driver goes on from the ledger and the run's own checkpoints. `Tuner.restore` is not used: it
unpickles what it finds in the run's folder, which may be somebody else's, and it forgets what ASHA
saw on its rungs, which the rows' curves tell.
"""

from __future__ import annotations

import contextlib
import json
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

from ...common.files import write_atomically
from ..engine import Listener, SourceChanged, Stop, Tally
from ..store.checkpoints import CheckpointFolder
from ..store.ledger import Ledger, Record
from ..store.records import link_record, result_of, result_record, study_record
from ..study import Config, Slot, Study
from ..trial import DONE, FAILED, Result, Trial
from ..workers.pool import ClusterLost, RunTrial
from ..workers.trial_actor import Common
from .trial_state import Curve, Track

METHODS = ("asha", "pbt")
FRUITLESS = 3  # Tuners in a row that end without one result


@dataclass(frozen=True)
class Ended:
    """How the search ended for one configuration."""

    stage: str
    config: Config
    loss: float | None
    curve: Curve


class Asynchronous:
    """Runs the searches of studies with a schedule (`Study.halving`), one Tuner after another.

    `replay` reads what the ledger knows and refuses what does not fit; `run` does the rest. A study
    whose search has ended is `settle`d: an engine runs its evaluation seeds. `slots` is the number
    of CPUs that trials may use (None: all); PBT keeps to it on a local Ray only. Ray must be up for
    `run`.
    """

    def __init__(
        self,
        studies: Iterable[Study],
        how: str,
        *,
        ledger: Ledger,
        checkpoints: CheckpointFolder,
        run_trial: RunTrial,
        load: Callable[[str], Any],
        slots: int | None = None,
        paths: Iterable[str] = (),
        common: Common | None = None,
        retry: Callable[[Record], bool] = lambda record: False,
        allow_code_change: bool = False,
        listener: Listener = lambda event, details: None,
        stop: Stop | None = None,
        still_owner: Callable[[], None] = lambda: None,
    ) -> None:
        if how not in METHODS:
            raise ValueError(f"unknown asynchronous search {how!r}; known: {', '.join(METHODS)}")
        self.studies = {study.name: study for study in studies}
        for study in self.studies.values():
            if study.halving is None or not study.sampler.history_free:
                raise ValueError(
                    f"{study.name}: an asynchronous search needs rungs and a sampler that uses no "
                    "history (random or grid)"
                )
        self.how, self.ledger, self.checkpoints = how, ledger, checkpoints
        self.listener, self.stop, self.still_owner = listener, stop or Stop(), still_owner
        self.folder = ledger.run / "tune"
        self.tally = Tally()
        self.trouble = ""  # what kept trials from going on, where it was not their own doing
        self.ended: dict[str, dict[int, Ended]] = defaultdict(dict)
        self.deaths: dict[str, Counter[str]] = defaultdict(Counter)  # by a lease's id
        self._stale: dict[tuple[str, int], set[str]] = defaultdict(set)
        self._leases: dict[tuple[str, int], Trial] = {}
        self.run_trial, self.load, self.slots = run_trial, load, slots
        self.paths, self.common = list(paths), common
        self._retry, self._allow = retry, allow_code_change
        self.data: dict[str, Any] = {}
        self._replayed = False

    @property
    def finished(self) -> bool:
        return not any(map(self.left, self.studies.values()))

    def left(self, study: Study) -> list[int]:
        """The configurations that have no row yet."""
        return [i for i in range(study.n_trials) if i not in self.ended[study.name]]

    @cached_property
    def run_id(self) -> str:
        """A name for this run that no other run has; made once and kept in its folder."""
        path = self.folder / "run.json"
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            return str(json.loads(path.read_bytes())["run"])
        self.folder.mkdir(parents=True, exist_ok=True)
        found = uuid.uuid4().hex
        write_atomically(path, json.dumps({"run": found}).encode())
        return found

    def lease(self, study: Study, index: int) -> Trial:
        """What a configuration sets out to be: its whole schedule. Its chain names its checkpoints,
        its id the deaths of its workers."""
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

    # ------------------------------------------------------------------ what is known

    def replay(self) -> None:
        """Raises SourceChanged where configurations that ended have other ids now."""
        if self._replayed:
            return
        self._replayed = True
        last: dict[tuple[str, int], int] = {}
        for at in self.ledger.positions("result"):
            record = self.ledger.at(at)
            if record["study"] in self.studies and how_of(record) == self.how:
                last[record["study"], record["index"]] = at
        changed = []
        for (name, index), at in sorted(last.items()):
            record, study = self.ledger.at(at), self.studies[name]
            trial = study.make_trial(record["config"], record["seed"], record["fidelity"])
            if trial.id != record["id"]:
                changed.append(Slot(name, record["stage"], index).key)
            if trial.id != record["id"] or self._retry(record):
                self._stale[name, index].add(record["stage"])
                continue
            result = result_of(record)
            loss = study.loss_of(result) if result.status == DONE else None
            curve = list(result.info.get("curve", ()))
            self.ended[name][index] = Ended(record["stage"], record["config"], loss, curve)
        if changed and not self._allow:
            raise SourceChanged(changed, changed)
        for study in self.studies.values():
            if not self.left(study):
                self._settle(study)
        if self.finished:
            return
        open_ = {
            self.lease(study, index).id: last.get((study.name, index), -1)
            for study in self.studies.values()
            for index in self.left(study)
        }
        for at in self.ledger.positions("death"):
            record = self.ledger.at(at)
            if at > open_.get(record["id"], at):  # a row closes the count
                self.deaths[record["id"]][record["cause"]] += 1

    def _settle(self, study: Study) -> None:
        ended = self.ended[study.name]
        study.settle({i: (e.stage, e.config, e.loss) for i, e in sorted(ended.items())})

    def track(self, study: Study, index: int) -> Track:
        """Where a configuration stands: at its last checkpoint, or at the start."""
        lease = self.lease(study, index)
        with contextlib.suppress(ValueError):
            found = self.checkpoints.get(lease.chain)
            if found is not None:
                return Track.unpack(found[1])
        fidelity = lease.fidelity or {}
        return Track(index, dict(lease.config), fidelity["length"], fidelity["every"])

    # ------------------------------------------------------------------ what is run

    def run(self) -> Tally:
        """Run every search to its end. Returns early, with `interrupted`, when asked to stop; what
        was running then goes on from its last boundary another time."""
        self.replay()
        from .tuner import fit, keeping

        with keeping(self.checkpoints) as keeper:
            for study in self.studies.values():
                self._search(study, partial(fit, self, keeper=keeper))
        self.tally.interrupted = not self.finished
        return self.tally

    def _search(self, study: Study, fit: Callable[[Study, list[int]], None]) -> None:
        fruitless, self.trouble = 0, ""
        while (left := self.left(study)) and not (self.stop.soon or self.stop.now):
            fit(study, left)
            fruitless = fruitless + 1 if len(self.left(study)) == len(left) else 0
            if fruitless == FRUITLESS:
                raise ClusterLost(f"no trial of {study.name} comes to an end: {self.trouble}")
            if self.left(study):
                continue
            self._settle(study)
            if study.finished:  # else an engine says so, after its evaluation
                self.ledger.append([study_record(study)])
                self.listener("study", {"study": study})

    # ------------------------------------------------------------------ what is written

    def write(self, study: Study, track: Track, result: Result, worker: str) -> None:
        """A configuration's row: durable when this returns, and only then told to others."""
        stops = [rung["stop"] for rung in study.fidelities(track.config)]
        if result.status == DONE and self.how == "asha":
            rung = len(stops) - 1 if track.step == track.length else stops.index(track.step)
        elif self.how == "asha":  # on the way to this one
            rung = min(sum(stop <= track.step for stop in stops), len(stops) - 1)
        else:
            rung = len(stops) - 1
        slot = Slot(study.name, study.stages[rung], track.index)
        fidelity = {"length": track.length, "stop": stops[rung], "every": track.every}
        trial = self._trial(study, track.index, track.config, fidelity)
        info = {**result.info, "curve": track.curve}
        if self.how == "pbt":
            info["history"] = track.history
        result = replace(result, info=info, costs=track.costs or result.costs)
        self.still_owner()
        where: dict[str, Any] = {}
        if result.predictions:
            where = self.ledger.put_predictions(result.predictions)
            self.ledger.sync_predictions()
        lease = self.lease(study, track.index)
        record = result_record(
            slot,
            trial,
            result,
            predictions=where,
            attempt=self.deaths[lease.id].total() + 1,
            limits=study.limits.to_data(),
            worker=worker,
        )
        # A retry may end on another rung: the place of the row before it points at this one.
        stale = self._stale.pop((study.name, track.index), set()) - {slot.stage}
        links = [
            link_record(Slot(study.name, stage, track.index), trial) for stage in sorted(stale)
        ]
        self.ledger.append([record, *links])
        loss = study.loss_of(result) if result.status == DONE else None
        self.ended[study.name][track.index] = Ended(slot.stage, track.config, loss, track.curve)
        self.tally.ran += 1
        self.tally.done += result.status == DONE
        self.tally.failed += result.status == FAILED
        self.tally.unsupported += result.status not in (DONE, FAILED)
        self.tally.fit_s += result.costs.get("fit_s", 0.0) + result.costs.get("predict_s", 0.0)
        about = {"trial": trial, "attempt": record["attempt"], "worker": worker}
        self.listener("result", {"study": study, "slot": slot, "result": result, **about})
        if result.status == FAILED:  # a retry goes on there, with all of its time
            kept = replace(self.track(study, track.index), elapsed_s=0.0)
            self.checkpoints.put(lease.chain, kept.step, kept.pack())
        else:
            self.checkpoints.drop(lease.chain)


def how_of(record: Record) -> str | None:
    """Which asynchronous search a result's record is of."""
    return (record["fidelity"] or {}).get("async")
