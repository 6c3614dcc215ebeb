"""The kind of a column of texts, decided from all its cells: number, category, date, text or id.

A file of any form and a DataFrame both come here: a CSV file is a frame of texts. A column has the
kind that most of its cells have; the others are gaps, which a note counts and names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from ..counting import count
from ..text import first_few, one_line
from .calendar import NO_YEAR
from .dates import (
    AND,
    CLOCK,
    ISO,
    LOCAL,
    Dates,
    dates_in,
    first_no_date,
    form_of,
    is_no_date,
    numbers_as_dates,
    offsets_vary,
)
from .durations import read_durations
from .notations import written
from .numbers import EXACT, NO_VALUE, Numbers, leading_zeros, read_numbers, two_spellings

STATED = CATEGORY, NUMBER, DATE, TEXT = "categorical", "numeric", "date", "text"
"""Kinds that a column can be said to have, and that features have."""
ID = "id"  # it is left out
MAX_COLUMNS = 50_000  # of a file or a DataFrame
EMPTY = NO_VALUE  # a column without a value, which is kept as missing numbers

FEW_LEVELS = 50  # so many different texts are categories
FEW_TEXTS = 20  # so many are, where they have several words
WORDS_OF_TEXT = 3.0  # on average, from which on different texts are free text
WORDS_OF_ID = 1.5  # on average, up to which texts that all differ are an identifier
ALL_DIFFERENT = 0.95  # share of the cells that differ
RARE = 0.05  # so many cells that are of no other kind change the kind of no column
SOME = 0.25  # nor so many, where more than FEW_TEXTS different numbers or dates are there
FEW_SIGNED = 5  # different numbers with a sign, up to which they are names: 1Story, 2Story
FEW_LOOKED = 1000  # numbers that tell most columns with more
FEW_SPELLINGS = 20  # different numbers among which 1.1 and 1.10 may be two versions


ID_ROWS = 100  # from which on different whole numbers in all rows are told
CODE = r"\d+[eE]\d+"  # 12E3: a number, or a code of digits and a letter


@dataclass(frozen=True)
class Kind:
    """What a column holds.

    word: NUMBER, CATEGORY, DATE, TEXT, ID or EMPTY. style: how its numbers (`style_of`), durations
    or dates (`dates.is_style`) are written, "" for plain numbers. numbers: of NUMBER, EMPTY, and of
    a CATEGORY whose levels are numbers (not codes such as 007). missing: (N,) which cells are, with
    those that are not of the kind: `odd`, {text: how often}. notes: sentences about doubtful
    decisions.
    """

    word: str
    style: str
    numbers: Numbers | None
    missing: np.ndarray
    notes: tuple[str, ...] = ()
    odd: dict[str, int] = field(default_factory=dict)


class NotOfKind(ValueError):
    """A cell does not fit the kind that its column is stated to have: `row`, from 0."""

    def __init__(self, row: int, why: str) -> None:
        super().__init__(why)
        self.row = row


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
    DateError for dates whose day and month could be swapped; NotOfKind for another text among the
    cells of a column that is stated to hold numbers or dates.
    """
    name = cells.name
    found = read_numbers(cells, delimiter, marks)
    if found.n_present == 0:
        note = f"column {name!r} has no value in any row; kept as missing numbers"
        return Kind(EMPTY, EMPTY, found, found.missing, (note,))
    if stated == TEXT:
        return Kind(TEXT, "", None, found.missing)
    if stated == DATE:
        return date_kind(cells, found.missing, day_first)
    if stated == CATEGORY:
        return category_kind(cells, found, ())
    if found.n_numbers == found.n_present:
        return number_kind(cells, found, stated)
    if stated == NUMBER:
        return duration_kind(cells, found.missing) or refused(found)
    if is_reading(cells, found.odd, found.missing):
        return with_gaps(cells, found.odd, number_kind(cells, found, stated))
    if found.n_numbers > found.n_present / 2:
        return words_kind(cells, found)
    return moments_kind(cells, found, day_first) or words_kind(cells, found)


