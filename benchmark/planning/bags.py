"""Bags of a plan: the members of a fold's bag, the rows that each is fitted without, and words."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from ...datasets.inner_parts import member_folds, out_of_fold, parts_sha256
from ...datasets.protocols import Fold
from ...datasets.table import Table
from ...sweeps.study_state import CV
from .space_overrides import PlanError

USUAL = 5  # members, where a search by inner cross-validation names no number


def members_asked(given: int | None, of_budget: int | None, validation: str) -> int:
    """How many members a bag has if the data allow, 0 for no bags. given: by the caller, 0 switches
    the budget's off. Raises PlanError."""
    asked = of_budget if given is None else given
    if asked == 1:
        raise PlanError("a bag has at least 2 members; --bag 0 fits the chosen configuration once")
    if validation == CV and given == 0:
        raise PlanError("--validation cv makes a bag of every trial: leave --bag 0 out")
    return asked or (USUAL if validation == CV else 0)


def fidelity_of(table: Table, fold: Fold, n_members: int, *, seed: int) -> dict[str, Any]:
    """The fidelity of a bag on a fold. seed: of the cut."""
    members = member_folds(table, fold, n_members, seed=seed)
    return {"bag": len(members), "seed": seed, "parts": parts_sha256(members)[:32]}


def is_bag(fidelity: Mapping[str, Any] | None) -> bool:
    """Whether a trial of this fidelity is a bag."""
    return bool(fidelity) and "bag" in fidelity  # type: ignore[operator]


@lru_cache(maxsize=256)
def _members(table: Table, fold: Fold, n_members: int, seed: int) -> tuple[tuple[Fold, ...], str]:
    members = tuple(member_folds(table, fold, n_members, seed=seed))
    return members, parts_sha256(members)[:32]


def members_of(table: Table, fold: Fold, fidelity: Mapping[str, Any]) -> tuple[Fold, ...]:
    """The folds of a bag's members. Raises ValueError where they are not those that its fidelity
    names: the data or the library that cuts them has changed."""
    members, parts = _members(table, fold, int(fidelity["bag"]), int(fidelity["seed"]))
    if parts != fidelity["parts"]:
        raise ValueError(
            f"the inner parts of fold {fold.index} of {table.name} are not those that the run's "
            "bags were fitted without: the data or scikit-learn has changed since"
        )
    return members


def scored_fold(table: Table, fold: Fold, fidelity: Mapping[str, Any] | None) -> Fold:
    """The fold as a trial of this fidelity is scored on it: the validation rows of a bag are all
    that its members predicted out of fold. Raises ValueError as `members_of`."""
    if fidelity is None or not is_bag(fidelity):
        return fold
    return out_of_fold(fold, members_of(table, fold, fidelity))


def bag_words(n_members: int, validation: str) -> str:
    """Bags as they are added to the words on a search; "" without."""
    if not n_members:
        return ""
    every = validation == CV
    return f", every trial a bag of {n_members}" if every else f", then a bag of {n_members}"


def bag_notes(n_members: int, validation: str, fewer: Mapping[str, int], n_seeds: int) -> list[str]:
    """What tables of bags say. fewer: {dataset: members of its smallest bag}, of those with fewer
    than `n_members`; n_seeds: evaluation seeds of the budget, whose place a bag takes."""
    if not n_members:
        return []
    what = "every trial of the search" if validation == CV else "the chosen configuration"
    notes = [
        f"Scores are of bags: {what} is fitted {n_members} times, each time without one part of "
        "the rows for training and validation, by which it stops early and which it predicts; a "
        "test prediction is the mean of the members'."
    ]
    if fewer:
        some = ", ".join(f"{n} on {dataset}" for dataset, n in sorted(fewer.items()))
        notes.append(f"Bags have fewer members where classes, groups or times are few: {some}.")
    if n_seeds > 1:
        notes.append(f"The bag takes the place of the budget's {n_seeds} evaluation seeds.")
    return notes


def refuse_bags(model: str, pieces: str) -> None:
    """Raises PlanError: a bag is fitted in one piece."""
    raise PlanError(
        f"model {model!r}: --validation cv does not go with {pieces}, whose trials are fitted in "
        "pieces; use --bag alone, which makes a bag of the chosen configuration"
    )
