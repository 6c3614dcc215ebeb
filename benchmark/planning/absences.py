"""Planned absences: why a model does not run on a fold, and what to do where none does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ...common.text import first_few
from ...models import registry
from ..console import count
from .own_models import nothing_counts, without_weights

if TYPE_CHECKING:
    from ...datasets.protocols import Fold
    from ...datasets.table import Table

SHOWN = 12  # models that a message names


def by_reason(reasons: Mapping[str, str]) -> list[str]:
    """{name: reason} as one line per reason, with the names that share it.

    >>> by_reason({"a": "no network", "b": "no network", "c": "too large"})
    ['a, b: no network', 'c: too large']
    """
    names: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        names.setdefault(reason, []).append(name)
    return [f"{', '.join(those)}: {reason}" for reason, those in names.items()]


def absence(spec: registry.ModelSpec, table: Table, fold: Fold) -> str:
    """Why a model does not run on a fold of a table, or "" if it runs."""
    n_classes = max(table.n_classes, 1)
    reason = registry.unsupported(spec, table.task, len(fold.train), table.n_features, n_classes)
    if table.weights is None:
        return reason or ""
    return reason or without_weights(spec) or nothing_counts(table.weights, fold)


def all_absent(reasons: Iterable[str], folds: Iterable[tuple[Table, Fold]]) -> str:
    """One line on a sweep whose studies are all planned absences: why, and which registered models
    would run. "" for a sweep without studies, or with one that runs.

    reasons: of each study, "" for one that runs; folds: those of the sweep, with their tables.
    """
    said = list(reasons)
    if not said or not all(said):
        return ""
    why = "; ".join(
        reason if n == 1 else f"{reason} ({count(n, 'study')})"
        for reason, n in Counter(said).most_common()
    )
    pairs = list(folds)
    able = [
        name
        for name, spec in registry.MODELS.items()
        if any(not absence(spec, table, fold) for table, fold in pairs)
    ]
    way = f"models that can: {first_few(able, SHOWN)}"
    if not able:
        way = "no model can: the weights or the split must be others"
    return f"nothing runs, as every study is a planned absence: {why}; {way}"