def refused(found: Numbers) -> Kind:
    """NotOfKind for the first cell that is no number."""
    raise NotOfKind(int(np.argmax(found.odd)), "is no number, and the column is said to be numeric")


def is_reading(cells: pd.Series, odd: np.ndarray, missing: np.ndarray) -> bool:
    """Whether a column is what most of its cells are: the `odd` ones (N,) are few, or are few
    different texts beside many different values."""
    n, n_odd = int((~missing).sum()), int(odd.sum())
    if n_odd <= RARE * n or n_odd >= n / 2:
        return n_odd <= RARE * n
    n_values, n_words = cells[~missing & ~odd].nunique(), cells[odd].nunique()
    return n_values > FEW_TEXTS and (n_odd <= SOME * n or n_words <= FEW_TEXTS)


def with_gaps(cells: pd.Series, odd: np.ndarray, kind: Kind) -> Kind:
    """A kind with the `odd` cells (N,) as gaps, which is noted."""
    if not odd.any() or kind.word not in (NUMBER, DATE):
        return kind
    counts = cells[odd].value_counts().to_dict()
    n = int((~kind.missing & ~odd).sum())
    what = {NUMBER: "numbers", DATE: "dates"}[kind.word]
    some = [f"{one_line(text, 20)!r}" + (f" {k}x" if k > 1 else "") for text, k in counts.items()]
    note = (
        f"column {cells.name!r} mixes {n} {what} and {count(int(odd.sum()), 'text')} "
        f"({first_few(some, 3)}), which count as missing, unless the column is said to be "
        "categorical"
    )
    return replace(kind, missing=kind.missing | odd, notes=(*kind.notes, note), odd=counts)


def number_kind(cells: pd.Series, found: Numbers, stated: str) -> Kind:
    """The kind of a column of numbers; of codes, such as 007, unless they are stated to be
    numbers."""
    there = ~np.isnan(found.values)
    name, present = cells.name, cells if there.all() else cells[there]
    coded = leading_zeros(present)
    if coded and stated != NUMBER:
        note = f"column {name!r} has numbers with leading zeros; read as categories"
        return category_kind(cells, found, (note,))
    notes = [] if stated else doubts(present, found)
    notes += negative_notes(f"column {name!r}", found)
    return Kind(NUMBER, found.style, found, found.missing, tuple(notes))


def negative_notes(name: str, found: Numbers) -> list[str]:
    """How a negative number was read whose minus does not stand in front."""
    text, value = found.negative
    return [f"{name}: {text!r} is read as {value:.15g}"] if text else []


def doubts(present: pd.Series, found: Numbers) -> list[str]:
    """What may make numbers something else: versions, codes with an E, an identifier."""
    name, n, notes = present.name, len(present), list[str]()
    values = found.values[~np.isnan(found.values)]
    few = len(np.unique(values[:FEW_LOOKED])) <= FEW_SPELLINGS
    if few and present.nunique() <= FEW_SPELLINGS and (spelt := two_spellings(present)):
        notes.append(
            f"column {name!r}: {spelt[0]!r} and {spelt[1]!r} are read as one number, unless the "
            "column is said to be categorical"
        )
    if present.dtype != np.float64 and re.fullmatch(CODE, present.iloc[0]):
        if present.str.fullmatch(CODE).all():
            notes.append(
                f"column {name!r}: {present.iloc[0]!r} is read as {values[0]:.15g}; if these are "
                "codes: --categorical"
            )
    many = numbers_as_dates(texts_of(present.iloc[:FEW_TEXTS])) and present.nunique() > FEW_TEXTS
    if many and (form := numbers_as_dates(texts_of(present))):
        notes.append(
            f"column {name!r}: {present.iloc[0]!r} is read as a number; if these are dates "
            f"({form}): --date"
        )
    beyond = np.abs(values) > EXACT
    if present.dtype != np.float64 and beyond.any() and present.str.fullmatch(r"-?\d{16,}").any():
        notes.append(
            f"column {name!r} has whole numbers beyond 2^53, which are not told apart; if they are "
            "codes: --categorical, or --drop"
        )
    whole = n >= ID_ROWS and not found.style and (values == np.round(values)).all()
    if whole and len(np.unique(values)) == n == len(found.values):
        notes.append(
            f"column {name!r} has {n:,} different whole numbers in {n:,} rows; if they only name "
            "the rows: --drop leaves it out"
        )
    return notes


