"""The colour and the dash of each model's line, the same on every figure of every page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

FAMILIES = ("classical", "gbdt", "feature network", "row attention", "baseline", "external")
SHADES, DASHES = 2, 6  # of a family's colour, in report.css; of a line, in draw.js

Look = tuple[int, int]  # (colour, dash)


def looks(families: Mapping[str, str]) -> dict[str, Look]:
    """{model: (colour, dash)} of {model: family}: the family gives the hue, the place by name
    within it the shade and the dash.

    >>> looks({"b": "gbdt", "a": "gbdt", "mine": "a family of another tool"})
    {'a': (2, 0), 'b': (3, 0), 'mine': (10, 0)}
    """
    found: dict[str, Look] = {}
    places = [0] * len(FAMILIES)
    for model in sorted(families):
        hue = hue_of(families[model])
        found[model] = _look(hue, places[hue])
        places[hue] += 1
    return found


def hue_of(family: str) -> int:
    """The number of the family's hue; unknown families have that of "external"."""
    return FAMILIES.index(family) if family in FAMILIES else len(FAMILIES) - 1


def looks_of_datasets(names: Sequence[str]) -> dict[str, Look]:
    """{dataset: (colour, dash)}, for figures with a line a dataset: neighbours differ in hue."""
    n = len(FAMILIES)
    return {name: _look(place % n, place // n) for place, name in enumerate(names)}


def _look(hue: int, place: int) -> Look:
    return SHADES * hue + place % SHADES, place // SHADES % DASHES
