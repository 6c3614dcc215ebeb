"""`bench verify`: what is damaged in a run, and what would run again."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from ....sweeps.store.integrity import integrity_of
from ....sweeps.store.ledger import Ledger, LedgerError
from ....sweeps.store.records import slot_places
from ...arguments import DATA, RUN
from ...console import ENVIRONMENT, OK, Console, common, count, size
from ...errors import check_run, command_on
from ...results.run_status import status_in

SHOWN = 20  # trials that are named on a terminal; --json names all


@click.command()
@RUN
@DATA
@common
def verify(console: Console, run: Path) -> int:
    """Check every checksum of a run, and its scores against its predictions; changes nothing.

    Names what is damaged and what a resume would run again; exit code 3 for damage.
    """
    from ...results.trial_scores import ScoreCheck

    check_run(run)
    ledger = Ledger(run)
    check = ScoreCheck.of_run(ledger)
    integrity = integrity_of(ledger, check)
    integrity.notes += check.notes
    try:
        left = status_in(ledger).left
    except LedgerError as error:  # it holds no plan: the record was damaged, or torn
        integrity.ledger.append(str(error))
        left = 0
    again = slots_of_trials(ledger, integrity.lost)
    console.data(
        {
            "run": str(run),
            "sound": integrity.sound,
            "records": integrity.n_records,
            "trials": integrity.n_trials,
            "prediction_bytes": integrity.n_bytes,
            "ledger": integrity.ledger,
            "damaged": again,
            "missing": left,
            "runs_again": len(again) + left,
            "notes": integrity.notes,
        }
    )
    console.say(
        f"{run}: {count(integrity.n_records, 'record')}, predictions of "
        f"{count(integrity.n_trials, 'finished trial')} ({size(integrity.n_bytes)})"
    )
    for text in integrity.notes:
        console.say(f"note: {text}")
    for text in integrity.ledger:
        console.tell(f"damaged: {text}")
    for trial in again[:SHOWN]:
        console.tell(f"damaged: {trial['slot']} ({trial['id']}): {trial['reason']}")
    if len(again) > SHOWN:
        console.tell(f"damaged: {len(again) - SHOWN} more trials; --json names all")
    if left:
        console.say(
            f"{count(left, 'planned trial')} without a result; run with: "
            + command_on(run, "resume")
        )
    if again:
        console.say(
            f"{count(len(again), 'finished trial')} would run again with: "
            + command_on(run, "resume", "--verify")
        )
    console.say("sound" if integrity.sound else "damaged")
    return OK if integrity.sound else ENVIRONMENT


def slots_of_trials(ledger: Ledger, reasons: dict[str, str]) -> list[dict[str, Any]]:
    """[{"id", "slot", "reason"}] of these trials, by slot; a trial that fills several slots counts
    once, under the first."""
    first: dict[str, str] = {}
    for slot, (id, _) in sorted(slot_places(ledger).items(), key=lambda item: str(item[0])):
        first.setdefault(id, str(slot))
    trials: Iterable[dict[str, Any]] = (
        {"id": id, "slot": first.get(id, ""), "reason": reason} for id, reason in reasons.items()
    )
    return sorted(trials, key=lambda trial: trial["slot"])