def texts_of(cells: pd.Series) -> list[str]:
    """The different cells as texts; whole numbers without a point."""
    plain = cells.map("{:.15g}".format) if cells.dtype == np.float64 else cells
    return [str(text) for text in plain.unique()]


def category_kind(cells: pd.Series, found: Numbers, notes: tuple[str, ...]) -> Kind:
    """The kind of a column of categories; its levels are numbers where all cells are."""
    present = cells[~found.missing]
    numeric = found.n_numbers == found.n_present
    otherwise = bool(found.negative[0]) or leading_zeros(present) or two_spellings(present)
    plain = numeric and not otherwise
    return Kind(CATEGORY, "", found if plain else None, found.missing, notes)


def gaps_of(cells: pd.Series) -> np.ndarray:
    """(N,) which texts stand for a missing date."""
    codes, texts = pd.factorize(cells)
    return np.array([*map(is_no_date, texts.tolist()), False])[codes]


def moments_kind(cells: pd.Series, found: Numbers, day_first: bool | None) -> Kind | None:
    """The kind of a column of dates or durations; None where it is neither."""
    missing, made = found.missing | gaps_of(cells), None
    present = cells[~missing]
    if not len(present):
        return None
    dates = dates_in(present, day_first)
    if dates is not None:
        odd = ~missing
        odd[odd] = ~dates.fits
        if is_reading(cells, odd, missing):
            made = Kind(DATE, dates.form, None, missing, tuple(date_notes(present, dates)))
            made = with_gaps(cells, odd, localised(made, present))
    made = made or duration_kind(cells, missing)
    has_days = made and made.word == DATE and not set(made.style.split(AND)) <= set(CLOCK)
    return None if made and not has_days and ratios(present) else made


def ratios(present: pd.Series) -> bool:
    """Whether texts are ratios or scores, such as 16:9 and 2:1. Minutes have two digits."""
    return bool(present.str.fullmatch(r"\d+:\d").mean() > RARE)


def date_notes(present: pd.Series, dates: Dates) -> list[str]:
    """What is said of the dates of a column: several forms, and times that may be durations."""
    name, notes = present.name, list[str]()
    if AND in dates.form:
        notes.append(f"column {name!r}: dates are written in several ways ({dates.form})")
    if NO_YEAR in dates.form.split(AND):
        notes.append(
            f"column {name!r}: {present.iloc[0]!r} has no year; day and month are features"
        )
    if set(dates.form.split(AND)) & set(CLOCK):
        notes.append(
            f"column {name!r}: {present.iloc[0]!r} is read as a time of day; if these are "
            "durations: --numeric reads them as seconds"
        )
    return notes


def localised(kind: Kind, present: pd.Series) -> Kind:
    """A kind of dates; with the hours of the place where offsets to UTC vary, which is noted."""
    if kind.style != ISO or not offsets_vary(present.unique()):
        return kind
    note = (
        f"column {present.name!r}: offsets to UTC vary; day and hour are those of each row's place"
    )
    return replace(kind, style=LOCAL, notes=(*kind.notes, note))


