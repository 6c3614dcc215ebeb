"""What the pages of models and datasets show besides results: families and cards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ...sweeps.store.ledger import Record

if TYPE_CHECKING:
    from ...datasets.card import Card
    from ...reports.evidence import Evidence

MAX_FEATURES = 300  # of a dataset


def families_of(plans: Iterable[Record]) -> dict[str, list[str]]:
    """{model of the plans: [family, summary, paper]}; a class of the user's is "external", a
    variant of a model has that model's."""
    families = {}
    for plan in plans:
        options = plan["options"]
        variants = plan["suite"]["budgets"][options["budget"]].get("model") or {}
        for name in {study["model"] for study in plan["studies"]}:
            asked = (variants.get(name) or {}).get("of") or name
            families[name] = registered([asked]).get(asked, ["external", "", ""])
    return dict(sorted(families.items()))


def registered(models: Iterable[str]) -> dict[str, list[str]]:
    """{model: [family, summary, paper]} of those that the registry has."""
    from ...models.registry_entries import MODELS

    specs = {name: MODELS[name] for name in models if name in MODELS}
    return {name: [spec.family, spec.summary, spec.paper] for name, spec in specs.items()}


def names_of(plans: Iterable[Record]) -> dict[str, str]:
    """{model or dataset of the plans: what a paper calls it}: as the suite's `names` say, else by
    the registry or, for a class of the user's, its name."""
    from ...models.registry_entries import MODELS

    names = {}
    for plan in plans:
        for name in {study["model"] for study in plan["studies"]}:
            names[name] = MODELS[name].display_name if name in MODELS else name.rpartition(":")[2]
        names |= plan["suite"].get("names") or {}
    return dict(sorted(names.items()))


def facts_of(datasets: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """{dataset: what its page says of the data}, from the plan alone.

    `title`; `n_features`; `sizes`, mean numbers of rows to train, validate and test; `classes`
    ({name: rows}, None for rows that were not counted); `features` (name, kind, n_distinct,
    n_missing; the last two None where not counted), MAX_FEATURES at most; `flags` of the passport;
    `warnings` of the reading; `added`, the added dataset that it is; `own`, whether it is a file of
    the user; `passport`, whether the plan kept the counts.
    """
    pages = {}
    for name, described in sorted(datasets.items()):
        facts = described.get("facts") or {}
        counts = facts.get("class_counts") or dict.fromkeys(described.get("classes") or [])
        sizes = np.array(described.get("sizes") or [], dtype=float)
        pages[name] = {
            "title": described.get("title") or name,
            "n_features": described.get("n_features"),
            "sizes": sizes.mean(axis=0).tolist() if sizes.ndim == 2 and len(sizes) else None,
            "classes": counts,
            "features": [
                {key: column[key] for key in ("name", "kind", "n_distinct", "n_missing")}
                for column in (facts.get("columns") or [])[:MAX_FEATURES]
            ],
            "n_rows_counted": facts.get("n_rows_counted"),
            "flags": facts.get("flags") or [],
            "warnings": list(described.get("warnings") or []),
            "added": described.get("added") or "",
            "own": bool(described.get("csv")),
            "passport": bool(facts),
        }
    return pages


def with_cards(evidence: Evidence) -> Evidence:
    """The evidence of runs with the cards of their datasets in `facts`.

    Built-in cards, and those of datasets that were added here; a dataset without a card keeps what
    its plan says.
    """
    from ...datasets.errors import DataError

    facts = {}
    for name, known in evidence.meta["facts"].items():
        try:
            card = None if known["own"] else _card(known["added"] or name)
        except DataError:  # removed since, or written by another version
            card = None
        facts[name] = {**known, **(_of_card(card, known) if card else {})}
    return evidence.but(meta={**evidence.meta, "facts": facts})


def _card(name: str) -> Card | None:
    from ...datasets import catalog

    return catalog.card(name) if name in catalog.names() else None


def _of_card(card: Card, known: Mapping[str, Any]) -> dict[str, Any]:
    """What a card adds; its columns where the plan kept none."""
    kinds = list(card.kinds.items())[:MAX_FEATURES]
    listed = [{"name": n, "kind": kind, "n_distinct": None, "n_missing": None} for n, kind in kinds]
    return {
        "target": card.target,
        "licence": card.licence,
        "citation": " ".join(card.citation.split()),
        "remark": " ".join(card.notes.split()),
        "faults": list(card.faults),
        "origin": card.origin or card.archive,
        "addresses": [file.url for file in card.files if file.url],
        "features": known["features"] or listed,
    }
