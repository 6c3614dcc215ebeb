"""Members of a fold's bag: the rows that each is fitted without, and those that the bag scores."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from ..datasets.inner_parts import member_folds, out_of_fold, parts_sha256
from ..datasets.protocols import Fold
from ..datasets.table import Table


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