def duration_kind(cells: pd.Series, missing: np.ndarray) -> Kind | None:
    """The kind of a column of durations, which are numbers of seconds; None where it is none."""
    gaps = missing | gaps_of(cells)
    present = cells[~gaps]
    sample = present.iloc[:: len(present) // 100 + 1]
    begins = [text.strip()[:1] for text in sample.tolist()]
    able = sum(one.isdigit() or one in ("+", "-", "P") for one in begins)
    if (
        not len(present)
        or 2 * able < len(sample)
        or np.isnan(read_durations(sample)[0]).mean() > 0.5
    ):
        return None
    codes, texts = pd.factorize(present)
    seconds, style = read_durations(pd.Series(texts, dtype=str))
    values = np.full(len(cells), np.nan)
    values[~gaps] = seconds[codes]
    first = int(np.argmax(~np.isnan(values)))
    found = Numbers(values, gaps, style, (str(cells.iloc[first]), float(values[first])))
    if not is_reading(cells, found.odd, gaps):
        return None
    return with_gaps(cells, found.odd, Kind(NUMBER, style, found, gaps))


def date_kind(cells: pd.Series, missing: np.ndarray, day_first: bool | None) -> Kind:
    """The kind of a column that holds dates, also such as are written as numbers; NotOfKind for
    another text among them, DateError as for `form_of`."""
    if cells.dtype == np.float64:  # 20241231
        cells = cells.map("{:.0f}".format)
    present = cells[~missing].unique()
    if form := form_of(present, day_first, numbers=True):
        made = Kind(DATE, form, None, missing | gaps_of(cells))
        return localised(made, cells[~missing])
    odd = first_no_date(present) or present[0]
    first = int(np.argmax((cells == odd).to_numpy()))
    raise NotOfKind(first, "is no date like 2024-12-31, and the column is said to hold dates")


def several_signs(texts: list[str]) -> str:
    """The signs of currency, percent and units of texts that mostly are numbers with one; "" for
    fewer than two."""
    some = texts[:200]
    signs = Counter(one.sign for text in some if (one := written(text)) and one.sign)
    return (
        first_few(map(repr, sorted(signs)), 3)
        if len(signs) > 1 and signs.total() > len(some) / 2
        else ""
    )


def words_kind(cells: pd.Series, found: Numbers) -> Kind:
    """The kind of a column of which most cells are neither numbers nor dates, or too few of it:
    category, text or id."""
    name, present = cells.name, cells[~found.missing]
    made = Kind(CATEGORY, "", None, found.missing)
    different = [str(text) for text in present.unique()]
    words = float(np.mean([len(text.split()) for text in different]))
    n, n_present = len(different), found.n_present
    many = n > max(FEW_LEVELS, n_present / 2)
    names = found.style and present[~np.isnan(found.values[~found.missing])].nunique() <= FEW_SIGNED
    if found.n_numbers > found.n_present / 2 and not names:
        texts = present[np.isnan(found.values[~found.missing])]
        shown = ", ".join(repr(one_line(text, 20)) for text in sorted(set(texts))[:3])
        note = (
            f"column {name!r} mixes {found.n_numbers} numbers and {len(texts)} texts ({shown}); "
            f"read as {'text' if n > FEW_LEVELS else 'categories'}: empty those cells to have "
            "numbers, or name them as missing"
        )
        return replace(made, word=TEXT if n > FEW_LEVELS else CATEGORY, notes=(note,))
    if odd := first_no_date(different):
        note = (
            f"column {name!r} looks like dates, and {one_line(odd, 40)!r} is none; read as "
            f"{'text' if many else 'categories'}: empty such cells to have dates, or name them as "
            "missing"
        )
        return replace(made, word=TEXT if many else CATEGORY, notes=(note,))
    if signs := several_signs(different):
        note = (
            f"column {name!r} holds numbers with several signs ({signs}), which have no scale in "
            f"common; read as {'text' if many else 'categories'}"
        )
        return replace(made, word=TEXT if many else CATEGORY, notes=(note,))
    if words >= WORDS_OF_TEXT and n > max(FEW_TEXTS, n_present / 2):
        return replace(made, word=TEXT)
    if not many:
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
