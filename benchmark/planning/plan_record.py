"""The plan of a run as its ledger keeps it: its studies, their stages and numbers of slots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...sweeps.store.ledger import Ledger, LedgerError, Record
from ...sweeps.study import EVAL, TUNE

PARTS = {
    **dict.fromkeys(("suite", "options", "datasets", "left_out", "metric", "environment"), dict),
    **dict.fromkeys(("studies", "spaces", "samplers", "notes"), list),
}  # of a plan's record


SEEDLESS = ("official", "official-permuted", "rtdl", "cheatt", "temporal")
"""The protocols whose folds do not depend on the seed."""


def drawn_by(plan: Record, dataset: str) -> tuple[str, str]:
    """(protocol, seed or "" where it does not matter) of a dataset's folds: where they are equal, a
    fold of one number has the same rows."""
    protocol = plan["datasets"][dataset]["protocol"]
    return protocol, "" if protocol in SEEDLESS else str(plan["options"]["seed"])


def last_plan(ledger: Ledger) -> Record | None:
    """The plan in force, which is the last one written; None before the first. Raises LedgerError
    where that is none."""
    positions = list(ledger.positions("plan"))
    return checked(ledger.at(positions[-1])) if positions else None


def checked(plan: Record) -> Record:
    """The record of a plan. Raises LedgerError where its parts are of other kinds: a ledger with
    the right checksums may come from somebody else."""
    for part, kind in PARTS.items():
        found = plan.get(part, kind())
        if not isinstance(found, kind):
            raise LedgerError(
                f"its plan was not written by bench: its {part} is a {type(found).__name__}, not a "
                f"{kind.__name__}"
            )
    return plan


def plan_in(ledger: Ledger) -> Record:
    """The plan in force. Raises LedgerError where none was written yet."""
    plan = last_plan(ledger)
    if plan is None:
        raise LedgerError(f"{ledger.run} holds no plan yet: nothing was started in it")
    return plan


def stages_of(study: Mapping[str, Any]) -> dict[str, int]:
    """{stage: number of slots that a planned study has in it}, in the order in which they run.

    An asynchronous search ends each configuration on the rung where it is stopped: one slot each,
    counted under the last stage.
    """
    if study["reason"]:
        return {TUNE: 0, EVAL: 0}
    rungs = study.get("rungs") if not study.get("async") else None
    *lower, full = rungs or [study["n_trials"]]
    return {
        **{f"rung{number}": size for number, size in enumerate(lower)},
        TUNE: full,
        EVAL: study["n_seeds"] if study["n_seeds"] > 1 else 0,
    }


def planned_slots(study: Mapping[str, Any]) -> int:
    """The number of trials of a planned study: all rungs, and the evaluation seeds."""
    return sum(stages_of(study).values())


def ended_slots(ledger: Ledger) -> dict[tuple[str, int], int]:
    """{(study, its planned trials): slots that it had when it ended}, of studies whose search ends
    by CPU seconds (`study_s`): mostly fewer than planned."""
    plan = last_plan(ledger)
    timed = {study_name(s) for s in (plan["studies"] if plan else ()) if s.get("study_s")}
    if not timed:
        return {}
    return {
        (end["study"], end["n_trials"]): end["n_slots"]
        for end in ledger.records("study")
        if end["study"] in timed
    }


def study_name(study: Mapping[str, Any]) -> str:
    """The name of a planned study: dataset/fold/model."""
    return f"{study['dataset']}/{study['fold']}/{study['model']}"


def slots_of(plan: Record) -> dict[tuple[str, str], int]:
    """{(study, stage): bound}: slots with an index below the bound belong to this plan; those at or
    above it were made by an older plan.

    A configuration keeps on every rung the index that the search gave it.
    """
    found = {}
    for study in plan["studies"]:
        name, stages = study_name(study), stages_of(study)
        search = 0 if study["reason"] else study["n_trials"]
        for stage in (*(f"rung{n}" for n in range(len(study.get("rungs") or [0]) - 1)), TUNE):
            found[name, stage] = search
        found[name, EVAL] = stages[EVAL]
    return found


def sampler_of(plan: Record, study: Record) -> str:
    """The name of the sampler that searches a planned study."""
    known = plan["identity"]["sampler"]
    key = key_of(plan, study)
    return str(known.get(key, "unknown")).partition(",")[0]


def key_of(plan: Record, study: Record) -> str:
    """What the plan's identity calls the search of a study: its own dataset's, or its task's."""
    alone = f"{study['model']} on {study['dataset']}"
    usual = f"{study['model']} on {study['task']} data"
    return alone if alone in plan["identity"]["sampler"] else usual
