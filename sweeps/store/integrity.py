"""Integrity of a run: every checksum in its folder, and its records against its predictions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..trial import DONE
from .ledger import Ledger, LedgerError
from .predictions import files_in
from .records import latest_results, slot_places
from .run_folder import COLUMNS
from .run_lock import owner_of

# Raises LedgerError where a record does not fit its predictions.
Check = Callable[[Mapping[str, Any], Mapping[str, Any]], None]


@dataclass
class Integrity:
    """What the check of a run found.

    n_records: records with a right checksum. n_trials: finished trials whose predictions were read,
    n_bytes of them. lost: {trial id: what is wrong with its predictions or scores}. ledger: damage
    of the ledger, in sentences. notes: what harms nothing, in sentences.
    """

    n_records: int = 0
    n_trials: int = 0
    n_bytes: int = 0
    lost: dict[str, str] = field(default_factory=dict)
    ledger: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        """Whether all that a result needs is there and undamaged."""
        return not self.lost and not self.ledger


def integrity_of(ledger: Ledger, check: Check) -> Integrity:
    """Check every checksum of a run whose ledger was opened for reading, and each finished trial's
    record by `check`; nothing on disk changes. Raises LedgerError where the log was replaced
    meanwhile."""
    state = Integrity(n_records=len(ledger), ledger=damage_of(ledger))
    state.notes += ledger.notices
    if not ledger.has_right_columns():
        state.notes.append(
            f"{COLUMNS} is missing or damaged: what it holds is read from the records, more slowly"
        )
    for record in _finished(ledger):
        state.n_trials += 1
        try:
            state.n_bytes += _checked(ledger, record, check)
        except LedgerError as error:
            state.lost[record["id"]] = str(error)
    return state


def damage_of(ledger: Ledger) -> list[str]:
    """What reading a ledger has found damaged so far, in sentences. A last line that is torn counts
    where no driver is writing it at this moment."""
    damage = list(ledger.warnings)
    if ledger.torn_tail and owner_of(ledger.run) is None:
        damage.append(
            f"the last {ledger.torn_tail} bytes of the log fail their checksum; the trials that "
            "they stood for run again"
        )
    return damage


def lacks_files(ledger: Ledger) -> bool:
    """Whether a file of predictions is gone, as far as names and sizes tell: their numbers leave
    none out, and the newest finished trial's are inside the last."""
    files = files_in(ledger.run / "predictions")
    if sorted(files) != list(range(len(files))):
        return True
    sizes = {path.name: path.stat().st_size for path in files.values()}
    for at in reversed(list(ledger.positions("result"))):
        if ledger.head(at).status == DONE:
            places = ledger.at(at).get("predictions")
            inside = isinstance(places, Mapping) and all(
                isinstance(place, Mapping)
                and isinstance(place.get("offset"), int)
                and place["offset"] < sizes.get(str(place.get("file")), 0)
                for place in places.values()
            )
            return not inside
    return False


def _finished(ledger: Ledger) -> Iterator[dict[str, Any]]:
    """The records of finished trials that fill a slot, in the order of their predictions on disk. A
    result whose slot belongs to another trial is left out."""
    filling = {id for id, _ in slot_places(ledger).values()}
    for at in sorted(latest_results(ledger).values()):
        head = ledger.head(at)
        if head.status == DONE and head.id in filling:
            yield ledger.at(at)


def _checked(ledger: Ledger, record: Mapping[str, Any], check: Check) -> int:
    """The bytes of a trial's predictions. Raises LedgerError where some are missing or damaged, or
    do not fit the record."""
    places = record.get("predictions")
    if not isinstance(places, Mapping) or not places:
        raise LedgerError("its record names no predictions")
    arrays = ledger.predictions.get(places)
    check(record, arrays)
    return sum(array.nbytes for array in arrays.values())
