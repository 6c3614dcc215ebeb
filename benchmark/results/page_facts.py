"""What the pages of models and datasets show besides results: families and cards."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..planning.plan_record import PlannedDataset, RunPlan

if TYPE_CHECKING:
    from ...datasets.card import Card
    from ...reports.evidence import Evidence

MAX_FEATURES = 300  # of a dataset
CAPITALS = ("ple", "plr")  # parts of variants' names, which papers write in capitals


def behind(plans: Iterable[RunPlan]) -> dict[str, str]:
    """{model of the plans: the model that it is a variant of, or itself}."""
    of: dict[str, str] = {}
    for plan in plans:
        variants = plan.variants
        of |= {name: variants.get(name, name) for name in plan.models}
    return dict(sorted(of.items()))


def families_of(behind: Mapping[str, str]) -> dict[str, tuple[str, str, str]]:
    """{model: (family, summary, paper)}; a variant has those of the model `behind` it, a class of
    the user's is "external"."""
    from ...models.in_context.entries import IN_CONTEXT
    from ...models.registry_entries import MODELS

    unknown = "external", "", ""
    specs = {name: MODELS.get(of) or IN_CONTEXT.get(of) for name, of in behind.items()}
    return {n: (s.family, s.summary, s.paper) if s else unknown for n, s in specs.items()}


def of_papers(behind: Mapping[str, str]) -> list[str]:
    """The models that a paper proposes whose tables the package reproduces: their source begins as
    the paper's reference does, by authors and year."""
    from ..planning.suite import PAPERS

    known = set()
    for path in PAPERS.glob("*/paper.toml"):
        reference = tomllib.loads(path.read_text(encoding="utf-8"))["reference"]
        known.add(_authors(reference))
    return [m for m, (_, _, paper) in families_of(behind).items() if _authors(paper) in known]


def _authors(paper: str) -> str:
    """Authors and year of a reference, in plain letters.

    >>> _authors("Schäfl et al. 2022, arXiv:2206.00664")
    'Schaefl et al. 2022'
    """
    found = re.match(r".+? et al\. \d{4}", paper.replace("ä", "ae"))
    return found[0] if found else paper


def display_name(model: str, behind: str) -> str:
    """What a paper calls a model: by the registry; a variant by what its name adds to that of the
    model `behind` it; a class of the user's by its name.

    >>> display_name("knn", "knn"), display_name("mlp-ple", "mlp"), display_name("a.b:C", "a.b:C")
    ('k-NN', 'MLP-PLE', 'C')
    """
    from ...models.registry_entries import MODELS

    if model in MODELS:
        return MODELS[model].display_name
    first, *added = model.removeprefix(behind).split("-")
    if behind not in MODELS or first or not model.startswith(behind):
        return model.rpartition(":")[2]
    parts = (part.upper() if part in CAPITALS else part for part in added)
    return "-".join([MODELS[behind].display_name, *parts])


def names_of(plans: Iterable[RunPlan]) -> dict[str, str]:
    """{model or dataset of the plans: what a paper calls it}: as the suite's `names` say, else
    `display_name`."""
    plans = list(plans)
    names = {name: display_name(name, of) for name, of in behind(plans).items()}
    for plan in plans:
        names |= plan.suite.names
    return dict(sorted(names.items()))


def facts_of(datasets: Mapping[str, PlannedDataset]) -> dict[str, dict[str, Any]]:
    """{dataset: what its page says of the data}, from the plan alone.

    `title`; `n_features`; `kinds`, how many features of each kind, None where not all were counted;
    `sizes`, mean numbers of rows to train, validate and test; `classes`
    ({name: rows} in the order of the classes' numbers, None for rows that were not counted);
    `features` (name, kind, n_distinct, n_missing; the last two None where not counted),
    MAX_FEATURES at most; `flags` of the passport;
    `warnings` of the reading; `added`, the added dataset that it is; `own`, whether it is a file of
    the user; `passport`, whether the plan kept the counts.
    """
    pages = {}
    for name, described in sorted(datasets.items()):
        facts = described.facts
        counts = facts.get("class_counts") or {}  # sorted by name, as a plan keeps every table
        sizes = np.array(described.sizes, dtype=float)
        kinds = described.kinds
        if kinds is None and described.n_features == len(facts.get("columns") or []):
            kinds = Counter(column["kind"] for column in facts.get("columns") or [])
        pages[name] = {
            "title": described.title or name,
            "n_features": described.n_features,
            "kinds": kinds,
            "sizes": sizes.mean(axis=0).tolist() if sizes.ndim == 2 and len(sizes) else None,
            "classes": {name: counts.get(name) for name in described.classes or counts},
            "features": [
                {key: column[key] for key in ("name", "kind", "n_distinct", "n_missing")}
                for column in (facts.get("columns") or [])[:MAX_FEATURES]
            ],
            "n_rows_counted": facts.get("n_rows_counted"),
            "flags": facts.get("flags") or [],
            "warnings": list(described.warnings),
            "added": described.added,
            "own": bool(described.csv),
            "passport": bool(facts),
        }
    return pages


def with_cards(evidence: Evidence) -> Evidence:
    """The evidence of runs with the cards of their datasets in `facts`.

    Built-in cards, and those of datasets that were added here; a dataset without a card keeps what
    its plan says.
    """
    from ...datasets import catalog
    from ...datasets.errors import DataError

    facts = {}
    for name, known in evidence.facts.of_datasets.items():
        try:
            card = None if known["own"] else catalog.card(known["added"] or name)
        except DataError:  # there is none, or none any more, or another version wrote it
            card = None
        facts[name] = {**known, **(_of_card(card, known) if card else {})}
    return evidence.knowing(of_datasets=facts)


def _of_card(card: Card, known: Mapping[str, Any]) -> dict[str, Any]:
    """What a card adds; its columns where the plan kept none."""
    kinds = list(card.kinds.items())[:MAX_FEATURES]
    listed = [{"name": n, "kind": kind, "n_distinct": None, "n_missing": None} for n, kind in kinds]
    return {
        "target": card.target,
        "licence": card.licence,
        "citation": " ".join(card.citation.split()),
        "remark": " ".join(card.notes.split()),
        "origin": card.origin or card.archive,
        "addresses": [file.url for file in card.files if file.url],
        "features": known["features"] or listed,
    }
