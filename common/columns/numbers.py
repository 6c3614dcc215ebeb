"""Numbers in cells of text: plain, or with decimal commas, thousands, a sign or a unit."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

MISSING = ("", "?", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "none")
WORDS = frozenset(("-", "--", "na", "n/a", "#n/a", "nan", "null", "none", "nil", "missing"))
"""Texts, in lower case, that mark a missing value among numbers and dates, and nowhere else."""
SIGNS = "$€£¥%"
UNIT = r"°|°?[A-Za-zµμΩ][A-Za-zµμΩ²³/]{0,7}[23]?"
GROUPED_BY_POINT = re.compile(r"[-+]?[1-9]\d{0,2}(\.\d{3})+")
LEADING_ZERO = re.compile(r"0\d+")  # a code, such as a postal code, and no number
PADDED = re.compile(r"[-+]?\d*\.\d*[1-9]0+")  # a fraction with zeros at its end
EXACT = 2.0**53  # larger whole numbers are not told apart by float64

_PLAIN = r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?"
_MARKS = " \u00a0\u202f\u2009'\u2019"  # spaces and apostrophes that stand between thousands
_BEFORE = re.compile(r"\s*([-+]?)\s*([$€£¥])\s*")
_BEHIND = re.compile(r"\s*([%$€£¥])\s*$")
_UNIT_BEHIND = re.compile(rf"(?<=[\d.,])\s*({UNIT})\s*$")
_SIGNED = re.compile(rf"'([{SIGNS}]|{UNIT})'(?: and (.+))?")


def _grouped(marks: str) -> str:
    """A whole number with a mark between its thousands; "0,125" has a decimal comma instead."""
    return rf"[-+]?[1-9]\d{{0,2}}([{marks}]\d{{3}})+"


@dataclass(frozen=True)
class Style:
    """How the numbers of a column are written, but for a sign: the form of every cell, the form
    that some cell must have, and what becomes of its marks in a plain number."""

    form: str
    needed: str
    plain: Mapping[int, Any]


# A column is read in a style if all its cells have the form. A number below 1,000 has no mark, and
# larger ones may be written without, where that leaves one reading.
STYLES = {
    "decimal commas": Style(
        rf"([-+]?\d+|{_grouped('.')})(,\d*)?([eE][-+]?\d+)?",
        r".*,.*",
        str.maketrans(",", ".", "."),
    ),
    "commas between thousands": Style(
        rf"{_PLAIN}|{_grouped(',')}(\.\d*)?", r".*,.*", str.maketrans("", "", ",")
    ),
    "points between thousands": Style(
        rf"[-+]?\d{{1,3}}|{_grouped('.')}", r".*\..*\..*", str.maketrans("", "", ".")
    ),
    "spaces between thousands": Style(
        rf"{_PLAIN}|({_grouped(_MARKS)}|[-+]?\d+)([.,]\d+)?",
        rf".*\d[{_MARKS}]\d.*",
        str.maketrans(",", ".", _MARKS),
    ),
}
_AS_IT_IS = Style(_PLAIN, ".*", {})


def style_of(name: str) -> tuple[str, Style]:
    """(the sign or unit of a style's name, "" for none; the rest). KeyError for an unknown name.

    >>> style_of("'kg' and decimal commas")[0], style_of("'%'")[1].form == style_of("'kg'")[1].form
    ('kg', True)
    """
    signed = _SIGNED.fullmatch(name)
    if not signed:
        return "", STYLES[name]
    return signed[1], STYLES[signed[2]] if signed[2] else _AS_IT_IS


def without_sign(text: str) -> tuple[str, str]:
    """(the text without its signs, the signs: one of currency before the number, and one of
    currency or percent or a unit behind it, at most).

    >>> without_sign("-$1,200"), without_sign("40 %"), without_sign("57.3 °C")
    (('-1,200', '$'), ('40', '%'), ('57.3', '°C'))
    """
    signs = ""
    if before := _BEFORE.match(text):
        text, signs = before[1] + text[before.end() :], before[2]
    behind = _BEHIND.search(text) or (None if signs else _UNIT_BEHIND.search(text))
    return (text[: behind.start()], signs + behind[1]) if behind else (text, signs)


def _unsigned(cells: pd.Series, sign: str) -> pd.Series:
    """The cells without `sign`; one with another sign stays as it is, and is no number."""
    if not sign:
        return cells

    def bare(text: str) -> str:
        found, signs = without_sign(text)
        return found if signs == sign else text

    return cells.map(bare, na_action="ignore")


@dataclass(frozen=True)
class Numbers:
    """The numbers of a column: `values` (N,), NaN where a cell is none; `missing` (N,), the cells
    that are missing; `style`, how they are written ("" for plain); `example`, a cell of that style
    and its value."""

    values: np.ndarray
    missing: np.ndarray
    style: str = ""
    example: tuple[str, float] = ("", 0.0)

    @property
    def n_present(self) -> int:
        """The number of cells with a value."""
        return int((~self.missing).sum())

    @property
    def n_numbers(self) -> int:
        """The number of cells with a number."""
        return int((~np.isnan(self.values[~self.missing])).sum())


def is_missing(cells: pd.Series, marks: Collection[str] = ()) -> np.ndarray:
    """(N,) whether a cell is empty or a mark of a missing value: MISSING, and `marks` of the user;
    where a mark is a number, all cells with this number, but for codes such as 007."""
    known = [number for mark in marks if np.isfinite(number := as_float(mark))]
    if cells.dtype == np.float64:
        return (cells.isna() | cells.isin(known)).to_numpy()
    missing = cells.isin([*MISSING, *marks])
    if known:
        numbers = pd.to_numeric(cells, errors="coerce").isin(known)
        missing |= numbers & ~cells.str.fullmatch(LEADING_ZERO)
    return missing.to_numpy()


def as_float(text: str) -> float:
    """The number that a text is by itself, NaN for none."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def _parsed(cells: pd.Series, missing: np.ndarray) -> np.ndarray:
    numbers = pd.to_numeric(cells.where(~missing, None), errors="coerce")
    return numbers.to_numpy(dtype=np.float64, na_value=np.nan)


def read_numbers(cells: pd.Series, delimiter: str, marks: Collection[str] = ()) -> Numbers:
    """The numbers of a column, in whatever of the known styles all its cells are written.

    Where "1,234" fits two styles it has a decimal comma if semicolons separate the fields or some
    other cell can only have one ("12,5"), else a comma between thousands. "40%" is 40. Where all
    other cells are numbers, those of WORDS are missing.
    """
    missing = is_missing(cells, marks)
    if cells.dtype == np.float64:
        return Numbers(np.where(missing, np.nan, cells.to_numpy()), missing)
    plain = Numbers(_parsed(cells, missing), missing)
    if plain.n_numbers == plain.n_present:
        return plain
    words = missing | cells.str.lower().isin(WORDS).to_numpy()
    for gaps in (missing,) if words.all() or (words == missing).all() else (words, missing):
        style = _style_in(cells[~gaps], delimiter)
        if style is not None:
            return _in_style(cells, gaps, style)
    return plain


def _style_in(cells: pd.Series, delimiter: str) -> str | None:
    """The style of all cells, "" for plain numbers; None where they have none in common."""
    odd = pd.to_numeric(cells, errors="coerce").isna()
    if not odd.any():
        return ""
    text, sign = without_sign(str(cells[odd].iloc[0]))
    if len(sign) > 1 and not re.fullmatch(UNIT, sign):  # of currency, and another one
        return None
    known = {f"'{sign}' and {name}" if sign else name: style for name, style in STYLES.items()}
    known |= {f"'{sign}'": _AS_IT_IS} if sign else {}
    # Most columns of text are told by one cell.
    if not any(re.fullmatch(style.form, text) for style in known.values()):
        return None
    bare = _unsigned(cells, sign)
    if sign not in SIGNS and ((bare == cells).any() or bare.str.match(r"[-+]?0\d").any()):
        return None  # some cell has no unit, or is a code such as 007A
    fits = [
        name
        for name, style in known.items()
        if bare.str.fullmatch(style.form).all() and bare.str.fullmatch(style.needed).any()
    ]
    if delimiter != ";":  # "1,234" has thousands, where it may
        fits.sort(key=lambda name: not name.endswith("commas between thousands"))
    return next(iter(fits), None)


def _in_style(cells: pd.Series, missing: np.ndarray, name: str) -> Numbers:
    """The numbers of the cells, NaN for one that is not written in this style."""
    if not name:
        return Numbers(_parsed(cells, missing), missing)
    sign, style = style_of(name)
    bare = _unsigned(cells, sign)
    fits = bare.str.fullmatch(style.form).to_numpy(dtype=bool) & ~missing
    values = _parsed(bare.str.translate(style.plain), ~fits)
    written = fits & bare.str.fullmatch(style.needed).to_numpy(dtype=bool)
    if sign:
        written &= (bare != cells).to_numpy(dtype=bool)
    if not written.any():
        return Numbers(values, missing)
    at = int(np.argmax(written))
    return Numbers(values, missing, name, (str(cells.iloc[at]), float(values[at])))


def numbers_in_style(cells: pd.Series, style: str, marks: Collection[str] = ()) -> Numbers:
    """The numbers of a column that is known to be written in `style` ("" for plain), each cell read
    by itself: NaN for one that is written in another way. KeyError for an unknown style."""
    missing = is_missing(cells, marks)
    if cells.dtype == np.float64:
        return Numbers(np.where(missing, np.nan, cells.to_numpy()), missing)
    return _in_style(cells, missing | cells.str.lower().isin(WORDS).to_numpy(), style)


def exact_as_floats(cells: pd.Series, values: np.ndarray) -> bool:
    """Whether float64 tells the cells (N,) apart that are written as `values` (N,), NaN for none:
    no whole number beyond 2^53. Cells that were read as float64 are taken as they are."""
    return cells.dtype == np.float64 or not (np.abs(values) > EXACT).any()


def two_spellings(cells: pd.Series) -> tuple[str, str] | None:
    """A fraction that the cells write without and with zeros at its end, as versions 1.1 and 1.10
    are written; None where no fraction is. (17 and 17.0 are what pandas makes of one number.)"""
    if cells.dtype == np.float64:
        return None
    texts = set(cells.unique())
    padded = (str(text) for text in texts if PADDED.fullmatch(str(text)))
    return min(
        ((text.rstrip("0"), text) for text in padded if text.rstrip("0") in texts), default=None
    )
