"""Resuming: studies are brought to where the ledger says they are, without running a trial."""

from __future__ import annotations

from collections.abc import Iterable

from ..search.json_values import identity
from ..store.records import result_of
from ..study import Study
from .ready_studies import Waiting
from .trial_records import TrialRecords, last_indices


def replay(studies: Iterable[Study], records: TrialRecords) -> tuple[list[Waiting], list[str]]:
    """(slots that were opened and have no result, keys of slots whose trials have other ids now).

    Every other slot of the ledger is closed with its result. A slot whose trial ran for another
    slot gets a link in the ledger, as it would have had in an undisturbed run.
    """
    unfinished: list[Waiting] = []
    changed: list[str] = []
    last = last_indices(records.slots)
    for study in studies:
        _replay_study(study, records, last, unfinished, changed)
    return unfinished, changed


def _replay_study(
    study: Study,
    records: TrialRecords,
    last: dict[tuple[str, str], int],
    unfinished: list[Waiting],
    changed: list[str],
) -> None:
    ledger = records.ledger
    newest: list[float] = []  # up to each index: the position of the newest record on it
    while (slot := study.next_slot()) is not None:
        if slot.index > last.get((study.name, slot.stage), -1):
            break
        place = records.slots.get(slot.key)
        lowest = slot.stage == study.stages[0]
        if place is not None and lowest and not study.sampler.history_free:
            learnt = slot.index - study.lag
            if learnt >= 0 and newest[learnt] > place[1]:
                place = None  # suggested before a retried or changed trial ended: ask again
        record = ledger.at(place[1]) if place else None
        config = record["config"] if record else None
        trial = study.open(slot, config)
        if place and place[0] != trial.id and place[0] not in records.retried:
            # An evaluation may have another one by now; 1 and 1.0 are two configurations.
            if identity(config) == identity(dict(trial.config)):
                changed.append(slot.key)
        at = float("inf")
        if not records.ended(trial):
            unfinished.append((study, slot, trial))
        elif place and place[0] == trial.id:
            at = max(place[1], records.position(trial))
        else:  # this slot's trial has run, for another slot
            at = records.write_link(slot, trial)
        if lowest:
            newest.append(max(at, newest[-1] if newest else -1))
        if records.ended(trial):
            known = records.position(trial)
            if record is None or place is None or place[1] != known:
                record = ledger.at(known)
            study.close(slot, result_of(record))
