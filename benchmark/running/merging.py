"""Runs of several machines or people united into one: a new run that runs nothing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...sweeps.engine import Reused
from ...sweeps.scheduling.trial_records import Batch, TrialRecords
from ...sweeps.store.ledger import Ledger
from ...sweeps.store.records import latest_results, result_of, slot_places, utc_now
from ...sweeps.study import Config, Slot, Study
from ...sweeps.study_state import History
from ...sweeps.trial import CAUSES, DONE, FAILED, UNSUPPORTED, Trial
from ..errors import SweepError
from ..planning import environment
from ..planning.plan import Plan
from ..planning.plan_record import RunPlan
from .data import gather
from .request import Request
from .resume import check_same, dropped, merge_with
from .reuse import recomputed, reused


@dataclass
class Merged:
    """What a merge found.

    taken: {run: number of trials that came from it}.
    refused: {"run slot": why what the run has there is not taken}.
    conflicts: a sentence for each trial of which two runs have other predictions.
    """

    taken: dict[str, int] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    conflicts: list[str] = field(default_factory=list)


# ---------------------------------------------------------------------- one plan for all


STARTED_ALIKE = (
    "Merged are runs that were started alike; their folds, trials, models and datasets may differ"
)


def united_plan(request: Request, plans: Sequence[RunPlan]) -> Plan:
    """The plan that holds all these plans. The request has the suite and options of the first.

    Raises SweepError if the plans contradict each other, or if a dataset is not available here: its
    trials could not be verified.
    """
    for other in plans[1:]:
        request.options = merge_with(other, request)
    datasets = {name: known for plan in reversed(plans) for name, known in plan.datasets.items()}
    data, left_out, notes = gather(request, datasets)
    for name in datasets:
        if name not in data:
            reason = left_out.get(name, "it is not in the suite any more")
            raise SweepError(
                f"dataset {name} of these runs is not available here ({reason}), and without it "
                f"its trials cannot be verified: bench data fetch {name}, or bench data add for a "
                "dataset of yours"
            )
    for plan in plans:
        for name, known in plan.datasets.items():
            if known.sha256 != data[name].table.sha256:
                raise SweepError(
                    f"dataset {name} is not the same in all runs: sha256 {known.sha256[:16]}... "
                    f"there, {data[name].table.sha256[:16]}... here"
                )
    united = Plan(request.suite, request.options, data, left_out, notes)
    for plan in plans:
        check_same(plan, united, "these runs were", STARTED_ALIKE)
        if lost := dropped(plan, united):
            raise SweepError(
                f"the suites of these runs differ: a merged run would lack trials of {lost}, which "
                "the suite of the run that is named first does not ask for. Show the runs "
                "together: bench report RUN RUN"
            )
    asynchronous = sorted({s.model for s in united.studies if s.asynchronous})
    if asynchronous:
        raise SweepError(
            f"the searches of {', '.join(asynchronous)} were asynchronous: what they chose depends "
            "on what ran beside it, so such runs cannot be merged; show them together: bench "
            "report RUN RUN"
        )
    return united


# ---------------------------------------------------------------------- trials by their ids


class _Part:
    """A run that is merged, its last records by trial and by slot."""

    def __init__(self, run: Path, ledger: Ledger) -> None:
        self.run, self.ledger = run, ledger
        self.results = latest_results(ledger)
        self.slots = slot_places(ledger)

    def config(self, study: Study, slot: Slot) -> Config | None:
        """The configuration that a slot has in this run, None where it has none. Raises ValueError
        for one that is not that of its trial."""
        id, at = self.slots[slot]
        config = self.ledger.at(at).get("config")
        try:
            same = isinstance(config, dict) and study.trial_of(slot, config).id == id
        except (TypeError, ValueError):
            same = False
        if not same:
            raise ValueError(
                "its id is not that of its configuration and seed on this data, with the code and "
                "the library versions that are installed here"
            )
        return config if id in self.results else None

    def newest(self, slot: Slot) -> int | None:
        """The position of the newest record on a slot, None without one."""
        id, at = self.slots.get(slot, ("", None))
        return at if at is None else max(at, self.results.get(id, -1))

    def content(self, id: str) -> tuple[Any, ...] | None:
        """What the run has of a trial: its status and the checksums of its predictions."""
        if id not in self.results:
            return None
        record = self.ledger.at(self.results[id])
        places = record.get("predictions") or {}
        return record.get("status"), *(places[part].get("sha256") for part in sorted(places))


class _Union:
    """The trials of several runs, taken as the studies of one plan ask for them."""

    def __init__(self, plan: Plan, ledgers: Mapping[Path, Ledger], out: Ledger) -> None:
        self.plan, self.merged = plan, Merged()
        self._parts = [_Part(run, ledger) for run, ledger in ledgers.items()]
        self._records = TrialRecords(out, lambda record: False)
        self._out = out

    def write(self, study: Study) -> None:
        """Write all results that the runs have of a study, and its end if it has ended."""
        batch, written = Batch(self._records), set[str]()
        histories = {part.run: History(study.sampler.lag) for part in self._parts}
        while (slot := study.next_slot()) is not None:
            trial = study.open(slot, self._suggested(study, slot, histories))
            found = self._find(slot, trial)
            if slot.stage == study.stages[0]:
                for part in self._parts:
                    counts = part.slots.get(slot, ("",))[0] == (trial.id if found else "")
                    if found and part.content(trial.id) != found[0].content(trial.id):
                        counts = False
                    histories[part.run].add(part.newest(slot), counts=counts)
            if found is None:
                continue
            part, copy = found
            if trial.id in written or self._records.ended(trial):
                batch.link(slot, trial)
            else:
                batch.result([slot], trial, copy.result, origin=copy.origin, **copy.more)
                written.add(trial.id)
            self.merged.taken[str(part.run)] = self.merged.taken.get(str(part.run), 0) + 1
            study.close(slot, copy.result)
        batch.write()
        if study.finished:
            self._records.write_end(study)

    def _suggested(
        self, study: Study, slot: Slot, histories: Mapping[Path, History]
    ) -> Config | None:
        """The configuration of a slot of the search: that of a run in which the same results led to
        it, None where the sampler is to be asked."""
        if slot.stage != study.stages[0]:
            return None
        for part in self._parts:
            if slot not in part.slots:
                continue
            try:
                config = part.config(study, slot)
            except ValueError as error:
                self.merged.refused[f"{part.run} {slot}"] = str(error)
                continue
            at = part.slots[slot][1]
            led = study.sampler.history_free or histories[part.run].led_to(slot.index, at)
            if led and config is not None:
                return config
        return None

    def _find(self, slot: Slot, trial: Trial) -> tuple[_Part, Reused] | None:
        """A run's result of a trial: a finished one before a failure, then the first run's."""
        having = [part for part in self._parts if trial.id in part.results]
        having.sort(key=lambda part: part.ledger.head(part.results[trial.id]).status != DONE)
        for part in having:
            try:
                copy = self._verified(part, trial)
            except Exception as error:  # a run may come from anybody, with right checksums
                self.merged.refused[f"{part.run} {slot}"] = str(error)
                continue
            self._compare(trial, part, having)
            return part, copy
        return None

    def _verified(self, part: _Part, trial: Trial) -> Reused:
        record = part.ledger.at(part.results[trial.id])
        status = record["status"]
        if status == DONE:
            return recomputed(trial, part.ledger, record, self.plan)
        if status not in (FAILED, UNSUPPORTED) or record["cause"] not in CAUSES:
            raise ValueError(f"status {status!r} with the cause {record['cause']!r}")
        return reused(part.ledger, record, result_of(record))

    def _compare(self, trial: Trial, counts: _Part, having: Sequence[_Part]) -> None:
        """Note runs that have finished the trial with other predictions."""
        mine = counts.content(trial.id)
        for part in having:
            theirs = part.content(trial.id)
            if mine and theirs and mine[0] == theirs[0] and mine != theirs:
                text = f"trial {trial.id} of {trial.model} on {trial.dataset} has other predictions"
                text += f" in {part.run} than in {counts.run}, which counts"
                if text not in self.merged.conflicts:
                    self.merged.conflicts.append(text)


def write_union(plan: Plan, ledgers: Mapping[Path, Ledger], out: Path) -> Merged:
    """Write a run with everything that the plan needs from these runs. Returns what was taken.

    Each trial is verified: its id against data, configuration, code and versions here, its scores
    against its predictions. Records keep their costs, times and workers, and name the run that they
    came from. The run is written to another folder and renamed, so `out` is whole or absent. It is
    absent if nothing was taken.
    """
    made = out.with_name(f".{out.name}.merging-{os.getpid()}")
    try:
        ledger = Ledger(made, write=True)
        try:
            ledger.append([{**plan.of_run(environment.capture()).to_record(), "time": utc_now()}])
            union = _Union(plan, ledgers, ledger)
            for study in plan.build():
                union.write(study)
        finally:
            ledger.close()
        if union.merged.taken:
            os.rename(made, out)
        return union.merged
    finally:
        shutil.rmtree(made, ignore_errors=True)
