"""Trials of a run as its ledger records them: read once, appended to while the sweep runs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from ..store.ledger import Ledger, Record
from ..store.records import (
    current_ends,
    latest_results,
    link_record,
    result_of,
    result_record,
    same_end,
    slot_places,
    study_record,
    utc_now,
)
from ..study import Slot, Study
from ..trial import FAILED, Result, Trial


class TrialRecords:
    """Which trials have ended, where their records stand, and how new ones are written.

    `retry(record)` says of a failure whether it is to run again; such trials count as unfinished
    and are in `retried`. `lost`: ids of finished trials whose predictions are gone or damaged; they
    count as unfinished, too. `deaths` holds, by trial id, the deaths since the trial's last result.
    """

    def __init__(
        self, ledger: Ledger, retry: Callable[[Record], bool], lost: Collection[str] = ()
    ) -> None:
        self.ledger = ledger
        self._results = latest_results(ledger)
        self.deaths = deaths_since(self._results, ledger)
        self.retried = {
            id
            for id, at in self._results.items()
            if ledger.head(at).status == FAILED and retry(ledger.at(at))
        }
        for id in {*self.retried, *lost} & self._results.keys():
            del self._results[id]
        self.slots = slot_places(ledger)  # as they were when the ledger was read

    # ------------------------------------------------------------------ reading

    def ended(self, trial: Trial) -> bool:
        """Whether the trial has a result that counts."""
        return trial.id in self._results

    def position(self, trial: Trial) -> int:
        """The position of the trial's result in the ledger; KeyError where it has none."""
        return self._results[trial.id]

    def result(self, trial: Trial) -> Result:
        """The trial's result, without its predictions."""
        return result_of(self.ledger.at(self._results[trial.id]))

    # ------------------------------------------------------------------ writing

    def write_lease(self, slot: Slot, trial: Trial, attempt: int) -> None:
        """Record that the trial is about to be sent to a worker; not synced."""
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

    def write_end(self, study: Study) -> None:
        """Record that a study has ended; not synced."""
        self.ledger.append([study_record(study)], sync=False)

    def write_missing_ends(self, finished: Iterable[Study]) -> None:
        """Record the end of each study whose last record of it is missing, older than another
        record of the study, or says something else: a driver that was killed before it, a retry or
        a plan with more trials leave such studies. Without it a study with fewer slots than were
        planned would count as unfinished."""
        known = current_ends(self.ledger)
        ends = ((study_record(study), known.get(study.name)) for study in finished)
        missing = [end for end, at in ends if at is None or not same_end(end, self.ledger.at(at))]
        self.ledger.append(missing)


class Batch:
    """Records of trials that ended together, written with one sync of predictions and one of
    records."""

    def __init__(self, records: TrialRecords) -> None:
        self._to = records
        self._records: list[Record] = []
        self._predictions = False

    def death(self, trial: Trial, cause: str) -> None:
        """Add the death of a worker under a trial."""
        self._records.append({"kind": "death", "id": trial.id, "cause": cause, "time": utc_now()})

    def link(self, slot: Slot, trial: Trial) -> None:
        """Add that another slot's trial fills this slot."""
        self._records.append(link_record(slot, trial))

    def result(self, slots: Sequence[Slot], trial: Trial, result: Result, **more: Any) -> None:
        """Add a result, and a link for each slot after the first; predictions are put at once."""
        where: Mapping[str, Any] = {}
        if result.predictions:
            where = self._to.ledger.predictions.put(result.predictions)
            self._predictions = True
        self._records.append(result_record(slots[0], trial, result, predictions=where, **more))
        self._records.extend(link_record(slot, trial) for slot in slots[1:])

    def write(self) -> None:
        """Make everything durable, predictions before the records that point at them."""
        ledger = self._to.ledger
        if self._predictions:
            ledger.predictions.sync()
        position = len(ledger)
        ledger.append(self._records)
        for at, record in enumerate(self._records, start=position):
            if record["kind"] == "result":
                self._to._results[record["id"]] = at


def deaths_since(ends: Mapping[str, int], ledger: Ledger) -> dict[str, Counter[str]]:
    """{trial id: deaths of its workers by cause}; its end at this position closes the count."""
    deaths: dict[str, Counter[str]] = defaultdict(Counter)
    for at in ledger.positions("death"):
        record = ledger.at(at)
        if at > ends.get(record["id"], -1):
            deaths[record["id"]][record["cause"]] += 1
    return deaths


def last_indices(slots: Iterable[Slot]) -> dict[tuple[str, str], int]:
    """{(study, stage): the highest index that has a slot}."""
    last: dict[tuple[str, str], int] = {}
    for slot in slots:
        place = slot.study, slot.stage
        last[place] = max(slot.index, last.get(place, -1))
    return last
