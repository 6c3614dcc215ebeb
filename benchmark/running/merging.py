"""Runs of several machines or people united into one: every trial verified, none run again."""

from __future__ import annotations

import math
import os
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...sweeps.scheduling.replay import replay
from ...sweeps.scheduling.trial_records import TrialRecords
from ...sweeps.search.json_values import identity
from ...sweeps.store.ledger import Ledger, LedgerError, Record
from ...sweeps.store.records import latest_results, link_record, result_of, slot_places, utc_now
from ...sweeps.study import Slot, Study
from ...sweeps.study_state import EVAL, TUNE, History, StudyState
from ...sweeps.trial import CAUSES, DONE, FAILED, UNSUPPORTED, Trial, digest
from ..errors import SweepError
from ..planning import environment
from ..planning.options import LIMITS
from ..planning.plan import Plan
from .data import gather
from .request import Request
from .resume import check_same, merge_with
from .run_trial import score_parts

CLOSE = 1e-9  # of scores, relatively: processors add up in other orders
BATCH = 200  # records with one sync


@dataclass
class Merged:
    """What a merge found.

    taken: {run: number of slots that came from it}.
    same: number of slots that several runs have, with the same result.
    kept_first: {run: number of slots in which a later run contradicts it, and it counts}.
    refused: {"run slot": why}.
    conflicts: a sentence for each slot in which two runs contradict each other.
    runs_again: number of slots whose results are left out, because the results that count would
        have led the search to other trials.
    """

    taken: dict[str, int] = field(default_factory=dict)
    same: int = 0
    kept_first: dict[str, int] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    conflicts: list[str] = field(default_factory=list)
    runs_again: int = 0


@dataclass(frozen=True)
class Entry:
    """A slot of a run with its verified trial.

    at: the position of the slot's record in the ledger.
    position: the position of the record of the trial's result.
    loss: the validation loss, None without one.
    cpu_s: the CPU seconds of the trial.
    content: checksums of the predictions.
    """

    run: Path
    ledger: Ledger
    slot: Slot
    trial: Trial
    at: int
    position: int
    status: str
    loss: float | None
    cpu_s: float
    content: tuple[str, ...]


# ---------------------------------------------------------------------- one plan for all


STARTED_ALIKE = (
    "Merged are runs that were started alike; their folds, trials, models and datasets may differ"
)


def united_plan(request: Request, plans: Sequence[Record]) -> Plan:
    """The plan that holds all these plans. The request has the suite and options of the first.

    Raises SweepError that names what the plans differ in, or a dataset that is not available here
    and without which its trials cannot be verified.
    """
    first = plans[0]
    for other in plans[1:]:
        _check_suites(first, other)
        request.options = merge_with(other, request)
    datasets = {name: known for plan in reversed(plans) for name, known in plan["datasets"].items()}
    data, left_out, notes = gather(request, {"datasets": datasets})
    for name in datasets:
        if name not in data:
            reason = left_out.get(name, "it is not in the suite any more")
            raise SweepError(
                f"dataset {name} of these runs is not available here ({reason}), and without it "
                f"its trials cannot be verified: bench data fetch {name}, or bench data add for a "
                "dataset of yours"
            )
    for plan in plans:
        for name, known in plan["datasets"].items():
            if known["sha256"] != data[name].table.sha256:
                raise SweepError(
                    f"dataset {name} is not the same in all runs: sha256 {known['sha256'][:16]}... "
                    f"there, {data[name].table.sha256[:16]}... here"
                )
    united = Plan(request.suite, request.options, data, left_out, notes)
    for plan in plans:
        check_same(plan, united, "these runs were", STARTED_ALIKE)
    asynchronous = sorted({s.model for s in united.studies if s.asynchronous})
    if asynchronous:
        raise SweepError(
            f"the searches of {', '.join(asynchronous)} were asynchronous: what they chose depends "
            "on what ran beside it, so such runs cannot be merged; show them together: bench "
            "report RUN RUN"
        )
    return united


def _check_suites(first: Record, other: Record) -> None:
    if first["options"]["budget"] != other["options"]["budget"]:
        raise SweepError(
            f"the runs have different budgets, {first['options']['budget']} and "
            f"{other['options']['budget']}: merge runs of one suite and budget, or show them "
            "together: bench report RUN RUN"
        )
    a, b = (_without_limits(plan["suite"]) for plan in (first, other))
    differing = sorted(key for key in {*a, *b} if a.get(key) != b.get(key))
    if differing:
        raise SweepError(
            f"the runs are of different suites, which differ in {', '.join(differing)}: merge runs "
            "of one suite and budget, or show them together: bench report RUN RUN"
        )


