"""A dataset's page, on the data: features, classes, licence, passport."""

from __future__ import annotations

from typing import Any

from ..output import escape
from . import commands, figures
from .page import Source

MAX_CLASSES = 24  # with a bar
NO_COUNTS = (
    "This run keeps no counts of the data: a version before this one started it. The passport has "
    "them:"
)


def about_data(source: Source, name: str) -> dict[str, Any]:
    """The variables of the sections on the data; `data_known` is False for another tool's results,
    of which nothing is known but the scores."""
    facts = (source.evidence.meta.get("facts") or {}).get(name)
    if facts is None:
        return {"data_known": False}
    classes = facts["classes"]
    counted = [n for n in classes.values() if n is not None]
    return {
        "data_known": True,
        "card": [
            (title, value)
            for title, value in (
                ("title", facts["title"]),
                ("target", facts.get("target")),
                ("features", _features(facts)),
                ("classes", str(len(classes)) if classes else None),
                ("rows to train / validate / test", _sizes(facts["sizes"])),
                ("licence", facts.get("licence")),
                ("citation", facts.get("citation")),
                ("source", facts.get("origin")),
                ("files", " · ".join(facts.get("addresses") or [])),
                ("remark", facts.get("remark")),
            )
            if value
        ],
        "own": facts["own"],
        "classes": _balance(classes) if counted else None,
        "features": [
            {
                "name": escape.one_line(feature["name"]),
                "kind": feature["kind"],
                "distinct": _count(feature["n_distinct"]),
                "missing": _count(feature["n_missing"]),
            }
            for feature in facts["features"]
        ],
        "n_features": facts["n_features"] or len(facts["features"]),
        "counted": None if facts["passport"] else NO_COUNTS,
        "n_rows_counted": facts["n_rows_counted"],
        "flags": [
            *(
                {"severity": "warning", "id": "", "detail": warning}
                for warning in facts["warnings"]
                if not any(warning.endswith(flag["detail"]) for flag in facts["flags"])
            ),
            *facts["flags"],
        ],
        "passport": "" if facts["own"] else commands.passport(facts["added"] or name),
    }


def notes_on(source: Source, name: str) -> list[str]:
    """The notes of the report that are about this dataset, or about all."""
    about = source.evidence.meta.get("notes_of") or {}
    notes = [str(note) for note in source.evidence.meta.get("notes") or []]
    return [note for note in notes if name in about.get(note, [name])]


def _count(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"


def _features(facts: dict[str, Any]) -> str | None:
    n = facts["n_features"]
    if n is None:
        return None
    kinds = [feature["kind"] for feature in facts["features"]]
    if len(kinds) != n:
        return f"{n:,}"
    words = [f"{kinds.count(kind)} {kind}" for kind in ("numeric", "categorical") if kind in kinds]
    return f"{n:,} ({', '.join(words)})" if words else f"{n:,}"


def _sizes(sizes: list[float] | None) -> str | None:
    if not sizes:
        return None
    whole = all(size == round(size) for size in sizes)
    shown = " / ".join(f"{size:,.0f}" for size in sizes)
    return shown if whole else f"{shown} (mean over the folds)"


def _balance(classes: dict[str, int | None]) -> dict[str, str]:
    """A figure of the share of each class."""
    counts = {name: n or 0 for name, n in classes.items()}
    total = max(1, sum(counts.values()))
    order = sorted(counts, key=lambda name: (-counts[name], name))
    bars = [figures.Row(f"{name} ({counts[name]:,})", counts[name] / total) for name in order]
    smallest, largest = counts[order[-1]], counts[order[0]]
    ratio = f"; the largest has {largest / smallest:.3g} times the rows of the smallest" * bool(
        smallest and smallest != largest
    )
    note = f"{len(order)} classes, rows in brackets{ratio}."
    if len(order) > MAX_CLASSES:
        note += f" Shown are the {MAX_CLASSES} largest."
    return figures.rows(
        bars[:MAX_CLASSES], title="Class balance", note=note, x="share of the rows", bars=True
    )
