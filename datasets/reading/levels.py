"""The levels by which categories, classes and groups of a user's file are told apart."""

from __future__ import annotations

import pandas as pd

from ...common.columns import kinds
from ...common.columns.kinds import Kind, kind_of
from ...common.columns.levels import spelt_alike
from ...common.columns.numbers import Numbers, exact_as_floats, two_spellings
from ...common.text import one_line
from .cells import Cells
from .columns import Notes, Reading


def levels(column: pd.Series, kind: Kind, *, styled: bool = False) -> pd.Series:
    """The values by which categories, classes and groups are told apart, NaN where missing.

    They are numbers where all cells are plain numbers, so that "17" is "17.0"; with `styled` also
    where they are written in another style, so that "1,000" is "1000". They are the texts of the
    cells elsewhere, and where float64 takes two different numbers for one."""
    numbers, found = kind.numbers, column
    if numbers is not None and (styled or not numbers.style):
        found = pd.Series(numbers.values) if exact_as_floats(column, numbers.values) else column
    return found.mask(kind.missing) if kind.missing.any() else found


def joined(found: pd.Series, name: str, reading: Reading, notes: Notes) -> pd.Series:
    """Levels as `levels` gives them; where `reading` joins the column's, those that only spelling
    tells apart become the most frequent one, which is noted."""
    if name not in reading.join:
        return found
    counts = found.value_counts()
    if not all(isinstance(level, str) for level in counts.index):
        return found
    groups = [sorted(g, key=lambda t: (-counts[t], t)) for g in spelt_alike(sorted(counts.index))]
    for first, *others in groups:
        shown = ", ".join(repr(one_line(text, 20)) for text in others[:5])
        notes.sentences.append(f"column {name!r}: {shown} count as {one_line(first, 20)!r}")
    return found.replace({text: first for first, *others in groups for text in others})


def two_texts(column: pd.Series, found: Numbers) -> tuple[str, str] | None:
    """Two texts of a column that are one number but two levels, such as "$1" and "$1.0", or
    None."""
    if not found.style:
        return two_spellings(column)
    new, first = ~column.duplicated().to_numpy(), dict[float, str]()
    for text, number in zip(column[new], found.values[new], strict=True):
        if first.setdefault(number, text) != text:
            return first[number], text
    return None


def category_of(cells: Cells, name: str, reading: Reading) -> Kind:
    """The kind of a column that is a category, whatever it looks like. Where the file states its
    categories, no text but a mark of the user is missing, and none is a number."""
    column, marks = cells[name], reading.missing
    if cells.are_levels(name) and not (missing := column.isin(["", *marks]).to_numpy()).all():
        return Kind(kinds.CATEGORY, "", None, missing)
    return kind_of(column, stated=kinds.CATEGORY, delimiter=cells.delimiter, marks=marks)
