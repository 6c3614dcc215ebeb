"""The kind of a column of texts, decided from all its cells: number, category, date, text or id.

A file of any form and a DataFrame both come here: a CSV file is a frame of texts.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from ..text import one_line
from .dates import first_no_date, form_of, is_no_date
from .numbers import LEADING_ZERO, Numbers, read_numbers, two_spellings

STATED = CATEGORY, NUMBER, DATE, TEXT = "categorical", "numeric", "date", "text"
"""Kinds that a column can be said to have, and that features have."""
ID = "id"  # it is left out
MAX_COLUMNS = 50_000  # of a file or a DataFrame
EMPTY = "empty"  # a column without a value, which is kept as missing numbers

FEW_LEVELS = 50  # so many different texts are categories
FEW_TEXTS = 20  # so many are, where they have several words
WORDS_OF_TEXT = 3.0  # on average, from which on different texts are free text
WORDS_OF_ID = 1.5  # on average, up to which texts that all differ are an identifier
ALL_DIFFERENT = 0.95  # share of the cells that differ
FEW_SPELLINGS = 20  # different numbers among which 1.1 and 1.10 may be two versions


@dataclass(frozen=True)
class Kind:
    """What a column holds.

    word: NUMBER, CATEGORY, DATE, TEXT, ID or EMPTY. style: how its numbers (`style_of`) or its
    dates (`dates.FORMS`) are written, "" for plain numbers. numbers: of NUMBER, EMPTY, and of a
    CATEGORY whose levels are numbers (not codes such as 007). missing: (N,) which cells are.
    notes: sentences about doubtful decisions.
    """

    word: str
    style: str
    numbers: Numbers | None
    missing: np.ndarray
    notes: tuple[str, ...] = ()


class NotOfKind(ValueError):
    """A cell does not fit the kind that its column is stated to have: `row`, from 0."""

    def __init__(self, row: int, why: str) -> None:
        super().__init__(why)
        self.row = row


def leading_zeros(cells: pd.Series) -> bool:
    """Whether a cell is a number such as 01234 (a postal code), so that all are texts."""
    return cells.dtype != np.float64 and bool(cells.str.fullmatch(LEADING_ZERO).any())


def kind_of(
    cells: pd.Series,
    *,
    stated: str = "",
    delimiter: str = ",",
    marks: Collection[str] = (),
    day_first: bool | None = None,
) -> Kind:
    """The kind of a column of stripped texts ("" where missing) or of float64.

    stated: the word of a kind that is not to be guessed. delimiter, marks: see `read_numbers`.
    DateError for dates in several forms; NotOfKind for another text among the cells of a column
    that is stated to hold numbers or dates.
    """
    name = cells.name
    found = read_numbers(cells, delimiter, marks)
    present = cells[~found.missing]
    if found.n_present == 0:
        note = f"column {name!r} has no value in any row; kept as missing numbers"
        return Kind(EMPTY, "", found, found.missing, (note,))
    if stated == TEXT:
        return Kind(TEXT, "", None, found.missing)
    numeric = found.n_numbers == found.n_present
    if stated == DATE:
        return date_kind(cells, found.missing, day_first)
    if not stated and not numeric and (form := form_of(present.unique(), day_first)):
        return Kind(DATE, form, None, found.missing | gaps_of(cells))
    if stated == NUMBER and not numeric:
        first = int(np.argmax(np.isnan(found.values) & ~found.missing))
        raise NotOfKind(first, "is no number, and the column is said to be numeric")
    coded = numeric and leading_zeros(present)
    if numeric and stated != CATEGORY and (not coded or stated == NUMBER):
        few = not stated and present.nunique() <= FEW_SPELLINGS
        spelt = two_spellings(present) if few else None
        said = (
            f"column {name!r}: {spelt[0]!r} and {spelt[1]!r} are read as one number"
            if spelt
            else ""
        )
        notes = (f"{said}, unless the column is said to be categorical",) if said else ()
        return Kind(NUMBER, found.style, found, found.missing, notes)
    if numeric:
        plain = not (coded or two_spellings(present))
        note = f"column {name!r} has numbers with leading zeros; read as categories"
        return Kind(
            CATEGORY, "", found if plain else None, found.missing, () if stated else (note,)
        )
    made = Kind(CATEGORY, "", None, found.missing)
    return made if stated else words_kind(cells, found, made)


def gaps_of(cells: pd.Series) -> np.ndarray:
    """(N,) which texts stand for a missing date."""
    return cells.map(is_no_date).to_numpy(dtype=bool)


def date_kind(cells: pd.Series, missing: np.ndarray, day_first: bool | None) -> Kind:
    """The kind of a column that holds dates, also such as are written as numbers; NotOfKind for
    another text among them, DateError as for `form_of`."""
    if cells.dtype == np.float64:  # 20241231
        cells = cells.map("{:.0f}".format)
    present = cells[~missing].unique()
    if form := form_of(present, day_first, numbers=True):
        return Kind(DATE, form, None, missing | gaps_of(cells))
    odd = first_no_date(present) or present[0]
    first = int(np.argmax((cells == odd).to_numpy()))
    raise NotOfKind(first, "is no date like 2024-12-31, and the column is said to hold dates")


def words_kind(cells: pd.Series, found: Numbers, made: Kind) -> Kind:
    """The kind of a column in which not all texts are numbers and not all are dates: category, text
    or id. `made` is the kind that a category gets."""
    name, present = cells.name, cells[~found.missing]
    if found.n_numbers > found.n_present / 2:
        texts = present[np.isnan(found.values[~found.missing])]
        shown = ", ".join(repr(one_line(text, 20)) for text in sorted(set(texts))[:3])
        note = (
            f"column {name!r} mixes {found.n_numbers} numbers and {len(texts)} texts ({shown}); "
            "read as categories: empty those cells to have numbers, or name them as missing"
        )
        return replace(made, notes=(note,))
    different = [str(text) for text in present.unique()]
    if odd := first_no_date(different):
        note = (
            f"column {name!r} looks like dates, and {one_line(odd, 40)!r} is none; read as "
            "categories: empty such cells to have dates, or name them as missing"
        )
        return replace(made, notes=(note,))
    words = float(np.mean([len(text.split()) for text in different]))
    n, n_present = len(different), found.n_present
    if words >= WORDS_OF_TEXT and n > max(FEW_TEXTS, n_present / 2):
        return replace(made, word=TEXT)
    if n <= max(FEW_LEVELS, n_present / 2):
        return made
    said = f"column {name!r} has {n} different values in {n_present} rows"
    if words <= WORDS_OF_ID and n > ALL_DIFFERENT * n_present:
        note = (
            f"{said}, an identifier that no model can learn from; it is left out, unless it is "
            "said to be text or categorical"
        )
        return replace(made, word=ID, notes=(note,))
    note = f"{said}; read as text, unless it is said to be categorical"
    return replace(made, word=TEXT, notes=(note,))
