"""The colour and the dash of each model's line, the same on every figure of a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

FAMILIES = ("classical", "gbdt", "feature network", "row attention", "baseline", "external")
SHADES, DASHES = 2, 6  # of a family's colour; of a line, in draw.js

# A pair of shades for each family, on a light and on a dark page. The families stay apart for eyes
# without red or green cones, too.
LIGHT = (
    *("#1b6c3d", "#19a452", "#501d14", "#fa2607", "#032f90", "#5e8de6"),
    *("#8d45ac", "#a921f7", "#50484b", "#7b7b7b", "#5b4b12", "#908824"),
)
DARK = (
    *("#1ff468", "#238740", "#fd7209", "#e5a08b", "#6993fc", "#a5c6f5"),
    *("#a321fb", "#b23bab", "#e1e2e1", "#706e6b", "#fef00a", "#fefbc9"),
)

Look = tuple[int, int]  # (colour, dash)


def looks(models: Sequence[str], families: Mapping[str, Sequence[str]]) -> dict[str, Look]:
    """{model: (colour, dash)}: the family gives the hue, the place by name within it the shade and
    the dash. `families`: {model: (family, ...)}; a model that is not there is "external".

    >>> looks(["b", "a", "mine"], {"a": ["gbdt"], "b": ["gbdt"]})
    {'a': (2, 0), 'b': (3, 1), 'mine': (10, 0)}
    """
    look_of: dict[str, Look] = {}
    places = [0] * len(FAMILIES)
    for model in sorted(models):
        hue = hue_of(families[model][0] if model in families else "external")
        look_of[model] = _look(hue, places[hue])
        places[hue] += 1
    return look_of


def hue_of(family: str) -> int:
    """The number of the family's hue; unknown families have that of "external"."""
    return FAMILIES.index(family) if family in FAMILIES else len(FAMILIES) - 1


def looks_of_others(names: Sequence[str]) -> dict[str, Look]:
    """{name: (colour, dash)} of what has no family, such as datasets: neighbours differ in hue."""
    n = len(FAMILIES)
    return {name: _look(place % n, place // n) for place, name in enumerate(names)}


def css() -> str:
    """The colours as variables --m0, --m1, ..., and the classes m0, m1, ... that set --mark."""
    light, dark = (
        ":root {" + "".join(f" --m{i}: {colour};" for i, colour in enumerate(colours)) + " }"
        for colours in (LIGHT, DARK)
    )
    classes = "".join(f".m{i} {{ --mark: var(--m{i}); }}\n" for i in range(len(LIGHT)))
    return f"{light}\n@media screen and (prefers-color-scheme: dark) {{ {dark} }}\n{classes}"


def _look(hue: int, place: int) -> Look:
    shade = (place + place // DASHES) % SHADES  # neighbours differ in both
    return SHADES * hue + shade, place % DASHES
