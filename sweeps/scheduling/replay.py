"""Resuming: studies are brought to where the ledger says they are, without running a trial."""

from __future__ import annotations

from collections.abc import Iterable

from ..store.ledger import Record
from ..store.records import link_record, result_of
from ..study import Slot, Study
from ..study_state import History
from .interface import SourceChanged
from .ready_studies import Waiting
from .trial_records import TrialRecords, last_indices


def replay(
    studies: Iterable[Study], records: TrialRecords, *, allow_code_change: bool
) -> list[Waiting]:
    """The slots that were opened and have no result. Every other slot of the ledger is closed with
    its result.

    A slot whose trial already has a result under another slot or an earlier plan gets a link to it
    in the ledger. Raises SourceChanged if finished trials have other ids now and would run again,
    unless `allow_code_change`. No link is written in that case.
    """
    unfinished: list[Waiting] = []
    changed: list[Slot] = []
    links: list[Record] = []
    last = last_indices(records.slots)
    for study in studies:
        _replay_study(study, records, last, unfinished, changed, links)
    if changed and not allow_code_change:
        raise SourceChanged(changed, records.slots)
    records.ledger.append(links, sync=False)
    return unfinished


def _replay_study(
    study: Study,
    records: TrialRecords,
    last: dict[tuple[str, str], int],
    unfinished: list[Waiting],
    changed: list[Slot],
    links: list[Record],
) -> None:
    ledger = records.ledger
    history = History(study.sampler.lag)
    while (slot := study.next_slot()) is not None:
        if slot.index > last.get((study.name, slot.stage), -1):
            break
        before = place = records.slots.get(slot)
        lowest = slot.stage == study.stages[0]
        if place is not None and lowest and not study.sampler.history_free:
            if not history.led_to(slot.index, place[1]):
                place = None  # suggested before a retried or changed trial ended: ask again
        record = ledger.at(place[1]) if place else None
        config = record["config"] if record else None
        trial = study.open(slot, config)
        at = float("inf")
        if not records.ended(trial):
            unfinished.append((study, slot, trial))
            if before is not None and before[0] not in records.retried:
                # Not `trial`: a suggestion or a choice may be another one by now.
                if study.trial_of(slot, ledger.at(before[1])["config"]).id != before[0]:
                    changed.append(slot)
        elif place and place[0] == trial.id:
            at = max(place[1], records.position(trial))
        else:  # this slot's trial has run, for another slot or before the code changed
            at = len(ledger) + len(links)  # where its link will stand
            links.append(link_record(slot, trial))
        if lowest:
            history.add(at)
        if records.ended(trial):
            known = records.position(trial)
            if record is None or place is None or place[1] != known:
                record = ledger.at(known)
            study.close(slot, result_of(record))