def _without_limits(suite: Mapping[str, Any]) -> dict[str, Any]:
    budgets = {
        name: {key: value for key, value in budget.items() if key not in LIMITS}
        for name, budget in suite["budgets"].items()
    }
    found = {**suite, "budgets": budgets}
    if "file" in suite:  # the same file has another path on each machine; checksums compare it
        found["file"] = {name: {**file, "path": ""} for name, file in suite["file"].items()}
    return found


# ---------------------------------------------------------------------- verified slots


class Refused(Exception):
    """A slot whose record does not prove what it says."""


class Verifier:
    """Checks the slots of runs against a plan that was made on this machine."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.studies = {study.name: study for study in plan.build()}

    def entry(self, run: Path, ledger: Ledger, slot: Slot, at: int, position: int) -> Entry | None:
        """The verified slot, None for one outside of the plan. Raises Refused, LedgerError.

        at: the position of the slot's record. position: of the record of its trial's result.
        """
        study = self.studies.get(slot.study)
        bounds = study.state.shape.bounds if study is not None else {}
        if study is None or not 0 <= slot.index < bounds.get(slot.stage, 0):
            return None
        filled, record = ledger.at(at), ledger.at(position)
        trial = _trial_of(study, slot, filled)
        if trial.id != record.get("id") or trial.id != filled.get("id"):
            raise Refused(
                "its id is not that of its configuration and seed on this data, with the code and "
                "the library versions that are installed here"
            )
        # The id may stand in a record of another fit: `record` is what the new run will hold.
        if not _is_of(trial, record) or not _is_of(trial, filled):
            raise Refused("its configuration or seed is not that of its id")
        for name in ("dataset", "fold", "model"):
            if filled.get(name) != getattr(trial, name):
                raise Refused(f"its {name} is {filled.get(name)!r}, its study's another")
        content = self._result(trial, ledger, record)
        status = record["status"]
        loss = study.loss(result_of(record)) if status == DONE else None
        cpu_s = (record.get("costs") or {}).get("cpu_s") or 0.0
        return Entry(run, ledger, slot, trial, at, position, status, loss, cpu_s, content)

    def _result(self, trial: Trial, ledger: Ledger, record: Record) -> tuple[str, ...]:
        status = record.get("status")
        if status in (FAILED, UNSUPPORTED):
            if record.get("cause") not in CAUSES or record.get("predictions"):
                raise Refused("a failure without a known cause, or with predictions")
            return ()
        places = record.get("predictions")
        if status != DONE or not isinstance(places, Mapping) or set(places) != {"val", "test"}:
            raise Refused(f"status {status!r} with predictions of {sorted(places or {})}")
        arrays = ledger.get_predictions(places)
        data = self.plan.data[trial.dataset]
        fold = data.folds[trial.fold]
        for part, rows in (("val", fold.val), ("test", fold.test)):
            if len(arrays[part]) != len(rows):
                raise Refused(f"{len(arrays[part])} predictions for {len(rows)} rows of {part}")
        try:
            scores = score_parts(data.table, fold, arrays)
        except (ValueError, IndexError) as error:
            raise Refused(f"its predictions cannot be scored: {error}") from None
        for part, expected in scores.items():
            _compare(part, record.get(part), expected)
        return tuple(str(places[part]["sha256"]) for part in ("val", "test"))


def _is_of(trial: Trial, record: Record) -> bool:
    """Whether a record has the configuration and the seed of a trial, and a result its fidelity.
    Types must be equal, too: True is not 1."""
    names = ("config", "seed", "fidelity") if record["kind"] == "result" else ("config", "seed")
    fit = {"config": dict(trial.config), "seed": trial.seed}
    fit["fidelity"] = dict(trial.fidelity) if trial.fidelity is not None else None
    return digest([record.get(name) for name in names]) == digest([fit[name] for name in names])


def _trial_of(study: Study, slot: Slot, record: Record) -> Trial:
    """The trial that fills a slot with the configuration in a record."""
    config = record.get("config")
    if not isinstance(config, dict):
        raise Refused("its record has no configuration")
    try:
        return study.trial_of(slot, config)
    except (TypeError, ValueError) as error:
        raise Refused(f"its configuration is none: {error}") from None


def _compare(part: str, recorded: Any, expected: Mapping[str, float | None]) -> None:
    if not isinstance(recorded, Mapping) or set(recorded) != set(expected):
        raise Refused(f"its scores on {part} are not those of its task")
    for metric, value in expected.items():
        there = recorded[metric]
        same = there is None if value is None else _close(there, value)
        if not same:
            raise Refused(f"{metric} on {part} is {there!r}, its predictions have {value!r}")


def _close(there: Any, value: float) -> bool:
    number = isinstance(there, int | float) and not isinstance(there, bool)
    return number and math.isclose(there, value, rel_tol=CLOSE, abs_tol=CLOSE)


# ---------------------------------------------------------------------- the slots of all runs


def collect(
    verifier: Verifier,
    ledgers: Mapping[Path, Ledger],
    merged: Merged,
    *,
    keep_first: bool = False,
    beat: Callable[[], None] = lambda: None,
) -> dict[str, Entry]:
    """{slot key: the entry that counts}. `merged` gets what is refused, and the conflicts.

    A finished trial counts before one that failed, an earlier run before a later one. Trials to
    which other results led than those that count are left out (`_Union`).

    keep_first: where two runs contradict each other, the earlier one counts.
    """
    found: dict[str, Stages] = {}
    done: dict[str, Entry] = {}
    for run, ledger in ledgers.items():
        results = latest_results(ledger)
        for key, (id, at) in slot_places(ledger).items():
            beat()
            slot = Slot(*Slot.parse(key))
            if id not in results:
                continue
            try:
                entry = verifier.entry(run, ledger, slot, at, results[id])
            except (Refused, LedgerError) as error:
                merged.refused[f"{run} {key}"] = str(error)
                continue
            if entry is not None:
                stages = found.setdefault(slot.study, defaultdict(lambda: defaultdict(list)))
                stages[slot.stage][slot.index].append(entry)
                if entry.status == DONE:
                    done.setdefault(entry.trial.id, entry)
    chosen: dict[str, Entry] = {}
    for name, stages in found.items():
        beat()
        union = _Union(verifier.studies[name], stages, done, merged, keep_first)
        chosen |= {entry.slot.key: entry for entry in union.entries()}
    return chosen


Stages = dict[str, dict[int, list[Entry]]]  # of a study: {stage: {index: entries, by run}}


@dataclass(frozen=True)
class _Union:
    """The entries of one study that a single, undisturbed sweep could have.

    Runs of one study have the same trials up to the first that failed, or has another loss, in one
    of them. From there on a sampler that learns went separate ways. A later trial of a run whose
    result does not count is kept only if the sampler, asked again, suggests it. Entries of higher
    rungs and of the evaluation are kept if they have a configuration of the search that counts.
    """

    study: Study
    stages: Stages
    done: Mapping[str, Entry]  # {trial id: an entry that finished it, in whichever slot}
    merged: Merged
    keep_first: bool

    def entries(self) -> list[Entry]:
        """The entries that count, one a slot."""
        lowest, *higher = (self.stages.get(stage, {}) for stage in self.study.stages)
        search = self._search(lowest)
        chosen = list(search.values())
        for index, those in (pair for stage in higher for pair in sorted(stage.items())):
            if index in lowest:
                those = [e for e in those if index in search and _alike(e, search[index])]
            chosen += self._choose(those)
        best = self._best(chosen) if EVAL in self.stages else None
        for _, those in sorted(self.stages.get(EVAL, {}).items()):
            chosen += self._choose([e for e in those if best is not None and _alike(e, best)])
        self.merged.runs_again += sum(map(len, self.stages.values())) - len(chosen)
        return chosen

    def _choose(self, entries: Sequence[Entry]) -> list[Entry]:
        """The entry of a slot that counts, in a list; an empty one for none."""
        merged, best = self.merged, entries[:1]
        for entry in entries[1:]:
            (counts,) = best
            if contradict(counts, entry):
                if self.keep_first:
                    name = str(counts.run)
                    merged.kept_first[name] = merged.kept_first.get(name, 0) + 1
                else:
                    merged.conflicts.append(_conflict(entry.slot.key, counts, entry))
            elif entry.status == DONE and counts.status != DONE:
                best = [entry]
            elif entry.status == counts.status:
                merged.same += 1
        return [replace(self.done.get(e.trial.id, e), slot=e.slot) for e in best]

    def _search(self, entries: Mapping[int, list[Entry]]) -> dict[int, Entry]:
        """{index: the entry that counts} of the search, on its lowest rung."""
        sampler, chosen = self.study.sampler, dict[int, Entry]()
        runs = {entry.run: History(self.study.lag) for those in entries.values() for entry in those}
        n_told = 0  # results that the sampler knows, without a gap
        for index in range(max(entries, default=-1) + 1):
            those = entries.get(index, [])
            if not sampler.history_free:
                fitting = {e.trial.id for e in those if runs[e.run].led_to(index, e.at)}
                if those and not fitting and index - self.study.lag < n_told:
                    asked = identity(sampler.ask(index))
                    fitting = {e.trial.id for e in those if identity(dict(e.trial.config)) == asked}
                those = [entry for entry in those if entry.trial.id in fitting]
            for entry in self._choose(those):
                chosen[index] = entry
                if n_told == index:
                    sampler.tell(index, dict(entry.trial.config), entry.loss)
                    n_told += 1
            own = {entry.run: entry for entry in entries.get(index, [])}
            for run, history in runs.items():
                mine, counts = own.get(run), chosen.get(index)
                history.add(
                    max(mine.at, mine.position) if mine else None,
                    counts=_outcome(mine) == _outcome(counts),
                )
        return chosen

    def _best(self, chosen: Sequence[Entry]) -> Entry | None:
        """The full trial of the configuration that the search chooses; before its end, that of the
        best one so far."""
        state = StudyState(self.study.state.shape)
        for entry in chosen:
            state.add(entry.slot.stage, entry.slot.index, entry.loss, entry.cpu_s)
        full = [entry for entry in chosen if entry.slot.stage == TUNE and entry.loss is not None]
        if state.tuned:
            full = [entry for entry in full if entry.slot.index == state.best]
        return min(full, key=lambda entry: (entry.loss, entry.slot.index), default=None)


def _outcome(entry: Entry | None) -> tuple[str, float | None] | None:
    """What a sampler learns of an entry."""
    return (entry.trial.id, entry.loss) if entry is not None else None


def _alike(a: Entry, b: Entry) -> bool:
    """Whether two entries are of one configuration."""
    return identity(dict(a.trial.config)) == identity(dict(b.trial.config))


def contradict(a: Entry, b: Entry) -> bool:
    """Whether two runs have another trial in one slot, or other predictions of one trial."""
    if a.trial.id != b.trial.id:
        return True
    return a.status == b.status == DONE and a.content != b.content


def _conflict(key: str, a: Entry, b: Entry) -> str:
    if a.trial.id != b.trial.id:
        return (
            f"{key}: another trial in {a.run} ({a.trial.id}, {dict(a.trial.config)}) than in "
            f"{b.run} ({b.trial.id}, {dict(b.trial.config)})"
        )
    return f"{key}: trial {a.trial.id} has other predictions in {a.run} than in {b.run}"


# ---------------------------------------------------------------------- the new run


def write_run(plan: Plan, entries: Mapping[str, Entry], out: Path, merged: Merged) -> None:
    """Write a run with these slots. It is made in another folder and renamed, so that `out` is
    whole or not there.

    Records keep their costs, times and workers, and name the run that they came from. Predictions
    are copied. A study that has ended gets the record of its end, as in a sweep.
    """
    made = out.with_name(f".{out.name}.merging-{os.getpid()}")
    try:
        ledger = Ledger(made, write=True)
        try:
            ledger.append([{**plan.record(environment.capture()), "time": utc_now()}])
            _write_slots(ledger, _in_order(plan, entries))
            _write_ends(ledger, plan)
        finally:
            ledger.close()
        os.rename(made, out)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    for entry in entries.values():
        name = str(entry.run)
        merged.taken[name] = merged.taken.get(name, 0) + 1


def _in_order(plan: Plan, entries: Mapping[str, Entry]) -> list[Entry]:
    """By study as planned, stage and index."""
    studies = {study.name: number for number, study in enumerate(plan.studies)}
    return sorted(
        entries.values(),
        key=lambda e: (studies[e.slot.study], e.slot.stage == EVAL, e.slot.stage, e.slot.index),
    )


def _write_slots(ledger: Ledger, entries: Iterable[Entry]) -> None:
    batch: list[Record] = []
    written: set[str] = set()

    def flush() -> None:
        ledger.sync_predictions()
        ledger.append(batch)
        batch.clear()

    for entry in entries:
        if entry.trial.id in written:
            batch.append(link_record(entry.slot, entry.trial))
            continue
        written.add(entry.trial.id)
        record = entry.ledger.at(entry.position)
        places = record["predictions"]
        where = ledger.put_predictions(entry.ledger.get_predictions(places)) if places else {}
        own = {"study": entry.slot.study, "stage": entry.slot.stage, "index": entry.slot.index}
        names = {name: getattr(entry.trial, name) for name in ("dataset", "fold", "model")}
        origin = record.get("origin") or entry.run.resolve().name
        batch.append({**record, **own, **names, "predictions": where, "origin": origin})
        if len(batch) >= BATCH:
            flush()
    flush()


def _write_ends(ledger: Ledger, plan: Plan) -> None:
    """Records of the studies that have ended, as a sweep writes them."""
    records = TrialRecords(ledger, lambda record: False)
    studies = plan.build()
    replay(studies, records, allow_code_change=True)
    for study in studies:
        if study.finished:
            records.write_end(study)
