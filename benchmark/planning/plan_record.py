"""The plan of a run as its ledger keeps it: the plan in force, and facts about its studies."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...common.text import shell_word
from ...sweeps.store.ledger import Ledger, LedgerError, Record
from ...sweeps.study_state import CV, Shape

PARTS = {
    **dict.fromkeys(("suite", "options", "datasets", "left_out", "metric", "environment"), dict),
    **dict.fromkeys(("studies", "spaces", "samplers", "notes"), list),
}  # of a plan's record

SINGLE = "single fits"  # what the scores of a run without bags are of


def drawn_by(plan: Mapping[str, Any], dataset: str) -> tuple[str, str]:
    """(protocol, seed) of a dataset's folds; the seed is "" where the folds do not depend on it.

    Two plans with the same answer have the same rows in each fold of the dataset.
    """
    from ...datasets.protocols import seeded

    protocol = plan["datasets"][dataset]["protocol"]
    return protocol, str(plan["options"]["seed"]) if seeded(protocol) else ""


def last_plan(ledger: Ledger) -> Record | None:
    """The plan in force: the last one that was written, None before the first.

    Raises LedgerError where its record is not one of a plan (see `checked`).
    """
    positions = list(ledger.positions("plan"))
    return checked(ledger.at(positions[-1])) if positions else None


def checked(plan: Record) -> Record:
    """The record of a plan, unchanged.

    Raises LedgerError where a part of it has another type than bench writes: the ledger may come
    from somebody else, with correct checksums.
    """
    for part, kind in PARTS.items():
        value = plan.get(part, kind())
        if not isinstance(value, kind):
            raise LedgerError(
                f"its plan was not written by bench: its {part} is a {type(value).__name__}, not a "
                f"{kind.__name__}"
            )
    return plan


def plan_in(ledger: Ledger) -> Record:
    """The plan in force. Raises LedgerError where there is none: not yet, or it was damaged."""
    plan = last_plan(ledger)
    if plan is None:
        raise no_plan(ledger.run, sum(1 for _ in ledger.positions("result")))
    return plan


def no_plan(run: Path, n_results: int) -> LedgerError:
    """The error for a ledger with `n_results` results and no plan, which should be the first
    record."""
    if not n_results:
        return LedgerError(f"{run} holds no plan yet: nothing was started in it")
    return LedgerError(
        f"{run} holds no plan: its record is damaged; {n_results} results are whole. The `bench "
        f"sweep` that began it, with --name {shell_word(run.name)}, writes the plan again and runs "
        "none of their trials"
    )


def planned_slots(study: Mapping[str, Any]) -> int:
    """The number of trials of a planned study: all rungs, and the evaluation seeds."""
    return Shape.of(study).n_slots


def study_name(study: Mapping[str, Any]) -> str:
    """The name of a planned study: dataset/fold/model."""
    return f"{study['dataset']}/{study['fold']}/{study['model']}"


def variants_of(plan: Record) -> dict[str, str]:
    """{name: the model behind it} of the rows of a plan's budget that are variants of a model."""
    searches = plan["suite"]["budgets"][plan["options"]["budget"]].get("model") or {}
    return {name: search["of"] for name, search in searches.items() if search.get("of")}


def sampler_of(plan: Mapping[str, Any], study: Mapping[str, Any]) -> str:
    """The name of the sampler that searches a planned study."""
    known = plan["identity"]["sampler"]
    key = key_of(plan, study)
    return str(known.get(key, "unknown")).partition(",")[0]


def key_of(plan: Mapping[str, Any], study: Mapping[str, Any]) -> str:
    """The key of a study's search in the plan's identity: "model on dataset" where the dataset has
    settings of its own, else "model on task data"."""
    alone = f"{study['model']} on {study['dataset']}"
    usual = f"{study['model']} on {study['task']} data"
    return alone if alone in plan["identity"]["sampler"] else usual


def fits_in(plan: Mapping[str, Any]) -> dict[str, str]:
    """{dataset of a plan: what its scores are of, "single fits" or "bags of K"}."""
    found: dict[str, int] = {}
    for study in plan["studies"]:
        members = (study.get("bag") or {}).get("bag", 0)
        found[study["dataset"]] = max(members, found.get(study["dataset"], 0))
    return {name: f"bags of {n}" if n else SINGLE for name, n in sorted(found.items())}


def fits_apart(first: Record, other: Record) -> tuple[str, str] | None:
    """What the scores of two plans are of where they cannot stand in one table: single fits beside
    bags on any dataset, or bags of other sizes on the same; None where they can."""
    ours, theirs = fits_in(first), fits_in(other)
    for name in ours.keys() & theirs.keys():
        if ours[name] != theirs[name]:
            return ours[name], theirs[name]
    mixed = {*ours.values(), *theirs.values()}
    if SINGLE in mixed and len(mixed) > 1:
        return next(iter(ours.values())), next(iter(theirs.values()))
    return None


def bag_words(n_members: int, validation: str) -> str:
    """Bags as they are added to the words on a search; "" without."""
    if not n_members:
        return ""
    every = validation == CV
    return f", every trial a bag of {n_members}" if every else f", then a bag of {n_members}"
